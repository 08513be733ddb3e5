//! Copies of stacks, each as long as it is. They are handed on and freed before there are many.

use nodespy_model::Registers;

use crate::sys::memory::read_process_memory;
use crate::target::proc::MappedRange;

/// The most that is copied of a stack whose end is known: JavaScript's deepest recursion takes
/// 1 MB unless an option of Node says otherwise.
const STACK_LIMIT_BYTES: u64 = 8 << 20;
/// What is copied of a stack that was mapped after we looked.
const UNKNOWN_STACK_BYTES: u64 = 64 << 10;
/// When copies are handed on: the stacks of a few hundred ordinary threads, which are thus seen at
/// nearly the same moment.
const ENOUGH_BYTES: usize = 32 << 20;

/// Copies stacks one after the other.
#[derive(Debug)]
pub(crate) struct StackCopies {
    /// What was taken since [`Self::start`].
    taken_bytes: usize,
    /// Kept warm: memory that is touched for the first time costs time while a thread is held.
    buffer: Vec<u8>,
}

impl StackCopies {
    pub(crate) fn new() -> Self {
        Self {
            taken_bytes: 0,
            buffer: vec![0; UNKNOWN_STACK_BYTES as usize],
        }
    }

    /// The copies made so far are gone.
    pub(crate) fn start(&mut self) {
        self.taken_bytes = 0;
    }

    /// Whether the copies are to be handed on before more are made.
    pub(crate) fn is_enough(&self) -> bool {
        self.taken_bytes >= ENOUGH_BYTES
    }

    /// As if so much had been taken.
    #[cfg(test)]
    pub(crate) fn pretend_taken(&mut self, bytes: usize) {
        self.taken_bytes += bytes;
    }

    /// Copies a stack from its pointer to the end of its mapping; returns how much it was, for
    /// [`Self::take`].
    pub(crate) fn copy(
        &mut self,
        pid: u32,
        registers: &Registers,
        ranges: &[MappedRange],
    ) -> usize {
        let pointer = registers.stack_pointer();
        let wanted = ranges
            .iter()
            .find(|range| (range.start..range.end).contains(&pointer))
            .map_or(UNKNOWN_STACK_BYTES, |range| range.end - pointer)
            .min(STACK_LIMIT_BYTES) as usize;
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        read_process_memory(pid, pointer, &mut self.buffer[..wanted])
    }

    /// The first `length` bytes of the last copy, in memory of just that size.
    pub(crate) fn take(&mut self, length: usize) -> Vec<u8> {
        self.taken_bytes += length;
        self.buffer[..length].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_handed_on_before_there_are_many() {
        let mut copies = StackCopies::new();
        copies.buffer.resize(STACK_LIMIT_BYTES as usize, 0);
        let mut most = 0;
        let mut held = Vec::new();
        for _ in 0..100 {
            if copies.is_enough() {
                held.clear();
                copies.start();
            }
            held.push(copies.take(STACK_LIMIT_BYTES as usize));
            most = most.max(held.iter().map(Vec::capacity).sum());
        }
        assert!(most <= ENOUGH_BYTES + STACK_LIMIT_BYTES as usize, "{most}");
    }

    #[test]
    fn ordinary_threads_by_the_hundred_are_seen_together() {
        let mut copies = StackCopies::new();
        for _ in 0..500 {
            assert!(!copies.is_enough());
            drop(copies.take(32 << 10));
        }
    }
}
