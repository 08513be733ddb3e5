//! Names that nothing counts any more are forgotten, about once a day of windows.
//!
//! What is counted is in every window and rollup, which takes long to read. So it is read as of one moment, while others write, and the
//! names that it does not need are deleted in short transactions. Whoever appends meanwhile notes the stacks that it counts in
//! `spared`: they are not deleted. Frames and functions are looked for in stacks and frames that were added since.

use std::collections::BTreeSet;

use nodespy_model::{FastMap, FastSet};
use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};

use super::compact::MAX_KEYS;
use super::{note, noted};
use crate::block::{self, Key, Numbers};
use crate::error::StoreError;
use crate::window::HOUR_SECONDS;

/// How far what is kept has to move on until names are looked for again.
const INTERVAL: i64 = 24 * HOUR_SECONDS as i64;
/// How many rows are deleted at a time: writers wait for so long only.
const ROWS: usize = 1000;

/// The key that says that something was removed which had counts.
const REMOVED: &str = "counts_removed";
/// The cut at which the last sweep began.
const SWEPT: &str = "names_swept_before";
/// How many sweeps have begun: only the last one goes on.
const BEGUN: &str = "sweeps_begun";
/// The last one that has ended.
const ENDED: &str = "sweeps_ended";

/// Notes that windows or rollups were removed: there may be names to sweep.
pub(super) fn note_removed(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    note(transaction, REMOVED, 1)
}

/// Whether a sweep goes on, or was interrupted.
pub(super) fn is_sweeping(connection: &Connection) -> Result<bool, StoreError> {
    Ok(noted(connection, BEGUN)? != noted(connection, ENDED)?)
}

/// Notes a stack that is counted while a sweep goes on, with those that it begins like.
pub(super) fn spare(transaction: &Transaction<'_>, stack: u32) -> Result<(), StoreError> {
    let sql = "INSERT OR IGNORE INTO spared WITH RECURSIVE chain(id) AS (SELECT ? UNION
        SELECT base FROM chain JOIN stack USING (id) WHERE base NOT NULL) SELECT id FROM chain";
    transaction.prepare_cached(sql)?.execute([stack])?;
    Ok(())
}

/// Deletes stacks that no window, hour or rollup counts, then frames and functions that no stack has, if counts were removed since
/// the last time and that is a day ago: `cut` is before when they were.
pub(super) fn sweep(connection: &mut Connection, cut: i64) -> Result<(), StoreError> {
    let Some(mut sweep) = Sweep::begin(connection, cut)? else {
        return Ok(());
    };
    let stacks = unused_stacks(sweep.connection, MAX_KEYS)?;
    if !stacks.is_empty() {
        if !sweep.delete_stacks(&stacks)? {
            return Ok(());
        }
        for kind in [&FRAMES, &FUNCTIONS] {
            let unused = Unused::find(sweep.connection, kind)?;
            if !sweep.delete_unused(kind, unused)? {
                return Ok(());
            }
        }
    }
    sweep.end()
}

/// A sweep that goes on, until another one begins.
struct Sweep<'a> {
    connection: &'a mut Connection,
    number: i64,
}

impl<'a> Sweep<'a> {
    /// None where there is nothing to sweep, or not yet.
    fn begin(connection: &'a mut Connection, cut: i64) -> Result<Option<Self>, StoreError> {
        let is_needed = noted(connection, REMOVED)?.is_some() || is_sweeping(connection)?;
        let last = noted(connection, SWEPT)?;
        if !is_needed || last.is_some_and(|last| cut < last.saturating_add(INTERVAL)) {
            return Ok(None);
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let number = noted(&transaction, BEGUN)?.unwrap_or(0) + 1;
        note(&transaction, BEGUN, number)?;
        note(&transaction, SWEPT, cut)?;
        transaction.execute("DELETE FROM meta WHERE key = ?", [REMOVED])?;
        transaction.execute_batch(
            "CREATE TABLE IF NOT EXISTS spared(id INTEGER PRIMARY KEY); DELETE FROM spared;",
        )?;
        transaction.commit()?;
        Ok(Some(Self { connection, number }))
    }

    /// A transaction to delete something in; none if another sweep has begun, which spares other stacks.
    fn transaction(&mut self) -> Result<Option<Transaction<'_>>, StoreError> {
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        let is_last = noted(&transaction, BEGUN)? == Some(self.number);
        Ok(is_last.then_some(transaction))
    }

