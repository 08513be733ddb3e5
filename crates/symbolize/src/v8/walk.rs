//! One pass over the frames of a sample: which of them are JavaScript, and whose code they are in.

use nodespy_model::{FrameKind, Tier};

use super::aging::Aging;
use super::code::{CodeKind, Codes};
use super::code_tables;
use super::functions::{FunctionId, FunctionKind, Functions};
use super::heap::{Heap, is_pointer, small_integer};
use super::known_frames::{FrameKey, KnownFrames};
use super::recent_code::{FrameWords, RecentCode, somewhere_in};
use super::wasm::Wasm;
use super::{JsFrame, SampleView};
use crate::frame::{CodeAddress, FrameSlots, Identified, Unwound};
use crate::x86_64::{is_data_address, v8 as registers};

/// How many words above a regular expression's frame its object is looked for.
const REGEXP_SEARCH_WORDS: u64 = 64;
/// Offset of the source of a `JSRegExp` (seen in V8 9.4 to 14.6; not exported).
const REGEXP_SOURCE: u64 = 32;
/// How many words above the stack pointer may hold the return address of a frameless builtin.
const RETURN_ADDRESS_WORDS: u64 = 12;

/// The frame at a frame pointer, if it is one of JavaScript.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsSlots {
    /// Its `SharedFunctionInfo`, when the function could be read.
    pub(super) shared: Option<u64>,
    /// Its `BytecodeArray`, when it runs bytecode.
    pub(super) bytecode: Option<u64>,
    /// The offset of the bytecode it is at.
    pub(super) bytecode_offset: Option<u64>,
    /// Whether the function in the frame was read, which tells it without a doubt.
    pub(super) is_read: bool,
}

impl JsSlots {
    /// Whether neither its function nor bytecode could be read.
    fn is_lost(&self) -> bool {
        self.shared.is_none() && self.bytecode.is_none()
    }
}

/// One pass over the frames of a sample.
pub(super) struct Walk<'a, 'named> {
    pub(super) heap: Heap<'a>,
    pub(super) codes: &'a mut Codes,
    pub(super) wasm: &'a mut Wasm,
    pub(super) functions: &'a mut Functions,
    pub(super) by_bytecode: &'a mut Aging<u64, u64>,
    pub(super) known_frames: &'a mut KnownFrames,
    pub(super) recent_code: &'a mut RecentCode,
    pub(super) sample: &'a SampleView<'a>,
    pub(super) named: &'named mut Vec<Identified>,
}

impl Walk<'_, '_> {
    pub(super) fn frame(&mut self, walked: &Unwound, is_leaf: bool) {
        let Some(slots) = &walked.v8 else {
            self.named.push(Identified::from(walked.code));
            return;
        };
        let bytecode = match walked.code {
            CodeAddress::Jit(address) if self.is_optimized_frame(address, slots, is_leaf) => None,
            CodeAddress::Image(..) if !is_leaf => self.bytecode_of_builtin(walked.code, slots),
            _ => self.bytecode(slots),
        };
        // What is at the leaf depends on registers and on the top of the stack.
        let key = (!is_leaf).then(|| FrameKey {
            frame: walked.code,
            function: slots.function,
            bytecode: bytecode.map(|bytecode| (bytecode, slots.bytecode_offset)),
        });
        let is_js = is_pointer(slots.marker);
        if let Some(key) = key.filter(|_| is_js)
            && let Some(known) = self.known_frames.get(&key)
        {
            self.named.extend_from_slice(known);
            return;
        }
        let before = self.named.len();
        let js = self.js_slots(slots, bytecode);
        self.name_frame(walked.code, slots, js, is_leaf);
        if let CodeAddress::Jit(address) = walked.code {
            self.recall(address, before);
        }
        let Some(js) = js else { return };
        let words = FrameWords::new(walked.code, slots);
        if js.is_read {
            self.remember_closure(slots.function, js.shared);
            let frames = &self.named[before..];
            if let Some(key) = key
                && frames.iter().all(|frame| self.is_settled(*frame))
            {
                self.known_frames.insert(key, frames);
                self.recent_code.insert_caller(words, frames);
            }
        } else if js.is_lost() {
            let words = (!is_leaf).then_some(words);
            self.recall_lost(words, slots.function, before);
        }
    }

