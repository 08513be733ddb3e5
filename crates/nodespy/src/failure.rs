//! Exit codes: 0 done, 1 could not, 2 misused, 3 not permitted, 4 target gone, 5 no samples.

use std::process::ExitCode;

use nodespy_capture::CaptureError;

/// Something that ends nodespy with a code of its own.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments make no sense together.
    Usage(String),
    /// Nothing was recorded.
    NoSamples(String),
    /// The user threw the recording away.
    Discarded,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(sentence) | Self::NoSamples(sentence) => formatter.write_str(sentence),
            Self::Discarded => formatter.write_str("recording discarded"),
        }
    }
}

impl std::error::Error for Failure {}

/// The exit code for an error.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    let code = if let Some(failure) = error.downcast_ref::<Failure>() {
        match failure {
            Failure::Usage(_) => 2,
            Failure::NoSamples(_) => 5,
            Failure::Discarded => 130,
        }
    } else {
        match error.downcast_ref::<CaptureError>() {
            Some(CaptureError::NotPermitted { .. }) => 3,
            Some(
                CaptureError::NoSuchProcess { .. }
                | CaptureError::NotFound { .. }
                | CaptureError::Gone { .. },
            ) => 4,
            Some(CaptureError::Ambiguous { .. }) => 2,
            _ => 1,
        }
    };
    ExitCode::from(code)
}
