//! The formats nodespy reads, one file each.

mod bpftrace;
mod chrome_trace;
mod cpuprofile;
mod firefox;
mod folded;
mod heapprofile;
mod html;
mod perf_data;
mod perf_script;
mod pprof;
mod speedscope;
mod stack_text;
mod v8_log;
mod v8_preprocessed;

use std::io;
use std::path::{Path, PathBuf};

use nodespy_model::{Contents, Event, EventIndex, EventSource, EventType, Notes, Recording};

use crate::budget::{Excess, Limits};
use crate::detect::{Confidence, detect};
use crate::input::Input;
use crate::native::Native;
use crate::native::journal::Journal;
pub use folded::{FoldedStacks, read_folded};
pub use v8_log::ENGINE as V8_LOG_ENGINE;

/// One file format that nodespy reads.
pub trait Importer: Sync {
    /// The name used by `--from` and in messages.
    fn name(&self) -> &'static str;

    /// Which text it reads, where a drop-in command reads that without a profile in between.
    fn text_format(&self) -> Option<TextFormat> {
        None
    }

    /// How likely it is that these bytes, unpacked and whole, are in this format. Looks at the
    /// start, or at both ends, never at everything.
    fn recognize(&self, bytes: &[u8]) -> Confidence;

    /// Reads a recording.
    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError>;
}

/// Text that the drop-in commands read as the originals do, names and all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// Folded stacks, which `flamegraph` and `difffolded` take.
    Folded,
    /// What `perf script` prints, which `collapse` takes.
    PerfScript,
}

/// What the reader of a file wants.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The name of the format, where the content is not to decide.
    pub from: Option<String>,
    /// The only event whose samples are wanted, where a file holds several.
    pub event: Option<String>,
    /// How much is taken in.
    pub limits: Limits,
    /// The caller does not distinguish the frames of one function, so an importer that would have to work
    /// for their lines, compilers and what was inlined may leave these out.
    pub functions_only: bool,
    /// Told now and then how far a long reading has come.
    pub progress: Option<Progress>,
}

/// Takes how many bytes are read, and how many there are.
pub type Progress = fn(done: u64, total: u64);

impl ImportOptions {
    /// The format is `from`, and nothing else is out of the ordinary.
    pub fn from(from: Option<&str>) -> Self {
        Self {
            from: from.map(str::to_owned),
            ..Self::default()
        }
    }
}

/// How many events a message lists.
const MAX_EVENTS_IN_MESSAGE: usize = 20;

/// Every importer, once. Order does not matter: the most confident one wins.
pub static IMPORTERS: &[&dyn Importer] = &[
    &Native,
    &html::Html,
    &folded::Folded,
    &cpuprofile::CpuProfile,
    &heapprofile::HeapProfile,
    &chrome_trace::ChromeTrace,
    &pprof::Pprof,
    &speedscope::Speedscope,
    &firefox::Firefox,
    &perf_data::PerfData,
    &v8_log::V8Log,
    &perf_script::PerfScript,
    &bpftrace::Bpftrace,
    &stack_text::DTRACE,
    &stack_text::SAMPLE,
    &stack_text::XCTRACE,
    &stack_text::VTUNE,
    &v8_preprocessed::V8Preprocessed,
    &Journal,
];

