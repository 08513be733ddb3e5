//! The files of a recording that writes several: one after the other, and not too many.

use std::thread::JoinHandle;

use anyhow::anyhow;
use nodespy_analysis::{Filters, shaped};
use nodespy_model::{Profile, printable};
use nodespy_recorder::Subject;

use super::journal::Journal;
use super::outputs::NumberedOutputs;
use crate::cli::RecordArgs;
use crate::output::{self, grouped};
use crate::save::Destination;

/// With how much a recording ends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Caps {
    pub(super) files: Option<u32>,
    pub(super) bytes: Option<u64>,
}

/// The files that were written so far, and the one that is being written: on a thread of its own, so
/// that samples are read meanwhile.
pub(super) struct Files {
    outputs: NumberedOutputs,
    filters: Filters,
    is_quiet: bool,
    caps: Caps,
    written: u32,
    bytes: u64,
    writing: Option<JoinHandle<anyhow::Result<u64>>>,
    failure: Option<anyhow::Error>,
}

impl Files {
    /// Finds out whether files can be written.
    pub(super) fn new(
        arguments: &RecordArgs,
        subject: &Subject,
        caps: Caps,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            outputs: NumberedOutputs::new(arguments, subject)?,
            filters: arguments.show.filters(),
            is_quiet: arguments.quiet,
            caps,
            written: 0,
            bytes: 0,
            writing: None,
            failure: None,
        })
    }

    /// A journal for what is going to be the next file, beside it.
    pub(super) fn journal(&self) -> Option<Journal> {
        let destinations = self.outputs.next().ok()?;
        Journal::beside(&destinations)
    }

    /// Writes a profile, and then removes the journal that it was read from. Returns whether more may be
    /// written, as far as is known.
    pub(super) fn write(&mut self, profile: Profile, journal: Option<Journal>) -> bool {
        if !self.settle() {
            return false;
        }
        let destinations = match self.outputs.next() {
            Ok(destinations) => destinations,
            Err(error) => {
                self.failure = Some(error);
                return false;
            }
        };
        let profile = shaped(profile, &self.filters);
        let is_quiet = self.is_quiet;
        self.writing = Some(std::thread::spawn(move || {
            let written = write_all(&profile, &destinations, is_quiet);
            if written.is_err() {
                journal.into_iter().for_each(Journal::keep);
            }
            written
        }));
        self.written += 1;
        self.is_within_caps()
    }

    /// Waits for the file that is being written. Returns whether more may be.
    pub(super) fn settle(&mut self) -> bool {
        if let Some(writing) = self.writing.take() {
            match writing.join() {
                Ok(Ok(bytes)) => self.bytes = self.bytes.saturating_add(bytes),
                Ok(Err(error)) => self.failure = Some(error),
                Err(_) => self.failure = Some(anyhow!("writing a file broke off")),
            }
        }
        self.failure.is_none() && self.is_within_caps()
    }

    fn is_within_caps(&self) -> bool {
        let has_room = |cap: Option<u64>, used: u64| cap.is_none_or(|cap| used < cap);
        has_room(self.caps.files.map(u64::from), u64::from(self.written))
            && has_room(self.caps.bytes, self.bytes)
    }

    /// Waits for the last file. Returns how many there are.
    pub(super) fn finish(mut self) -> anyhow::Result<u32> {
        let has_room = self.settle();
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if !has_room {
            let is_full = self.caps.files.is_some_and(|cap| self.written >= cap);
            let why = match is_full {
                true => "as many files are written as --max-files allows",
                false => "the files are as large as --max-size allows",
            };
            output::note(&format!("The recording has ended: {why}."));
        }
        Ok(self.written)
    }
}

/// Writes every output; returns how many bytes they have.
fn write_all(
    profile: &Profile,
    destinations: &[Destination],
    is_quiet: bool,
) -> anyhow::Result<u64> {
    let mut bytes = 0u64;
    for destination in destinations {
        destination.write(profile)?;
        let Some(path) = destination.path() else {
            continue;
        };
        let size = std::fs::metadata(path).map_or(0, |file| file.len());
        bytes = bytes.saturating_add(size);
        if !is_quiet {
            let why = match profile.notes.triggers.join("; ") {
                why if why.is_empty() => why,
                why => format!(", {}", printable(&why)),
            };
            output::note(&format!(
                "Wrote {} ({} KB){why}.",
                path.display(),
                grouped(size.div_ceil(1000))
            ));
        }
    }
    Ok(bytes)
}
