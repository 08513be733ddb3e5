//! The arguments of `nodespy serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::agent::DEFAULT_STORE;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy serve                                   http://127.0.0.1:4600 over /var/lib/nodespy
  nodespy serve --store ./profiles --listen 127.0.0.1:8080
  nodespy serve --listen 0.0.0.0:4600 --token-file /etc/nodespy/token

  curl 'http://127.0.0.1:4600/api/v1/services?from=-7d'
  curl 'http://127.0.0.1:4600/api/v1/series?service=shop&from=-1h&by=version'
  curl -OJ 'http://127.0.0.1:4600/api/v1/profile?service=shop&version=1.2.3&from=-1h&format=pprof'

Routes and parameters: docs/continuous.md. It speaks plain HTTP: put a proxy with TLS before it
where others can listen in.")]
pub(crate) struct ServeArgs {
    /// The folder of the store that `nodespy agent` writes
    #[arg(long, value_name = "FOLDER", default_value = DEFAULT_STORE)]
    pub(crate) store: PathBuf,
    /// Address and port; one that other machines can reach needs a --token-file
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4600")]
    pub(crate) listen: SocketAddr,
    /// A file whose first line is what a request has to have: /?token=… or Authorization: Bearer …
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}
