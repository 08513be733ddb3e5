//! Why an agent ends.

use nodespy_capture::CaptureError;

/// Why an agent could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Processes can't be sampled.
    #[error(transparent)]
    Capture(#[from] CaptureError),
}
