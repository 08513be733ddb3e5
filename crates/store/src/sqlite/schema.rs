//! The tables of the file, and how it is opened.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;

/// `nspy`, where SQLite files say what they are for.
const APPLICATION_ID: i64 = 0x6e73_7079;
/// The format of the tables and blocks.
const FORMAT: i64 = 1;
/// How long a writer waits for another one.
const BUSY: Duration = Duration::from_secs(30);
/// Pages of the WAL after which it is copied into the file.
const CHECKPOINT_PAGES: u32 = 4000;

/// - scope: an event of a service; weights of two scopes are never added.
/// - stack: its frames are the first `keep` of the stack `base`, then `tail`, as numbers.
/// - series: `first` is exact, `last` as of the last compaction.
/// - spared, made by the first sweep of names: see there.
/// - hour: `times` comes last, on pages of their own, which merges of whole hours don't touch.
const TABLES: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value INT) WITHOUT ROWID;
CREATE TABLE function(id INTEGER PRIMARY KEY, name TEXT NOT NULL, file TEXT NOT NULL, line INT NOT NULL,
    col INT NOT NULL, category INT NOT NULL);
CREATE TABLE function_hash(hash BLOB PRIMARY KEY, id INT NOT NULL) WITHOUT ROWID;
CREATE TABLE frame(id INTEGER PRIMARY KEY, function INT NOT NULL, line INT NOT NULL, col INT NOT NULL,
    flags INT NOT NULL, UNIQUE(function, line, col, flags));
CREATE TABLE stack(id INTEGER PRIMARY KEY, base INT, keep INT NOT NULL, tail BLOB NOT NULL);
CREATE TABLE stack_hash(hash BLOB PRIMARY KEY, id INT NOT NULL) WITHOUT ROWID;
CREATE TABLE scope(id INTEGER PRIMARY KEY, service TEXT NOT NULL, event TEXT NOT NULL, unit INT NOT NULL,
    UNIQUE(service, event));
CREATE TABLE series(id INTEGER PRIMARY KEY, scope INT NOT NULL, period INT NOT NULL, version TEXT NOT NULL,
    labels TEXT NOT NULL, first INT NOT NULL, last INT NOT NULL, UNIQUE(scope, period, labels));
CREATE TABLE recent(scope INT NOT NULL, start INT NOT NULL, series INT NOT NULL, n INT NOT NULL, block BLOB NOT NULL,
    PRIMARY KEY(scope, start, series)) WITHOUT ROWID;
CREATE TABLE hour(scope INT NOT NULL, hour INT NOT NULL, series INT NOT NULL, seq INT NOT NULL, n INT NOT NULL,
    counts BLOB NOT NULL, sums BLOB NOT NULL, times BLOB, PRIMARY KEY(scope, hour, series, seq));
CREATE TABLE rollup(scope INT NOT NULL, hour INT NOT NULL, version TEXT NOT NULL, period INT NOT NULL, n INT NOT NULL,
    sums BLOB NOT NULL, PRIMARY KEY(scope, hour, version, period)) WITHOUT ROWID;
";

/// Opens a store for writing; makes one, for its owner only, where there is no file.
pub(super) fn create_or_open(path: &Path) -> Result<Connection, StoreError> {
    // SQLite gives its other files the permissions of this one.
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(source) => {
            let path = path.to_owned();
            return Err(StoreError::Create { path, source });
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    prepare(&connection)?;
    // What an empty file is for is decided once, whoever else opens it.
    if is_empty(&connection)? {
        connection.execute_batch("PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL;")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        if is_empty(&transaction)? {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", FORMAT)?;
        }
        transaction.commit()?;
    }
    check_format(&connection, path)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    Ok(connection)
}

/// Opens a store that exists, for reading.
pub(super) fn open_for_reading(path: &Path) -> Result<Connection, StoreError> {
    // Not SQLITE_OPEN_READ_ONLY: a reader may have to recover the WAL of a writer that was killed.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    prepare(&connection)?;
    check_format(&connection, path)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn prepare(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(BUSY)?;
    // A file from elsewhere may hold triggers and views: nothing of that is run.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "cache_size", -32_000)?;
    Ok(())
}

/// Whether nothing was ever written into the file.
fn is_empty(connection: &Connection) -> Result<bool, StoreError> {
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let id: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    Ok(tables == 0 && id == 0)
}

fn check_format(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let id: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if id != APPLICATION_ID {
        return Err(StoreError::NotAStore(path.to_owned()));
    }
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match found {
        FORMAT => Ok(()),
        found => Err(StoreError::TooNew {
            path: path.to_owned(),
            found,
            known: FORMAT,
        }),
    }
}
