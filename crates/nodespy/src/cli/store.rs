//! Where a store is, and the arguments of `nodespy store`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use nodespy_store::{ClickHouseOptions, ClickHouseTables};

use super::agent::KeepArgs;

/// A store, as `--store` names it.
#[derive(Debug, Clone)]
pub(crate) enum StoreArg {
    /// The folder of a file of SQLite.
    Folder(PathBuf),
    /// A database of ClickHouse.
    ClickHouse(ClickHouseOptions),
}

impl StoreArg {
    /// The folder, if it is in one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::ClickHouse(_) => None,
        }
    }
}

/// `/var/lib/nodespy`, or `clickhouse=http://127.0.0.1:8123`.
pub(super) fn parse_store(text: &str) -> Result<StoreArg, String> {
    match text.strip_prefix("clickhouse=") {
        Some(address) => ClickHouseOptions::of_address(address).map(StoreArg::ClickHouse),
        None if text.is_empty() => Err("a folder, or clickhouse=http://HOST:8123".to_owned()),
        None => Ok(StoreArg::Folder(text.into())),
    }
}

/// How to sign in to ClickHouse.
#[derive(Debug, Args)]
pub(crate) struct ClickHouseArgs {
    /// The ClickHouse user [default: default]
    #[arg(long, value_name = "NAME", help_heading = "ClickHouse")]
    pub(crate) clickhouse_user: Option<String>,
    /// File with the password of --clickhouse-user on its first line
    #[arg(long, value_name = "FILE", help_heading = "ClickHouse")]
    pub(crate) clickhouse_password_file: Option<PathBuf>,
    /// PEM file of the CA that signed the certificate of ClickHouse [default: the CAs of the system]
    #[arg(long, value_name = "FILE", help_heading = "ClickHouse")]
    pub(crate) clickhouse_ca_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct StoreCommandArgs {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Create the tables of a store in ClickHouse, or change the retention of existing ones
    Init(InitArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy store init --clickhouse http://127.0.0.1:8123
  nodespy store init --clickhouse https://ch.internal:8443/profiles --clickhouse-user nodespy
  nodespy store init --clickhouse http://127.0.0.1:8123 --keep 14d --print

  nodespy serve --ingest --store clickhouse=http://127.0.0.1:8123

A store in a folder needs none of this: nodespy agent and nodespy serve --ingest make it.")]
pub(crate) struct InitArgs {
    /// ClickHouse's HTTP interface and, after it, the database [default: nodespy]
    #[arg(long, value_name = "URL", value_parser = ClickHouseOptions::of_address)]
    pub(crate) clickhouse: ClickHouseOptions,
    #[command(flatten)]
    pub(crate) access: ClickHouseArgs,
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
    /// Make replicated tables on every server of this cluster: NAME, or '{cluster}' where that is a macro
    #[arg(long, value_name = "NAME", value_parser = parse_cluster)]
    pub(crate) cluster: Option<String>,
    /// Only print the statements
    #[arg(long)]
    pub(crate) print: bool,
}

fn parse_cluster(name: &str) -> Result<String, &'static str> {
    ClickHouseTables::check_cluster(name).map(|()| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_folder_or_a_database() {
        let folder = |text| parse_store(text).unwrap().folder().map(Path::to_owned);
        assert_eq!(folder("./profiles"), Some("./profiles".into()));
        assert_eq!(folder("clickhouse=http://127.0.0.1:8123/team"), None);
        assert!(parse_store("clickhouse=127.0.0.1:8123").is_err());
        assert!(parse_store("").is_err());
    }
}
