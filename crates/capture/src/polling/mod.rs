//! Polling threads from outside: nothing is opened on them, nothing stops them.
//!
//! A thread that waits in the kernel does not change its stack, and the kernel reports where it
//! entered; how long each thread ran and waited for a CPU the kernel counts itself.

mod account;
mod copies;
mod event_loops;
mod jitter;
mod loop_times;
mod memory;
mod stretch;
mod thread;
mod thread_poller;
mod thread_pools;
mod uv_loop;
mod uv_pool;
mod waiting;

pub(crate) use copies::StackCopies;
pub use event_loops::{EventLoops, Stall};
pub(crate) use thread_poller::{PolledEvent, ThreadPoller};
pub use thread_pools::ThreadPools;
pub(crate) use waiting::copy_waiting_stack;