/// Why a file could not be read, and where in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The system refused to open the file.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The path is a directory.
    #[error("{} is a directory, not a recording", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// There is not a single byte.
    #[error("the input is empty")]
    Empty,
    /// No importer takes the content.
    #[error("the content is in no known format; nodespy reads {}", known_formats())]
    Unrecognized,
    /// No importer has this name.
    #[error(
        "there is no format called {name:?}; nodespy reads {}",
        known_formats()
    )]
    UnknownFormat {
        /// The name that was asked for.
        name: String,
    },
    /// The content does not start as the format does.
    #[error("byte 0: not a file in the {format} format")]
    NotThisFormat {
        /// The format it was read as.
        format: &'static str,
    },
    /// The file was written by a later nodespy.
    #[error(
        "the file has version {version} of nodespy's format, and this nodespy reads up to version {newest}; a newer nodespy can open it"
    )]
    NewerVersion {
        /// The file's version.
        version: u32,
        /// The newest version this nodespy reads.
        newest: u32,
    },
    /// The file stops before its end, and nothing useful comes before that.
    #[error("the file is cut off at byte {at}, before the first sample")]
    Cut {
        /// How many bytes there are.
        at: u64,
    },
    /// The packed bytes cannot be unpacked.
    #[error("byte {at}: the file is damaged: {what}")]
    Damaged {
        /// Where in the file.
        at: u64,
        /// What is wrong.
        what: String,
    },
    /// The unpacked content makes no sense.
    #[error("byte {at} of the unpacked content: {what}")]
    BadContent {
        /// Where in the content.
        at: u64,
        /// What is wrong.
        what: String,
    },
    /// A line of text is longer than allowed.
    #[error("byte {at}: a line is longer than {limit_bytes} bytes")]
    LongLine {
        /// Where the line starts.
        at: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// No line of text is what it should be.
    #[error("line {line}: expected a stack and a weight, found {found:?}")]
    BadLine {
        /// The first line that is wrong, from 1.
        line: u64,
        /// How it starts.
        found: String,
    },
    /// There is nothing but comments.
    #[error("the input holds no stacks")]
    NoStacks,
    /// The file holds several values or profiles, and none is called so.
    #[error("there is no {wanted:?} in the file; it holds {known}")]
    NoSuchEvent {
        /// What was asked for.
        wanted: String,
        /// What there is.
        known: String,
    },
    /// The recording is whole but empty.
    #[error("the recording holds no samples")]
    NoSamples,
    /// The recording was made on a machine whose stacks nodespy can't read.
    #[error(
        "it was recorded on {arch}; nodespy reads recordings of x86_64, and of aarch64 with frame pointers"
    )]
    Machine {
        /// The machine as the recording calls it.
        arch: String,
    },
    /// The format is known, and not read.
    #[error("{what}")]
    NotRead {
        /// Which it is, and what to do about it.
        what: &'static str,
    },
    /// An HTML page holds no recording.
    #[error("the page holds no recording: it has no <template class=\"recording\">")]
    NoPayload,
    /// The input, packed or unpacked, is larger than allowed.
    #[error("larger than {limit_bytes} bytes, which is as much as is read")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// It is small, and holds more than is believable.
    #[error(transparent)]
    Exceeded(#[from] Excess),
    /// The system could not read.
    #[error("cannot read the input")]
    Read(#[from] io::Error),
}

/// The names of all formats, for messages.
fn known_formats() -> String {
    let names: Vec<&str> = IMPORTERS.iter().map(|importer| importer.name()).collect();
    names.join(", ")
}

/// The importer of the format called `name`.
pub fn importer_called(name: &str) -> Option<&'static dyn Importer> {
    let mut importers = IMPORTERS.iter().copied();
    importers.find(|importer| importer.name() == name)
}

/// Reads a recording in the format that is asked for, or in the one its content looks like.
pub fn import(input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
    if input.is_empty() {
        return Err(ImportError::Empty);
    }
    let input = input.unpacked(&options.limits)?;
    let importer = match &options.from {
        Some(name) => importer_called(name)
            .ok_or_else(|| ImportError::UnknownFormat { name: name.clone() })?,
        None if input.is_empty() => return Err(ImportError::Empty),
        None => detect(&input).ok_or(ImportError::Unrecognized)?,
    };
    let recording = importer.import(input, options)?;
    match &options.event {
        Some(name) => only_event(recording, name),
        None => Ok(recording),
    }
}

/// The event that a user means by a name.
pub fn event_called(events: &[EventType], name: &str) -> Result<EventIndex, ImportError> {
    EventType::find(events, name).ok_or_else(|| ImportError::NoSuchEvent {
        wanted: name.to_owned(),
        known: events
            .iter()
            .map(EventType::label)
            .take(MAX_EVENTS_IN_MESSAGE)
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// A recording with the samples of one of its events.
fn only_event(mut recording: Recording, name: &str) -> Result<Recording, ImportError> {
    let events = match &recording.contents {
        Contents::Events(_) => &recording.events,
        Contents::Named(profile) | Contents::PartlyNamed(profile, _) => &profile.events,
    };
    let event = event_called(events, name)?;
    recording.contents = match recording.contents {
        Contents::Named(profile) => Contents::Named(Box::new(profile.select(event))),
        Contents::PartlyNamed(profile, unnamed) => {
            Contents::PartlyNamed(Box::new(profile.select(event)), unnamed)
        }
        Contents::Events(source) => {
            recording.events = vec![recording.events.swap_remove(event.at())];
            Contents::Events(Box::new(OneEvent { source, event }))
        }
    };
    Ok(recording)
}

/// Events of which only the samples of one are handed over.
#[derive(Debug)]
struct OneEvent {
    source: Box<dyn EventSource>,
    event: EventIndex,
}

impl EventSource for OneEvent {
    fn replay(self: Box<Self>, take: &mut dyn FnMut(Event<'_>)) -> Notes {
        self.source.replay(&mut |event| match event {
            Event::Sample(sample) if sample.event != self.event => {}
            Event::Sample(mut sample) => {
                sample.event = EventIndex::default();
                take(Event::Sample(sample));
            }
            other => take(other),
        })
    }
}

/// Reads the recording in a file.
pub fn import_file(path: &Path, options: &ImportOptions) -> Result<Recording, ImportError> {
    import(Input::open(path, &options.limits)?, options)
}
