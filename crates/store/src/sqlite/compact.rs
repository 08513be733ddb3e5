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

/// How many counts of a series are put into one block: a few more than that take 25 MiB while it is made.
const MAX_ENTRIES: usize = 1 << 20;
/// How many stacks and roles are summed up before they are written, and how many the hour of a version keeps at most.
pub(super) const MAX_KEYS: usize = 1 << 21;

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
    let mut compacting = Compacting {
        transaction,
        scope,
        hour: start,
        // Of hours whose times have been dropped, late windows have none either.
        has_times: hour >= dropped_before(transaction, Detail::Windows)?,
        rollups: Rollups::default(),
    };
    for (series, windows) in windows_of(transaction, scope, start, end)? {
        compacting.series(series, &windows)?;
    }
    compacting.add_rollups()?;
    transaction
        .prepare_cached("DELETE FROM recent WHERE scope = ? AND start >= ? AND start < ?")?
        .execute([scope, start, end])?;
    Ok(())
}

/// Of each series the windows that it has in an hour, in their order. What they count is not held: a sender can fill gigabytes of an
/// hour.
fn windows_of(
    transaction: &Transaction<'_>,
    scope: i64,
    start: i64,
    end: i64,
) -> Result<BTreeMap<i64, Vec<u16>>, StoreError> {
    let sql = "SELECT series, start FROM recent WHERE scope = ? AND start >= ? AND start < ?
        ORDER BY start";
    let mut statement = transaction.prepare_cached(sql)?;
    let mut rows = statement.query([scope, start, end])?;
    let mut windows: BTreeMap<i64, Vec<u16>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let after = row.get::<_, i64>(1)?.saturating_sub(start);
        let window = u16::try_from(after / WINDOW_SECONDS as i64)
            .ok()
            .filter(|window| u64::from(*window) < WINDOWS_AN_HOUR)
            .filter(|_| after % WINDOW_SECONDS as i64 == 0)
            .ok_or(StoreError::Damaged(OUTSIDE))?;
        windows.entry(row.get(0)?).or_default().push(window);
    }
    Ok(windows)
}

/// An hour of a scope on its way into blocks.
struct Compacting<'a> {
    transaction: &'a Transaction<'a>,
    scope: i64,
    hour: i64,
    has_times: bool,
    rollups: Rollups,
}

impl Compacting<'_> {
    /// Makes blocks of the windows of a series: one, unless they have very many counts.
    fn series(&mut self, series: i64, windows: &[u16]) -> Result<(), StoreError> {
        let (Some(first), Some(last)) = (windows.first(), windows.last()) else {
            return Ok(());
        };
        let sql = "UPDATE series SET first = min(first, ?), last = max(last, ?) WHERE id = ?
            RETURNING version, period";
        let rollup: RollupKey = self.transaction.prepare_cached(sql)?.query_row(
            params![self.start_of(*first), self.start_of(*last), series],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let mut entries: Vec<Entry> = Vec::new();
        let sql = "SELECT block FROM recent WHERE scope = ? AND start = ? AND series = ?";
        let mut statement = self.transaction.prepare_cached(sql)?;
        for window in windows {
            let mut rows = statement.query([self.scope, self.start_of(*window), series])?;
            let Some(row) = rows.next()? else {
                continue;
            };
            block::decode_window(row.get_ref(0)?.as_blob()?, |key, count| {
                entries.push((key, *window, count));
            })?;
            if entries.len() >= MAX_ENTRIES {
                self.add_block(series, &rollup, &mut entries)?;
            }
        }
        self.add_block(series, &rollup, &mut entries)
    }

    fn start_of(&self, window: u16) -> i64 {
        self.hour + i64::from(window) * WINDOW_SECONDS as i64
    }

    /// Writes a block and empties the entries that it is made of.
    fn add_block(
        &mut self,
        series: i64,
        rollup: &RollupKey,
        entries: &mut Vec<Entry>,
    ) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.rollups.add(rollup, entries);
        let block = block::encode_hour(entries)?;
        entries.clear();
        // Late windows make another block of the same hour.
        let sql = "INSERT INTO hour VALUES (?1, ?2, ?3, (SELECT ifnull(max(seq), 0) + 1 FROM hour
            WHERE scope = ?1 AND hour = ?2 AND series = ?3), ?4, ?5, ?6, ?7)";
        self.transaction.prepare_cached(sql)?.execute(params![
            self.scope,
            self.hour,
            series,
            i64::try_from(block.total).unwrap_or(i64::MAX),
            block.counts,
            block.sums,
            self.has_times.then_some(block.times),
        ])?;
        match self.rollups.keys > MAX_KEYS {
            true => self.add_rollups(),
            false => Ok(()),
        }
    }

    /// Writes what was summed up, and forgets it.
    fn add_rollups(&mut self) -> Result<(), StoreError> {
        for (rollup, sums) in std::mem::take(&mut self.rollups).sums {
            add_rollup(self.transaction, self.scope, self.hour, &rollup, sums)?;
        }
        Ok(())
    }
}

/// Sums of versions that are not written yet.
#[derive(Debug, Default)]
struct Rollups {
    sums: FastMap<RollupKey, FastMap<Key, u64>>,
    /// How many keys they have, all together.
    keys: usize,
}

impl Rollups {
    fn add(&mut self, rollup: &RollupKey, entries: &[Entry]) {
        let sums = self.sums.entry(rollup.clone()).or_default();
        let known = sums.len();
        for (key, _, count) in entries {
            let sum = sums.entry(*key).or_default();
            *sum = sum.saturating_add(*count);
        }
        self.keys += sums.len() - known;
    }
}

/// Adds to the sums of a version. Of more stacks than anything honest has, the heaviest are kept; all count for its weight over time.
fn add_rollup(
    transaction: &Transaction<'_>,
    scope: i64,
    hour: i64,
    (version, period): &RollupKey,
    mut sums: FastMap<Key, u64>,
) -> Result<(), StoreError> {
    let mut total = sums
        .values()
        .fold(0, |total: u64, sum| total.saturating_add(*sum));
    let sql =
        "SELECT n, sums FROM rollup WHERE scope = ? AND hour = ? AND version = ? AND period = ?";
    let known: Option<(i64, Vec<u8>)> = transaction
        .prepare_cached(sql)?
        .query_row(params![scope, hour, version, period], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    if let Some((known_total, known)) = known {
        total = total.saturating_add(u64::try_from(known_total).unwrap_or(0));
        block::decode_sums(&known, |key, count| {
            let sum = sums.entry(key).or_default();
            *sum = sum.saturating_add(count);
        })?;
    }
    let sums = heaviest(sums.into_iter().collect(), MAX_KEYS);
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

/// So many of the heaviest, by key.
fn heaviest(mut sums: Vec<(Key, u64)>, max: usize) -> Vec<(Key, u64)> {
    if sums.len() > max {
        sums.select_nth_unstable_by_key(max, |(key, sum)| (std::cmp::Reverse(*sum), *key));
        sums.truncate(max);
    }
    sums.sort_unstable();
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_sums_the_heaviest_stay() {
        let sums = [(1, 5), (2, 1), (3, 7), (4, 1), (5, 6)].map(|(key, sum)| (Key(key), sum));
        let kept = |max| heaviest(sums.to_vec(), max);
        assert_eq!(kept(5), sums);
        assert_eq!(kept(3), [sums[0], sums[2], sums[4]]);
        assert_eq!(kept(4), [sums[0], sums[1], sums[2], sums[4]]);
    }
}
