//! A journal: what a recording has seen so far, for the day it can't be finished.
//!
//! Eight bytes of magic, the version, a reserved word, then blocks, one for each slice of the
//! recording: length and CRC-32 of the packed bytes, both 32 bits, then the bytes. A block holds the
//! sections of `.nspy`, with only the rows that are new, so a journal grows with the samples and a
//! reader reads it as one file. Now and then the tables start afresh, so that a writer need not hold
//! what it wrote hours ago. Whatever is lost of the end, every block before it is whole.
//! `docs/native-format.md` has every field.

mod afresh;
mod merged;
mod read;

use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use nodespy_model::{Profile, Recording, Sample};

use super::columns::put;
use super::{samples, section, tags, write};
use crate::budget::Limits;
use crate::detect::Confidence;
use crate::import::{ImportError, ImportOptions, Importer};
use crate::input::Input;
use merged::{Merged, Rows};

/// How a journal starts; see the magic of `.nspy`.
const MAGIC: [u8; 8] = *b"NSPJ\r\n\x1a\n";
/// Tables start afresh since version 2.
const VERSION: u32 = 2;
/// Magic, version and a reserved word.
const HEADER_BYTES: usize = 16;
/// Length and checksum of a block.
const BLOCK_HEADER_BYTES: usize = 8;
/// The sections of a block are those of this version of `.nspy`.
const SECTIONS_VERSION: u32 = 4;

/// Importer of journals.
pub(crate) struct Journal;

impl Importer for Journal {
    fn name(&self) -> &'static str {
        "journal"
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

/// Turns the slices of a recording into the blocks of a journal. What it keeps has an end, however
/// long the recording lasts.
#[derive(Debug, Default)]
pub struct JournalWriter {
    merged: Merged,
    written: Rows,
    /// What was written when the tables had their first block.
    first: Rows,
}

impl JournalWriter {
    /// How a journal starts.
    pub fn header() -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend(0u32.to_le_bytes());
        header
    }

    /// The next block: everything of a slice that the journal does not have yet. Times count from the
    /// start of the recording in every slice.
    pub fn block(&mut self, slice: &Profile) -> Vec<u8> {
        let starts_afresh = afresh::is_due(self.first, self.written);
        if starts_afresh {
            *self = Self::default();
        }
        let mut samples = self.merged.add(slice);
        Sample::sort_by_time(&mut samples);
        let mut sections = Vec::new();
        let mut emit = |id: u64, content: &[u8]| {
            put(&mut sections, id);
            put(&mut sections, content.len() as u64);
            sections.extend_from_slice(content);
        };
        if starts_afresh {
            emit(section::AFRESH, &[]);
        }
        let so_far = self.merged.so_far();
        emit(
            section::ABOUT,
            &write::about(&self.merged.about, so_far.event()),
        );
        let from = self.written;
        if from == Rows::default() && tags::has_events(so_far) {
            emit(section::EVENTS, &tags::events(so_far));
        }
        if so_far.contexts.iter().len() > from.contexts {
            emit(section::CONTEXTS, &tags::contexts(so_far, from.contexts));
        }
        emit(section::NOTES, &write::notes(&self.merged.notes));
        if let Some(async_callers) = write::async_callers(&self.merged.notes) {
            emit(section::ASYNC_CALLERS, &async_callers);
        }
        emit(
            section::STRINGS,
            &write::strings(&so_far.strings, from.strings),
        );
        emit(
            section::FUNCTIONS,
            &write::functions(&so_far.functions[from.functions..]),
        );
        emit(
            section::FRAMES,
            &write::frames(&so_far.frames[from.frames..]),
        );
        emit(
            section::STACKS,
            &write::stacks_as_they_are(&so_far.stacks, from.stacks),
        );
        for (id, rows, written) in [
            (section::DEOPTS, &so_far.deopt_reasons, from.deopts),
            (section::GENERATED, &so_far.generated_places, from.generated),
        ] {
            if rows.len() > written {
                emit(id, &write::of_functions(&rows[written..]));
            }
        }
        emit(
            section::PROCESSES,
            &write::processes(&so_far.processes[from.processes..]),
        );
        emit(
            section::THREADS,
            &write::threads(&so_far.threads[from.threads..]),
        );
        self.merged.emit_changes(&from, &mut emit);
        if let Some(first) = samples.first() {
            let mut restart = Vec::new();
            put(&mut restart, first.time);
            emit(section::RESTART, &restart);
            if let Some(tags) = tags::tags(&samples) {
                emit(section::TAGS, &tags);
            }
            let unit = samples::unit_of(&samples, first.time);
            let mut before = samples::Before::at(first.time);
            let rows = samples::section(&samples, unit, |stack| stack.get(), &mut before);
            emit(section::SAMPLES, &rows);
        }
        if so_far.sources.len() > from.sources {
            emit(
                section::SOURCES,
                &write::sources(&so_far.sources[from.sources..]),
            );
        }
        self.written = Rows::of(so_far);
        if from == Rows::default() {
            self.first = self.written;
        }
        pack_block(&sections)
    }
}

/// Several slices of a recording as one profile: each process, thread, function and stack once. Times
/// count from the start of the recording in every slice.
pub fn merge_slices<'a>(slices: impl Iterator<Item = &'a Profile>) -> Profile {
    let mut merged = Merged::default();
    let mut samples = Vec::new();
    for slice in slices {
        samples.extend(merged.add_rows(slice));
    }
    Sample::sort_by_time(&mut samples);
    merged.finish(samples)
}

/// The profile of a journal that this process wrote.
pub fn read_journal(input: &Input) -> Result<Profile, ImportError> {
    read::read_whole(input, input.budget(&Limits::default()))
}

/// A block with these sections; tests give it some that no recording has.
pub fn pack_block(sections: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    let packed = encoder
        .write_all(sections)
        .and_then(|()| encoder.finish())
        .expect("memory takes what is written to it");
    let mut block = Vec::with_capacity(BLOCK_HEADER_BYTES + packed.len());
    block.extend((packed.len() as u32).to_le_bytes());
    block.extend(checksum(&packed).to_le_bytes());
    block.extend(packed);
    block
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}
