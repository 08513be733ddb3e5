//! The language of `--where` and `nodespy query`: conditions on samples and their frames.
//!
//! A condition is asked at a frame of a sample: the leaf, unless a query counts total weights, which asks at every
//! frame of the stack. Fields of a frame (`function`, `package`, `line`) are those of that frame, fields of a sample
//! (`thread`, `label.route`, `time`) are the same at all of them. docs/query.md has the grammar.

mod bound;
mod condition;
mod error;
mod field;
mod parser;
mod token;

pub(crate) use bound::Bound;
pub use condition::Condition;
pub(crate) use condition::{Node, Row};
pub use error::ExpressionError;
pub use field::Field;
pub(crate) use parser::Parser;

/// The longest text that is read.
pub(crate) const MAX_BYTES: usize = 4096;
/// How deep parentheses and `not` may nest.
pub(crate) const MAX_DEPTH: usize = 32;
/// How many tests a condition may have: one bit of a `u64` each.
pub(crate) const MAX_TESTS: usize = 64;
