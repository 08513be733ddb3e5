//! `nodespy serve`: what agents have kept or sent, over HTTP.

use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use nodespy_http::{ClientOptions, Tls};
use nodespy_server::{
    Access, Courier, Ingest, IngestLimits, Server, Stores, Transport, Watch, Webhook,
};

use super::agent::{enter_new_store, enter_store, read_secret, read_token};
use crate::cli::ServeArgs;
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::privileges;

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
    let scheme = match transport {
        Transport::Tls => "https",
        Transport::Plain | Transport::BehindProxy => "http",
    };
    let url = format!("{scheme}://{address}");
    let webhooks = arguments.webhook_file.as_deref().map(read_webhooks);
    // It posts, which a confined process can't; what it posts is written by one that is.
    let courier = webhooks.transpose()?;
    let courier = courier.map(|webhooks| Courier::start(webhooks, privileges::keep_for_files));
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
    let page = arguments.public_url.as_deref().unwrap_or(&url);
    let watch = courier
        .map(|courier| Watch::new(courier, &arguments.store, arguments.check_every, page))
        .transpose()
        .context("reading what webhooks were told")?;
    let mut server = Server::new(stores, access).with_tls(tls).watching(watch);
    if let Some(ingest) = ingest {
        server = server.taking_windows(ingest);
    }
    output::result(&format!("{url}/\n"), Stream::Standard);
    output::note("Serving until Ctrl-C.");
    server.run(&listener);
    Ok(ExitCode::SUCCESS)
}

/// The webhooks of a file.
fn read_webhooks(path: &Path) -> anyhow::Result<Vec<Webhook>> {
    let text = read_secret(path)?;
    Webhook::of_lines(&text, &ClientOptions::default())
        .map_err(|why| anyhow!("{}: {why}", path.display()))
}
