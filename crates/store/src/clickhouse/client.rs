//! Questions to ClickHouse, over its HTTP interface.
//!
//! Whatever comes from outside is no part of a statement: rows travel as `RowBinary`, texts as parameters in hexadecimal digits,
//! which mean the same in every position and quote nothing. Replies are bounded in bytes and time, on both sides.

use std::fmt::Write;
use std::path::PathBuf;

use nodespy_http::{Client, ClientOptions, percent_encoded};

use super::rows::Rows;
use crate::error::StoreError;

/// How long ClickHouse works on a statement; the client gives up ten seconds later.
const MAX_EXECUTION_SECONDS: u64 = 50;
/// The longest reply.
const MAX_REPLY_BYTES: u64 = 128 << 20;
/// The longest name of a database.
const MAX_DATABASE_BYTES: usize = 64;
/// Settings of every statement: a reply begins when all of it is known, so that none ends in an error; rows are written before
/// that is said; what is equal is in one partition.
const SETTINGS: &str =
    "wait_end_of_query=1&async_insert=0&do_not_merge_across_partitions_select_final=1";

/// Where a ClickHouse is, and who asks it.
#[derive(Clone, PartialEq, Eq)]
pub struct ClickHouseOptions {
    /// `http://127.0.0.1:8123`.
    pub url: String,
    /// The database that holds the tables.
    pub database: String,
    /// Who asks; ClickHouse's `default` where none is given.
    pub user: Option<String>,
    /// The password of the user.
    pub password: Option<String>,
    /// Certificates in place of those that the system trusts, as PEM.
    pub ca_file: Option<PathBuf>,
}

impl std::fmt::Display for ClickHouseOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.url, self.database)
    }
}

impl std::fmt::Debug for ClickHouseOptions {
    /// Without the password.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, formatter)
    }
}

impl ClickHouseOptions {
    /// The database where no other is named.
    pub const DEFAULT_DATABASE: &'static str = "nodespy";

    /// `http://HOST:8123`, or `http://HOST:8123/DATABASE`.
    pub fn of_address(address: &str) -> Result<Self, String> {
        let usage =
            || format!("{address:?} is no address: http://HOST:8123 or http://HOST:8123/DATABASE");
        let (scheme, rest) = address.split_once("://").ok_or_else(usage)?;
        let (host, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = match database {
            "" => Self::DEFAULT_DATABASE,
            given => given,
        };
        let mut letters = database.bytes();
        let is_plain = letters
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_');
        if !is_plain || database.len() > MAX_DATABASE_BYTES {
            return Err(format!(
                "a database is named by up to {MAX_DATABASE_BYTES} letters, digits and _, not {database:?}"
            ));
        }
        let url = format!("{scheme}://{host}");
        match Client::new(&url, &ClientOptions::default()) {
            Err(nodespy_http::ClientError::Address(_)) => Err(usage()),
            _ => Ok(Self {
                url,
                database: database.to_owned(),
                user: None,
                password: None,
                ca_file: None,
            }),
        }
    }
}

/// A statement with the texts that it is about.
#[derive(Debug, Clone, Default)]
pub(super) struct Statement {
    pub(super) sql: String,
    texts: Vec<String>,
}

impl Statement {
    /// Takes a text, and returns what stands for it in the statement.
    pub(super) fn text(&mut self, text: &str) -> String {
        self.texts.push(hexadecimal(text.as_bytes()));
        format!("unhex({{t{}:String}})", self.texts.len() - 1)
    }

