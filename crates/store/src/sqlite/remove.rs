//! Dropping what is old, and giving its space back.

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::{dropped_key, note, noted, sweep};
use crate::engine::Detail;
use crate::error::StoreError;
use crate::window::UnixSeconds;

/// How many pages are given back at a time: writers wait for so long only.
const PAGES: u32 = 1000;
/// The key that says of which hours the times have been dropped: they are not gone through again.
const TIMES_DROPPED: &str = "times_dropped_before";

/// Drops a detail of the hours before `cut`, with what is finer, one scope a transaction.
pub(super) fn drop_before(
    connection: &mut Connection,
    detail: Detail,
    cut: UnixSeconds,
) -> Result<(), StoreError> {
    let scopes: Vec<i64> = connection
        .prepare("SELECT id FROM scope")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let time = cut as i64;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // First: a window that comes late must not be counted twice.
    note_cut(&transaction, detail, time)?;
    transaction.commit()?;
    let times_dropped = noted(connection, TIMES_DROPPED)?.unwrap_or(0);
    for scope in scopes {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let run = |sql: &str| transaction.prepare_cached(sql)?.execute([scope, time]);
        match detail {
            Detail::Windows => {
                let sql = "UPDATE hour SET times = NULL
                    WHERE scope = ? AND hour < ? AND hour >= ? AND times NOT NULL";
                let mut statement = transaction.prepare_cached(sql)?;
                statement.execute([scope, time, times_dropped])?;
            }
            Detail::Hours => {
                run("DELETE FROM hour WHERE scope = ? AND hour < ?")?;
            }
            Detail::Rollups => {
                run("DELETE FROM hour WHERE scope = ? AND hour < ?")?;
                let windows = run("DELETE FROM recent WHERE scope = ? AND start < ?")?;
                let rollups = run("DELETE FROM rollup WHERE scope = ? AND hour < ?")?;
                if windows + rollups > 0 {
                    sweep::note_removed(&transaction)?;
                }
            }
        }
        transaction.commit()?;
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match detail {
        Detail::Windows => note(&transaction, TIMES_DROPPED, time.max(times_dropped))?,
        Detail::Hours | Detail::Rollups => drop_series(&transaction, time)?,
    }
    transaction.commit()?;
    if detail == Detail::Rollups {
        sweep::sweep(connection, time)?;
    }
    give_back(connection)
}

fn note_cut(transaction: &Transaction<'_>, detail: Detail, cut: i64) -> Result<(), StoreError> {
    let coarser = match detail {
        Detail::Windows => &[Detail::Windows][..],
        Detail::Hours => &[Detail::Windows, Detail::Hours],
        Detail::Rollups => &[Detail::Windows, Detail::Hours, Detail::Rollups],
    };
    for detail in coarser {
        let sql = "INSERT INTO meta VALUES (?, ?)
            ON CONFLICT(key) DO UPDATE SET value = max(value, excluded.value)";
        transaction
            .prepare_cached(sql)?
            .execute(params![dropped_key(*detail), cut])?;
    }
    Ok(())
}

/// Series of which neither windows nor hours are left, and scopes without anything.
fn drop_series(transaction: &Transaction<'_>, cut: i64) -> Result<(), StoreError> {
    let sql = "DELETE FROM series WHERE last < ?
        AND id NOT IN (SELECT series FROM recent) AND id NOT IN (SELECT series FROM hour)";
    transaction.execute(sql, [cut])?;
    let sql =
        "DELETE FROM scope WHERE NOT EXISTS (SELECT 1 FROM series WHERE series.scope = scope.id)
        AND NOT EXISTS (SELECT 1 FROM rollup WHERE rollup.scope = scope.id)";
    transaction.execute(sql, [])?;
    Ok(())
}

/// Hands free pages back to the file system.
fn give_back(connection: &Connection) -> Result<(), StoreError> {
    loop {
        let free: i64 = connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
        if free == 0 {
            break;
        }
        // It frees one page a step.
        let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
        drop(rows);
        let left: i64 = connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
        if left >= free {
            break;
        }
    }
    // A reader may hold the WAL: the next one gets it.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}
