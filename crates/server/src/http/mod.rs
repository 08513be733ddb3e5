//! HTTP/1.1 as far as a page and its questions need it: one request a connection, bounded in bytes and time.

mod answer;
mod gate;
mod head;
mod parameters;

use std::time::Duration;

pub use answer::{Answer, Framing, write_head};
pub use gate::accept;
pub use head::{Head, TimedReader, read_head};
pub use parameters::Parameters;

/// For the whole head of a request, however it arrives.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// For each read or write of a page or a recording.
pub const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);
