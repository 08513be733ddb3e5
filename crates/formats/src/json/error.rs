//! Where a text is not JSON, or not what was expected of it.

use crate::budget::Excess;
use crate::import::ImportError;

/// Where the text is not what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JsonError {
    /// The byte.
    pub(crate) at: usize,
    /// What is wrong with it.
    pub(crate) problem: Problem,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The text ends here.
    Cut,
    /// Something else should be here.
    Expected(&'static str),
    /// There is more than is read of a file of this size.
    Exceeded(Excess),
}

impl std::fmt::Display for JsonError {
    fn fmt(&self, output: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.at;
        match self.problem {
            Problem::Cut => write!(output, "the file is cut off at byte {at}"),
            Problem::Expected(what) => write!(output, "byte {at}: expected {what}"),
            Problem::Exceeded(excess) => write!(output, "byte {at}: {excess}"),
        }
    }
}

impl From<JsonError> for ImportError {
    fn from(error: JsonError) -> Self {
        let at = error.at as u64;
        match error.problem {
            Problem::Cut => Self::Cut { at },
            Problem::Expected(what) => Self::Damaged {
                at,
                what: format!("expected {what}"),
            },
            Problem::Exceeded(excess) => Self::Exceeded(excess),
        }
    }
}
