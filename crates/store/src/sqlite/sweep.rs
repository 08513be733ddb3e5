//! Names that nothing counts any more are forgotten.

use nodespy_model::FastSet;
use rusqlite::{Transaction, params};

use crate::block::{self, Key, Numbers};
use crate::error::StoreError;

/// Deletes stacks that no window, hour or rollup counts, then frames and functions that no stack has.
pub(super) fn sweep(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let mut used: FastSet<u32> = FastSet::default();
    let mut mark = |key: Key| {
        used.insert(key.stack() as u32);
    };
    each_blob(transaction, "SELECT block FROM recent", |bytes| {
        block::decode_window(bytes, |key, _| mark(key))
    })?;
    // Whatever hours count is in the rollup of the same hour.
    each_blob(transaction, "SELECT sums FROM rollup", |bytes| {
        block::decode_sums(bytes, |key, _| mark(key))
    })?;
    let mut frames: FastSet<u32> = FastSet::default();
    let mut unused = Vec::new();
    let mut statement = transaction.prepare("SELECT id, base, tail FROM stack ORDER BY id DESC")?;
    let mut rows = statement.query([])?;
    // A stack begins like an older one, which comes later here and has to stay with it.
    while let Some(row) = rows.next()? {
        let id: u32 = row.get(0)?;
        if !used.contains(&id) {
            unused.push(id);
            continue;
        }
        used.extend(row.get::<_, Option<u32>>(1)?);
        let mut numbers = Numbers::new(row.get_ref(2)?.as_blob()?);
        while !numbers.is_empty() {
            frames.insert(numbers.next()? as u32);
        }
    }
    if unused.is_empty() {
        return Ok(());
    }
    let unused: FastSet<u32> = unused.into_iter().collect();
    delete(transaction, "stack", &unused)?;
    delete(transaction, "stack_hash", &unused)?;
    let unused = ids(transaction, "SELECT id FROM frame")?;
    delete(transaction, "frame", &(&unused - &frames))?;
    let functions = ids(transaction, "SELECT DISTINCT function FROM frame")?;
    let unused = &ids(transaction, "SELECT id FROM function")? - &functions;
    delete(transaction, "function", &unused)?;
    delete(transaction, "function_hash", &unused)
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

fn ids(transaction: &Transaction<'_>, sql: &str) -> Result<FastSet<u32>, StoreError> {
    let mut statement = transaction.prepare(sql)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Tables of hashes are ordered by hash, so that rows are looked for by id once, in one pass.
fn delete(
    transaction: &Transaction<'_>,
    table: &str,
    ids: &FastSet<u32>,
) -> Result<(), StoreError> {
    transaction.execute_batch("CREATE TEMP TABLE IF NOT EXISTS unused(id INTEGER PRIMARY KEY);")?;
    transaction.execute("DELETE FROM unused", [])?;
    {
        let mut statement = transaction.prepare("INSERT INTO unused VALUES (?)")?;
        for id in ids {
            statement.execute(params![id])?;
        }
    }
    let sql = format!("DELETE FROM {table} WHERE id IN (SELECT id FROM unused)");
    transaction.execute(&sql, [])?;
    Ok(())
}
