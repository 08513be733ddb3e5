//! Every Node process of a machine, now and later, sampled all the time: windows of ten seconds into a store, or to a server.
//!
//! [`run`] waits for Node processes, follows them through the one live loop ([`nodespy_recorder::Live`]), cuts what it sees into
//! windows ([`nodespy_store::OpenWindows`]) and hands those that are over to a thread for each [`Destination`]. What the loop reads
//! has to be read in time; a disk that is slow or full makes a queue longer, never the loop. What goes over the network is in a
//! [`Spool`] on disk first, from which another thread sends it.
//!
//! Not here: printing (a [`LogLine`] is handed out), serving, statistics.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agent;
#[cfg(test)]
mod bad_days;
mod counters;
mod deployed;
mod destination;
mod error;
mod following;
mod grpc_web;
mod log_line;
mod one_by_one;
mod otlp;
mod parca;
mod parts;
#[cfg(test)]
mod pushes;
mod pyroscope;
mod receiver;
mod refused_series;
#[cfg(test)]
mod refused_windows;
mod requests;
mod sender;
mod spool;
mod status;
#[cfg(test)]
mod test_receiver;
mod wall_clock;
mod window_profile;
mod window_times;
mod writer;

pub use agent::{AgentEngine, AgentOptions, run};
pub use counters::Written;
pub use deployed::{INSTANCE, MAX_GIVEN_LABELS, MAX_KEY_BYTES, deployed_version};
pub use destination::Destination;
pub use error::AgentError;
pub use log_line::{Level, Log, LogLine};
pub use requests::RequestOptions;
pub use spool::{Backlog, Spool};
pub use status::Status;
