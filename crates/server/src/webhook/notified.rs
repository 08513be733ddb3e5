//! What webhooks have been told, in a file of the store's folder: an id a line, the latest last.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const FILE: &str = "notified";
/// How many are remembered.
const MAX_IDS: usize = 10_000;
/// The longest file that is read: lines of 33 bytes.
const MAX_BYTES: u64 = 33 * MAX_IDS as u64;

/// The ids of what was told.
#[derive(Debug)]
pub(super) struct Notified {
    path: PathBuf,
    ids: Mutex<VecDeque<String>>,
}

impl Notified {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join(FILE);
        let mut text = String::new();
        match File::open(&path) {
            Ok(file) => drop(file.take(MAX_BYTES).read_to_string(&mut text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Self {
            path,
            ids: Mutex::new(text.lines().map(str::to_owned).collect()),
        })
    }

    /// Whether one of these ids is noted.
    pub(super) fn has(&self, ids: &[String]) -> bool {
        self.ids().iter().any(|known| ids.contains(known))
    }

    /// Notes ids. When this returns, the next server knows them too.
    pub(super) fn add(&self, new: impl Iterator<Item = String>) -> io::Result<()> {
        let mut ids = self.ids();
        ids.extend(new);
        while ids.len() > MAX_IDS {
            ids.pop_front();
        }
        let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let beside = self.path.with_extension("new");
        let mut file = create_anew(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(beside, &self.path)
    }

    fn ids(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates a file for this user alone, also where one was left behind. Whoever else may write to the folder can't have it
/// written through a link: a file that is created new is never one that a link leads to.
fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_link_in_the_folder_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "somebody's").unwrap();
        symlink(&other, folder.path().join("notified.new")).unwrap();
        let notified = Notified::open(folder.path()).unwrap();
        for id in ["first", "second"] {
            notified.add([id.to_owned()].into_iter()).unwrap();
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "somebody's");
        let written = fs::symlink_metadata(folder.path().join(FILE)).unwrap();
        assert!(written.is_file());
        assert_eq!(written.mode() & 0o777, 0o600);
        let known = Notified::open(folder.path()).unwrap();
        assert!(known.has(&["first".to_owned()]) && known.has(&["second".to_owned()]));
    }
}
