//! `nodespy serve`: what agents have kept or sent, over HTTP.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use nodespy_capture::{Interrupts, catch_interrupts};
use nodespy_http::{ClientOptions, Tls};
use nodespy_model::SmallSort;
use nodespy_server::{
    Access, Courier, Ingest, IngestLimits, Server, Stores, Tenant, Transport, Watch, Webhook,
};
use nodespy_store::{ClickHouseOptions, ClickHouseStore, StoreLocation};

use super::agent::{enter_new_stores, enter_store, read_secret, read_token};
use super::store::with_access;
use crate::cli::{ServeArgs, StoreArg};
use crate::confine::Confinement;
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::privileges;

/// How often signals are looked for.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);
/// How long a server that is told to end may take; systemd waits for 90 s.
const MAX_STOPPING: Duration = Duration::from_secs(60);
/// 128 and SIGINT, as shells say it.
const ENDED_BY_SIGNAL: i32 = 130;

pub(crate) fn run(arguments: &ServeArgs) -> anyhow::Result<ExitCode> {
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
    let places = places(arguments, address, transport)?;
    let scheme = match transport {
        Transport::Tls => "https",
        Transport::Plain | Transport::BehindProxy => "http",
    };
    let url = format!("{scheme}://{address}");
    let webhooks = arguments.webhook_file.as_deref().map(read_webhooks);
    // It posts, which a confined process can't; what it posts is written by one that is.
    let courier = webhooks.transpose()?;
    let courier = courier.map(|webhooks| Courier::start(webhooks, privileges::keep_for_files));
    let state = state(arguments)?;
    let tenants = open(arguments, places, state)?;
    let page = arguments.public_url.as_deref().unwrap_or(&url);
    let watch = courier
        .zip(state)
        .map(|(courier, state)| Watch::new(courier, state, arguments.check_every, page))
        .transpose()
        .context("reading what webhooks were told")?;
    let server = Server::new(tenants).with_tls(tls).watching(watch);
    output::result(&format!("{url}/\n"), Stream::Standard);
    output::note("Serving until Ctrl-C.");
    let interrupts = catch_interrupts();
    end_at_last(interrupts);
    server.run(&listener, || interrupts.is_stop_requested());
    Ok(ExitCode::SUCCESS)
}

/// A server that is told to end finishes requests and compaction; this ends it where that takes too long, or Ctrl-C is pressed
/// again. What was acknowledged is in the store either way.
fn end_at_last(interrupts: Interrupts) {
    std::thread::spawn(move || {
        while !interrupts.is_stop_requested() {
            std::thread::sleep(INTERRUPT_INTERVAL);
        }
        let deadline = Instant::now() + MAX_STOPPING;
        while !interrupts.is_discard_requested() && Instant::now() < deadline {
            std::thread::sleep(INTERRUPT_INTERVAL);
        }
        std::process::exit(ENDED_BY_SIGNAL);
    });
}

/// A store that is to be served.
struct Place {
    store: StoreArg,
    access: Access,
    takes_windows: bool,
}

/// The one store, or those of tenants.
fn places(
    arguments: &ServeArgs,
    address: SocketAddr,
    transport: Transport,
) -> anyhow::Result<Vec<Place>> {
    if let Some(folder) = &arguments.tenants {
        return tenants(&arguments.store, folder, address, transport);
    }
    let read = |file: &Option<_>| file.as_deref().map(read_token).transpose();
    let write_token = read(&arguments.write_token_file)?;
    let takes_windows = arguments.ingest || write_token.is_some();
    let token = read(&arguments.token_file)?;
    let mut access = Access::new(address, transport, token).map_err(Failure::Usage)?;
    if takes_windows {
        access = access.taking_windows(write_token).map_err(Failure::Usage)?;
    }
    Ok(vec![Place {
        store: arguments.store.clone(),
        access,
        takes_windows,
    }])
}

