//! Why a session with an inspector failed.

use std::io;
use std::time::Duration;

/// Why a session with an inspector failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectorError {
    /// The stream broke.
    #[error("the connection to the inspector broke")]
    Broken(#[source] io::Error),
    /// The peer closed the session: the process ended, or its inspector was closed.
    #[error("the inspector closed the session")]
    Closed,
    /// The peer is not Node's inspector.
    #[error("the peer is not Node's inspector: {what}")]
    NotNode {
        /// What was wrong.
        what: String,
    },
    /// The websocket was refused.
    #[error("the inspector refused the websocket: {what}")]
    Refused {
        /// The reason.
        what: String,
    },
    /// A command was not answered in time.
    #[error("{method} was not answered within {} s", after.as_secs_f64())]
    Timeout {
        /// The command.
        method: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// A signal ended the wait for an answer.
    #[error("interrupted before {method} was answered")]
    Cancelled {
        /// The command.
        method: &'static str,
    },
    /// The peer sent more than a session may hold.
    #[error("{what} the inspector sent exceeds the limit of {limit_bytes} bytes")]
    TooLarge {
        /// Which limit.
        what: &'static str,
        /// The limit.
        limit_bytes: usize,
    },
    /// A command was answered with an error.
    #[error("{method}: {message}")]
    Command {
        /// The command.
        method: &'static str,
        /// The inspector's message.
        message: String,
    },
    /// An address is malformed.
    #[error("{address:?} is not an inspector address: {what}")]
    BadAddress {
        /// The address.
        address: String,
        /// What was wrong.
        what: String,
    },
    /// A message is malformed.
    #[error("malformed message from the inspector: {what}")]
    BadMessage {
        /// What was wrong.
        what: String,
    },
}

impl InspectorError {
    /// Whether the peer is gone rather than unwilling.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::Closed)
    }
}
