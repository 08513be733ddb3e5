//! `nodespy deploy mark`: a deployment that no label tells.

use std::process::ExitCode;

use anyhow::Context;
use nodespy_capture::unix_now;
use nodespy_server::query::mark_deployment;
use nodespy_store::{OpenMode, SqliteStore};

use super::agent::enter_store;
use crate::cli::{DeployArgs, DeployCommand, MarkArgs};

pub(crate) fn run(arguments: &DeployArgs) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        DeployCommand::Mark(arguments) => mark(arguments),
    }
}

fn mark(arguments: &MarkArgs) -> anyhow::Result<ExitCode> {
    let file = enter_store(&arguments.store)?;
    let mut store = SqliteStore::open(&file, OpenMode::Write)
        .with_context(|| format!("opening the store {}", file.display()))?;
    let time = arguments.at.unwrap_or(unix_now() / 1_000_000_000);
    mark_deployment(&mut store, &arguments.service, &arguments.version, time)?;
    Ok(ExitCode::SUCCESS)
}
