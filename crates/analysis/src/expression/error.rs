//! What is wrong with an expression, and where.

use std::fmt;

/// Why an expression can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    /// Where, in characters from 1.
    pub column: usize,
    /// What was expected or is wrong there.
    pub message: String,
}

impl ExpressionError {
    pub(crate) fn at(column: usize, message: impl Into<String>) -> Self {
        Self {
            column,
            message: message.into(),
        }
    }

    /// The expression with a mark below the place.
    pub fn marked(&self, text: &str) -> String {
        /// Around the place, so that a long expression still fits a line.
        const AROUND: usize = 60;
        let before = self.column.saturating_sub(1);
        let skipped = before.saturating_sub(AROUND);
        let shown: String = text.chars().skip(skipped).take(2 * AROUND).collect();
        let shown = nodespy_model::printable(&shown).into_owned();
        format!("  {shown}\n  {}^", " ".repeat(before - skipped))
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for ExpressionError {}
