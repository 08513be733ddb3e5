//! nodespy's own file, `.nspy`: everything a profile holds, and nothing else is needed to read it.
//!
//! Eight bytes of magic, the version, a reserved word, then one gzip stream. Inside are sections:
//! an id, a length, and columns of variable-length integers. A reader skips sections it does not
//! know and bytes after the columns it does, so a later nodespy can add to both without a new
//! version. `docs/native-format.md` has every field.

mod columns;
pub(crate) mod journal;
mod read;
mod samples;
mod stack_order;
mod tags;
mod timelines;
mod unpack;
mod write;

use std::io::Write;

use nodespy_analysis::Holding;
use nodespy_model::{
    Category, FrameKind, GcKind, NameSource, Profile, Recording, ThreadRole, Tier, WeightUnit,
};

use crate::detect::Confidence;
use crate::export::{Detail, ExportError, Exporter};
use crate::import::{ImportError, ImportOptions, Importer};
use crate::input::Input;

/// The newest version of the format.
pub const VERSION: u32 = 5;

/// The version of a profile with one event, which nodespys before version 4 read too. They would add up the weights of several events, so they must not open those.
const VERSION_OF_ONE_EVENT: u32 = 3;
/// The version of a profile with several events and no async frames, which nodespys before version 5 don't know.
const VERSION_WITHOUT_ASYNC: u32 = 4;

/// How a file starts. The line endings and the DOS end-of-file mark show when a transfer in text
/// mode has spoilt the file, as PNG's magic does.
const MAGIC: [u8; 8] = *b"NSPY\r\n\x1a\n";

/// Magic, version and a reserved word.
const HEADER_BYTES: usize = 16;

/// What a section holds.
mod section {
    pub(super) const END: u64 = 0;
    pub(super) const ABOUT: u64 = 1;
    pub(super) const NOTES: u64 = 2;
    pub(super) const STRINGS: u64 = 3;
    pub(super) const FUNCTIONS: u64 = 4;
    pub(super) const FRAMES: u64 = 5;
    pub(super) const STACKS: u64 = 6;
    pub(super) const PROCESSES: u64 = 7;
    pub(super) const THREADS: u64 = 8;
    pub(super) const SAMPLES: u64 = 9;
    pub(super) const COUNTS: u64 = 10;
    pub(super) const DEOPTS: u64 = 11;
    pub(super) const SOURCES: u64 = 12;
    pub(super) const LABELS: u64 = 13;
    pub(super) const GENERATED: u64 = 14;
    pub(super) const EVENTS: u64 = 15;
    pub(super) const CONTEXTS: u64 = 16;
    pub(super) const TAGS: u64 = 17;
    pub(super) const SCHEDULING: u64 = 18;
    // In journals only.
    pub(super) const RESTART: u64 = 19;
    pub(super) const CHANGED_PROCESSES: u64 = 20;
    pub(super) const CHANGED_THREADS: u64 = 21;
    pub(super) const AFRESH: u64 = 22;
    // In files as well.
    pub(super) const EVENT_LOOPS: u64 = 23;
    pub(super) const POOLS: u64 = 24;
    pub(super) const LOOP_TIMELINES: u64 = 25;
    pub(super) const POOL_TIMELINES: u64 = 26;
    pub(super) const POOL_SUBMITTERS: u64 = 27;
    pub(super) const GC_PAUSES: u64 = 28;
    pub(super) const ASYNC_CALLERS: u64 = 30;
    pub(super) const EXACT_WAITS: u64 = 32;
    pub(super) const GC_TIMELINES: u64 = 33;
}

// The codes of the file: a value's position here. They are written out, because the model may
// reorder its own lists and files must not change meaning then. New values go to the end.

const UNITS: [WeightUnit; 4] = [
    WeightUnit::Samples,
    WeightUnit::Nanoseconds,
    WeightUnit::Bytes,
    WeightUnit::Events,
];

const CATEGORIES: [Category; 12] = [
    Category::App,
    Category::Dependency,
    Category::NodeCore,
    Category::Builtin,
    Category::Wasm,
    Category::RegExp,
    Category::Gc,
    Category::Native,
    Category::Kernel,
    Category::Idle,
    Category::Unknown,
    Category::Internal,
];

const TIERS: [Tier; 5] = [
    Tier::None,
    Tier::Interpreted,
    Tier::Baseline,
    Tier::Maglev,
    Tier::Optimized,
];

const FRAME_KINDS: [FrameKind; 3] = [FrameKind::Physical, FrameKind::Inlined, FrameKind::Async];

const GC_KINDS: [GcKind; 3] = [GcKind::Scavenge, GcKind::MarkCompact, GcKind::Other];

const ROLES: [ThreadRole; 5] = [
    ThreadRole::Main,
    ThreadRole::Worker,
    ThreadRole::Pool,
    ThreadRole::Platform,
    ThreadRole::Other,
];

const NAME_SOURCES: [NameSource; 5] = [
    NameSource::HeapWalk,
    NameSource::Jitdump,
    NameSource::PerfMap,
    NameSource::File,
    NameSource::Inspector,
];

/// The code of `value` in one of the lists above.
fn code_of<T: PartialEq>(list: &[T], value: &T) -> u64 {
    list.iter()
        .position(|known| known == value)
        .expect("every value of the model has a code") as u64
}

/// Importer and exporter of our own format.
pub(crate) struct Native;

impl Importer for Native {
    fn name(&self) -> &'static str {
        "nspy"
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        match bytes.starts_with(&MAGIC[..4]) {
            true => Confidence::Sure,
            false => Confidence::No,
        }
    }

    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        read::read(&input, input.budget(&options.limits))
    }
}

impl Exporter for Native {
    fn name(&self) -> &'static str {
        "nspy"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["nspy"]
    }

    fn leaves_out(&self) -> &'static [Detail] {
        &[]
    }

    fn holds_events(&self) -> bool {
        true
    }

    fn holding(&self) -> Holding {
        Holding::Everything
    }

    fn export(&self, profile: &Profile, output: &mut dyn Write) -> Result<(), ExportError> {
        write::write(profile, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_the_model_has_a_code() {
        assert!(WeightUnit::ALL.iter().all(|value| UNITS.contains(value)));
        assert!(Category::ALL.iter().all(|value| CATEGORIES.contains(value)));
        assert!(Tier::ALL.iter().all(|value| TIERS.contains(value)));
        assert!(ThreadRole::ALL.iter().all(|value| ROLES.contains(value)));
        assert_eq!(NameSource::ALL, NAME_SOURCES);
    }
}
