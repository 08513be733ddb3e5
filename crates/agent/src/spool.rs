//! What waits to be sent: a folder of numbered files, the oldest first, bounded in bytes.
//!
//! A file is written beside its name, synced and renamed: after a crash it is whole or not there. It goes when a receiver
//! has it, or when there are too many bytes: then the oldest make room, and their windows are counted as dropped.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nodespy_model::SmallSort;

/// What a file ends with, and one that is not whole yet.
const WHOLE: &str = ".windows";
const UNFINISHED: &str = "unfinished";
/// Held for as long as an agent uses the folder.
const LOCK: &str = "lock";
/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A folder of files that wait.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    max_bytes: u64,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    _lock: File,
}

#[derive(Debug, Default)]
struct Waiting {
    files: VecDeque<Entry>,
    bytes: u64,
    next: u64,
}

/// A file that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its place in the order.
    pub(crate) number: u64,
    /// How many windows it holds.
    pub(crate) windows: u64,
    bytes: u64,
    /// Until when others go before it; the next agent tries anew.
    aside_until: Option<Instant>,
}

impl Entry {
    fn is_due(&self, now: Instant) -> bool {
        self.aside_until.is_none_or(|until| until <= now)
    }

    fn name(&self) -> String {
        format!("{:020}-{}{WHOLE}", self.number, self.windows)
    }

    fn of_name(name: &str, bytes: u64) -> Option<Self> {
        let (number, windows) = name.strip_suffix(WHOLE)?.split_once('-')?;
        Some(Self {
            number: number.parse().ok()?,
            windows: windows.parse().ok()?,
            bytes,
            aside_until: None,
        })
    }
}

/// How much waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Windows.
    pub windows: u64,
    /// Their bytes on disk.
    pub bytes: u64,
}

