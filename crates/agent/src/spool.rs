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
/// After how long a file is tried again that could not be read.
pub(crate) const READ_AGAIN: Duration = Duration::from_secs(60);

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
    /// Windows that made room for a file which could not be written then.
    dropped: u64,
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
    /// Until when it is not read, after that went wrong.
    unreadable_until: Option<Instant>,
}

impl Entry {
    fn new(number: u64, windows: u64, bytes: u64) -> Self {
        Self {
            number,
            windows,
            bytes,
            aside_until: None,
            unreadable_until: None,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let untils = [self.aside_until, self.unreadable_until];
        untils.into_iter().flatten().all(|until| until <= now)
    }

    fn name(&self) -> String {
        format!("{:020}-{}{WHOLE}", self.number, self.windows)
    }

    fn of_name(name: &str, bytes: u64) -> Option<Self> {
        let (number, windows) = name.strip_suffix(WHOLE)?.split_once('-')?;
        let (number, windows) = (number.parse().ok()?, windows.parse().ok()?);
        Some(Self::new(number, windows, bytes))
    }
}

/// A file that could not be read.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) path: PathBuf,
    pub(crate) error: io::Error,
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
                dropped: 0,
            }),
            arrived: Condvar::new(),
            _lock: lock,
        })
    }

    /// Adds a file; when this returns, it survives a crash. Tells how many windows had to go for it, and for those that could
    /// not be written since the last one.
    pub(crate) fn push(&self, bytes: &[u8], windows: u64) -> io::Result<u64> {
        let size = bytes.len() as u64;
        self.make_room(size);
        let entry = Entry::new(self.lock().next, windows, size);
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
        Ok(std::mem::take(&mut waiting.dropped))
    }

    /// Removes the oldest until there is room for so many bytes.
    fn make_room(&self, bytes: u64) {
        loop {
            let oldest = {
                let waiting = self.lock();
                let is_full = waiting.bytes + bytes > self.max_bytes;
                waiting.files.front().copied().filter(|_| is_full)
            };
            let Some(oldest) = oldest else { return };
            self.remove(oldest);
            self.lock().dropped += oldest.windows;
        }
    }

    /// The oldest file that is not set aside, and what it holds, if there is any. One that can't be read is set aside, so that
    /// the next is tried next time.
    pub(crate) fn oldest(&self) -> Result<Option<(Entry, Vec<u8>)>, Unreadable> {
        loop {
            let now = Instant::now();
            let due = self.lock().files.iter().find(|it| it.is_due(now)).copied();
            let Some(entry) = due else { return Ok(None) };
            let mut bytes = Vec::new();
            let path = self.folder.join(entry.name());
            let read = File::open(&path)
                .and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
            match read {
                Ok(_) => return Ok(Some((entry, bytes))),
                // Somebody tidied up.
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.remove(entry),
                Err(error) => {
                    self.change(entry, |it| it.unreadable_until = Some(now + READ_AGAIN));
                    return Err(Unreadable { path, error });
                }
            }
        }
    }

    fn change(&self, entry: Entry, change: impl FnOnce(&mut Entry)) {
        let mut waiting = self.lock();
        let mut files = waiting.files.iter_mut();
        if let Some(file) = files.find(|other| other.number == entry.number) {
            change(file);
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
        let is_aside = |it: &Entry| it.aside_until.is_some();
        let was_any = self.lock().files.iter().any(is_aside);
        self.change(entry, |it| it.aside_until = Some(Instant::now() + wait));
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
pub(crate) mod tests {
    use super::*;
    use crate::test_receiver::LONG;

    /// The spool of a folder that was in use until now. A child that another test forks in this moment holds the lock until it
    /// runs its program.
    pub(crate) fn open_again(folder: &Path, max_bytes: u64) -> Spool {
        let until = Instant::now() + LONG;
        loop {
            match Spool::open(folder, max_bytes) {
                Ok(spool) => return spool,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn contents(spool: &Spool) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| {
            let (entry, bytes) = spool.oldest().unwrap()?;
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
        let spool = open_again(folder.path(), 1000);
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
        let (sending, _) = spool.oldest().unwrap().unwrap();
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

    #[test]
    fn what_made_room_is_counted_when_the_next_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), 10).unwrap();
        spool.push(b"aaaaaaaa", 3).unwrap();
        fs::create_dir(folder.path().join(UNFINISHED)).unwrap();
        assert!(spool.push(b"bbbb", 1).is_err());
        fs::remove_dir(folder.path().join(UNFINISHED)).unwrap();
        assert_eq!(spool.push(b"bbbb", 1).unwrap(), 3);
        assert_eq!(spool.push(b"cccc", 1).unwrap(), 0);
        assert_eq!(contents(&spool), [b"bbbb".to_vec(), b"cccc".to_vec()]);
    }

    /// A folder in place of a file, whose reading fails for root too.
    pub(crate) fn make_unreadable(folder: &Path, number: u64) {
        let path = folder.join(Entry::new(number, 1, 0).name());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
    }

    #[test]
    fn a_file_that_can_not_be_read_lets_the_others_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), 1000).unwrap();
        for text in ["one", "two"] {
            spool.push(text.as_bytes(), 1).unwrap();
        }
        make_unreadable(folder.path(), 0);
        let unreadable = spool.oldest().unwrap_err();
        assert!(unreadable.path.starts_with(folder.path()));
        assert_eq!(contents(&spool), [b"two".to_vec()]);
        // It still waits, and who waits for the next one sleeps meanwhile.
        assert_eq!(spool.backlog().windows, 1);
        let since = Instant::now();
        spool.wait(Duration::from_millis(50));
        assert!(since.elapsed() >= Duration::from_millis(50));
    }
}
