//! `nodespy report`: what a recording says, as text, Markdown or JSON.

use std::process::ExitCode;

use nodespy_formats::V8_LOG_ENGINE;
use nodespy_model::Profile;
use nodespy_outputs::Output;

use crate::cli::{ReportArgs, ReportFormat};
use crate::confine::Confinement;
use crate::output::Stream;
use crate::save;

pub(crate) fn run(arguments: &ReportArgs) -> anyhow::Result<ExitCode> {
    Confinement::reading([&arguments.file], &arguments.read).apply();
    let profile = save::read(&arguments.file, &arguments.read)?;
    let show = arguments.show.filters_of_processes(&arguments.pid);
    match arguments.format.unwrap_or_else(|| usual_format(&profile)) {
        ReportFormat::Text => save::print_summary(&profile, &show, Stream::Standard)?,
        ReportFormat::Md => save::print_view(profile, Output::markdown(), &show)?,
        ReportFormat::Json => save::print_view(profile, Output::json(), &show)?,
        ReportFormat::Prof => save::print_prof(&profile, &show, &arguments.file.to_string_lossy())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Who reads a V8 log knows `node --prof-process`.
fn usual_format(profile: &Profile) -> ReportFormat {
    match profile.about.engine == V8_LOG_ENGINE {
        true => ReportFormat::Prof,
        false => ReportFormat::Text,
    }
}
