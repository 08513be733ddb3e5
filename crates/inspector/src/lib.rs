//! A client of Node's inspector: its two HTTP endpoints, and sessions over its websocket.
//!
//! It knows the DevTools protocol and nothing of profiles or processes: the caller brings an open
//! TCP stream, which may lead into another network namespace, and gets raw JSON back. Everything
//! received may be hostile: sizes are capped, every wait has a deadline, nothing is evaluated but
//! what the caller wrote.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod http;
mod message;
mod pending;
mod session;
mod stream;
mod url;

pub use error::InspectorError;
pub use http::{Page, list, version};
pub use session::{Limits, Recipient, Script, Session, Worker};
pub use stream::{Cancel, Wait};
pub use url::InspectorUrl;