    fn remember_closure(&mut self, closure: u64, shared: Option<u64>) {
        let function = shared.and_then(|shared| self.functions.of_shared(&mut self.heap, shared));
        if let Some(function) = function
            && self.functions.get(function).kind == FunctionKind::JavaScript
        {
            self.recent_code.insert_closure(closure, function);
        }
    }

    /// Takes what a frame was a moment ago, where nothing of its function can be read any more: its
    /// isolate or its process may have ended. The same words are the same frame; else its closure tells,
    /// if its memory is gone and so can't be that of another by now, or what was copied of it.
    fn recall_lost(&mut self, words: Option<FrameWords>, closure: u64, before: usize) {
        let is_unknown = |frame: &Identified| match frame {
            Identified::UnknownJs | Identified::Jit(_) => true,
            // A builtin at the leaf is what runs; further out it is how a function was entered.
            Identified::Image(..) => words.is_some(),
            _ => false,
        };
        if !self.named[before..].iter().all(is_unknown) {
            return;
        }
        let is_gone = self.heap.is_gone(closure & !3);
        let caller = words.and_then(|words| self.recent_code.caller(&words));
        let known = caller.or_else(|| match is_gone {
            true => self.recent_code.closure(closure),
            false => None,
        });
        if let Some(known) = known {
            self.named.truncate(before);
            self.named.extend_from_slice(known);
        } else if let Some(function) = is_gone.then(|| self.function_of_copied(closure)).flatten() {
            self.named.truncate(before);
            self.named.push(somewhere_in(function));
        }
    }

    /// The function of a closure that was copied at the sample, by the address of its `SharedFunctionInfo`.
    fn function_of_copied(&mut self, closure: u64) -> Option<FunctionId> {
        let shared = self.heap.layout.function_shared;
        let shared = self.heap.field(closure, shared)?;
        self.functions.known_at(shared)
    }

    /// Takes what the code at `address` stood for a moment ago where it can't be named now, or
    /// remembers the frames from `before` on that it stands for.
    pub(super) fn recall(&mut self, address: u64, before: usize) {
        let frames = &self.named[before..];
        if matches!(frames, [Identified::UnknownJs]) {
            if let Some(known) = self.recent_code.get(address) {
                self.named.truncate(before);
                self.named.extend_from_slice(known);
            }
        } else if frames.iter().all(|frame| self.is_settled(*frame)) {
            self.recent_code.insert(address, frames);
        }
    }

    /// Whether a frame is the same wherever it comes from the same words, in all of the batch.
    pub(super) fn is_settled(&self, frame: Identified) -> bool {
        match frame {
            Identified::Js(frame) => matches!(
                self.functions.get(frame.function).kind,
                FunctionKind::JavaScript | FunctionKind::Builtin
            ),
            Identified::UnknownJs => false,
            _ => true,
        }
    }

    pub(super) fn name_frame(
        &mut self,
        frame: CodeAddress,
        slots: &FrameSlots,
        js: Option<JsSlots>,
        is_leaf: bool,
    ) {
        if let CodeAddress::Jit(address) = frame
            && self.wasm_frame(address, slots, js.as_ref(), is_leaf)
        {
            return;
        }
        match (frame, is_leaf) {
            (CodeAddress::Jit(address), true) => self.jit_leaf(frame, address, slots, js),
            (CodeAddress::Jit(address), false) => self.jit_caller(frame, address, slots, js),
            (CodeAddress::Image(..), true) => self.builtin_leaf(frame, slots, js),
            (CodeAddress::Image(..), false) => self.builtin_caller(frame, js),
            (CodeAddress::Unknown, _) => self.caller_of_deoptimized(js),
        }
    }

