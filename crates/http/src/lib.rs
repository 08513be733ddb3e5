//! HTTP/1.1 as far as nodespy needs it: requests bounded in bytes and time, answers, TLS, and a client.
//!
//! A connection is a thread and has one request; there is no async runtime. What pages, stores and agents ask of one another
//! is theirs: nothing here knows a profile.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod body;
mod client;
mod gate;
mod head;
mod parameters;
mod tls;

use std::time::{Duration, Instant};

pub use answer::{Answer, Framing, write_head};
pub use body::{BodyError, read_body};
pub use client::{Client, ClientError, ClientOptions, Reply};
pub use gate::{Slot, accept, stop_accepting};
pub use head::{Head, TimedStream, read_head};
pub use parameters::{Parameters, percent_encoded};
pub use tls::{Connection, Tls, TlsError};

/// For the whole head of a request, however it arrives.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// For a whole page, recording or body, however it arrives.
pub const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);
/// What is large may take longer: as long as it takes at so many bytes a second.
const LEAST_BYTES_PER_SECOND: u64 = 256 << 10;

/// When so many bytes have to have been sent or received.
pub fn transfer_deadline(bytes: u64) -> Instant {
    Instant::now() + TRANSFER_TIMEOUT + Duration::from_secs(bytes / LEAST_BYTES_PER_SECOND)
}