/// The tenants that a folder names, in their order.
fn tenants(
    store: &StoreArg,
    folder: &Path,
    address: SocketAddr,
    transport: Transport,
) -> anyhow::Result<Vec<Place>> {
    let reading = || format!("reading the tenants in {}", folder.display());
    let entries = std::fs::read_dir(folder).with_context(reading)?;
    let entries: Result<Vec<_>, _> = entries.collect();
    let mut folders: Vec<PathBuf> = entries
        .with_context(reading)?
        .iter()
        .map(std::fs::DirEntry::path)
        .filter(|path| path.is_dir())
        .collect();
    folders.small_sort();
    let mut secrets = HashSet::new();
    let mut places = Vec::new();
    for tenant in folders {
        let name = tenant.file_name().unwrap_or_default();
        let mut token = |file: &str| {
            let token = read_token(&tenant.join(file))?;
            match secrets.insert(token.secret().to_owned()) {
                true => Ok(token),
                false => Err(anyhow!(
                    "{}: a token that another tenant or purpose has: openssl rand -hex 16",
                    tenant.join(file).display()
                )),
            }
        };
        let (read, write) = (token("read")?, token("write")?);
        let access = Access::new(address, transport, Some(read))
            .and_then(|access| access.taking_windows(Some(write)))
            .map_err(Failure::Usage)?;
        places.push(Place {
            store: of_tenant(store, name)?,
            access,
            takes_windows: true,
        });
    }
    match places.is_empty() {
        true => Err(anyhow!(
            "{} has no folder of a tenant: mkdir it, with the files read and write",
            folder.display()
        )),
        false => Ok(places),
    }
}

/// The folder that says which regressions were posted.
fn state(arguments: &ServeArgs) -> anyhow::Result<Option<&Path>> {
    let refused = |why: &str| Err(Failure::Usage(why.to_owned()).into());
    match (&arguments.store, arguments.state.as_deref()) {
        (StoreArg::Folder(folder), None) => Ok(Some(folder)),
        (StoreArg::Folder(_), Some(_)) => {
            refused("--state is for a store in ClickHouse: the folder of --store has it otherwise")
        }
        (StoreArg::ClickHouse(_), None) if arguments.webhook_file.is_some() => {
            refused("webhooks of a store in ClickHouse need a folder for what was posted: --state")
        }
        (StoreArg::ClickHouse(_), state) => Ok(state),
    }
}

/// The store of a tenant, in the folder or the ClickHouse of all.
fn of_tenant(store: &StoreArg, name: &OsStr) -> anyhow::Result<StoreArg> {
    Ok(match store {
        StoreArg::Folder(folder) => StoreArg::Folder(folder.join("tenants").join(name)),
        StoreArg::ClickHouse(options) => {
            let database = format!("{}_{}", options.database, name.display());
            let address = format!("{}/{database}", options.url);
            let options = ClickHouseOptions::of_address(&address).map_err(Failure::Usage)?;
            StoreArg::ClickHouse(options)
        }
    })
}

/// Opens the stores, confined from then on.
fn open(
    arguments: &ServeArgs,
    places: Vec<Place>,
    state: Option<&Path>,
) -> anyhow::Result<Vec<Tenant>> {
    let locations = locations(arguments, &places, state)?;
    let open = |(place, location): (Place, &StoreLocation)| {
        let opening = || format!("opening the store {location}");
        let limits = IngestLimits {
            retention: match location {
                StoreLocation::File(_) => arguments.retention.retention(),
                StoreLocation::ClickHouse(options) => ClickHouseStore::open(options)
                    .with_context(opening)?
                    .retention(),
            },
            max_series: arguments.max_series,
        };
        let ingest = place.takes_windows.then(|| Ingest::open(location, &limits));
        let ingest = ingest.transpose().with_context(opening)?;
        let stores = Stores::open(location).with_context(opening)?;
        Ok(Tenant::new(stores, place.access, ingest))
    };
    places.into_iter().zip(&locations).map(open).collect()
}

/// Where stores are; the process is confined to what they take.
fn locations(
    arguments: &ServeArgs,
    places: &[Place],
    state: Option<&Path>,
) -> anyhow::Result<Vec<StoreLocation>> {
    if let StoreArg::Folder(folder) = &arguments.store {
        let takes_windows = places.iter().any(|place| place.takes_windows);
        let stores = places.iter().filter_map(|place| place.store.folder());
        let files = match takes_windows {
            true => enter_new_stores(folder, stores.map(Path::to_owned))?,
            false => vec![enter_store(folder)?],
        };
        return Ok(files.into_iter().map(StoreLocation::File).collect());
    }
    let in_clickhouse = places.iter().filter_map(|place| match &place.store {
        StoreArg::ClickHouse(options) => Some(with_access(options, &arguments.access)),
        StoreArg::Folder(_) => None,
    });
    let options: Vec<ClickHouseOptions> = in_clickhouse.collect::<anyhow::Result<_>>()?;
    let state = state.map(Path::to_owned);
    Confinement::default().connecting().writing(state).apply();
    Ok(options.into_iter().map(StoreLocation::ClickHouse).collect())
}

/// The webhooks of a file.
fn read_webhooks(path: &Path) -> anyhow::Result<Vec<Webhook>> {
    let text = read_secret(path)?;
    Webhook::of_lines(&text, &ClientOptions::default())
        .map_err(|why| anyhow!("{}: {why}", path.display()))
}