    /// Deletes stacks but for those that were counted meanwhile, and returns whether the sweep goes on.
    fn delete_stacks(&mut self, stacks: &[UnusedStack]) -> Result<bool, StoreError> {
        for stacks in stacks.chunks(ROWS) {
            let Some(transaction) = self.transaction()? else {
                return Ok(false);
            };
            for stack in stacks {
                let sql = "DELETE FROM stack WHERE id = ?1
                    AND NOT EXISTS (SELECT 1 FROM spared WHERE spared.id = ?1)";
                if transaction.prepare_cached(sql)?.execute([stack.id])? > 0 {
                    let sql = "DELETE FROM stack_hash WHERE hash = ? AND id = ?";
                    let mut statement = transaction.prepare_cached(sql)?;
                    statement.execute(params![stack.hash, stack.id])?;
                }
            }
            transaction.commit()?;
        }
        Ok(true)
    }

    /// Deletes the names of a kind that nothing has any more, and returns whether the sweep goes on.
    fn delete_unused(&mut self, kind: &Kind, mut unused: Unused) -> Result<bool, StoreError> {
        while !unused.ids.is_empty() {
            let Some(transaction) = self.transaction()? else {
                return Ok(false);
            };
            unused.read_on(&transaction, kind)?;
            let ids: Vec<u32> = unused.ids.keys().take(ROWS).copied().collect();
            for id in ids {
                let hash = unused.ids.remove(&id).flatten();
                transaction.prepare_cached(kind.delete)?.execute([id])?;
                if let Some(hash) = hash {
                    let sql = "DELETE FROM function_hash WHERE hash = ? AND id = ?";
                    transaction
                        .prepare_cached(sql)?
                        .execute(params![hash, id])?;
                }
            }
            transaction.commit()?;
        }
        Ok(true)
    }

    fn end(mut self) -> Result<(), StoreError> {
        let number = self.number;
        if let Some(transaction) = self.transaction()? {
            note(&transaction, ENDED, number)?;
            transaction.execute("DELETE FROM spared", [])?;
            transaction.commit()?;
        }
        Ok(())
    }
}

/// A stack that nothing counts.
struct UnusedStack {
    id: u32,
    hash: Option<Vec<u8>>,
}

