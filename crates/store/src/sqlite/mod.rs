//! The embedded engine: one SQLite file.
//!
//! Windows are appended as rows (`recent`); when their hour is over, `compact` makes one block per series of it (`hour`)
//! and one per version (`rollup`). A row per window and stack would take twenty times the bytes. Names are stored once by
//! the hash of their content, whichever process they come from.
//!
//! WAL with `synchronous=FULL`: readers see one moment and never wait, and what was appended survives a power cut.

mod append;
mod compact;
mod read;
mod remove;
mod schema;
mod spans;
mod stacks;
mod sums;
mod sweep;

use std::ops::Range;
use std::path::{Path, PathBuf};

use nodespy_model::{Labels, ThreadRole};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use self::append::Present;
use crate::engine::{Appended, Detail, Store};
use crate::error::StoreError;
use crate::selection::{Merged, NameBudget, Selection, SeriesSpan, StackId, TimeSeriesSet};
use crate::symbols::{StackHash, Symbols};
use crate::window::{Batch, HOUR_SECONDS, UnixSeconds};

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading and writing; the file is made if it is missing.
    Write,
    /// Reading only.
    Read,
}

/// A store in a single file.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    path: PathBuf,
    mode: OpenMode,
    cache: append::Cache,
}

impl SqliteStore {
    /// Opens a store. Processes may read while one writes; a second writer waits for the first one's transactions.
    pub fn open(path: &Path, mode: OpenMode) -> Result<Self, StoreError> {
        let connection = match mode {
            OpenMode::Write => schema::create_or_open(path),
            OpenMode::Read => schema::open_for_reading(path),
        };
        let connection = connection.map_err(|error| match error {
            StoreError::Sqlite(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) =>
            {
                StoreError::NotAStore(path.to_owned())
            }
            error => error,
        })?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            mode,
            cache: append::Cache::default(),
        })
    }

    /// Whether every page and index of the file is as it should be; reads all of it.
    pub fn check(&self) -> Result<(), StoreError> {
        let answer: String = self
            .connection
            .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        match answer.as_str() {
            "ok" => Ok(()),
            _ => Err(StoreError::Damaged("SQLite's integrity check")),
        }
    }

    fn writable(&self) -> Result<(), StoreError> {
        match self.mode {
            OpenMode::Write => Ok(()),
            OpenMode::Read => Err(StoreError::ReadOnly),
        }
    }

    fn write(&mut self, batch: &Batch, present: Present) -> Result<Appended, StoreError> {
        self.writable()?;
        batch.check()?;
        let appended = append::append(&mut self.connection, &mut self.cache, batch, present);
        if appended.is_err() {
            self.forget();
        }
        appended
    }

    /// Forgets what is known of the file: another process may have changed it, or a transaction was rolled back.
    fn forget(&mut self) {
        self.cache = append::Cache::default();
    }
}

impl Store for SqliteStore {
    fn unknown_stacks(&self, stacks: &[StackHash]) -> Result<Vec<StackHash>, StoreError> {
        stacks::unknown(&self.connection, stacks)
    }

    fn append(&mut self, batch: &Batch) -> Result<Appended, StoreError> {
        self.write(batch, Present::Stays)
    }

    fn add(&mut self, batch: &Batch) -> Result<Appended, StoreError> {
        self.write(batch, Present::Grows)
    }

    fn merge(&self, selection: &Selection, by: &[&str]) -> Result<Merged, StoreError> {
        read::merge(&self.connection, selection, by)
    }

    fn merge_roles(&self, selection: &Selection) -> Result<Vec<(ThreadRole, Merged)>, StoreError> {
        read::merge_roles(&self.connection, selection)
    }

    fn series(
        &self,
        selection: &Selection,
        step: u64,
        by: &[&str],
    ) -> Result<TimeSeriesSet, StoreError> {
        sums::series(&self.connection, selection, step, by)
    }

    fn each_series(
        &self,
        time: Range<UnixSeconds>,
        each: &mut dyn FnMut(SeriesSpan) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        spans::each(&self.connection, &time, each)
    }

    fn newest_hours(
        &self,
        before: UnixSeconds,
        max: usize,
    ) -> Result<Vec<UnixSeconds>, StoreError> {
        spans::newest_hours(&self.connection, before, max)
    }

    fn oldest(&self) -> Result<Option<UnixSeconds>, StoreError> {
        spans::oldest(&self.connection)
    }

    fn stacks_within(
        &self,
        stacks: &[StackId],
        budget: &mut NameBudget,
    ) -> Result<Symbols, StoreError> {
        let transaction = self.connection.unchecked_transaction()?;
        stacks::names(&transaction, stacks, budget)
    }

    fn compact(&mut self, time: UnixSeconds) -> Result<(), StoreError> {
        self.writable()?;
        self.forget();
        compact::compact(&mut self.connection, time)
    }

    fn drop_before(&mut self, detail: Detail, time: UnixSeconds) -> Result<(), StoreError> {
        self.writable()?;
        let cut = time.min(u64::from(u32::MAX)) / HOUR_SECONDS * HOUR_SECONDS;
        if detail != Detail::Rollups {
            self.compact(cut)?;
        }
        self.forget();
        remove::drop_before(&mut self.connection, detail, cut)
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        let size = |suffix: &str| {
            let mut name = self.path.clone().into_os_string();
            name.push(suffix);
            std::fs::metadata(name).map_or(0, |file| file.len())
        };
        Ok(size("") + size("-wal"))
    }
}

/// The key that says before which hour a detail was dropped.
fn dropped_key(detail: Detail) -> &'static str {
    match detail {
        Detail::Windows => "windows_dropped_before",
        Detail::Hours => "hours_dropped_before",
        Detail::Rollups => "rollups_dropped_before",
    }
}

/// Before which hour a detail was dropped; 0 if it never was.
fn dropped_before(connection: &Connection, detail: Detail) -> Result<UnixSeconds, StoreError> {
    let value = noted(connection, dropped_key(detail))?;
    Ok(u64::try_from(value.unwrap_or(0)).unwrap_or(0))
}

/// What the file says of itself.
fn noted(connection: &Connection, key: &str) -> Result<Option<i64>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

fn note(transaction: &Transaction<'_>, key: &str, value: i64) -> Result<(), StoreError> {
    transaction
        .prepare_cached("INSERT OR REPLACE INTO meta VALUES (?, ?)")?
        .execute(params![key, value])?;
    Ok(())
}

/// Labels as they are stored: lines of key, tab, value. Neither has control characters.
fn labels_text(labels: &Labels) -> String {
    labels
        .iter()
        .map(|(key, value)| format!("{key}\t{value}\n"))
        .collect()
}

fn labels_of(text: &str) -> Labels {
    let mut labels = Labels::default();
    for line in text.lines() {
        if let Some((key, value)) = line.split_once('\t') {
            labels.set(key, value);
        }
    }
    labels
}
