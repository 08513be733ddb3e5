//! The arguments of `nodespy serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::agent::{DEFAULT_STORE, RetentionArgs};
use super::store::{ClickHouseArgs, StoreArg, parse_store};
use super::values::parse_duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy serve                                   http://127.0.0.1:4600 over /var/lib/nodespy
  nodespy serve --store ./profiles --listen 127.0.0.1:8080
  nodespy serve --listen 0.0.0.0:4600 --token-file token --tls-cert cert.pem --tls-key key.pem
  nodespy serve --token-file /etc/nodespy/token --write-token-file /etc/nodespy/agents
  nodespy serve --tenants /etc/nodespy/tenants    tokens in NAME/read and NAME/write
  nodespy serve --ingest --store clickhouse=http://127.0.0.1:8123
  nodespy serve --webhook-file /etc/nodespy/webhooks --public-url https://profiles.internal

  curl 'http://127.0.0.1:4600/api/v1/services?from=-7d'
  curl 'http://127.0.0.1:4600/api/v1/series?service=shop&from=-1h&by=version'
  curl -OJ 'http://127.0.0.1:4600/api/v1/profile?service=shop&version=1.2.3&from=-1h&format=pprof'

Routes and parameters: docs/continuous.md. Addresses that other machines can reach need a token and
TLS: your own certificate, or a proxy in front.")]
pub(crate) struct ServeArgs {
    /// The folder of a store, as written by `nodespy agent`, or clickhouse=URL for one made by `nodespy store init`, which also
    /// sets its retention
    #[arg(long, value_name = "FOLDER", default_value = DEFAULT_STORE, value_parser = parse_store)]
    pub(crate) store: StoreArg,
    /// Address and port; one that other machines can reach needs a token, and TLS (--tls-cert and --tls-key, or --behind-proxy)
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4600")]
    pub(crate) listen: SocketAddr,
    /// File with the token of readers on its first line: /?token=… or Authorization: Bearer …
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The server's certificate as PEM, followed by its intermediate certificates; read at startup
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Allow plain HTTP on an address that other machines can reach, behind a proxy that terminates TLS
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) behind_proxy: bool,
    /// A file of webhooks to post regressions to, each once: `json URL` or `slack URL` per line, with `likely` behind it
    /// for suspected ones too
    #[arg(long, value_name = "FILE", help_heading = "Notifications")]
    pub(crate) webhook_file: Option<PathBuf>,
    /// How often to look for regressions
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration, requires = "webhook_file", help_heading = "Notifications")]
    pub(crate) check_every: Duration,
    /// The public URL of this server, for links [default: the address it listens on]
    #[arg(
        long,
        value_name = "URL",
        requires = "webhook_file",
        help_heading = "Notifications"
    )]
    pub(crate) public_url: Option<String>,
    /// With a store in ClickHouse: the folder that remembers which regressions were posted
    #[arg(
        long,
        value_name = "FOLDER",
        requires = "webhook_file",
        help_heading = "Notifications"
    )]
    pub(crate) state: Option<PathBuf>,
    /// Accept profiles from agents (nodespy agent --to), and create the store if missing; other machines need a token
    #[arg(long, help_heading = "Ingestion")]
    pub(crate) ingest: bool,
    /// File with the token of agents on its first line; implies --ingest
    #[arg(long, value_name = "FILE", help_heading = "Ingestion")]
    pub(crate) write_token_file: Option<PathBuf>,
    /// A folder of tenants: each subfolder NAME holds the files `read` and `write` with its tokens. Each tenant has its own store in
    /// tenants/NAME of --store (in ClickHouse, the database DATABASE_NAME), with the limits given here
    #[arg(long, value_name = "FOLDER", help_heading = "Ingestion", conflicts_with_all = ["token_file", "write_token_file", "ingest", "webhook_file"])]
    pub(crate) tenants: Option<PathBuf>,
    /// Max number of series (processes and events) accepted within an hour
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 50_000,
        help_heading = "Ingestion"
    )]
    pub(crate) max_series: usize,
    #[command(flatten, next_help_heading = "Ingestion")]
    pub(crate) retention: RetentionArgs,
    #[command(flatten)]
    pub(crate) access: ClickHouseArgs,
}
