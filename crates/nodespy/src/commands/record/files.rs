//! The files of a recording that writes several: one after the other, and not too many.

use std::thread::JoinHandle;

use anyhow::anyhow;
use nodespy_analysis::{Filters, shaped};
use nodespy_model::{Profile, printable};
use nodespy_recorder::Subject;

use super::journal::Journal;
use super::outputs::{NumberedOutputs, is_nowhere, not_written};
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
    failures: Vec<anyhow::Error>,
    /// Whether the last file was taken.
    is_over: bool,
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
            failures: Vec::new(),
            is_over: false,
        })
    }

    /// A journal for what is going to be the next file, beside it.
    pub(super) fn journal(&self) -> Option<Journal> {
        let destinations: Vec<Destination> = self.outputs.next().filter_map(Result::ok).collect();
        Journal::beside(&destinations)
    }

    /// Writes a profile, and then removes the journal that it was read from. Returns whether more may be
    /// written, as far as is known.
    pub(super) fn write(&mut self, profile: Profile, journal: Option<Journal>) -> bool {
        // A recording that ends with a file has one more slice.
        if self.is_over {
            return false;
        }
        // That the file before has failed, or was the last that fits, is known only now: what was recorded
        // meanwhile is written all the same.
        let has_room = self.settle();
        let destinations: Vec<_> = self.outputs.next().collect();
        let profile = shaped(profile, &self.filters);
        let is_quiet = self.is_quiet;
        self.writing = Some(std::thread::spawn(move || {
            let written = write_all(&profile, destinations, is_quiet);
            if written.as_ref().is_err_and(is_nowhere) {
                journal.into_iter().for_each(Journal::keep);
            }
            written
        }));
        self.written += 1;
        self.is_over = !(has_room && self.is_within_caps());
        !self.is_over
    }

    /// Writes a profile that has no journal, and waits for its file. Returns whether more may be written.
    pub(super) fn write_and_wait(&mut self, profile: Profile) -> bool {
        self.write(profile, None);
        self.is_over = !self.settle();
        !self.is_over
    }

    /// Waits for the file that is being written. Returns whether more may be.
    fn settle(&mut self) -> bool {
        if let Some(writing) = self.writing.take() {
            match writing.join() {
                Ok(Ok(bytes)) => self.bytes = self.bytes.saturating_add(bytes),
                Ok(Err(error)) => self.failures.push(error),
                Err(_) => self.failures.push(anyhow!("writing a file broke off")),
            }
        }
        self.failures.is_empty() && self.is_within_caps()
    }

    fn is_within_caps(&self) -> bool {
        let has_room = |cap: Option<u64>, used: u64| cap.is_none_or(|cap| used < cap);
        has_room(self.caps.files.map(u64::from), u64::from(self.written))
            && has_room(self.caps.bytes, self.bytes)
    }

    /// Waits for the last file. Returns how many there are.
    pub(super) fn finish(mut self) -> anyhow::Result<u32> {
        let has_room = self.settle();
        if !self.failures.is_empty() {
            let sentences: Vec<String> = self.failures.iter().map(output::in_one_line).collect();
            return Err(anyhow!(sentences.join("; ")));
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

/// Writes every output, whatever happens to the others; returns how many bytes they have. What no output keeps is
/// kept elsewhere.
fn write_all(
    profile: &Profile,
    destinations: Vec<anyhow::Result<Destination>>,
    is_quiet: bool,
) -> anyhow::Result<u64> {
    let mut bytes = 0u64;
    let mut is_kept = false;
    let mut failures = Vec::new();
    for destination in destinations {
        let written = destination.and_then(|destination| {
            destination.write(profile)?;
            Ok(destination)
        });
        match written {
            Ok(destination) => {
                is_kept |= destination.keeps_recording();
                bytes = bytes.saturating_add(report_written(profile, &destination, is_quiet));
            }
            Err(error) => failures.push(error),
        }
    }
    match failures.is_empty() {
        true => Ok(bytes),
        false => Err(not_written(&failures, profile, is_kept)),
    }
}

/// Says what was written, and why; returns how many bytes it has.
fn report_written(profile: &Profile, destination: &Destination, is_quiet: bool) -> u64 {
    let Some(path) = destination.path() else {
        return 0;
    };
    let size = std::fs::metadata(path).map_or(0, |file| file.len());
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
    size
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use nodespy_outputs::Output;

    use super::*;

    /// Files of two outputs, in folders of their own.
    fn files(folder: &Path, bytes: Option<u64>) -> Files {
        let folders = ["one", "two"].map(|name| folder.join(name));
        let templates = folders.map(|folder| {
            fs::create_dir(&folder).unwrap();
            (folder.join("out.nspy"), Output::native())
        });
        Files {
            outputs: NumberedOutputs {
                templates: templates.into(),
                show: Filters::default(),
                pid: 1,
                app: "app".to_owned(),
            },
            filters: Filters::default(),
            is_quiet: true,
            caps: Caps { files: None, bytes },
            written: 0,
            bytes: 0,
            writing: None,
            failures: Vec::new(),
            is_over: false,
        }
    }

    fn count(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn an_output_that_fails_costs_no_other_and_not_the_period_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(folder.path(), None);
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        assert!(files.write(Profile::default(), None));
        assert!(files.settle());
        fs::remove_dir_all(&one).unwrap();
        assert!(files.write(Profile::default(), None));
        // What was recorded while that failed.
        assert!(!files.write(Profile::default(), None));
        // What a recording has at its end.
        assert!(!files.write(Profile::default(), None));
        let failure = files.finish().unwrap_err().to_string();
        assert!(failure.contains("cannot write"), "{failure}");
        assert_eq!(count(&two), 3);
    }

    #[test]
    fn the_period_in_which_the_files_have_become_large_enough_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(folder.path(), Some(1));
        assert!(files.write(Profile::default(), None));
        assert!(!files.write(Profile::default(), None));
        assert!(!files.write(Profile::default(), None));
        assert_eq!(files.finish().unwrap(), 2);
        assert_eq!(count(&folder.path().join("two")), 2);
    }
}
