//! `nodespy report`: what a recording says, as text, Markdown or JSON.

use std::process::ExitCode;

use anyhow::bail;
use nodespy_formats::V8_LOG_ENGINE;
use nodespy_model::Profile;
use nodespy_outputs::Output;

use crate::cli::{ReportArgs, ReportFormat};
use crate::comparing::Base;
use crate::confine::Confinement;
use crate::failure::Failure;
use crate::output::Stream;
use crate::save;

pub(crate) fn run(arguments: &ReportArgs) -> anyhow::Result<ExitCode> {
    let inputs = [&arguments.file].into_iter().chain(&arguments.base);
    Confinement::reading(inputs, &arguments.read).apply();
    let profile = save::read(&arguments.file, &arguments.read)?;
    let show = arguments.show.filters_of_processes(&arguments.pid);
    let base = Base::of(
        (&arguments.file, &profile),
        arguments.base.as_deref(),
        &arguments.read,
        &show,
    )?;
    let format = match (arguments.format, &arguments.base) {
        (Some(ReportFormat::Prof), Some(_)) => bail!(Failure::Usage(
            "--format prof has no room for a base; text, md and json have".to_owned()
        )),
        (Some(format), _) => format,
        (None, Some(_)) => ReportFormat::Text,
        (None, None) => usual_format(&profile),
    };
    match format {
        ReportFormat::Text => {
            let comparison = base.comparison.as_ref();
            save::print_compared(&profile, &show, Stream::Standard, comparison)?;
        }
        ReportFormat::Md => save::print_view(profile, Output::markdown(), &show, base)?,
        ReportFormat::Json => save::print_view(profile, Output::json(), &show, base)?,
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