impl Spool {
    /// The spool in a folder, which is made if it is missing, for one agent at a time.
    pub fn open(folder: &Path, max_bytes: u64) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let lock = private().create(true).open(folder.join(LOCK))?;
        lock.try_lock()
            .map_err(|_| io::Error::other("another agent uses it"))?;
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let bytes = entry.metadata()?.len();
            files.extend(name.to_str().and_then(|it| Entry::of_name(it, bytes)));
        }
        files.small_sort_by_key(|entry| entry.number);
        Ok(Self {
            folder: folder.to_owned(),
            max_bytes,
            waiting: Mutex::new(Waiting {
                bytes: files.iter().map(|entry| entry.bytes).sum(),
                next: files.last().map_or(0, |entry| entry.number + 1),
                files: files.into(),
            }),
            arrived: Condvar::new(),
            _lock: lock,
        })
    }

    /// Adds a file; when this returns, it survives a crash. Tells how many windows had to go for it.
    pub(crate) fn push(&self, bytes: &[u8], windows: u64) -> io::Result<u64> {
        let size = bytes.len() as u64;
        let dropped = self.make_room(size);
        let entry = Entry {
            number: self.lock().next,
            windows,
            bytes: size,
            aside_until: None,
        };
        let unfinished = self.folder.join(UNFINISHED);
        let mut file = private().create(true).truncate(true).open(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, self.folder.join(entry.name()))?;
        File::open(&self.folder)?.sync_all()?;
        let mut waiting = self.lock();
        waiting.next += 1;
        waiting.bytes += size;
        waiting.files.push_back(entry);
        self.arrived.notify_all();
        Ok(dropped)
    }

    /// Removes the oldest until there is room for so many bytes.
    fn make_room(&self, bytes: u64) -> u64 {
        let mut dropped = 0;
        loop {
            let oldest = {
                let waiting = self.lock();
                let is_full = waiting.bytes + bytes > self.max_bytes;
                waiting.files.front().copied().filter(|_| is_full)
            };
            let Some(oldest) = oldest else { return dropped };
            self.remove(oldest);
            dropped += oldest.windows;
        }
    }

    /// The oldest file that is not set aside, and what it holds, if there is any that can be read.
    pub(crate) fn oldest(&self) -> Option<(Entry, Vec<u8>)> {
        loop {
            let now = Instant::now();
            let entry = *self.lock().files.iter().find(|entry| entry.is_due(now))?;
            let mut bytes = Vec::new();
            let read = File::open(self.folder.join(entry.name()))
                .and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
            match read {
                Ok(_) => return Some((entry, bytes)),
                // Somebody tidied up.
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.remove(entry),
                Err(_) => return None,
            }
        }
    }

    /// Removes a file that a receiver has, or that it has refused.
    pub(crate) fn remove(&self, entry: Entry) {
        // Sent again after a crash, it changes nothing: the folder need not be synced.
        let _ = fs::remove_file(self.folder.join(entry.name()));
        let mut waiting = self.lock();
        let before = waiting.files.len();
        waiting.files.retain(|other| other.number != entry.number);
        if waiting.files.len() < before {
            waiting.bytes -= entry.bytes;
        }
    }

    /// Lets the others go before a file for so long. Whether any was set aside before.
    pub(crate) fn set_aside(&self, entry: Entry, wait: Duration) -> bool {
        let mut waiting = self.lock();
        let was_any = waiting.files.iter().any(|it| it.aside_until.is_some());
        let mut files = waiting.files.iter_mut();
        if let Some(file) = files.find(|other| other.number == entry.number) {
            file.aside_until = Some(Instant::now() + wait);
        }
        was_any
    }

    /// Waits until something arrives, at most so long.
    pub(crate) fn wait(&self, timeout: Duration) {
        let waiting = self.lock();
        let now = Instant::now();
        if !waiting.files.iter().any(|entry| entry.is_due(now)) {
            drop(self.arrived.wait_timeout(waiting, timeout));
        }
    }

    /// How much waits.
    pub(crate) fn backlog(&self) -> Backlog {
        let waiting = self.lock();
        Backlog {
            windows: waiting.files.iter().map(|entry| entry.windows).sum(),
            bytes: waiting.bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(spool: &Spool) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| {
            let (entry, bytes) = spool.oldest()?;
            spool.remove(entry);
            Some(bytes)
        })
        .collect()
    }

    #[test]
    fn what_waits_is_there_after_a_restart_in_its_order() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), 1000).unwrap();
        for text in ["one", "two", "three"] {
            assert_eq!(spool.push(text.as_bytes(), 2).unwrap(), 0);
        }
        assert!(Spool::open(folder.path(), 1000).is_err(), "it is locked");
        drop(spool);
        // What a kill in the middle of a write leaves behind.
        fs::write(folder.path().join(UNFINISHED), "hal").unwrap();
        let spool = Spool::open(folder.path(), 1000).unwrap();
        let backlog = spool.backlog();
        assert_eq!((backlog.windows, backlog.bytes), (6, 11));
        spool.push(b"four", 1).unwrap();
        let expected = ["one", "two", "three", "four"].map(|it| it.as_bytes().to_vec());
        assert_eq!(contents(&spool), expected);
        assert_eq!(spool.backlog(), Backlog::default());
    }

    #[test]
    fn the_oldest_make_room_and_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), 10).unwrap();
        assert_eq!(spool.push(b"aaaa", 3).unwrap(), 0);
        let (sending, _) = spool.oldest().unwrap();
        assert_eq!(spool.push(b"bbbb", 1).unwrap(), 0);
        assert_eq!(spool.push(b"cccc", 1).unwrap(), 3);
        // It was on its way meanwhile.
        spool.remove(sending);
        assert_eq!(spool.backlog().bytes, 8);
        assert_eq!(contents(&spool), [b"bbbb".to_vec(), b"cccc".to_vec()]);
    }

    #[test]
    fn a_disk_that_takes_nothing_leaves_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), 1000).unwrap();
        spool.push(b"one", 1).unwrap();
        fs::create_dir(folder.path().join(UNFINISHED)).unwrap();
        assert!(spool.push(b"two", 1).is_err());
        fs::remove_dir(folder.path().join(UNFINISHED)).unwrap();
        spool.push(b"three", 1).unwrap();
        assert_eq!(contents(&spool), [b"one".to_vec(), b"three".to_vec()]);
    }
}
