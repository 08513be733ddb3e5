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
TLS: a certificate of yours, or a proxy before it.")]
pub(crate) struct ServeArgs {
    /// The folder of the store that `nodespy agent` writes, or clickhouse=URL for one that `nodespy store init` made, which
    /// says how long what is kept
    #[arg(long, value_name = "FOLDER", default_value = DEFAULT_STORE, value_parser = parse_store)]
    pub(crate) store: StoreArg,
    /// Address and port; one that other machines can reach needs a --token-file, and --tls-cert with --tls-key
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4600")]
    pub(crate) listen: SocketAddr,
    /// A file whose first line is what a request has to have: /?token=… or Authorization: Bearer …
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The certificate that it proves itself with, as PEM, those between it and its authority after it; read at the start
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Speak plain HTTP on an address that other machines can reach: a proxy with TLS is before it
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) behind_proxy: bool,
    /// A file of webhooks that regressions are posted to, each once: `json URL` or `slack URL` a line
    #[arg(long, value_name = "FILE", help_heading = "Telling of regressions")]
    pub(crate) webhook_file: Option<PathBuf>,
    /// How often regressions are looked for
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration, requires = "webhook_file", help_heading = "Telling of regressions")]
    pub(crate) check_every: Duration,
    /// The address by which people reach this server, for links [default: the one it listens on]
    #[arg(
        long,
        value_name = "URL",
        requires = "webhook_file",
        help_heading = "Telling of regressions"
    )]
    pub(crate) public_url: Option<String>,
    /// Where it keeps which regressions were posted, for a store in ClickHouse; else that is the folder of --store
    #[arg(
        long,
        value_name = "FOLDER",
        requires = "webhook_file",
        help_heading = "Telling of regressions"
    )]
    pub(crate) state: Option<PathBuf>,
    /// Take windows that agents send (nodespy agent --to), and make the store if there is none; other machines need a token
    #[arg(long, help_heading = "Taking windows")]
    pub(crate) ingest: bool,
    /// A file whose first line is what agents have to send along; turns --ingest on
    #[arg(long, value_name = "FILE", help_heading = "Taking windows")]
    pub(crate) write_token_file: Option<PathBuf>,
    /// A folder of tenants: each folder NAME in it has the files `read` and `write` with their tokens. Each has a store of its own in
    /// tenants/NAME of --store (in ClickHouse, the database DATABASE_NAME), with the limits that are given here
    #[arg(long, value_name = "FOLDER", help_heading = "Taking windows", conflicts_with_all = ["token_file", "write_token_file", "ingest", "webhook_file"])]
    pub(crate) tenants: Option<PathBuf>,
    /// How many series (processes and events) may send within an hour
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 50_000,
        help_heading = "Taking windows"
    )]
    pub(crate) max_series: usize,
    #[command(flatten, next_help_heading = "Taking windows")]
    pub(crate) retention: RetentionArgs,
    #[command(flatten)]
    pub(crate) access: ClickHouseArgs,
}
