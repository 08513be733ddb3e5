//! The journal beside the output: there while a recording goes on, and gone once it is written.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::output;
use crate::output_file::new_beside;
use crate::save::Destination;

/// What a journal's name ends with.
pub(crate) const SUFFIX: &str = "journal";

/// The journal of a recording; removed when dropped, unless it is to be kept.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Creates it beside the first output that is a file; none where that can't be done.
    pub(super) fn beside(destinations: &[Destination]) -> Option<Self> {
        let is_file = |path: &&Path| {
            let found = fs::metadata(path);
            found.map_or(true, |found| found.is_file())
        };
        let mut outputs = destinations.iter().filter_map(Destination::path);
        let (path, file) = new_beside(outputs.find(is_file)?, SUFFIX)
            .inspect_err(|error| log::warn!("there is no journal: {error}"))
            .ok()?;
        Some(Self { path, file })
    }

    /// The file to record into.
    pub(super) fn file(&self) -> Option<File> {
        self.file.try_clone().ok()
    }

    /// Leaves the journal where it is, and says so, if there is anything in it.
    pub(super) fn keep(self) {
        let is_empty = self.file.metadata().is_ok_and(|file| file.len() == 0);
        if !is_empty {
            output::note(&self.hint());
            std::mem::forget(self);
        }
    }

    fn hint(&self) -> String {
        let path = self.path.display();
        format!("What was recorded until then is kept: nodespy recover {path}")
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // After a panic it is all there is.
        if !std::thread::panicking() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
