//! The tables: made by statements that are shipped as a file, so that whoever runs the database can read and run them.

use super::client::{ClickHouseOptions, Connection};
use super::marks::{self, Mark, Marks};
use crate::engine::Detail;
use crate::error::StoreError;
use crate::retention::Retention;

const TABLES: &str = include_str!("../../clickhouse/0001-tables.sql");
/// Names are kept for longer than what they name, by more than it takes until they are renewed.
const NAMES_LONGER_SECONDS: u64 = 90 * 24 * 3600;
/// The longest time that is kept: windows are of 1970 to 2106.
const MAX_KEEP_SECONDS: u64 = 1 << 31;
/// ClickHouse has no such table, or no such database.
const UNKNOWN: [u32; 2] = [60, 81];

/// How tables are made.
#[derive(Debug, Clone, Default)]
pub struct ClickHouseTables {
    /// How long what is kept; not by size.
    pub retention: Retention,
    /// The cluster whose replicas have them; one server without any.
    pub cluster: Option<String>,
}

impl ClickHouseTables {
    /// A cluster is named by letters, digits, `_`, `-` and `.`, or as a macro: `{cluster}`.
    pub fn check_cluster(name: &str) -> Result<(), &'static str> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.{}".contains(&byte);
        match !name.is_empty() && name.len() <= 128 && name.bytes().all(is_plain) {
            true => Ok(()),
            false => Err("a cluster is named by letters, digits, _, - and ."),
        }
    }

    /// The statements that make them in a database, in order.
    pub fn statements(&self, database: &str) -> Vec<String> {
        let cluster = self.cluster.as_deref();
        let on_cluster = cluster.map_or_else(String::new, |name| format!(" ON CLUSTER '{name}'"));
        let kept = |detail| seconds(&self.retention, detail);
        let names = kept(Detail::Rollups).saturating_add(NAMES_LONGER_SECONDS);
        let text = TABLES
            .replace("${DATABASE}", database)
            .replace("${ON_CLUSTER}", &on_cluster)
            .replace("${REPLICATED}", cluster.map_or("", |_| "Replicated"))
            .replace("${KEEP_WINDOWS}", &kept(Detail::Windows).to_string())
            .replace("${KEEP_HOURS}", &kept(Detail::Hours).to_string())
            .replace("${KEEP_ROLLUPS}", &kept(Detail::Rollups).to_string())
            .replace("${KEEP_NAMES}", &names.to_string());
        let lines = text.lines().filter(|line| !line.starts_with("--"));
        let lines: Vec<&str> = lines.collect();
        let statements = lines.join("\n");
        let statements = statements.split(';').map(str::trim);
        statements
            .filter(|statement| !statement.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Makes them where they are missing; where they are there, changes how long what is kept.
    pub fn create(&self, options: &ClickHouseOptions) -> Result<(), StoreError> {
        let connection = Connection::new(options)?;
        let before = match Marks::read(&connection) {
            Ok(marks) => marks,
            Err(StoreError::ClickHouse {
                code: Some(code), ..
            }) if UNKNOWN.contains(&code) => Marks::default(),
            Err(error) => return Err(error),
        };
        check_format(&connection, &before)?;
        for statement in self.statements(&options.database) {
            connection.define(&statement)?;
        }
        if before.get(Mark::Format).is_some() {
            self.change_retention(&connection, &before.retention())?;
        }
        marks::note_retention(&connection, &self.retention)
    }

    fn change_retention(
        &self,
        connection: &Connection,
        before: &Retention,
    ) -> Result<(), StoreError> {
        let database = connection.database();
        let cluster = self.cluster.as_deref();
        let on_cluster = cluster.map_or_else(String::new, |name| format!(" ON CLUSTER '{name}'"));
        let longer = NAMES_LONGER_SECONDS;
        for (table, column, detail, more) in [
            ("windows", "start", Detail::Windows, 0),
            ("late", "hour", Detail::Windows, 0),
            ("hours", "hour", Detail::Hours, 0),
            ("series", "toDateTime(last, 'UTC')", Detail::Hours, 0),
            ("rollups", "hour", Detail::Rollups, 0),
            ("stacks", "seen", Detail::Rollups, longer),
            ("frames", "seen", Detail::Rollups, longer),
        ] {
            let kept = seconds(&self.retention, detail);
            if kept != seconds(before, detail) {
                connection.define(&format!(
                    "ALTER TABLE {database}.{table}{on_cluster} MODIFY TTL {column} + INTERVAL {} SECOND",
                    kept + more
                ))?;
            }
        }
        Ok(())
    }
}

fn seconds(retention: &Retention, detail: Detail) -> u64 {
    let kept = match detail {
        Detail::Windows => retention.windows,
        Detail::Hours => retention.hours,
        Detail::Rollups => retention.rollups,
    };
    kept.min(MAX_KEEP_SECONDS)
}

/// The marks of tables that are there, in a format that is known.
pub(super) fn open(connection: &Connection) -> Result<Marks, StoreError> {
    let missing = || StoreError::NoTables {
        url: connection.url().to_owned(),
        database: connection.database().to_owned(),
    };
    let marks = match Marks::read(connection) {
        Err(StoreError::ClickHouse {
            code: Some(code), ..
        }) if UNKNOWN.contains(&code) => return Err(missing()),
        marks => marks?,
    };
    check_format(connection, &marks)?;
    match marks.get(Mark::Format) {
        None => Err(missing()),
        Some(_) => Ok(marks),
    }
}

fn check_format(connection: &Connection, marks: &Marks) -> Result<(), StoreError> {
    match marks.get(Mark::Format) {
        Some(found) if found > marks::FORMAT => Err(StoreError::TablesTooNew {
            database: connection.database().to_owned(),
            found,
            known: marks::FORMAT,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_whole_on_one_server_and_on_a_cluster() {
        let one = ClickHouseTables::default().statements("profiles");
        assert_eq!(one.len(), 9);
        assert!(
            one.iter()
                .all(|it| it.starts_with("CREATE ") && !it.contains("${"))
        );
        assert!(one[1].contains("INTERVAL 604800 SECOND"), "{}", one[1]);
        assert!(!one.join(" ").contains("Replicated"));
        let many = ClickHouseTables {
            cluster: Some("eu-1".to_owned()),
            ..ClickHouseTables::default()
        };
        let many = many.statements("profiles");
        assert!(many.iter().all(|it| it.contains(" ON CLUSTER 'eu-1'")));
        assert!(
            many[1..]
                .iter()
                .all(|it| it.contains("ENGINE = Replicated"))
        );
        assert!(ClickHouseTables::check_cluster("a' b").is_err());
        assert!(ClickHouseTables::check_cluster("{cluster}").is_ok());
    }
}
