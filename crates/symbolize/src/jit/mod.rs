//! Files that name JIT code: a reader for each format, and what they say of the addresses that were
//! seen.
//!
//! A file grows while its process runs, for months perhaps. It is read once: an [`Index`] remembers
//! where the names of functions are in it and reads on from where it stopped.

use std::fmt::Debug;
use std::io;

use nodespy_model::{JitFileKind, NameSource, Nanoseconds, ReadAt};

mod code_map;
mod index;
mod jitdump;
pub(crate) mod name;
mod names;
mod perf_map;
#[cfg(test)]
pub(crate) mod stand_in;
mod texts;
mod window;

pub(crate) use index::{Index, read_any};
pub(crate) use names::JitNames;

/// Every kind of file that names JIT code.
static JIT_READERS: &[JitFormat] = &[
    JitFormat {
        kind: JitFileKind::Jitdump,
        source: NameSource::Jitdump,
        reader: || Box::new(jitdump::DumpReader::default()),
    },
    JitFormat {
        kind: JitFileKind::PerfMap,
        source: NameSource::PerfMap,
        reader: || Box::new(perf_map::MapReader::default()),
    },
];

/// One kind of file.
struct JitFormat {
    kind: JitFileKind,
    source: NameSource,
    reader: fn() -> Box<dyn JitReader>,
}

impl JitFormat {
    fn of(kind: JitFileKind) -> &'static Self {
        let known = JIT_READERS.iter().find(|format| format.kind == kind);
        known.expect("every kind of file has a reader")
    }
}

/// Reads one file from its start to its end, in as many steps as it takes.
trait JitReader: Debug {
    /// Reads on as far as `reach` allows; each function goes to `take`, in the order of the file.
    fn read_on(
        &mut self,
        bytes: &dyn ReadAt,
        reach: Reach,
        take: &mut dyn FnMut(&Code<'_>),
    ) -> io::Result<()>;

    /// How far the file has been read.
    fn position(&self) -> u64;

    /// How much of a file is read in a few milliseconds.
    fn step_bytes(&self) -> u64;

    /// No more than this is read at once.
    fn limit_bytes(&self) -> u64;
}

/// How far a reader may go.
#[derive(Debug, Clone, Copy)]
struct Reach {
    /// About how many bytes further.
    max_bytes: u64,
    /// Whether the file is as long as it gets: its end is taken as it is.
    is_complete: bool,
}

/// A function as a file has it.
#[derive(Debug)]
struct Code<'a> {
    /// Where its record is.
    offset: u64,
    start: u64,
    end: u64,
    /// When it was written, where the file says so.
    time: Option<Nanoseconds>,
    name: Span,
    /// The bytes of its name, where its record has them: code that moves leaves its name behind.
    text: Option<&'a [u8]>,
    /// Where its lines are; empty where it has none.
    lines: Span,
}

/// Some bytes of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Span {
    offset: u64,
    length: u32,
}

impl Span {
    /// What is there; none where it can't be read any more.
    fn read(self, bytes: &dyn ReadAt) -> Option<Vec<u8>> {
        let mut buffer = vec![0; self.length as usize];
        let read = bytes.read_at(&mut buffer, self.offset).ok()?;
        (read == buffer.len()).then_some(buffer)
    }
}

/// When a file was last seen with which size: what follows was written later.
pub(crate) type GrowthMarks = [(Nanoseconds, u64)];
