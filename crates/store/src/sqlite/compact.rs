//! Windows of hours that are over become one block per series, and one per version.

use std::collections::BTreeMap;

use nodespy_model::FastMap;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::dropped_before;
use crate::block::{self, Entry, Key};
use crate::engine::Detail;
use crate::error::StoreError;
use crate::window::{HOUR_SECONDS, UnixSeconds, WINDOW_SECONDS, WINDOWS_AN_HOUR};

const OUTSIDE: &str = "a window is outside of its hour";

/// What a rollup is of: a version, and what one count of it weighs.
type RollupKey = (String, i64);

/// Windows of one series in an hour.
#[derive(Debug, Default)]
struct SeriesHour {
    entries: Vec<Entry>,
    first: i64,
    last: i64,
}

/// Compacts hours that ended before `time`, an hour of a scope at a time: writers wait for so long only.
pub(super) fn compact(connection: &mut Connection, time: UnixSeconds) -> Result<(), StoreError> {
    let scopes: Vec<i64> = connection
        .prepare("SELECT id FROM scope")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for scope in scopes {
        let mut previous = None;
        loop {
            let oldest: Option<i64> = connection
                .prepare_cached("SELECT min(start) FROM recent WHERE scope = ?")?
                .query_row([scope], |row| row.get(0))?;
            let Some(oldest) = oldest else {
                break;
            };
            let oldest = u64::try_from(oldest).map_err(|_| StoreError::Damaged(OUTSIDE))?;
            let hour = oldest / HOUR_SECONDS * HOUR_SECONDS;
            if hour + HOUR_SECONDS > time {
                break;
            }
            // What was compacted is deleted, or this would never end.
            if previous
                .replace(hour)
                .is_some_and(|previous| previous >= hour)
            {
                return Err(StoreError::Damaged("windows of an hour can't be deleted"));
            }
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            compact_hour(&transaction, scope, hour)?;
            transaction.commit()?;
        }
    }
    Ok(())
}

fn compact_hour(
    transaction: &Transaction<'_>,
    scope: i64,
    hour: UnixSeconds,
) -> Result<(), StoreError> {
    let (start, end) = (hour as i64, (hour + HOUR_SECONDS) as i64);
    // Of hours whose times have been dropped, late windows have none either.
    let has_times = hour >= dropped_before(transaction, Detail::Windows)?;
    let mut rollups: FastMap<RollupKey, FastMap<Key, u64>> = FastMap::default();
    for (series, mut windows) in windows_of(transaction, scope, start, end)? {
        let sql = "UPDATE series SET first = min(first, ?), last = max(last, ?) WHERE id = ?";
        transaction
            .prepare_cached(sql)?
            .execute(params![windows.first, windows.last, series])?;
        if windows.entries.is_empty() {
            continue;
        }
        let rollup: RollupKey = transaction
            .prepare_cached("SELECT version, period FROM series WHERE id = ?")?
            .query_row([series], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let sums = rollups.entry(rollup).or_default();
        for (key, _, count) in &windows.entries {
            let sum = sums.entry(*key).or_default();
            *sum = sum.saturating_add(*count);
        }
        let block = block::encode_hour(&mut windows.entries)?;
        // Late windows make another block of the same hour.
        let sql = "INSERT INTO hour VALUES (?1, ?2, ?3, (SELECT ifnull(max(seq), 0) + 1 FROM hour
            WHERE scope = ?1 AND hour = ?2 AND series = ?3), ?4, ?5, ?6, ?7)";
        transaction.prepare_cached(sql)?.execute(params![
            scope,
            start,
            series,
            i64::try_from(block.total).unwrap_or(i64::MAX),
            block.counts,
            block.sums,
            has_times.then_some(block.times),
        ])?;
    }
    for (rollup, sums) in rollups {
        add_rollup(transaction, scope, start, &rollup, sums)?;
    }
    transaction
        .prepare_cached("DELETE FROM recent WHERE scope = ? AND start >= ? AND start < ?")?
        .execute([scope, start, end])?;
    Ok(())
}

fn windows_of(
    transaction: &Transaction<'_>,
    scope: i64,
    start: i64,
    end: i64,
) -> Result<BTreeMap<i64, SeriesHour>, StoreError> {
    let sql = "SELECT series, start, block FROM recent WHERE scope = ? AND start >= ? AND start < ?
        ORDER BY start";
    let mut statement = transaction.prepare_cached(sql)?;
    let mut rows = statement.query([scope, start, end])?;
    let mut hours: BTreeMap<i64, SeriesHour> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let window_start: i64 = row.get(1)?;
        let hour = hours.entry(row.get(0)?).or_insert_with(|| SeriesHour {
            first: window_start,
            ..SeriesHour::default()
        });
        hour.last = window_start;
        let window = window_start.saturating_sub(start) / WINDOW_SECONDS as i64;
        let window = u16::try_from(window)
            .ok()
            .filter(|window| u64::from(*window) < WINDOWS_AN_HOUR)
            .ok_or(StoreError::Damaged(OUTSIDE))?;
        block::decode_window(row.get_ref(2)?.as_blob()?, |key, count| {
            hour.entries.push((key, window, count));
        })?;
    }
    Ok(hours)
}

fn add_rollup(
    transaction: &Transaction<'_>,
    scope: i64,
    hour: i64,
    (version, period): &RollupKey,
    mut sums: FastMap<Key, u64>,
) -> Result<(), StoreError> {
    let sql = "SELECT sums FROM rollup WHERE scope = ? AND hour = ? AND version = ? AND period = ?";
    let known: Option<Vec<u8>> = transaction
        .prepare_cached(sql)?
        .query_row(params![scope, hour, version, period], |row| row.get(0))
        .optional()?;
    if let Some(known) = known {
        block::decode_sums(&known, |key, count| {
            let sum = sums.entry(key).or_default();
            *sum = sum.saturating_add(count);
        })?;
    }
    let mut sums: Vec<(Key, u64)> = sums.into_iter().collect();
    sums.sort_unstable();
    let total = sums
        .iter()
        .fold(0_u64, |total, (_, sum)| total.saturating_add(*sum));
    let sql = "INSERT OR REPLACE INTO rollup VALUES (?, ?, ?, ?, ?, ?)";
    transaction.prepare_cached(sql)?.execute(params![
        scope,
        hour,
        version,
        period,
        i64::try_from(total).unwrap_or(i64::MAX),
        block::encode_sums(&sums)?,
    ])?;
    Ok(())
}
