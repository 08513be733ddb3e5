//! `nodespy man`: a page for each command, made of its arguments.

use std::fs;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::{Cli, ManArgs};

pub(crate) fn run(arguments: &ManArgs) -> anyhow::Result<ExitCode> {
    let folder = &arguments.folder;
    let cannot = || format!("writing man pages into {}", folder.display());
    fs::create_dir_all(folder).with_context(cannot)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(cannot)?;
    Ok(ExitCode::SUCCESS)
}
