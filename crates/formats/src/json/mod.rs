//! JSON, read token by token and written as it comes.
//!
//! Nothing here builds a tree: a profile of 500 MB is read where it lies, and how deep it is
//! nested costs no stack. What the values mean is up to the formats.

mod error;
mod read;
mod write;

pub(crate) use error::{JsonError, Problem};
pub(crate) use read::{Kind, Number, Reader};
pub(crate) use write::Writer;
