//! What a frame is found to be, added to the frames of a sample: a function at a place, or several
//! where some are inlined.

use nodespy_model::{FrameKind, Tier};

use super::JsFrame;
use super::code::{Code, CodeKind};
use super::code_tables::{self, Place};
use super::walk::{JsSlots, Walk};
use crate::frame::{FrameSlots, Identified};
use crate::x86_64::{is_return, v8 as registers};

impl Walk<'_, '_> {
    pub(super) fn push_js(
        &mut self,
        shared: u64,
        offset: Option<u32>,
        tier: Tier,
        is_inlined: bool,
    ) {
        let Some(function) = self.functions.of_shared(&mut self.heap, shared) else {
            self.named.push(Identified::UnknownJs);
            return;
        };
        let (line, column) = offset
            .and_then(|offset| self.functions.place_in(&mut self.heap, function, offset))
            .unwrap_or((0, 0));
        self.named.push(Identified::Js(JsFrame {
            function,
            line,
            column,
            tier,
            kind: FrameKind::inlined_if(is_inlined),
        }));
    }

    pub(super) fn push_interpreted(&mut self, js: &JsSlots, offset: Option<u64>) {
        let Some(shared) = js.shared else {
            log::trace!("unknown interpreted function: {js:x?}");
            let function = js
                .bytecode
                .and_then(|bytecode| self.functions.placeholder(bytecode));
            self.named
                .push(function.map_or(Identified::UnknownJs, |function| {
                    Identified::Js(JsFrame {
                        function,
                        line: 0,
                        column: 0,
                        tier: Tier::Interpreted,
                        kind: FrameKind::Physical,
                    })
                }));
            return;
        };
        let place =
            js.bytecode
                .zip(offset.or(js.bytecode_offset))
                .and_then(|(bytecode, offset)| {
                    code_tables::bytecode_place(&mut self.heap, bytecode, offset)
                });
        self.push_js(shared, place, Tier::Interpreted, false);
    }

    /// Pushes the functions an instruction of compiled code belongs to.
    pub(super) fn push_compiled(&mut self, code: &Code, address: u64, js: Option<&JsSlots>) {
        let places = if code.kind == CodeKind::Baseline {
            // Baseline code does not know its function, only its bytecode.
            let shared = js
                .and_then(|js| js.shared)
                .or_else(|| self.shared_of_baseline(code));
            let bytecode = js.and_then(|js| js.bytecode);
            let offset = self
                .codes
                .baseline_place(&mut self.heap, code, address, bytecode);
            shared
                .map(|shared| Place {
                    shared,
                    offset,
                    is_inlined: false,
                })
                .into_iter()
                .collect()
        } else {
            let function = js.and_then(|js| js.shared);
            self.codes.places(&mut self.heap, code, address, function)
        };
        if places.is_empty() {
            log::trace!(
                "unknown {:?} code at {address:x}: {code:x?} {js:x?}",
                code.kind
            );
            self.named.push(Identified::UnknownJs);
            return;
        }
        for place in places {
            self.push_js(
                place.shared,
                place.offset,
                code.kind.tier(),
                place.is_inlined,
            );
        }
    }

    pub(super) fn shared_of_baseline(&mut self, code: &Code) -> Option<u64> {
        let bytecode = code_tables::baseline_bytecode(&mut self.heap, code)?;
        self.shared_of_bytecode(bytecode)
    }

    /// The function compiled code belongs to, not counting inlined ones.
    pub(super) fn shared_of_code(&mut self, code: &Code) -> Option<u64> {
        code_tables::code_function(&mut self.heap, code).or_else(|| self.shared_of_baseline(code))
    }

    /// The code at an address, which should belong to the function of its frame; none where the function was copied at the
    /// sample, and the code is another's: V8 has freed that of the function since, and compiled the other there.
    pub(super) fn code_of_frame(
        &mut self,
        address: u64,
        slots: &FrameSlots,
        js: Option<&JsSlots>,
    ) -> Option<Code> {
        let code = self.codes.find(&mut self.heap, address)?;
        let Some((js, shared)) = js.and_then(|js| Some((js, js.shared?))) else {
            return Some(code);
        };
        if self.is_code_of(&code, shared, js) {
            return Some(code);
        }
        let code = self.codes.find_anew(&mut self.heap, address)?;
        let is_its = self.is_code_of(&code, shared, js);
        (is_its || !self.is_sampled(js, slots)).then_some(code)
    }

    /// Whether code is that of a function, as far as can be told. Either may have been moved since it was copied.
    fn is_code_of(&mut self, code: &Code, shared: u64, js: &JsSlots) -> bool {
        if let Some(own) = code_tables::code_function(&mut self.heap, code) {
            return own == shared || self.is_same_function(own, shared);
        }
        match code_tables::baseline_bytecode(&mut self.heap, code) {
            Some(own) => js.bytecode == Some(own) || self.has_bytecode(shared, own),
            None => true,
        }
    }

    fn is_same_function(&mut self, first: u64, second: u64) -> bool {
        let mut of = |shared| self.functions.of_shared(&mut self.heap, shared);
        let first = of(first);
        first.is_some() && first == of(second)
    }

    /// Whether the function of a frame is that of what was copied at the sample.
    fn is_sampled(&self, js: &JsSlots, slots: &FrameSlots) -> bool {
        let shared = (slots.function & !3).checked_add(self.heap.layout.function_shared);
        js.is_read && shared.is_some_and(|shared| self.heap.copied.word(shared).is_some())
    }

    /// Whether code at the leaf has taken the place of that of the function whose frame is at the frame pointer. Else the frame
    /// is its caller's, which it is only where the code's own is not set up yet, or is taken down already.
    pub(super) fn has_taken_place(
        &mut self,
        code: &Code,
        address: u64,
        slots: &FrameSlots,
        js: Option<&JsSlots>,
    ) -> bool {
        let is_sampled = js.is_some_and(|js| self.is_sampled(js, slots));
        if !is_sampled || address.saturating_sub(code.start) < registers::SETUP_BYTES {
            return false;
        }
        let mut bytes = [0; registers::RETURN_BYTES];
        self.heap.read(address, &mut bytes) && !bytes.into_iter().any(is_return)
    }
}
