//! Live processes in, raw events out.
//!
//! [`engines`] take samples, all through the one trait of [`engine`]; [`target`] finds, launches and describes processes, and
//! [`LiveOrigin`] answers what naming the addresses needs to know of a process that runs now.
//! Every Linux call and all `unsafe` code of the crate is in `sys`.

#![warn(missing_docs)]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!(
    "nodespy captures on x86-64 Linux only: registers and stack layout of other machines are not \
     known to it (crates/perf-abi/src/x86_64.rs and crates/symbolize/src/x86_64.rs)"
);

pub mod engine;
pub mod engines;
mod error;
mod exact_waits;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gc_pauses;
mod list;
mod new_processes;
mod origin;
mod polling;
mod sys;
pub mod target;
#[cfg(test)]
mod testing;

pub use error::{CaptureError, FILE_CAPABILITIES, explain_refusal, with_causes};
pub use exact_waits::WaitWatch;
pub use gc_pauses::{GcPlaces, GcWatch};
pub use list::{NodeProcess, Way, list_node_processes};
pub use new_processes::{Children, NewProcesses};
pub use origin::LiveOrigin;
pub use polling::{EventLoops, Stall, ThreadPools};
pub use sys::allocator::{keep_freed_memory, return_freed_memory};
pub use sys::clock::{monotonic_now, process_cpu_time, unix_now};
pub use sys::group::CommandGroup;
pub use sys::priority::Priority;
pub use sys::signals::{Interrupts, TriggerSignal, catch_interrupts, catch_interrupts_but_hangup};
