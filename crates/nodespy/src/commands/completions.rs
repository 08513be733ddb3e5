//! `nodespy completions`: what a shell completes.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::output::{self, Stream};

pub(crate) fn run(arguments: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "nodespy", &mut script);
    output::result(&String::from_utf8_lossy(&script), Stream::Standard);
    Ok(ExitCode::SUCCESS)
}
