//! What the recording of threads needs from a session: the seam at which tests put a scripted peer.

use nodespy_inspector::{InspectorError, Recipient, Session};
use serde_json::Value;

/// One session with the process: commands out, replies when they have arrived.
pub(super) trait Channel {
    /// Sends a command and returns its id, whose reply must be awaited.
    fn send(
        &mut self,
        recipient: &Recipient,
        method: &'static str,
        params: &Value,
    ) -> Result<u64, InspectorError>;

    /// Sends a command whose reply does not matter.
    fn post(
        &mut self,
        recipient: &Recipient,
        method: &'static str,
        params: &Value,
    ) -> Result<(), InspectorError>;

    /// The reply to a command if it has arrived, or an error if it never will.
    fn try_reply(
        &mut self,
        recipient: &Recipient,
        id: u64,
        method: &'static str,
    ) -> Option<Result<String, InspectorError>>;

    /// Whether a thread has ended.
    fn has_ended(&self, recipient: &Recipient) -> bool;

    /// Drops whatever was received from a thread, or is awaited from it.
    fn forget(&mut self, recipient: &Recipient);

    /// Takes in one message, waiting a moment for it; whether one came.
    fn poll(&mut self) -> Result<bool, InspectorError>;
}

impl Channel for Session {
    fn send(
        &mut self,
        recipient: &Recipient,
        method: &'static str,
        params: &Value,
    ) -> Result<u64, InspectorError> {
        Session::send(self, recipient, method, params)
    }

    fn post(
        &mut self,
        recipient: &Recipient,
        method: &'static str,
        params: &Value,
    ) -> Result<(), InspectorError> {
        Session::post(self, recipient, method, params)
    }

    fn try_reply(
        &mut self,
        recipient: &Recipient,
        id: u64,
        method: &'static str,
    ) -> Option<Result<String, InspectorError>> {
        Session::try_reply(self, recipient, id, method)
    }

    fn has_ended(&self, recipient: &Recipient) -> bool {
        Session::has_ended(self, recipient)
    }

    fn forget(&mut self, recipient: &Recipient) {
        Session::forget(self, recipient);
    }

    fn poll(&mut self) -> Result<bool, InspectorError> {
        Session::poll(self)
    }
}
