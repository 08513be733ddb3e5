//! Why an agent ends.

use nodespy_capture::CaptureError;

/// Why an agent could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Processes can't be sampled.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Perf events are refused, and no other engine was asked for.
    #[error(
        "{0}. Where that is not possible, nodespy agent --engine inspector samples by V8's own profiler: meanwhile the inspector of \
         every Node process is open on loopback, and any local user can run code in it"
    )]
    PerfRefused(CaptureError),
}

impl AgentError {
    /// Why processes could not be sampled.
    pub fn capture(&self) -> &CaptureError {
        match self {
            Self::Capture(error) | Self::PerfRefused(error) => error,
        }
    }
}
