//! What a frame is found to be, added to the frames of a sample: a function at a place, or several
//! where some are inlined.

use nodespy_model::{FrameKind, Tier};

use super::JsFrame;
use super::code::{Code, CodeKind};
use super::code_tables::{self, Place};
use super::walk::{JsSlots, Walk};
use crate::frame::Identified;

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

    /// The code at an address, which should belong to the function of its frame.
    pub(super) fn code_of_frame(&mut self, address: u64, js: Option<&JsSlots>) -> Option<Code> {
        let code = self.codes.find(&mut self.heap, address)?;
        let expected = js.and_then(|js| js.shared);
        let found = code_tables::code_function(&mut self.heap, &code);
        if expected.is_some() && found.is_some() && expected != found {
            return self.codes.find_anew(&mut self.heap, address);
        }
        Some(code)
    }
}
