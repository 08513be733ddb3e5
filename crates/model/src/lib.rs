//! What a recording and a profile are.
//!
//! Everything that comes in is a [`Recording`]; everything that goes out starts from a
//! [`Profile`]. The only way from one to the other is `nodespy-symbolize`. This crate does no
//! input or output: it holds tables, the way to build and merge them, and the words for what they
//! mean. Questions about a profile are `nodespy-analysis`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod about;
mod branches;
pub mod build_id;
mod builder;
pub mod classify;
mod context;
mod copy_rule;
mod event;
mod gc_timeline;
mod label;
mod labels;
mod libuv;
mod merge;
mod moved_stacks;
mod notes;
mod origin;
mod over_time;
mod profile;
mod raw;
mod rows;
mod runtime;
mod script;
mod small_sort;
mod stack_index;
mod text;
mod url;
mod utc;
mod waits;
mod x86_64;

pub use about::{
    About, EventLoop, ExactWaits, ExitReason, GcKind, GcPauses, Pool, PoolJobs, PoolSubmitter,
    Process, Scheduling, Thread, ThreadRole,
};
pub use branches::Branches;
pub use builder::{FrameSpec, FunctionSpec, ProfileBuilder};
pub use context::{ContextIndex, Contexts, OTHER as OTHER_CONTEXT};
pub use copy_rule::{
    CopiedField, CopyRule, CopyRules, MAX_COPIED_FIELDS, ObjectShape, RuleOf, StoreSlot,
};
pub use event::{EventIndex, EventType, MAX_EVENTS, Measure, Sampling, WeightUnit};
pub use gc_timeline::{GcPause, GcTimeline, MAX_GC_PAUSES};
pub use label::{NO_STACK, folded_label, folded_name, folded_thread};
pub use labels::{Labels, label_key};
pub use libuv::{LibuvAddresses, PoolAddresses};
pub use merge::{add_samples, add_stacks, add_threads, moved_samples, rewritten};
pub use moved_stacks::{MovedStacks, StackMoves};
pub use notes::{AsyncCallers, Confidence, NameSource, Notes};
pub use origin::{ImageBytes, ImageRefused, JitFile, JitFileKind, Origin, ReadAt, SourceFile};
pub use over_time::{
    Intervals, LoopPart, LoopStall, LoopTimeline, MAX_DOUBLINGS, MAX_INTERVALS, MAX_STALLS,
    MIN_INTERVAL, MIN_STALL, Part, PoolPart, PoolTimeline,
};
pub use profile::{
    Category, Cpu, Frame, FrameIndex, FrameKind, Function, FunctionIndex, Nanoseconds,
    ProcessIndex, Profile, Sample, Source, Stack, StackIndex, StringIndex, StringTable,
    ThreadIndex, Tier,
};
pub use raw::{
    Contents, Event, EventSource, FileIdentity, MappedLibrary, Mapping, RawSample, Recording,
    RuntimeAddress, ThreadState, Unnamed, UnnamedFunction, UserStack, WaitingIn,
};
pub use rows::RowIndex;
pub use runtime::JsRuntime;
pub use script::{LoadedScript, TextMark};
pub use small_sort::SmallSort;
pub use text::{cut, cut_bytes, printable};
pub use url::{file_of_url, percent_decoded};
pub use utc::UtcTime;
pub use waits::{Wait, state, wait_of};
pub use x86_64::Registers;

/// The hash map used throughout: seeded per process, so hostile keys can't be aimed at it.
pub type FastMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
/// The hash set that goes with [`FastMap`].
pub type FastSet<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;
