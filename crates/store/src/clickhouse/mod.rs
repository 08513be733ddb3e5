//! The engine for more than one machine: tables in ClickHouse, over its HTTP interface.
//!
//! The tables are in `clickhouse/0001-tables.sql`. A window is a row with arrays of stacks and counts; when its hour is over,
//! `compact` has ClickHouse make one row of it per series (`hours`) and per version (`rollups`). Rows are replaced by their key, so
//! that windows that are sent again, and hours that are made again, by whichever server, change nothing.
//!
//! There are no transactions: see `append` and `compact` for the order in which things are written. Answers are put together of a
//! few statements, each from one moment.

mod append;
mod client;
mod compact;
mod marks;
mod names;
mod plan;
mod read;
mod rows;
mod spans;
mod sums;
mod tables;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use self::append::Present;
use self::client::{Connection, Statement};
use self::names::KnownNames;
use self::rows::RowReader;
use crate::engine::{Appended, Detail, Store};
use crate::error::StoreError;
use crate::retention::Retention;
use crate::selection::{Merged, NameBudget, Selection, SeriesSpan, StackId, TimeSeriesSet};
use crate::symbols::{StackHash, Symbols};
use crate::window::{Batch, UnixSeconds};

pub use client::ClickHouseOptions;
pub use tables::ClickHouseTables;

/// Reads a reply as each kind of reply there is.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_any_rows(reply: &[u8]) {
    let _ = read::groups_of(reply);
    let _ = sums::series_of(reply, 60);
    let _ = names::frames_of(reply);
    let _ = spans::living_of(reply, &mut |_| Ok(()));
}

/// A store in ClickHouse. Several servers may write and read it.
#[derive(Debug)]
pub struct ClickHouseStore {
    connection: Connection,
    retention: Retention,
    /// Also filled by who only asks what is known.
    names: Mutex<KnownNames>,
    cache: append::Cache,
}

impl ClickHouseStore {
    /// A store whose tables are there.
    pub fn open(options: &ClickHouseOptions) -> Result<Self, StoreError> {
        let connection = Connection::new(options)?;
        let retention = tables::open(&connection)?.retention();
        Ok(Self {
            connection,
            retention,
            names: Mutex::default(),
            cache: append::Cache::default(),
        })
    }

    /// How long what is kept, as its tables were made.
    pub fn retention(&self) -> Retention {
        self.retention
    }

    fn write(&mut self, batch: &Batch, present: Present) -> Result<Appended, StoreError> {
        batch.check()?;
        let names = self.names.get_mut();
        let names = names.unwrap_or_else(PoisonError::into_inner);
        let appended = append::append(&self.connection, names, &mut self.cache, batch, present);
        if appended.is_err() {
            *names = KnownNames::default();
            self.cache = append::Cache::default();
        }
        appended
    }
}

impl Store for ClickHouseStore {
    fn unknown_stacks(&self, stacks: &[StackHash]) -> Result<Vec<StackHash>, StoreError> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.unknown(&self.connection, stacks, unix_seconds())
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
        names::names(&self.connection, stacks, budget)
    }

    fn compact(&mut self, time: UnixSeconds) -> Result<(), StoreError> {
        compact::compact(&self.connection, time)
    }

    fn drop_before(&mut self, detail: Detail, time: UnixSeconds) -> Result<(), StoreError> {
        compact::drop_before(&self.connection, detail, time)
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        let mut statement = Statement::default();
        let database = statement.text(self.connection.database());
        statement.sql = format!(
            "SELECT toUInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND database = {database}"
        );
        RowReader::new(&self.connection.run(&statement)?).u64()
    }
}

fn unix_seconds() -> UnixSeconds {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
