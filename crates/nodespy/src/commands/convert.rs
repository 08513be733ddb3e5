//! `nodespy convert`: one format in, another out.

use std::process::ExitCode;

use crate::cli::ConvertArgs;
use crate::save::{self, Destination};

pub(crate) fn run(arguments: &ConvertArgs) -> anyhow::Result<ExitCode> {
    let destination =
        Destination::check(&arguments.output, arguments.to.as_deref(), &arguments.show)?;
    let profile =
        save::read(&arguments.input, &arguments.read).inspect_err(|_| destination.abandon())?;
    destination.write(&profile)?;
    Ok(ExitCode::SUCCESS)
}