    /// Whether a frame is known to be one of optimized code, which has values where others have bytecode: each may be
    /// another, and to look at all of them costs more than the rest of a sample.
    fn is_optimized_frame(&mut self, address: u64, slots: &FrameSlots, is_leaf: bool) -> bool {
        let is_optimized = |kind| matches!(kind, CodeKind::Maglev | CodeKind::Turbofan);
        let kind = self.codes.known_kind(&mut self.heap, address);
        if !kind.is_some_and(is_optimized) {
            return false;
        }
        // Code at the leaf may have no frame of its own yet, or no more: then this is its caller's.
        !is_leaf || {
            let code = self.codes.known(&mut self.heap, address);
            let own = code.and_then(|code| code_tables::code_function(&mut self.heap, code));
            own.is_some() && own == self.shared_of_function(slots.function)
        }
    }

    /// The bytecode in the frame of a caller that is a builtin: the interpreter, or one of the others, which have none.
    fn bytecode_of_builtin(&mut self, code: CodeAddress, slots: &FrameSlots) -> Option<u64> {
        if self.known_frames.is_other_frame(code) {
            return None;
        }
        let bytecode = self.bytecode(slots);
        if bytecode.is_some() || self.heap.type_of(slots.bytecode_array).is_some() {
            self.known_frames.insert_builtin(code, bytecode.is_some());
        }
        bytecode
    }

    /// The bytecode in a frame, where there is any.
    pub(super) fn bytecode(&mut self, slots: &FrameSlots) -> Option<u64> {
        let object = slots.bytecode_array;
        let heap = &mut self.heap;
        let kind = heap.layout.type_bytecode_array;
        (is_pointer(object)
            && self
                .known_frames
                .is_bytecode(object, || heap.is(object, kind)))
        .then_some(object)
    }

    /// Reads the words of a frame; none when it is not one of JavaScript.
    pub(super) fn js_slots(
        &mut self,
        slots: &FrameSlots,
        bytecode: Option<u64>,
    ) -> Option<JsSlots> {
        let FrameSlots {
            marker,
            function,
            bytecode_offset,
            ..
        } = *slots;
        // A context where other frames have a small number, and a function.
        if !is_pointer(marker) || !is_pointer(function) {
            return None;
        }
        let read = self.shared_of_function(function);
        let shared = read.or_else(|| bytecode.and_then(|_| self.shared_of_feedback(slots)));
        // What was bytecode a moment ago may be gone, with its isolate or its process.
        let kind = self.heap.layout.type_bytecode_array;
        let bytecode = bytecode.filter(|&object| shared.is_some() || self.heap.is(object, kind));
        let data = self.heap.layout.bytecode_data;
        let offset = small_integer(bytecode_offset)
            .and_then(|offset| u64::try_from(offset).ok()?.checked_sub(data - 1));
        if shared.is_none() && bytecode.is_none() {
            // The function is dead and its memory may hold anything by now; only code can still
            // tell who this is.
            return Some(JsSlots {
                shared: None,
                bytecode: None,
                bytecode_offset: None,
                is_read: false,
            });
        }
        let shared = match (shared, bytecode) {
            (Some(shared), Some(bytecode)) => {
                self.by_bytecode.insert(bytecode, shared);
                self.functions
                    .learn_bytecode(&mut self.heap, bytecode, shared);
                Some(shared)
            }
            (None, Some(bytecode)) => self.shared_of_bytecode(bytecode),
            (shared, None) => shared,
        };
        Some(JsSlots {
            shared,
            bytecode,
            bytecode_offset: offset.filter(|_| bytecode.is_some()),
            is_read: read.is_some(),
        })
    }

