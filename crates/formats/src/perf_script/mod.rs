//! `perf script` text: one reader for those who fold it and those who keep everything.
//!
//! An event is a line with thread, processor, time and event, then a line for each frame of
//! its stack, leaf first, then an empty line. [`walk`] finds these parts, [`header`] and [`frame`]
//! take lines apart, [`collapse`] makes folded stacks of them; the importer makes a profile.

mod collapse;
mod collapsed;
pub(crate) mod frame;
pub(crate) mod header;
mod sequences;
mod tidy;
pub(crate) mod walk;

pub use collapse::{CollapseOptions, Inlined, collapse};
pub use collapsed::{Collapsed, OddLine};