/// Stacks that no window, hour or rollup counts, the latest first: none is left without what it begins like. A rollup keeps so many
/// stacks and roles at most.
fn unused_stacks(connection: &Connection, max_keys: usize) -> Result<Vec<UnusedStack>, StoreError> {
    let transaction = connection.unchecked_transaction()?;
    let mut used: FastSet<u32> = FastSet::default();
    let mut mark = |key: Key| {
        used.insert(key.stack() as u32);
    };
    each_blob(&transaction, "SELECT block FROM recent", |bytes| {
        block::decode_window(bytes, |key, _| mark(key))
    })?;
    // Whatever hours count is in the rollup of the same hour, unless that had too many stacks for all of them.
    let mut statement = transaction.prepare("SELECT scope, hour, sums FROM rollup")?;
    let mut rows = statement.query([])?;
    let mut cut_hours: BTreeSet<[i64; 2]> = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let mut keys = 0;
        block::decode_sums(row.get_ref(2)?.as_blob()?, |key, _| {
            keys += 1;
            mark(key);
        })?;
        if keys >= max_keys {
            cut_hours.insert([row.get(0)?, row.get(1)?]);
        }
    }
    let mut statement =
        transaction.prepare("SELECT sums FROM hour WHERE scope = ? AND hour = ?")?;
    for hour in cut_hours {
        let mut rows = statement.query(hour)?;
        while let Some(row) = rows.next()? {
            block::decode_sums(row.get_ref(0)?.as_blob()?, |key, _| mark(key))?;
        }
    }
    let mut unused = Vec::new();
    let mut statement = transaction.prepare("SELECT id, base FROM stack ORDER BY id DESC")?;
    let mut rows = statement.query([])?;
    // A stack begins like an older one, which comes later here and has to stay with it.
    while let Some(row) = rows.next()? {
        let id: u32 = row.get(0)?;
        match used.contains(&id) {
            true => used.extend(row.get::<_, Option<u32>>(1)?),
            false => unused.push(UnusedStack { id, hash: None }),
        }
    }
    // By hash, as the table is ordered: one pass for all.
    let places = unused
        .iter()
        .zip(0..)
        .map(|(stack, place)| (stack.id, place));
    let places: FastMap<u32, usize> = places.collect();
    let mut statement = transaction.prepare("SELECT id, hash FROM stack_hash")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(place) = places.get(&row.get(0)?) {
            unused[*place].hash = Some(row.get(1)?);
        }
    }
    Ok(unused)
}

/// Frames or functions.
struct Kind {
    /// All of them: id and hash.
    all: &'static str,
    delete: &'static str,
    /// What has them, from an id on.
    users: &'static str,
    /// What a row of those has.
    used: fn(&Row<'_>) -> Result<Vec<u32>, StoreError>,
}

const FRAMES: Kind = Kind {
    all: "SELECT id, NULL FROM frame",
    delete: "DELETE FROM frame WHERE id = ?",
    users: "SELECT id, tail FROM stack WHERE id > ? ORDER BY id",
    used: |row| {
        let mut numbers = Numbers::new(row.get_ref(1)?.as_blob()?);
        let mut frames = Vec::new();
        while !numbers.is_empty() {
            frames.push(numbers.next()? as u32);
        }
        Ok(frames)
    },
};

const FUNCTIONS: Kind = Kind {
    all: "SELECT id, hash FROM function LEFT JOIN function_hash USING (id)",
    delete: "DELETE FROM function WHERE id = ?",
    users: "SELECT id, function FROM frame WHERE id > ? ORDER BY id",
    used: |row| Ok(vec![row.get(1)?]),
};

/// Names of a kind that nothing has, as far as was read.
struct Unused {
    /// With their hash, where they have one.
    ids: FastMap<u32, Option<Vec<u8>>>,
    /// The last row that was read of what has them. Only this sweep deletes any, and not while it reads: those that come have larger ids.
    last: i64,
}

impl Unused {
    fn find(connection: &Connection, kind: &Kind) -> Result<Self, StoreError> {
        let transaction = connection.unchecked_transaction()?;
        let mut statement = transaction.prepare(kind.all)?;
        let ids = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut unused = Self {
            ids: ids.collect::<Result<_, _>>()?,
            last: -1,
        };
        unused.read_on(&transaction, kind)?;
        Ok(unused)
    }

