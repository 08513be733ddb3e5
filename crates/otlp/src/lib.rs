//! OTLP profiles, OpenTelemetry's wire: windows as `ExportProfilesServiceRequest`, and back.
//!
//! [`encode`] makes a request of a batch, with the names of all stacks, once for all processes in it; [`decode`] reads what any
//! sender makes, within limits. The signal is still `v1development`: the messages here are those of opentelemetry-proto 1.8 to
//! 1.11, and nothing of them is stored.
//!
//! Not here: sending, HTTP, gRPC, OTLP's JSON.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod attributes;
mod decode;
mod dictionary;
mod encode;
mod limits;
mod messages;
mod reply;

pub use decode::{Decoded, decode};
pub use encode::encode;
pub use limits::OtlpError;
pub use reply::{failure, failure_message, rejected, success, success_but};

/// Where a request is posted to, below the address of a receiver.
pub const PATH: &str = "/v1development/profiles";
/// The media type of requests and answers.
pub const CONTENT_TYPE: &str = "application/x-protobuf";

#[cfg(test)]
mod tests;
