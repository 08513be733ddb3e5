//! What a recording and a profile are.
//!
//! Everything that comes in is a [`Recording`]; everything that goes out starts from a
//! [`Profile`]. The only way from one to the other is `nodespy-symbolize`. This crate does no
//! input or output: it holds tables, the counting over them, and the words for what they mean.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod about;
mod branches;
mod builder;
pub mod classify;
mod diff;
mod label;
mod labels;
mod merge;
mod moved_stacks;
mod notes;
mod origin;
mod outline;
mod package;
mod profile;
mod raw;
mod rows;
mod script;
mod siblings;
mod stack_index;
#[cfg(test)]
mod testing;
mod text;
mod threads;
mod time_order;
mod transform;
mod tree;
mod twin;
mod utc;

pub use about::{About, ExitReason, Process, Thread, ThreadRole};
pub use branches::Branches;
pub use builder::{FrameSpec, FunctionSpec, ProfileBuilder};
pub use diff::{DiffTree, NodeWeights, ProfilePair};
pub use label::{NO_STACK, folded_label, folded_name, folded_thread};
pub use labels::{Labels, label_key};
pub use merge::{add_samples, add_threads, rewritten};
pub use notes::{Confidence, NameSource, Notes};
pub use origin::{ImageBytes, ImageRefused, JitFile, JitFileKind, Origin, SourceFile};
pub use outline::{Outline, OutlineNode};
pub use package::{Package, PackageKind, package_in};
pub use profile::{
    Category, Frame, FrameIndex, Function, FunctionIndex, Nanoseconds, ProcessIndex, Profile,
    Sample, Source, Stack, StackIndex, StringIndex, StringTable, ThreadIndex, Tier, WeightUnit,
};
pub use raw::{
    Contents, Event, EventSource, FileIdentity, MappedLibrary, Mapping, RawSample, Recording,
    Registers, RuntimeAddress, Unnamed, UnnamedFunction, UserStack,
};
pub use script::{LoadedScript, TextMark};
pub use siblings::{OddProcess, odd_process};
pub use text::printable;
pub use threads::{BusyThread, busy_main_threads, main_threads, thread_weights};
pub use time_order::TimeTree;
pub use transform::{
    CodeKind, collapse_recursion, condensed, focus, fold, hide, ignore, merge_processes, only,
    only_between, only_threads, redact, reverse, show_from, split_tiers, with_round_times,
    without_idle, without_internals, without_small, without_unused,
};
pub use tree::{
    CallTree, ChildLists, FunctionWeights, NodeIndex, PackageWeights, Shares, TreeNode,
    app_callers, collected_under, function_weights, package_weights, shares, tier_weights,
};
pub use twin::{Agreement, join_twins};
pub use utc::UtcTime;

/// The hash map used throughout: seeded per process, so hostile keys can't be aimed at it.
pub type FastMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
/// The hash set that goes with [`FastMap`].
pub type FastSet<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;
