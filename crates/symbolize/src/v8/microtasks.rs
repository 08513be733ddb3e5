//! The microtasks that run next.
//!
//! An async function that returns a promise (`return load()`) waits for it from a microtask on: until that has run, the promise
//! does not know who waits for it, but the queue of microtasks does.

use super::async_chain::Search;
use super::heap::is_pointer;

/// Where the queue has its number of tasks, the size of its ring, the position of the next one, and the ring; the same from V8
/// 9.4 to 14.6.
const SIZE: u64 = 8;
const CAPACITY: u64 = 16;
const START: u64 = 24;
const RING: u64 = 32;
/// How many of them are looked at.
const MAX_TASKS: u64 = 15;
/// Where the task has the promise that is to be resolved, then the one it is resolved with: versions of V8 differ.
const PROMISES: [(u64, u64); 2] = [(24, 32), (16, 24)];

impl Search<'_, '_> {
    /// The promise that is about to wait for another.
    pub(super) fn queued_waiter(&mut self, promise: u64) -> Option<u64> {
        let queue = self.microtasks?;
        let mut word = |offset: u64| self.objects.word(queue.checked_add(offset)?);
        let (size, capacity) = (word(SIZE)?, word(CAPACITY)?);
        let (start, ring) = (word(START)?, word(RING)?);
        if start >= capacity || size > capacity {
            return None;
        }
        (0..size.min(MAX_TASKS)).find_map(|number| {
            let position = start.checked_add(number)? % capacity;
            let at = ring.checked_add(position.checked_mul(8)?)?;
            let task = self.objects.word(at).filter(|&task| is_pointer(task))?;
            self.waiter_of_task(task, promise)
        })
    }

    fn waiter_of_task(&mut self, task: u64, promise: u64) -> Option<u64> {
        if !self.objects.is(task, self.layout.thenable_task?) {
            return None;
        }
        PROMISES.iter().find_map(|&(resolved, with)| {
            let is_with = self.objects.field(task, with)? == promise;
            let resolved = is_with.then(|| self.objects.field(task, resolved))??;
            self.objects
                .is(resolved, self.layout.promise)
                .then_some(resolved)
        })
    }
}
