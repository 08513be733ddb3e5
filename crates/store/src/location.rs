//! Where a store is, whichever engine it has.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use nodespy_model::ThreadRole;

use crate::clickhouse::{ClickHouseOptions, ClickHouseStore};
use crate::engine::{Appended, Detail, Store};
use crate::error::StoreError;
use crate::selection::{Merged, NameBudget, Selection, SeriesSpan, StackId, TimeSeriesSet};
use crate::sqlite::{OpenMode, SqliteStore};
use crate::symbols::{StackHash, Symbols};
use crate::window::{Batch, UnixSeconds};

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreLocation {
    /// A file of SQLite.
    File(PathBuf),
    /// A database of ClickHouse.
    ClickHouse(ClickHouseOptions),
}

impl From<&Path> for StoreLocation {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

impl From<&PathBuf> for StoreLocation {
    fn from(path: &PathBuf) -> Self {
        Self::File(path.clone())
    }
}

impl From<&Self> for StoreLocation {
    fn from(location: &Self) -> Self {
        location.clone()
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::ClickHouse(options) => write!(formatter, "{options}"),
        }
    }
}

/// A store that is open.
#[derive(Debug)]
pub enum OpenStore {
    /// A file of SQLite.
    Sqlite(Box<SqliteStore>),
    /// A database of ClickHouse.
    ClickHouse(Box<ClickHouseStore>),
}

impl OpenStore {
    /// Opens a store. A file is made if it is missing and to be written; tables of ClickHouse have to be there.
    pub fn open(location: &StoreLocation, mode: OpenMode) -> Result<Self, StoreError> {
        Ok(match location {
            StoreLocation::File(path) => Self::Sqlite(Box::new(SqliteStore::open(path, mode)?)),
            StoreLocation::ClickHouse(options) => {
                Self::ClickHouse(Box::new(ClickHouseStore::open(options)?))
            }
        })
    }

    fn engine(&self) -> &dyn Store {
        match self {
            Self::Sqlite(store) => &**store,
            Self::ClickHouse(store) => &**store,
        }
    }

    fn engine_mut(&mut self) -> &mut dyn Store {
        match self {
            Self::Sqlite(store) => &mut **store,
            Self::ClickHouse(store) => &mut **store,
        }
    }
}

impl Store for OpenStore {
    fn unknown_stacks(&self, stacks: &[StackHash]) -> Result<Vec<StackHash>, StoreError> {
        self.engine().unknown_stacks(stacks)
    }

    fn append(&mut self, batch: &Batch) -> Result<Appended, StoreError> {
        self.engine_mut().append(batch)
    }

    fn add(&mut self, batch: &Batch) -> Result<Appended, StoreError> {
        self.engine_mut().add(batch)
    }

    fn merge(&self, selection: &Selection, by: &[&str]) -> Result<Merged, StoreError> {
        self.engine().merge(selection, by)
    }

    fn merge_roles(&self, selection: &Selection) -> Result<Vec<(ThreadRole, Merged)>, StoreError> {
        self.engine().merge_roles(selection)
    }

    fn series(
        &self,
        selection: &Selection,
        step: u64,
        by: &[&str],
    ) -> Result<TimeSeriesSet, StoreError> {
        self.engine().series(selection, step, by)
    }

    fn each_series(
        &self,
        time: Range<UnixSeconds>,
        each: &mut dyn FnMut(SeriesSpan) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.engine().each_series(time, each)
    }

    fn newest_hours(
        &self,
        before: UnixSeconds,
        max: usize,
    ) -> Result<Vec<UnixSeconds>, StoreError> {
        self.engine().newest_hours(before, max)
    }

    fn oldest(&self) -> Result<Option<UnixSeconds>, StoreError> {
        self.engine().oldest()
    }

    fn stacks_within(
        &self,
        stacks: &[StackId],
        budget: &mut NameBudget,
    ) -> Result<Symbols, StoreError> {
        self.engine().stacks_within(stacks, budget)
    }

    fn compact(&mut self, time: UnixSeconds) -> Result<(), StoreError> {
        self.engine_mut().compact(time)
    }

    fn drop_before(&mut self, detail: Detail, time: UnixSeconds) -> Result<(), StoreError> {
        self.engine_mut().drop_before(detail, time)
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        self.engine().bytes()
    }
}
