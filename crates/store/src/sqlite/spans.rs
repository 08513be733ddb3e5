//! Which series there are, with their labels.

use std::collections::BTreeSet;
use std::ops::Range;

use nodespy_model::{FastMap, Labels, label_key};
use rusqlite::{Connection, params};

use super::{dropped_before, labels_of};
use crate::engine::Detail;
use crate::error::StoreError;
use crate::selection::{SeriesSpan, hour_of};
use crate::window::{HOUR_SECONDS, UnixSeconds, WINDOW_SECONDS, unit_of};

/// What takes the series.
type Each<'a> = dyn FnMut(SeriesSpan) -> Result<(), StoreError> + 'a;

pub(super) fn each(
    connection: &Connection,
    time: &Range<UnixSeconds>,
    each: &mut Each<'_>,
) -> Result<(), StoreError> {
    let transaction = connection.unchecked_transaction()?;
    let recent = recent_spans(&transaction)?;
    let sql = "SELECT series.id, service, event, unit, period, labels, first, last
        FROM series JOIN scope ON scope.id = series.scope";
    let mut statement = transaction.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (mut first, mut last): (i64, i64) = (row.get(6)?, row.get(7)?);
        if let Some((recent_first, recent_last)) = recent.get(&row.get(0)?) {
            first = first.min(*recent_first);
            last = last.max(*recent_last);
        }
        let (first, last) = (
            u64::try_from(first).unwrap_or(0),
            u64::try_from(last).unwrap_or(0),
        );
        // Before its labels are read: most series of a store are of other times.
        if !is_in(time, first, last) {
            continue;
        }
        each(SeriesSpan {
            service: row.get(1)?,
            event: row.get(2)?,
            unit: unit_of(row.get(3)?)?,
            period: u64::try_from(row.get::<_, i64>(4)?).unwrap_or(1),
            labels: labels_of(row.get_ref(5)?.as_str()?),
            first,
            last,
        })?;
    }
    rolled_up(&transaction, time, each)
}

fn is_in(time: &Range<UnixSeconds>, first: UnixSeconds, last: UnixSeconds) -> bool {
    first < time.end && last + WINDOW_SECONDS > time.start
}

/// When the oldest series or rollup begins; not before what was dropped.
pub(super) fn oldest(connection: &Connection) -> Result<Option<UnixSeconds>, StoreError> {
    let transaction = connection.unchecked_transaction()?;
    let mut oldest: Option<i64> = None;
    // `first` of a series does not know of windows that came later and are not compacted.
    for sql in [
        "SELECT min(first) FROM series",
        "SELECT min(start) FROM recent",
        "SELECT min(hour) FROM rollup",
    ] {
        let found: Option<i64> = transaction.query_row(sql, [], |row| row.get(0))?;
        oldest = [oldest, found].into_iter().flatten().min();
    }
    let dropped = dropped_before(&transaction, Detail::Rollups)?;
    Ok(oldest.map(|oldest| u64::try_from(oldest).unwrap_or(0).max(dropped)))
}

/// The latest hours of windows and rollups. Each is found by the keys of its table: their number does not matter.
pub(super) fn newest_hours(
    connection: &Connection,
    before: UnixSeconds,
    max: usize,
) -> Result<Vec<UnixSeconds>, StoreError> {
    let transaction = connection.unchecked_transaction()?;
    let scopes: Vec<i64> = transaction
        .prepare_cached("SELECT id FROM scope")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut hours = BTreeSet::new();
    for sql in [
        "SELECT max(start) FROM recent WHERE scope = ? AND start < ?",
        "SELECT max(hour) FROM rollup WHERE scope = ? AND hour < ?",
    ] {
        let mut statement = transaction.prepare_cached(sql)?;
        for scope in &scopes {
            let mut end = i64::try_from(before).unwrap_or(i64::MAX);
            for _ in 0..max {
                let found: Option<i64> = statement.query_row([*scope, end], |row| row.get(0))?;
                let Some(start) = found.and_then(|start| u64::try_from(start).ok()) else {
                    break;
                };
                hours.insert(hour_of(start));
                end = hour_of(start) as i64;
            }
        }
    }
    Ok(hours.into_iter().rev().take(max).collect())
}

/// First and last window of the series that have some which are not compacted.
fn recent_spans(connection: &Connection) -> Result<FastMap<i64, (i64, i64)>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT series, min(start), max(start) FROM recent GROUP BY series")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Versions of which nothing but rollups is left.
fn rolled_up(
    connection: &Connection,
    time: &Range<UnixSeconds>,
    each: &mut Each<'_>,
) -> Result<(), StoreError> {
    let before = dropped_before(connection, Detail::Hours)?;
    let sql = "SELECT service, event, unit, period, version, min(hour), max(hour)
        FROM rollup JOIN scope ON scope.id = rollup.scope WHERE hour < ? GROUP BY scope.id, version, period";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![before as i64])?;
    while let Some(row) = rows.next()? {
        let mut labels = Labels::default();
        labels.set(label_key::VERSION, row.get::<_, String>(4)?);
        let seconds = |value: i64| u64::try_from(value).unwrap_or(0);
        let span = SeriesSpan {
            service: row.get(0)?,
            event: row.get(1)?,
            unit: unit_of(row.get(2)?)?,
            period: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(1),
            labels,
            first: seconds(row.get(5)?),
            last: seconds(row.get(6)?) + HOUR_SECONDS - WINDOW_SECONDS,
        };
        if is_in(time, span.first, span.last) {
            each(span)?;
        }
    }
    Ok(())
}
