//! Why a store can't answer.

use std::path::PathBuf;

/// Why a store could not be opened, written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file is something else.
    #[error("{0} is not a store of nodespy")]
    NotAStore(PathBuf),
    /// The file was written by a later nodespy.
    #[error("{path} has format {found}; this nodespy knows up to {known}: use a newer one")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The latest known one.
        known: i64,
    },
    /// The store was opened for reading.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// A window counts stacks that neither the store nor the batch names.
    #[error("{0} stacks are not known and not named; ask for unknown stacks and send them along")]
    UnknownStacks(usize),
    /// A batch breaks a rule.
    #[error("refused: {0}")]
    Refused(&'static str),
    /// An event of a service is known by another unit.
    #[error("{event} of {service} is measured in {known}, not in {sent}")]
    OtherUnit {
        /// The service.
        service: String,
        /// The event.
        event: String,
        /// The unit it is known by.
        known: &'static str,
        /// The unit that was sent.
        sent: &'static str,
    },
    /// The file is damaged.
    #[error(
        "the store is damaged: {0}; restore the file from a copy, or move it away to begin a new one"
    )]
    Damaged(&'static str),
    /// SQLite could not read or write.
    #[error("SQLite can't read or write the store")]
    Sqlite(#[from] rusqlite::Error),
    /// ClickHouse was not reached, or did not answer in time.
    #[error("no answer from ClickHouse at {url}: is it running, and reachable from here?")]
    Unreachable {
        /// Its address.
        url: String,
        /// Why.
        source: nodespy_http::ClientError,
    },
    /// ClickHouse refused a statement.
    #[error("ClickHouse refuses: {text}")]
    ClickHouse {
        /// Its code for that, where it gives one.
        code: Option<u32>,
        /// What it said.
        text: String,
    },
    /// ClickHouse's reply is not what was asked for.
    #[error("ClickHouse's reply makes no sense: {0}")]
    Reply(&'static str),
    /// The database has no tables of ours.
    #[error(
        "there is no store in {url}/{database}: nodespy store init --clickhouse {url}/{database} makes one"
    )]
    NoTables {
        /// The address of ClickHouse.
        url: String,
        /// The database.
        database: String,
    },
    /// The tables are of a later nodespy.
    #[error(
        "the tables in {database} have format {found}; this nodespy knows up to {known}: use a newer one"
    )]
    TablesTooNew {
        /// The database.
        database: String,
        /// Their format.
        found: u64,
        /// The latest known one.
        known: u64,
    },
    /// The file could not be made.
    #[error("cannot create {path}")]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl StoreError {
    /// Whether it is of the data that was asked for, so that a question about other data may have an answer.
    pub fn is_of_data(&self) -> bool {
        match self {
            Self::Damaged(_) | Self::Refused(_) => true,
            // Without a code it is a value that is none of ours.
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                None | Some(rusqlite::ErrorCode::DatabaseCorrupt)
            ),
            _ => false,
        }
    }
}

impl From<rusqlite::types::FromSqlError> for StoreError {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Sqlite(error.into())
    }
}
