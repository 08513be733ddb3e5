//! `nodespy serve`: what agents have kept or sent, over HTTP.

use std::net::TcpListener;
use std::process::ExitCode;

use anyhow::Context;
use nodespy_http::Tls;
use nodespy_server::{Access, Ingest, IngestLimits, Server, Stores, Transport};

use super::agent::{enter_new_store, enter_store, read_token};
use crate::cli::ServeArgs;
use crate::failure::Failure;
use crate::output::{self, Stream};

pub(crate) fn run(arguments: &ServeArgs) -> anyhow::Result<ExitCode> {
    let read = |file: &Option<_>| file.as_deref().map(read_token).transpose();
    let token = read(&arguments.token_file)?;
    let write_token = read(&arguments.write_token_file)?;
    let takes_windows = arguments.ingest || write_token.is_some();
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::of_files(certificate, key)?),
        _ => None,
    };
    let transport = match (&tls, arguments.behind_proxy) {
        (Some(_), _) => Transport::Tls,
        (None, true) => Transport::BehindProxy,
        (None, false) => Transport::Plain,
    };
    // All that a confined process can't do comes before the first byte of the store.
    let listener = TcpListener::bind(arguments.listen)
        .with_context(|| format!("listening on {}", arguments.listen))?;
    let address = listener.local_addr()?;
    let mut access = Access::new(address, transport, token).map_err(Failure::Usage)?;
    if takes_windows {
        access = access.taking_windows(write_token).map_err(Failure::Usage)?;
    }
    let file = match takes_windows {
        true => enter_new_store(&arguments.store)?,
        false => enter_store(&arguments.store)?,
    };
    let opening = || format!("opening the store {}", file.display());
    let limits = IngestLimits {
        retention: arguments.retention.retention(),
        max_series: arguments.max_series,
    };
    let ingest = takes_windows.then(|| Ingest::open(&file, &limits));
    let ingest = ingest.transpose().with_context(opening)?;
    let stores = Stores::open(&file).with_context(opening)?;
    let mut server = Server::new(stores, access).with_tls(tls);
    if let Some(ingest) = ingest {
        server = server.taking_windows(ingest);
    }
    let scheme = match transport {
        Transport::Tls => "https",
        Transport::Plain | Transport::BehindProxy => "http",
    };
    output::result(&format!("{scheme}://{address}/\n"), Stream::Standard);
    output::note("Serving until Ctrl-C.");
    server.run(&listener);
    Ok(ExitCode::SUCCESS)
}
