//! The log that `node --prof` writes, `isolate-0x…-v8.log`: node 8 to 26, without node.
//!
//! Each line is an event: code was made, moved or dropped, a tick was taken. One pass over the
//! bytes keeps a map of the code as it was at that moment, so that every tick is named by what was
//! at its addresses then. Names, positions and sources stay where they are in the input until a
//! tick needs them. Native code has no names in a log: it is handed on by library and address.
//!
//! The format is nowhere written down; what is known is from logs of node 8, 16, 18, 20, 22, 24
//! and 26 and from what `node --prof-process` makes of them.

mod callers;
mod code_map;
mod fields;
mod frames;
mod isolate;
mod known_addresses;
mod log;
mod source;

use nodespy_model::{Contents, MappedLibrary, Mapping, Recording, Unnamed};

use super::{ImportError, ImportOptions, Importer};
use crate::detect::{Confidence, head};
use crate::input::Input;
pub(crate) use frames::{collector_frame, function_of_code, idle_frame};
pub(crate) use isolate::CodeKind;
use log::Log;

/// The engine that a profile made from a V8 log names.
pub const ENGINE: &str = "node --prof";

/// How many lines of a head say whether it is of a log.
const TELLING_LINES: usize = 50;

/// The importer of V8 logs.
pub(crate) struct V8Log;

impl Importer for V8Log {
    fn name(&self) -> &'static str {
        "v8-log"
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        let head = head(bytes);
        if head.starts_with(b"v8-version,") {
            return Confidence::Sure;
        }
        let starts: [&[u8]; 4] = [
            b"code-creation,",
            b"tick,0x",
            b"shared-library,",
            b"code-source-info,0x",
        ];
        let is_event = |line: &[u8]| starts.iter().any(|start| line.starts_with(start));
        let lines = head.split(|byte| *byte == b'\n').take(TELLING_LINES);
        match lines.filter(|line| is_event(line)).count() {
            0 => Confidence::No,
            1 => Confidence::Maybe,
            _ => Confidence::Likely,
        }
    }

    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        let meter = input.budget(&options.limits).meter();
        let read = Log::new(options.functions_only).read(&input, &meter);
        if read.ticks == 0 {
            return Err(ImportError::NoStacks);
        }
        let libraries = read.libraries.into_iter().map(|library| MappedLibrary {
            mapping: Mapping {
                pid: 0,
                start: library.start,
                end: library.ends.iter().copied().max().unwrap_or(library.start),
                file_offset: 0,
                path: library.path,
                file: Default::default(),
                time: 0,
            },
            segment_ends: library.ends,
        });
        let unnamed = Unnamed {
            libraries: libraries.collect(),
            functions: read.unnamed,
        };
        Ok(Recording {
            about: read.profile.about.clone(),
            notes: read.profile.notes.clone(),
            contents: Contents::PartlyNamed(Box::new(read.profile), unnamed),
            ..Recording::default()
        })
    }
}
