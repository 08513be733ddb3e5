//! Reads a journal up to its end or to where it is damaged. The bytes may come from anywhere.

use std::io::Read;

use flate2::read::DeflateDecoder;
use nodespy_model::{Contents, Profile, Recording};

use super::super::columns::Columns;
use super::super::read::Tables;
use super::super::section;
use super::afresh::Reading;
use super::{BLOCK_HEADER_BYTES, HEADER_BYTES, MAGIC, SECTIONS_VERSION, VERSION, checksum};
use crate::budget::Budget;
use crate::import::ImportError;

/// Reads what a recording that was not finished has left.
pub(super) fn read(input: &[u8], budget: Budget) -> Result<Recording, ImportError> {
    let (mut profile, damage) = read_blocks(input, budget)?;
    let seconds = profile.about.duration as f64 / 1e9;
    profile.notes.remark(format!(
        "the recording was not finished: this is its journal, which ends after {seconds:.1} s"
    ));
    if let Some(damage) = damage {
        profile.notes.remark(damage.sentence());
    }
    Ok(Recording {
        about: profile.about.clone(),
        notes: profile.notes.clone(),
        contents: Contents::Named(Box::new(profile)),
        ..Recording::default()
    })
}

/// Reads a journal that this process wrote, to its end.
pub(super) fn read_whole(input: &[u8], budget: Budget) -> Result<Profile, ImportError> {
    match read_blocks(input, budget)? {
        (profile, None) => Ok(profile),
        (_, Some(damage)) => Err(damage.error),
    }
}

/// Why a journal is not read further.
struct Damage {
    /// Where the block starts that can't be read.
    block: usize,
    error: ImportError,
}

impl Damage {
    fn sentence(&self) -> String {
        match &self.error {
            ImportError::Cut { at } => format!(
                "the journal ends at byte {at}, inside the block that starts at byte {}: that block is \
                 lost",
                self.block
            ),
            error => format!(
                "the journal is damaged in the block that starts at byte {}: {error}; that block and \
                 what follows are lost",
                self.block
            ),
        }
    }
}

/// Everything before the end of the journal or the first damage.
fn read_blocks(input: &[u8], mut budget: Budget) -> Result<(Profile, Option<Damage>), ImportError> {
    read_header(input)?;
    let mut reading = Reading::new(Tables::new(SECTIONS_VERSION, budget.clone()));
    let mut block = HEADER_BYTES;
    let damage = loop {
        if block == input.len() {
            break None;
        }
        match take_block(input, block, &mut budget, &mut reading) {
            Ok(end) => block = end,
            Err(error) => break Some(Damage { block, error }),
        }
    };
    match damage {
        Some(damage) if !reading.has_samples() => Err(damage.error),
        damage => Ok((reading.finish()?, damage)),
    }
}

fn read_header(input: &[u8]) -> Result<(), ImportError> {
    let header = &input[..input.len().min(HEADER_BYTES)];
    if header.is_empty() {
        return Err(ImportError::Empty);
    }
    if !header.starts_with(&MAGIC[..MAGIC.len().min(header.len())]) {
        return Err(ImportError::NotThisFormat { format: "journal" });
    }
    if header.len() < HEADER_BYTES {
        return Err(ImportError::Cut {
            at: header.len() as u64,
        });
    }
    match number_at(header, MAGIC.len()) {
        1..=VERSION => Ok(()),
        0 => Err(ImportError::Damaged {
            at: MAGIC.len() as u64,
            what: "there is no version 0".to_owned(),
        }),
        version => Err(ImportError::NewerVersion {
            version,
            newest: VERSION,
        }),
    }
}

fn number_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = &bytes[at..at + 4];
    u32::from_le_bytes(bytes.try_into().expect("four bytes are four bytes"))
}

/// Takes in the block that starts at `start`, and returns where the next one does.
fn take_block(
    input: &[u8],
    start: usize,
    budget: &mut Budget,
    reading: &mut Reading,
) -> Result<usize, ImportError> {
    let cut = || ImportError::Cut {
        at: input.len() as u64,
    };
    let rest = &input[start..];
    if rest.len() < BLOCK_HEADER_BYTES {
        return Err(cut());
    }
    let length = number_at(rest, 0) as usize;
    let packed = &rest[BLOCK_HEADER_BYTES..];
    let packed = packed.get(..length).ok_or_else(cut)?;
    if checksum(packed) != number_at(rest, 4) {
        return Err(ImportError::Damaged {
            at: start as u64,
            what: "its checksum is wrong".to_owned(),
        });
    }
    let sections = unpack(packed, start, budget)?;
    let mut columns = Columns::new(&sections, 0);
    while !columns.is_at_end() {
        let id = columns.number()?;
        let length = columns.count(1)?;
        let at = columns.position();
        let mut content = Columns::new(columns.bytes(length)?, at);
        let tables = &mut reading.tables;
        match id {
            section::AFRESH => reading.start_afresh(at)?,
            section::RESTART => tables.restart(&mut content)?,
            section::CHANGED_PROCESSES => tables.change_processes(&mut content)?,
            section::CHANGED_THREADS => tables.change_threads(&mut content)?,
            id => tables.take(id, &mut content)?,
        }
    }
    Ok(start + BLOCK_HEADER_BYTES + length)
}

fn unpack(packed: &[u8], start: usize, budget: &mut Budget) -> Result<Vec<u8>, ImportError> {
    let limit = budget.bytes_left();
    let mut sections = Vec::new();
    DeflateDecoder::new(packed)
        .take(limit.saturating_add(1))
        .read_to_end(&mut sections)
        .map_err(|error| ImportError::Damaged {
            at: start as u64,
            what: error.to_string(),
        })?;
    budget.draw_bytes(sections.len() as u64)?;
    Ok(sections)
}
