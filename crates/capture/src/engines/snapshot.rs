//! Where every thread is right now: one sample per thread, the waiting ones included.
//!
//! `stopping` stops each thread for the few microseconds it takes to copy its registers and
//! its stack, one after the other, never two at once. `without_stop` stops nothing and
//! knows less. What comes out are the same events as those of a sampling engine; naming
//! them is the caller's work, done while all threads run. Stacks are handed on some megabytes at
//! a time, so that thousands of threads take no more memory than a few hundred.

use nodespy_model::{Event, EventIndex, Nanoseconds, RawSample, ThreadState, UserStack};

use crate::target::proc::RunState;

mod engine;
mod process_snapshot;
mod stopping;
mod without_stop;

pub use engine::{SnapshotEngine, Stopping};

/// A thread, and how its stack was read.
#[derive(Debug, Clone)]
pub struct ThreadSnapshot {
    /// Its process.
    pub pid: u32,
    /// Its tid.
    pub tid: u32,
    /// What it was doing just before, by the kernel's account.
    pub state: RunState,
    /// How it went.
    pub outcome: SnapshotOutcome,
}

/// How reading a thread went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotOutcome {
    /// It was stopped and ran on.
    Held {
        /// For how long at most.
        time: Nanoseconds,
    },
    /// It did not stop within this time, so nothing is known of its stack.
    DidNotStop {
        /// How long it was waited for.
        waited: Nanoseconds,
    },
    /// It waits in the kernel and was read without stopping it.
    Waiting,
    /// It was seen running by a sample of its CPU time.
    Sampled,
    /// Nothing could be seen of it.
    Unseen {
        /// Why, as a clause.
        why: String,
    },
}

fn sample(pid: u32, tid: u32, user: UserStack<'static>, state: RunState) -> Event<'static> {
    Event::Sample(RawSample {
        labels: Default::default(),
        time: crate::monotonic_now(),
        pid,
        tid,
        cpu: None,
        event: EventIndex::default(),
        weight: 1,
        state: ThreadState::Unknown,
        kernel: Vec::new().into(),
        user,
        memory: Default::default(),
        is_copied_at_sample: false,
        stands_still: state != RunState::Running,
    })
}
