//! The arguments of `nodespy regressions` and `nodespy deploy`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::agent::DEFAULT_STORE;
use super::store::{ClickHouseArgs, StoreArg, parse_store};
use super::values::{parse_age, parse_duration};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy regressions                             every deployment of the last week
  nodespy regressions --service shop --since 1d --json

Instances are compared, not samples: each version needs three that ran for at least --min-length
after --warm-up. Exit code 10 means a regression, 11 a suspected one: the versions did not run at
the same time.")]
pub(crate) struct RegressionsArgs {
    /// The folder of the store that `nodespy agent` writes, or clickhouse=URL
    #[arg(long, value_name = "FOLDER", default_value = DEFAULT_STORE, value_parser = parse_store)]
    pub(crate) store: StoreArg,
    #[command(flatten)]
    pub(crate) access: ClickHouseArgs,
    /// Only this service
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// How far back to look for deployments
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_age)]
    pub(crate) since: Duration,
    /// Ignore an instance for this long after its start
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    pub(crate) warm_up: Duration,
    /// Ignore instances that ran for less than this after --warm-up
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    pub(crate) min_length: Duration,
    /// Print JSON, as /api/v1/regressions answers it
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeployArgs {
    #[command(subcommand)]
    pub(crate) command: DeployCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeployCommand {
    /// Record a deployment that the version label does not show
    ///
    /// Processes of the service that start after it count as the new version, in `nodespy regressions` and in the web pages.
    Mark(MarkArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy deploy mark shop 1.4.2
  nodespy deploy mark shop 1.4.2 --store clickhouse=http://127.0.0.1:8123")]
pub(crate) struct MarkArgs {
    /// The service
    pub(crate) service: String,
    /// The version deployed
    pub(crate) version: String,
    /// The folder of the store, or clickhouse=URL
    #[arg(long, value_name = "FOLDER", default_value = DEFAULT_STORE, value_parser = parse_store)]
    pub(crate) store: StoreArg,
    #[command(flatten)]
    pub(crate) access: ClickHouseArgs,
    /// When, as a Unix timestamp [default: now]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) at: Option<u64>,
}
