//! `nodespy deploy mark`: a deployment that no label tells.

use std::process::ExitCode;

use nodespy_capture::unix_now;
use nodespy_server::query::mark_deployment;
use nodespy_store::OpenMode;

use super::store;
use crate::cli::{DeployArgs, DeployCommand, MarkArgs};

pub(crate) fn run(arguments: &DeployArgs) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        DeployCommand::Mark(arguments) => mark(arguments),
    }
}

fn mark(arguments: &MarkArgs) -> anyhow::Result<ExitCode> {
    let mut store = store::open(&arguments.store, &arguments.access, OpenMode::Write)?;
    let time = arguments.at.unwrap_or(unix_now() / 1_000_000_000);
    mark_deployment(&mut store, &arguments.service, &arguments.version, time)?;
    Ok(ExitCode::SUCCESS)
}
