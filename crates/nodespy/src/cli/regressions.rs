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

Instances are compared, not samples: each version needs three that ran for --min-length and
longer after --warm-up. Exit code 10 is a regression, 11 a suspected one: the versions did not
run at the same time.")]
pub(crate) struct RegressionsArgs {
    /// The folder of the store that `nodespy agent` writes, or clickhouse=URL
    #[arg(long, value_name = "FOLDER", default_value = DEFAULT_STORE, value_parser = parse_store)]
    pub(crate) store: StoreArg,
    #[command(flatten)]
    pub(crate) access: ClickHouseArgs,
    /// Only this service
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// How far back deployments are looked for
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_age)]
    pub(crate) since: Duration,
    /// How long an instance is left out after its start
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    pub(crate) warm_up: Duration,
    /// How long an instance has to be seen after that
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
    /// Mark a deployment where the version that processes are labelled with does not tell it
    ///
    /// Processes of the service that start after the mark are of the marked version, for `nodespy regressions` and as a
    /// line in the page.
    Mark(MarkArgs),
}

#[derive(Debug, Args)]
pub(crate) struct MarkArgs {
    /// The service
    pub(crate) service: String,
    /// What was deployed
    pub(crate) version: String,
    /// The folder of the store, or clickhouse=URL
    #[arg(long, value_name = "FOLDER", default_value = DEFAULT_STORE, value_parser = parse_store)]
    pub(crate) store: StoreArg,
    #[command(flatten)]
    pub(crate) access: ClickHouseArgs,
    /// When, in seconds since 1970 [default: now]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) at: Option<u64>,
}
