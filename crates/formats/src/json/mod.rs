//! JSON, read token by token and written as it comes.
//!
//! Nothing here builds a tree: a profile of 500 MB is read where it lies, and how deep it is
//! nested costs no stack. What the values mean is up to the formats.

mod read;
mod write;

pub(crate) use read::{JsonError, Kind, Number, Problem, Reader};
pub(crate) use write::Writer;
