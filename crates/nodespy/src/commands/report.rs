//! `nodespy report`: what a recording says, as text, Markdown or JSON.

use std::process::ExitCode;

use crate::cli::{ReportArgs, ReportFormat};
use crate::output::Stream;
use crate::save;

pub(crate) fn run(arguments: &ReportArgs) -> anyhow::Result<ExitCode> {
    let profile = save::read(&arguments.file, &arguments.read)?;
    let show = arguments.show.of_processes(&arguments.pid);
    match arguments.format.unwrap_or(ReportFormat::Text) {
        ReportFormat::Text => save::print_summary(&profile, &show, Stream::Standard)?,
        ReportFormat::Md => save::print_view(profile, "md", &show)?,
        ReportFormat::Json => save::print_view(profile, "json", &show)?,
    }
    Ok(ExitCode::SUCCESS)
}
