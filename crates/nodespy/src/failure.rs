//! Exit codes: 0 success, 1 failure, 2 usage error, 3 permission denied, 4 target exited, 5 no samples;
//! `nodespy diff` also has 10 for a regression and 11 for a suspected one.

use std::process::ExitCode;

use nodespy_agent::AgentError;
use nodespy_analysis::FilterError;
use nodespy_capture::CaptureError;
use nodespy_recorder::RecordError;

/// Something that ends nodespy with a code of its own.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments make no sense together.
    Usage(String),
    /// The user threw the recording away.
    Discarded,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(sentence) => formatter.write_str(sentence),
            Self::Discarded => formatter.write_str("recording discarded"),
        }
    }
}

impl std::error::Error for Failure {}

/// The exit code for an error.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    let recording = error.downcast_ref::<RecordError>();
    let code = if let Some(failure) = error.downcast_ref::<Failure>() {
        match failure {
            Failure::Usage(_) => 2,
            Failure::Discarded => 130,
        }
    } else if let Some(RecordError::Usage(_)) = recording {
        2
    } else if matches!(recording, Some(RecordError::NoSamples(_))) || error.is::<FilterError>() {
        5
    } else {
        match capture_error(error) {
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

/// Why a process could not be captured, if that is what the error is about.
fn capture_error(error: &anyhow::Error) -> Option<&CaptureError> {
    let by_recorder = error
        .downcast_ref::<RecordError>()
        .and_then(RecordError::capture);
    let by_agent = error.downcast_ref::<AgentError>().map(AgentError::capture);
    by_recorder
        .or(by_agent)
        .or_else(|| error.downcast_ref::<CaptureError>())
}