    /// The same for several, as the right side of `IN`.
    pub(super) fn texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) -> String {
        let texts: Vec<String> = texts.into_iter().map(|text| self.text(text)).collect();
        match texts.is_empty() {
            // Nothing is in a list without values, which ClickHouse can't read.
            true => "(SELECT '' WHERE 0)".to_owned(),
            false => format!("({})", texts.join(", ")),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// A ClickHouse that is asked.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    client: Client,
    database: String,
    user: Option<String>,
    password: Option<String>,
}

impl Connection {
    pub(super) fn new(options: &ClickHouseOptions) -> Result<Self, StoreError> {
        let of_client = ClientOptions {
            ca_file: options.ca_file.clone(),
            ..ClientOptions::default()
        };
        let client = Client::new(&options.url, &of_client);
        let client = client.map_err(|source| StoreError::Unreachable {
            url: options.url.clone(),
            source,
        })?;
        Ok(Self {
            client: client.with_max_reply(MAX_REPLY_BYTES),
            database: options.database.clone(),
            user: options.user.clone(),
            password: options.password.clone(),
        })
    }

    /// Where it asks.
    pub(super) fn url(&self) -> &str {
        self.client.base()
    }

    pub(super) fn database(&self) -> &str {
        &self.database
    }

    /// Runs a statement in the database, and returns its rows.
    pub(super) fn run(&self, statement: &Statement) -> Result<Vec<u8>, StoreError> {
        let mut address = format!(
            "/?database={}&default_format=RowBinary&max_execution_time={MAX_EXECUTION_SECONDS}&max_result_bytes={MAX_REPLY_BYTES}&{SETTINGS}",
            self.database
        );
        for (number, text) in statement.texts.iter().enumerate() {
            let _ = write!(address, "&param_t{number}={text}");
        }
        self.post(&address, statement.sql.as_bytes())
    }

    /// The rows of a statement without texts.
    pub(super) fn ask(&self, sql: String) -> Result<Vec<u8>, StoreError> {
        self.run(&Statement {
            sql,
            texts: Vec::new(),
        })
    }

    /// Makes or changes a database or a table.
    pub(super) fn define(&self, sql: &str) -> Result<(), StoreError> {
        // Ids of stacks are numbers of which a part has few: that is what a dictionary is for.
        let address = format!("/?allow_suspicious_low_cardinality_types=1&{SETTINGS}");
        self.post(&address, sql.as_bytes()).map(|_| ())
    }

    /// Inserts rows into columns of a table: all of them or none, where they are in one partition.
    pub(super) fn insert(&self, into: &str, rows: &Rows) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let query = percent_encoded(&format!("INSERT INTO {into} FORMAT RowBinary"));
        let address = format!(
            "/?database={}&query={query}&max_execution_time={MAX_EXECUTION_SECONDS}&{SETTINGS}",
            self.database
        );
        self.post(&address, &rows.0).map(|_| ())
    }

    fn post(&self, address: &str, body: &[u8]) -> Result<Vec<u8>, StoreError> {
        let given = [
            ("X-ClickHouse-User", &self.user),
            ("X-ClickHouse-Key", &self.password),
        ];
        let given = given.into_iter();
        let headers: Vec<(&str, &str)> = given
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
            .collect();
        let reply = self.client.post(address, &headers, body);
        let reply = reply.map_err(|source| StoreError::Unreachable {
            url: self.url().to_owned(),
            source,
        })?;
        match reply.is_ok() {
            true => Ok(reply.body),
            false => Err(StoreError::ClickHouse {
                code: code_of(&reply.body),
                text: reply.text(),
            }),
        }
    }
}

/// `Code: 60. DB::Exception: …`.
fn code_of(body: &[u8]) -> Option<u32> {
    let text = String::from_utf8_lossy(&body[..body.len().min(64)]);
    let digits = text.strip_prefix("Code: ")?;
    let end = digits.find(|letter: char| !letter.is_ascii_digit())?;
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_server_and_database() {
        let of = ClickHouseOptions::of_address;
        let plain = of("http://127.0.0.1:8123").unwrap();
        assert_eq!(
            (&*plain.url, &*plain.database),
            ("http://127.0.0.1:8123", "nodespy")
        );
        assert_eq!(of("https://db.internal/team_a").unwrap().database, "team_a");
        for wrong in [
            "127.0.0.1:8123",
            "http://",
            "http://me:secret@db",
            "http://db/a.b",
            "http://db/a`b",
            "http://db/1a",
            "http://db?user=me",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn texts_are_digits_whatever_they_hold() {
        let mut statement = Statement::default();
        assert_eq!(statement.text("'; DROP"), "unhex({t0:String})");
        assert_eq!(
            statement.texts(["a", "\0"]),
            "(unhex({t1:String}), unhex({t2:String}))"
        );
        assert_eq!(statement.texts, ["273b2044524f50", "61", "00"]);
        assert_eq!(code_of(b"Code: 60. DB::Exception: x"), Some(60));
        assert_eq!(code_of(b"<html>"), None);
    }
}
