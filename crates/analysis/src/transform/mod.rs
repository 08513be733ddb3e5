//! Profiles with something left out, each filter a file of one idea.
//!
//! A filter takes a profile and returns another: what is stored never changes. It asks its question
//! once for each function, goes once through the stacks and once through the samples, and keeps
//! parents before children. Filters on frames move weight to callers and lose none; filters on
//! samples drop whole samples. None adds weight.

mod condense;
mod fold;
mod hide;
mod keep;
mod only;
mod processes;
mod recursion;
mod redact;
mod reverse;
mod rewrite;
mod round;
mod show_from;
mod small;
mod threads;
mod tiers;
mod time_range;
mod unused;

pub use condense::condensed;
pub use fold::fold;
pub use hide::{hide, without_internals};
pub use keep::{focus, ignore, without_idle};
pub use only::{CodeKind, only};
pub use processes::merge_processes;
pub use recursion::collapse_recursion;
pub use redact::{redact, redact_paths};
pub use reverse::reverse;
pub use round::with_round_times;
pub use show_from::show_from;
pub use small::without_small;
pub use threads::only_threads;
pub use tiers::split_tiers;
pub use time_range::{only_between, starting_at};
pub use unused::without_unused;
