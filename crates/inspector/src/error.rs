//! Why a conversation with an inspector failed.

use std::io;
use std::time::Duration;

/// Why a conversation with an inspector failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectorError {
    /// The stream broke.
    #[error("the connection to the inspector broke")]
    Broken(#[source] io::Error),
    /// The other side hung up: the process ended, or its inspector was closed.
    #[error("the inspector hung up")]
    Closed,
    /// What answers is no Node inspector.
    #[error("what answers there is not Node's inspector: {what}")]
    NotNode {
        /// What was wrong.
        what: String,
    },
    /// The websocket was refused.
    #[error("the inspector refused the websocket: {what}")]
    Refused {
        /// What it said.
        what: String,
    },
    /// A command was not answered in time.
    #[error("{method} was not answered within {} s", after.as_secs_f64())]
    Late {
        /// The command.
        method: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// A command was answered with an error.
    #[error("{method}: {message}")]
    Command {
        /// The command.
        method: &'static str,
        /// What the inspector said.
        message: String,
    },
    /// An address makes no sense.
    #[error("{address:?} is no address of an inspector: {what}")]
    BadAddress {
        /// What was given.
        address: String,
        /// What was wrong.
        what: String,
    },
    /// A message makes no sense.
    #[error("the inspector sent something that is no message: {what}")]
    BadMessage {
        /// What was wrong.
        what: String,
    },
}

impl InspectorError {
    /// Whether the other side is gone rather than unwilling.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::Closed)
    }
}
