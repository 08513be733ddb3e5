//! The journal beside the output: there from its first block on, while a recording goes on, and gone once that is
//! written.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nodespy_recorder::CreateJournal;

use crate::output;
use crate::output_file::{new_beside, probe_beside};
use crate::save::Destination;

/// What a journal's name ends with.
pub(crate) const SUFFIX: &str = "journal";

/// The journal of a recording; removed when dropped, unless it is to be kept.
#[derive(Debug)]
pub(super) struct Journal {
    /// The file it stands beside.
    output: PathBuf,
    /// Where it is, once it was created.
    path: Arc<OnceLock<PathBuf>>,
}

impl Journal {
    /// One beside the first output that is a file; none where that can't be created.
    pub(super) fn beside(destinations: &[Destination]) -> Option<Self> {
        let is_file = |path: &&Path| {
            let found = fs::metadata(path);
            found.map_or(true, |found| found.is_file())
        };
        let mut outputs = destinations.iter().filter_map(Destination::path);
        let output = outputs.find(is_file)?.to_owned();
        // It is created with its first block. That it can be is found out now.
        probe_beside(&output)
            .inspect_err(|error| log::warn!("there is no journal: {error}"))
            .ok()?;
        Some(Self {
            output,
            path: Arc::default(),
        })
    }

    /// Creates the file to record into.
    pub(super) fn creator(&self) -> CreateJournal {
        let (output, created) = (self.output.clone(), self.path.clone());
        Box::new(move || {
            let (path, file) = new_beside(&output, SUFFIX)?;
            let _ = created.set(path);
            Ok(file)
        })
    }

    /// Leaves the journal where it is, and says so, if there is anything in it.
    pub(super) fn keep(self) {
        let Some(path) = self.path.get() else { return };
        let is_empty = fs::symlink_metadata(path).is_ok_and(|file| file.len() == 0);
        if !is_empty {
            output::note(&format!(
                "What was recorded until then is kept: nodespy recover {}",
                path.display()
            ));
            std::mem::forget(self);
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // After a panic it is all there is.
        if let (Some(path), false) = (self.path.get(), std::thread::panicking()) {
            let _ = fs::remove_file(path);
        }
    }
}
