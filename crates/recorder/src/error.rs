//! Why there is no recording.

use nodespy_capture::CaptureError;
use nodespy_formats::ImportError;

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// What was asked for makes no sense together.
    #[error("{0}")]
    Usage(String),
    /// Nothing was seen.
    #[error("{0}")]
    NoSamples(String),
    /// A process could not be captured.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A command that was started could not be captured.
    #[error("recording the command from its start")]
    FromStart(#[source] CaptureError),
    /// What was recorded could not be read back.
    #[error("the journal of the recording can't be read")]
    Journal(#[from] ImportError),
}

impl RecordError {
    /// What the capture failed with, if it did.
    pub fn capture(&self) -> Option<&CaptureError> {
        match self {
            Self::Capture(error) | Self::FromStart(error) => Some(error),
            Self::Usage(_) | Self::NoSamples(_) | Self::Journal(_) => None,
        }
    }
}
