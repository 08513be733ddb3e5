//! `nodespy report`: what a recording says, as text.

use std::process::ExitCode;

use crate::cli::{ReportArgs, ReportFormat};
use crate::output::Stream;
use crate::save;

pub(crate) fn run(arguments: &ReportArgs) -> anyhow::Result<ExitCode> {
    let profile = save::read(&arguments.file, &arguments.read)?;
    let show = arguments.show.of_processes(&arguments.pid);
    match arguments.format.unwrap_or(ReportFormat::Text) {
        ReportFormat::Text => save::print_summary(&profile, &show, Stream::Standard)?,
    }
    Ok(ExitCode::SUCCESS)
}
