//! Every Node process of a machine, now and later, sampled all the time: windows of ten seconds into a store.
//!
//! [`run`] waits for Node processes, follows them through the one live loop ([`nodespy_recorder::Live`]), cuts what it sees into
//! windows ([`nodespy_store::OpenWindows`]) and hands those that are over to a thread that writes. What the loop reads
//! has to be read in time; a disk that is slow or full makes the queue longer, never the loop.
//!
//! Not here: printing (a [`LogLine`] is handed out), serving, statistics.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agent;
mod deployed;
mod error;
mod following;
mod log_line;
mod wall_clock;
mod writer;

pub use agent::{AgentOptions, run};
pub use deployed::{INSTANCE, deployed_version};
pub use error::AgentError;
pub use log_line::{Level, Log, LogLine};
pub use writer::Written;
