//! `nodespy agent`: every Node process of this machine, all the time, into a store.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use nodespy_agent::{AgentOptions, LogLine};
use nodespy_capture::{catch_interrupts, unix_now};
use nodespy_model::{Labels, UtcTime};
use nodespy_store::{OpenMode, Retention, SqliteStore};
use nodespy_symbolize::SourceMapOptions;

use crate::cli::AgentArgs;
use crate::confine::Confinement;
use crate::output;
use crate::privileges::{self, Extra};

/// The file of a store in its folder.
const STORE_FILE: &str = "profiles.sqlite";

pub(crate) fn run(arguments: &AgentArgs) -> anyhow::Result<ExitCode> {
    privileges::keep_for_processes(Extra::default());
    let path = prepare_folder(&arguments.store)?;
    let store = SqliteStore::open(&path, OpenMode::Write)
        .with_context(|| format!("opening the store {}", path.display()))?;
    let mut labels = Labels::default();
    for (key, value) in &arguments.label {
        labels.set(key, value);
    }
    let options = AgentOptions {
        rate_hz: arguments.rate,
        include_kernel: !arguments.no_kernel,
        no_ebpf: arguments.no_ebpf,
        source_maps: (!arguments.no_source_maps).then(SourceMapOptions::default),
        labels,
        retention: Retention {
            windows: arguments.keep.as_secs(),
            hours: arguments.keep_hours.as_secs(),
            rollups: arguments.keep_versions.as_secs(),
            max_bytes: arguments.max_size,
        },
        duration: arguments.duration,
        interrupts: Some(catch_interrupts()),
        attached: privileges::keep_when_perf_is_attached,
    };
    say(&format!(
        "level=info msg=started store={path:?} rate_hz={}",
        options.rate_hz
    ));
    let log = Arc::new(|line: &LogLine| say(&line.to_string()));
    let written = nodespy_agent::run(&options, Box::new(store), log)?;
    say(&format!(
        "level=info msg=ended windows={} repeated={} dropped={}",
        written.windows, written.repeated, written.dropped
    ));
    Ok(ExitCode::SUCCESS)
}

/// The file of the store in this folder.
fn store_file(folder: &Path) -> PathBuf {
    folder.join(STORE_FILE)
}

/// The file of a store that is there already. From now on the process can open nothing but that folder, which readers write
/// to as well: they share memory with the writer, in a file beside the store.
pub(super) fn enter_store(folder: &Path) -> anyhow::Result<PathBuf> {
    let file = store_file(folder);
    if !file.exists() {
        let folder = folder.display();
        return Err(anyhow!(
            "there is no store in {folder}: nodespy agent --store {folder} makes one"
        ));
    }
    Confinement::default().writing([folder.to_owned()]).apply();
    Ok(file)
}

/// Makes the folder of a store, for its owner only, if there is none.
fn prepare_folder(folder: &Path) -> anyhow::Result<PathBuf> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| {
            format!(
                "making the folder {}; another one: --store FOLDER",
                folder.display()
            )
        })?;
    Ok(store_file(folder))
}

fn say(line: &str) {
    output::note(&format!("time={} {line}", utc(unix_now() / 1_000_000_000)));
}

/// `2026-11-17T09:31:00Z`.
pub(crate) fn utc(unix_seconds: u64) -> String {
    let time = UtcTime::of(unix_seconds);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        time.year, time.month, time.day, time.hour, time.minute, time.second
    )
}
