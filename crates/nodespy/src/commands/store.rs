//! `nodespy store init`: the tables of a store in ClickHouse. Also how commands open a store, whichever engine it has.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use nodespy_store::{ClickHouseOptions, ClickHouseTables, OpenMode, OpenStore, StoreLocation};

use super::agent::{enter_store, read_secret};
use crate::cli::{ClickHouseArgs, InitArgs, StoreArg, StoreCommand, StoreCommandArgs};
use crate::confine::Confinement;
use crate::output::{self, Stream};

pub(crate) fn run(arguments: &StoreCommandArgs) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        StoreCommand::Init(arguments) => init(arguments),
    }
}

fn init(arguments: &InitArgs) -> anyhow::Result<ExitCode> {
    let tables = ClickHouseTables {
        retention: arguments.keep.retention(u64::MAX),
        cluster: arguments.cluster.clone(),
    };
    let database = &arguments.clickhouse.database;
    if arguments.print {
        let statements = tables.statements(database);
        let text = format!("{};\n", statements.join(";\n\n"));
        output::result(&text, Stream::Standard);
        return Ok(ExitCode::SUCCESS);
    }
    let options = with_access(&arguments.clickhouse, &arguments.access)?;
    Confinement::default().connecting().apply();
    tables
        .create(&options)
        .with_context(|| format!("making tables in {options}"))?;
    output::note(&format!(
        "The store is ready: nodespy serve --ingest --store clickhouse={options}"
    ));
    Ok(ExitCode::SUCCESS)
}

/// A ClickHouse and who asks it.
pub(super) fn with_access(
    options: &ClickHouseOptions,
    access: &ClickHouseArgs,
) -> anyhow::Result<ClickHouseOptions> {
    let password = access.clickhouse_password_file.as_deref().map(password);
    Ok(ClickHouseOptions {
        user: access.clickhouse_user.clone(),
        password: password.transpose()?,
        ca_file: access.clickhouse_ca_file.clone(),
        ..options.clone()
    })
}

fn password(path: &Path) -> anyhow::Result<String> {
    let text = read_secret(path)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Opens a store that is there, confined from then on.
pub(super) fn open(
    store: &StoreArg,
    access: &ClickHouseArgs,
    mode: OpenMode,
) -> anyhow::Result<OpenStore> {
    let location = match store {
        StoreArg::Folder(folder) => StoreLocation::File(enter_store(folder)?),
        StoreArg::ClickHouse(options) => {
            let options = with_access(options, access)?;
            Confinement::default().connecting().apply();
            StoreLocation::ClickHouse(options)
        }
    };
    OpenStore::open(&location, mode).with_context(|| format!("opening the store {location}"))
}
