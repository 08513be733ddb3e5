//! What a store remembers of itself: what was dropped and compacted until when, and how long what is kept.

use std::time::{SystemTime, UNIX_EPOCH};

use nodespy_model::FastMap;

use super::client::Connection;
use super::rows::{RowReader, Rows};
use crate::engine::Detail;
use crate::error::StoreError;
use crate::retention::Retention;
use crate::window::{HOUR_SECONDS, UnixSeconds};

/// The format of the tables.
pub(super) const FORMAT: u64 = 1;

/// A mark; all but those of retention only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mark {
    Format,
    /// Before which hour a detail was dropped.
    Dropped(Detail),
    /// How many seconds a detail is kept.
    Kept(Detail),
    /// Windows of hours before this one have to be noted as late.
    Closed,
    /// Hours before this one have been made, but for those that are late.
    Compacted,
}

impl Mark {
    fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Dropped(Detail::Windows) => "windows_dropped_before",
            Self::Dropped(Detail::Hours) => "hours_dropped_before",
            Self::Dropped(Detail::Rollups) => "rollups_dropped_before",
            Self::Kept(Detail::Windows) => "keep_windows",
            Self::Kept(Detail::Hours) => "keep_hours",
            Self::Kept(Detail::Rollups) => "keep_rollups",
            Self::Closed => "closed_before",
            Self::Compacted => "compacted_before",
        }
    }
}

/// All marks at one moment.
#[derive(Debug, Default)]
pub(super) struct Marks {
    values: FastMap<String, u64>,
    /// The time of that moment by ClickHouse's clock, by which its tables expire.
    now: UnixSeconds,
}

/// Where ClickHouse's clock stands among the marks; none is called so.
const NOW: &str = "now";

impl Marks {
    pub(super) fn read(connection: &Connection) -> Result<Self, StoreError> {
        let reply = connection.ask(format!(
            "SELECT name, argMax(value, version) FROM marks GROUP BY name
            UNION ALL SELECT '{NOW}', toUInt64(toUnixTimestamp(now()))"
        ))?;
        let mut rows = RowReader::new(&reply);
        let mut marks = Self::default();
        while rows.has_more() {
            let name = rows.text()?;
            let value = rows.u64()?;
            match &*name {
                NOW => marks.now = value,
                _ => _ = marks.values.insert(name, value),
            }
        }
        Ok(marks)
    }

    pub(super) fn get(&self, mark: Mark) -> Option<u64> {
        self.values.get(mark.name()).copied()
    }

    pub(super) fn time(&self, mark: Mark) -> UnixSeconds {
        self.get(mark).unwrap_or(0)
    }

    /// How long what is kept; ClickHouse has disks of its own, and no limit here.
    pub(super) fn retention(&self) -> Retention {
        let kept = |detail| self.get(Mark::Kept(detail)).unwrap_or(u64::MAX);
        Retention {
            windows: kept(Detail::Windows),
            hours: kept(Detail::Hours),
            rollups: kept(Detail::Rollups),
            max_bytes: u64::MAX,
        }
    }

    /// The first hour of which a detail is left: what was dropped is gone, and what is too old may be, whenever ClickHouse
    /// gets to it by its own clock.
    pub(super) fn first(&self, detail: Detail) -> UnixSeconds {
        let coarser = match detail {
            Detail::Windows => &[Detail::Windows, Detail::Hours, Detail::Rollups][..],
            Detail::Hours => &[Detail::Hours, Detail::Rollups],
            Detail::Rollups => &[Detail::Rollups],
        };
        let first = |detail: &Detail| {
            let kept = self.get(Mark::Kept(*detail)).unwrap_or(u64::MAX);
            let expired = self.now.saturating_sub(kept).next_multiple_of(HOUR_SECONDS);
            self.time(Mark::Dropped(*detail)).max(expired)
        };
        coarser.iter().map(first).max().unwrap_or(0)
    }

    /// Moves marks on; those that are further already stay.
    pub(super) fn advance(
        &self,
        connection: &Connection,
        marks: &[Mark],
        to: UnixSeconds,
    ) -> Result<(), StoreError> {
        let mut rows = Rows::default();
        for mark in marks.iter().filter(|mark| self.time(**mark) < to) {
            // The largest wins, whoever comes last.
            rows.text(mark.name()).u64(to).u64(to);
        }
        connection.insert("marks (name, value, version)", &rows)
    }
}

/// Notes the format, and how long what is kept from now on.
pub(super) fn note_retention(
    connection: &Connection,
    retention: &Retention,
) -> Result<(), StoreError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let version = now.map_or(0, |now| now.as_micros() as u64);
    let mut rows = Rows::default();
    for (mark, value) in [
        (Mark::Format, FORMAT),
        (Mark::Kept(Detail::Windows), retention.windows),
        (Mark::Kept(Detail::Hours), retention.hours),
        (Mark::Kept(Detail::Rollups), retention.rollups),
    ] {
        rows.text(mark.name()).u64(value).u64(version);
    }
    connection.insert("marks (name, value, version)", &rows)
}