    pub(super) fn jit_caller(
        &mut self,
        raw: CodeAddress,
        address: u64,
        slots: &FrameSlots,
        js: Option<JsSlots>,
    ) {
        let FrameSlots {
            marker,
            frame_pointer,
            ..
        } = *slots;
        let code = self.code_of_frame(address, slots, js.as_ref());
        match (code, js) {
            (Some(code), _) if code.kind == CodeKind::RegExp => self.push_regexp(frame_pointer),
            (Some(code), js) if code.kind.tier() != Tier::None => {
                self.push_compiled(&code, address, js.as_ref());
            }
            // A trampoline of its own, as --interpreted-frames-native-stack makes them.
            (_, Some(js)) if js.bytecode.is_some() => self.push_interpreted(&js, None),
            (_, Some(js)) => match js.shared {
                Some(shared) => self.push_js(shared, None, Tier::None, false),
                None => {
                    log::trace!("unknown function at {address:x}, marker {marker:x}");
                    self.named.push(Identified::UnknownJs);
                }
            },
            (Some(code), None) => {
                log::trace!(
                    "code {:x} of kind {:?} with marker {marker:x}",
                    code.start,
                    code.kind
                );
                self.named.push(Identified::from(raw));
            }
            (None, None) => self.push_foreign(raw, slots),
        }
    }

    /// Pushes a regular expression with its source. The code does not tell whose it is, but the
    /// builtin that called it has the object in its frame.
    pub(super) fn push_regexp(&mut self, frame_pointer: u64) {
        let kind = self.heap.layout.type_regexp;
        let source = (2..REGEXP_SEARCH_WORDS).find_map(|word| {
            let object = self
                .sample
                .stack_word(frame_pointer.checked_add(word * 8)?)?;
            if !is_pointer(object) {
                return None;
            }
            let object = self.heap.current(object)?;
            if !self.heap.is(object, kind) {
                return None;
            }
            let source = self.heap.field(object, REGEXP_SOURCE)?;
            self.heap.string(source)
        });
        let function = self.functions.of_regexp(source.as_deref());
        self.named.push(Identified::Js(JsFrame {
            function,
            line: 0,
            column: 0,
            tier: Tier::None,
            kind: FrameKind::Physical,
        }));
    }

    /// Code that is no object of the heap: WebAssembly, or nothing of V8's.
    pub(super) fn push_foreign(&mut self, raw: CodeAddress, slots: &FrameSlots) {
        if self.is_wasm(slots) {
            let function = Wasm::unknown(&mut self.heap, self.functions, slots.function);
            self.push_wasm(function, Tier::None);
        } else {
            self.named.push(Identified::from(raw));
        }
    }

    pub(super) fn jit_leaf(
        &mut self,
        raw: CodeAddress,
        address: u64,
        slots: &FrameSlots,
        js: Option<JsSlots>,
    ) {
        let Some(code) = self.codes.find(&mut self.heap, address) else {
            return self.jit_caller(raw, address, slots, js);
        };
        if code.kind.tier() == Tier::None {
            return self.jit_caller(raw, address, slots, js);
        }
        let mut own = self.shared_of_code(&code);
        if own.is_none() && address.saturating_sub(code.start) < registers::PROLOGUE_BYTES {
            // Its frame is not set up, but the function is still where its caller has put it.
            own = self.shared_of_function(self.sample.registers.0[registers::FUNCTION]);
        }
        let frame_function = js.and_then(|js| js.shared);
        if own.is_none() || own == frame_function {
            return self.push_compiled(&code, address, js.as_ref());
        }
        if frame_function.is_some() && self.has_taken_place(&code, address, slots, js.as_ref()) {
            return self.jit_caller(raw, address, slots, js);
        }
        // The frame is not set up yet, or taken down already: what is at the frame pointer is the
        // caller's.
        let leaf = JsSlots {
            shared: own,
            bytecode: None,
            bytecode_offset: None,
            is_read: false,
        };
        self.push_compiled(&code, address, Some(&leaf));
        if let Some(js) = js.filter(|js| js.shared.is_some()) {
            self.push_caller_of_frameless(&js, 2, self.sample.registers.frame_pointer());
        }
    }