    /// Takes out what rows have that were not there before.
    fn read_on(&mut self, connection: &Connection, kind: &Kind) -> Result<(), StoreError> {
        let mut statement = connection.prepare_cached(kind.users)?;
        let mut rows = statement.query([self.last])?;
        while let Some(row) = rows.next()? {
            self.last = row.get(0)?;
            for id in (kind.used)(row)? {
                self.ids.remove(&id);
            }
        }
        Ok(())
    }
}

fn each_blob(
    transaction: &Transaction<'_>,
    sql: &str,
    mut each: impl FnMut(&[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut statement = transaction.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(row.get_ref(0)?.as_blob()?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Detail, Store};
    use crate::selection::Selection;
    use crate::sqlite::{OpenMode, SqliteStore};
    use crate::symbols::{StoredFrame, StoredFunction, Symbols};
    use crate::window::{Batch, Count, Series, Window};
    use nodespy_model::{Labels, ThreadRole, WeightUnit};

    const DAY: u64 = INTERVAL as u64;

    /// Names of stacks whose functions have a letter each.
    fn named(stacks: &[&str]) -> Symbols {
        let letters = 'a'..='z';
        Symbols {
            functions: letters
                .map(|letter| StoredFunction {
                    name: letter.to_string(),
                    ..StoredFunction::default()
                })
                .collect(),
            frames: (0..26)
                .map(|function| StoredFrame {
                    function,
                    ..StoredFrame::default()
                })
                .collect(),
            stacks: stacks
                .iter()
                .map(|stack| stack.bytes().map(|byte| u32::from(byte - b'a')).collect())
                .collect(),
        }
    }

    /// A window in which each of these stacks was seen once.
    fn seen(start: u64, stacks: &[&str]) -> Batch {
        let symbols = named(stacks);
        let hashes = symbols.hashes().into_iter();
        let counts = hashes.map(|hash| Count::new(hash, ThreadRole::Main, 1));
        Batch {
            series: vec![Series {
                service: "shop".to_owned(),
                event: "cpu".to_owned(),
                unit: WeightUnit::Nanoseconds,
                period: 1,
                labels: Labels::default(),
            }],
            windows: vec![Window {
                series: 0,
                start,
                counts: counts.collect(),
            }],
            symbols,
        }
    }

    fn names(store: &SqliteStore) -> Vec<String> {
        let merged = store
            .merge(&Selection::new("shop", "cpu", 0..u64::MAX), &[])
            .unwrap();
        let stacks = merged.groups.iter().flat_map(|group| &group.stacks);
        let ids: Vec<_> = stacks.map(|stack| stack.stack).collect();
        let symbols = store.stacks(&ids).unwrap();
        let name = |frame: &u32| {
            let function = symbols.frames[*frame as usize].function;
            symbols.functions[function as usize].name.clone()
        };
        let stacks = symbols.stacks.iter();
        let mut names: Vec<String> = stacks
            .map(|stack| stack.iter().map(name).collect())
            .collect();
        names.sort();
        names
    }

    fn unknown(store: &SqliteStore, stack: &str) -> bool {
        let hashes = named(&[stack]).hashes();
        !store.unknown_stacks(&hashes).unwrap().is_empty()
    }

    /// A store through two connections, of which nothing is counted any more.
    fn emptied(path: &std::path::Path, stacks: &[&str]) -> (SqliteStore, SqliteStore) {
        let open = || SqliteStore::open(path, OpenMode::Write).unwrap();
        let (mut keeper, writer) = (open(), open());
        keeper.append(&seen(0, stacks)).unwrap();
        let transaction = keeper.connection.transaction().unwrap();
        transaction.execute("DELETE FROM recent", []).unwrap();
        note_removed(&transaction).unwrap();
        transaction.commit().unwrap();
        keeper.forget();
        (keeper, writer)
    }

    #[test]
    fn what_is_counted_during_a_sweep_keeps_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let stacks = ["a", "ab", "abc", "xy", "pq", "pqr"];
        let (mut keeper, mut writer) = emptied(&folder.path().join("store"), &stacks);
        let mut sweep = Sweep::begin(&mut keeper.connection, 0).unwrap().unwrap();
        let unused = unused_stacks(sweep.connection, MAX_KEYS).unwrap();
        assert_eq!(unused.len(), stacks.len());
        // One that is known and not named again, and a new one that begins like one that is to go.
        let mut again = seen(10, &["abc"]);
        again.symbols = Symbols::default();
        writer.append(&again).unwrap();
        writer.append(&seen(20, &["xz"])).unwrap();
        assert!(sweep.delete_stacks(&unused).unwrap());
        assert!(unknown(&writer, "pq") && unknown(&writer, "pqr"));
        assert_eq!(names(&writer), ["abc", "xz"]);
        // Frames and functions that nothing had when they were looked for.
        for (kind, start, stack) in [(&FRAMES, 30, "bq"), (&FUNCTIONS, 40, "cr")] {
            let unused = Unused::find(sweep.connection, kind).unwrap();
            assert!(!unused.ids.is_empty());
            writer.append(&seen(start, &[stack])).unwrap();
            assert!(sweep.delete_unused(kind, unused).unwrap());
        }
        sweep.end().unwrap();
        assert_eq!(names(&writer), ["abc", "bq", "cr", "xz"]);
        assert!(!is_sweeping(&keeper.connection).unwrap());
        let frames: i64 = keeper
            .connection
            .query_row("SELECT count(*) FROM frame", [], |row| row.get(0))
            .unwrap();
        // Those of abc, bq, cr and xz, and y: xz begins like xy, which has to stay.
        assert_eq!(frames, 8);
        keeper.check().unwrap();
    }

    /// They were deleted, and hours that still counted them could not be read.
    #[test]
    fn names_that_a_rollup_had_no_room_for_stay_as_long_as_hours_count_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
        store.append(&seen(0, &["a", "b", "c"])).unwrap();
        store.compact(HOUR_SECONDS).unwrap();
        let connection = &store.connection;
        let sums: Vec<u8> = connection
            .query_row("SELECT sums FROM rollup", [], |row| row.get(0))
            .unwrap();
        let mut kept = Vec::new();
        block::decode_sums(&sums, |key, count| kept.push((key, count))).unwrap();
        kept.pop();
        let cut = block::encode_sums(&kept).unwrap();
        connection
            .execute("UPDATE rollup SET sums = ?", [cut])
            .unwrap();
        let unused = || unused_stacks(connection, 2).unwrap().len();
        assert_eq!(unused(), 0);
        connection.execute("DELETE FROM hour", []).unwrap();
        assert_eq!(unused(), 1);
    }

    #[test]
    fn a_sweep_ends_where_another_one_begins() {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, mut other) = emptied(&folder.path().join("store"), &["a", "b"]);
        let mut sweep = Sweep::begin(&mut keeper.connection, 0).unwrap().unwrap();
        let unused = unused_stacks(sweep.connection, MAX_KEYS).unwrap();
        assert!(Sweep::begin(&mut other.connection, 0).unwrap().is_none());
        let second = Sweep::begin(&mut other.connection, INTERVAL).unwrap();
        assert!(!sweep.delete_stacks(&unused).unwrap());
        sweep.end().unwrap();
        assert!(is_sweeping(&keeper.connection).unwrap());
        second.unwrap().end().unwrap();
        assert!(!is_sweeping(&keeper.connection).unwrap());
        assert!(!unknown(&keeper, "a"));
    }

    #[test]
    fn names_are_swept_when_something_was_removed_and_once_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
        let start = 1000 * DAY;
        for hour in 0..60 {
            let first = ["a", "b"][usize::from(hour > 1)];
            let sent = seen(start + hour * HOUR_SECONDS, &[first]);
            store.append(&sent).unwrap();
        }
        let mut sweeps = |hour: u64| {
            let cut = start + hour * HOUR_SECONDS;
            store.drop_before(Detail::Rollups, cut).unwrap();
            noted(&store.connection, BEGUN).unwrap().unwrap_or(0)
        };
        // Nothing is that old.
        assert_eq!([sweeps(0), sweeps(0)], [0, 0]);
        assert_eq!([sweeps(1), sweeps(1), sweeps(2), sweeps(24)], [1, 1, 1, 1]);
        assert_eq!([sweeps(25), sweeps(26), sweeps(49)], [2, 2, 3]);
        // A day on, but nothing was there to remove.
        assert_eq!([sweeps(100), sweeps(200)], [4, 4]);
        assert!(unknown(&store, "a") && unknown(&store, "b"));
    }
}
