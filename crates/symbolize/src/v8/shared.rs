//! Which function a word of a frame, bytecode or compiled code leads to.

use super::code_tables;
use super::functions::FunctionKind;
use super::heap::is_pointer;
use super::walk::Walk;
use crate::frame::FrameSlots;

impl Walk<'_, '_> {
    pub(super) fn shared_of_function(&mut self, function: u64) -> Option<u64> {
        let function = self.heap.current(function)?;
        let kind = self.heap.type_of(function)?;
        if !self.heap.layout.function_types.contains(&kind) {
            return None;
        }
        let shared = self
            .heap
            .field(function, self.heap.layout.function_shared)?;
        let shared = self.heap.current(shared)?;
        self.heap
            .is(shared, self.heap.layout.type_shared)
            .then_some(shared)
    }

    /// The function whose feedback vector is in a frame. It stays where it is when a young closure
    /// is moved. V8 does not export where in the vector the function is; its type tells.
    pub(super) fn shared_of_feedback(&mut self, slots: &FrameSlots) -> Option<u64> {
        let kind = self.heap.layout.type_feedback_vector;
        let vector = [slots.bytecode_offset, slots.feedback]
            .into_iter()
            .find(|&word| is_pointer(word) && self.heap.is(word, kind))?;
        (1..8).find_map(|slot| {
            let field = self.heap.field(vector, slot * 8)?;
            self.heap
                .is(field, self.heap.layout.type_shared)
                .then_some(field)
        })
    }

    /// The function with this bytecode: one that was seen with it, if it still has it, or one of
    /// a script that was seen.
    pub(super) fn shared_of_bytecode(&mut self, bytecode: u64) -> Option<u64> {
        if let Some(&shared) = self.by_bytecode.get(&bytecode)
            && self.has_bytecode(shared, bytecode)
        {
            return Some(shared);
        }
        let shared = self
            .functions
            .shared_with_bytecode(&mut self.heap, bytecode)?;
        self.by_bytecode.insert(bytecode, shared);
        Some(shared)
    }

    pub(super) fn has_bytecode(&mut self, shared: u64, bytecode: u64) -> bool {
        let heap = &mut self.heap;
        heap.is(shared, heap.layout.type_shared)
            && heap
                .field(shared, heap.layout.shared_data)
                .and_then(|data| code_tables::bytecode_of(heap, data))
                == Some(bytecode)
    }

    pub(super) fn is_builtin(&mut self, shared: u64) -> bool {
        self.functions
            .of_shared(&mut self.heap, shared)
            .is_some_and(|id| self.functions.get(id).kind == FunctionKind::Builtin)
    }
}
