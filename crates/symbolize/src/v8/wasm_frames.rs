//! Frames of WebAssembly in a walk over a sample: whole ones, and those that are being set up.

use std::ops::Range;

use nodespy_model::{FrameKind, Tier};

use super::JsFrame;
use super::functions::FunctionId;
use super::heap::is_pointer;
use super::walk::{JsSlots, Walk};
use super::wasm::Wasm;
use crate::frame::{FrameSlots, Identified};
use crate::x86_64::{is_return, v8 as machine};

impl Walk<'_, '_> {
    pub(super) fn is_wasm(&self, slots: &FrameSlots) -> bool {
        slots.marker == self.heap.layout.frame_wasm << 1
    }

    pub(super) fn push_wasm(&mut self, function: FunctionId, tier: Tier) {
        self.named.push(Identified::Js(JsFrame {
            function,
            line: 0,
            column: 0,
            tier,
            kind: FrameKind::Physical,
        }));
    }

    /// Names a frame of WebAssembly; false when it is none.
    pub(super) fn wasm_frame(
        &mut self,
        address: u64,
        slots: &FrameSlots,
        js: Option<&JsSlots>,
        is_leaf: bool,
    ) -> bool {
        if js.is_some() && !is_leaf {
            return false;
        }
        let instance = self.is_wasm(slots).then_some(slots.function);
        let (heap, functions) = (&mut self.heap, &mut *self.functions);
        let Some(found) = self.wasm.find(heap, functions, address, instance) else {
            return false;
        };
        match found.function {
            Some(function) => self.push_wasm(function, found.tier),
            None if !is_leaf => return false,
            None => {}
        }
        if !is_leaf {
            return true;
        }
        // Before the first two instructions have set up the frame, at the very end, and in jump
        // tables the frame is the caller's, and its address is on top of the stack.
        let mut byte = [0];
        let is_return = self.heap.read(address, &mut byte) && is_return(byte[0]);
        let words = match machine::words_before_frame(address - found.start) {
            Some(words) => words,
            None if is_return || found.function.is_none() => 1,
            None => return true,
        };
        match js {
            Some(js) => self.push_caller_of_frameless(js, words, slots.frame_pointer),
            None => self.push_wasm_caller(0..words, slots),
        }
        true
    }

    /// Pushes the function of WebAssembly whose frame is at the frame pointer while a callee
    /// without a frame of its own runs, if it is one.
    pub(super) fn push_wasm_caller(&mut self, words: Range<u64>, slots: &FrameSlots) {
        if !self.is_wasm(slots) {
            return;
        }
        let start = self.sample.registers.stack_pointer();
        let found = words
            .map(|word| start.saturating_add(word * 8))
            .take_while(|&slot| slot < slots.frame_pointer)
            .find_map(|slot| {
                let address = self.sample.stack_word(slot)?;
                self.wasm_caller_at(address, Some(slots.function))
            });
        let (function, tier) = found.unwrap_or_else(|| {
            let function = Wasm::unknown(&mut self.heap, self.functions, slots.function);
            (function, Tier::None)
        });
        self.push_wasm(function, tier);
    }

    /// The function a return address leads to.
    fn wasm_caller_at(
        &mut self,
        address: u64,
        instance: Option<u64>,
    ) -> Option<(FunctionId, Tier)> {
        let (heap, functions) = (&mut self.heap, &mut *self.functions);
        let address = address.checked_sub(1)?;
        let found = self.wasm.find(heap, functions, address, instance)?;
        Some((found.function?, found.tier))
    }

    /// Names the function whose frame a builtin is setting up, as it does for code of Liftoff since
    /// V8 13; false when that is not what happens. Meanwhile the return address into the function
    /// is in one register and the instance in another.
    pub(super) fn liftoff_setup(&mut self, slots: &FrameSlots, js: Option<&JsSlots>) -> bool {
        let registers = self.sample.registers;
        let (stack, frame) = (registers.stack_pointer(), slots.frame_pointer);
        let instance = registers.0[machine::LIFTOFF_INSTANCE];
        let instance = is_pointer(instance).then_some(instance);
        let in_register = registers.0[machine::LIFTOFF_RETURN_ADDRESS];
        let mut code = [0; machine::LIFTOFF_SETUP_BYTES];
        let address = registers.instruction_pointer();
        if !self.heap.read(
            address.saturating_sub(machine::LIFTOFF_SETUP_BEFORE),
            &mut code,
        ) {
            return false;
        }
        // The new frame is there, but has no instance yet, or the return address is put back last.
        let is_last_step = stack.checked_add(24) == Some(frame) && machine::is_liftoff_end(&code);
        if (stack <= frame && frame - stack <= 16) || is_last_step {
            let Some((function, tier)) = self.wasm_caller_at(in_register, instance) else {
                return false;
            };
            self.push_wasm(function, tier);
            return true;
        }
        // Or the frame is still the caller's.
        let kind = (self.heap.layout.frame_wasm << 1) as u8;
        let (own, caller) = match machine::liftoff_step(&code, kind) {
            Some(0) => (self.sample.stack_word(stack).unwrap_or(0), 1),
            Some(1) => (in_register, 0),
            Some(_) => (in_register, 1),
            None => return false,
        };
        let Some((function, tier)) = self.wasm_caller_at(own, instance) else {
            return false;
        };
        self.push_wasm(function, tier);
        match js {
            Some(js) => self.push_caller_of_frameless(js, caller + 1, frame),
            None => self.push_wasm_caller(caller..caller + 1, slots),
        }
        true
    }
}
