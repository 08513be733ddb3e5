//! Copies of stacks: each as long as it is, all together within a budget.

use nodespy_model::Registers;

use crate::sys::memory::read_process_memory;
use crate::target::proc::MappedRange;

/// The most that is copied of a stack whose end is known: JavaScript's deepest recursion takes
/// 1 MB unless an option of Node says otherwise.
const STACK_LIMIT_BYTES: u64 = 8 << 20;
/// What is copied of a stack that was mapped after we looked.
const UNKNOWN_STACK_BYTES: u64 = 64 << 10;
/// What all copies may have together: a thousand threads in deep recursion would else take
/// gigabytes.
const BUDGET_BYTES: u64 = 256 << 20;
/// One thread gets no more than this part of what is left.
const SHARE: u64 = 8;
/// What every thread gets: its innermost calls.
const LEAST_BYTES: u64 = 16 << 10;

/// Copies stacks one after the other.
#[derive(Debug)]
pub(super) struct StackCopies {
    bytes_left: u64,
    /// How many stacks were longer than what was left for them.
    shortened: usize,
    /// Kept warm: memory that is touched for the first time costs time while a thread is held.
    buffer: Vec<u8>,
}

impl StackCopies {
    pub(super) fn new() -> Self {
        Self {
            bytes_left: BUDGET_BYTES,
            shortened: 0,
            buffer: vec![0; UNKNOWN_STACK_BYTES as usize],
        }
    }

    /// Copies a stack from its pointer to the end of its mapping; returns how much it was, for
    /// [`Self::take`].
    pub(super) fn copy(
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
            .min(STACK_LIMIT_BYTES);
        let allowed = self.allowed(wanted);
        if self.buffer.len() < allowed {
            self.buffer.resize(allowed, 0);
        }
        read_process_memory(pid, pointer, &mut self.buffer[..allowed])
    }

    /// How much of a stack of `wanted` bytes is copied.
    fn allowed(&mut self, wanted: u64) -> usize {
        let share = (self.bytes_left / SHARE).max(LEAST_BYTES);
        self.shortened += usize::from(wanted > share);
        wanted.min(share) as usize
    }

    /// The first `length` bytes of the last copy, in memory of just that size.
    pub(super) fn take(&mut self, length: usize) -> Vec<u8> {
        self.bytes_left = self.bytes_left.saturating_sub(length as u64);
        self.buffer[..length].to_vec()
    }

    /// What the reader should know of stacks that were copied in part.
    pub(super) fn remark(&self) -> Option<String> {
        (self.shortened > 0).then(|| {
            format!(
                "the stacks of {} threads were copied in part: all together may have {} MiB",
                self.shortened,
                BUDGET_BYTES >> 20
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_deep_stacks_share_a_budget_and_each_gets_its_innermost_calls() {
        let mut copies = StackCopies::new();
        let mut total = 0;
        for thread in 0..10_000 {
            let allowed = copies.allowed(STACK_LIMIT_BYTES);
            copies.buffer.resize(copies.buffer.len().max(allowed), 0);
            let copy = copies.take(allowed);
            assert_eq!(copy.capacity(), copy.len());
            assert!(copy.len() as u64 >= LEAST_BYTES);
            assert!(thread > 10 || copy.len() as u64 == STACK_LIMIT_BYTES);
            total += copy.len() as u64;
        }
        assert!(total <= BUDGET_BYTES + 10_000 * LEAST_BYTES, "{total}");
        let remark = copies.remark().unwrap();
        assert!(
            remark.ends_with("all together may have 256 MiB"),
            "{remark}"
        );
    }

    #[test]
    fn stacks_of_ordinary_size_are_copied_whole() {
        let mut copies = StackCopies::new();
        for _ in 0..2_000 {
            assert_eq!(copies.allowed(32 << 10), 32 << 10);
            drop(copies.take(32 << 10));
        }
        assert_eq!(copies.remark(), None);
    }
}