    /// Pushes the function whose frame is at the frame pointer while a callee without a frame of
    /// its own runs: the return address near the top of the stack tells where in it.
    pub(super) fn push_caller_of_frameless(
        &mut self,
        js: &JsSlots,
        words: u64,
        frame_pointer: u64,
    ) {
        let start = self.sample.registers.stack_pointer();
        let found = (0..words)
            .map(|word| start.saturating_add(word * 8))
            .take_while(|&slot| slot < frame_pointer)
            .find_map(|slot| {
                let address = self.sample.stack_word(slot)?.checked_sub(1)?;
                if !is_data_address(address) {
                    return None;
                }
                let code = self.codes.find_near(&mut self.heap, address)?;
                let own = match self.shared_of_code(&code) {
                    // Baseline code may lead to no function, but its frame has bytecode.
                    None if code.kind == CodeKind::Baseline => js.bytecode.and(js.shared)?,
                    own => own?,
                };
                // Where the function is dead its code still tells who this was.
                js.shared
                    .is_none_or(|shared| shared == own)
                    .then_some((code, address))
            });
        match (found, js.shared) {
            (Some((code, address)), _) => self.push_compiled(&code, address, Some(js)),
            (None, _) if js.bytecode.is_some() => self.push_interpreted(js, None),
            (None, Some(shared)) => self.push_js(shared, None, Tier::None, false),
            // No code leads here, so this is the frame of the builtin itself, called as a closure
            // that is dead by now, like those promises use.
            (None, None) => {}
        }
    }

    pub(super) fn builtin_leaf(
        &mut self,
        raw: CodeAddress,
        slots: &FrameSlots,
        js: Option<JsSlots>,
    ) {
        self.named.push(Identified::from(raw));
        if self.wasm.is_in_use() && self.liftoff_setup(slots, js.as_ref()) {
            return;
        }
        let Some(js) = js else {
            return self.push_wasm_caller(0..RETURN_ADDRESS_WORDS, slots);
        };
        if js.shared.is_some_and(|shared| self.is_builtin(shared)) {
            // The builtin's own frame: the next one is its caller's.
            return;
        }
        let registers = &self.sample.registers.0;
        if let Some(bytecode) = js.bytecode
            && bytecode == registers[registers::BYTECODE_ARRAY]
        {
            // In a bytecode handler the offset in the frame is stale; the register has it, unless
            // what the handler has called uses the register for itself: then the frame has it.
            let data = self.heap.layout.bytecode_data;
            let offset = registers[registers::BYTECODE_OFFSET]
                .checked_sub(data - 1)
                .filter(|&offset| code_tables::has_bytecode_at(&mut self.heap, bytecode, offset));
            return self.push_interpreted(&js, offset);
        }
        self.push_caller_of_frameless(&js, RETURN_ADDRESS_WORDS, slots.frame_pointer);
    }

    pub(super) fn builtin_caller(&mut self, raw: CodeAddress, js: Option<JsSlots>) {
        match js {
            Some(js) if js.bytecode.is_some() => self.push_interpreted(&js, None),
            Some(js) => match js.shared {
                Some(shared) if !self.is_builtin(shared) => {
                    self.push_js(shared, None, Tier::None, false);
                }
                _ => self.named.push(Identified::from(raw)),
            },
            None => self.named.push(Identified::from(raw)),
        }
    }

    /// A frame whose function tells what it is; where in its code it is, nothing does. What is no
    /// function is a stub of V8's own.
    pub(super) fn caller_of_deoptimized(&mut self, js: Option<JsSlots>) {
        match js {
            Some(js) if js.bytecode.is_some() => self.push_interpreted(&js, None),
            Some(JsSlots {
                shared: Some(shared),
                ..
            }) => self.push_js(shared, None, Tier::None, false),
            Some(_) => self.named.push(Identified::UnknownJs),
            None => {}
        }
    }
}
