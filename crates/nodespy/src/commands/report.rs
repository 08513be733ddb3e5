//! `nodespy report`: what a recording says, as text, Markdown or JSON.

use std::process::ExitCode;

use anyhow::bail;
use nodespy_analysis::{Filters, has_routes};
use nodespy_formats::V8_LOG_ENGINE;
use nodespy_model::Profile;
use nodespy_outputs::Output;

use crate::cli::{By, ReportArgs, ReportFormat};
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
    if arguments.by == Some(By::Route) {
        return by_route(profile, format, &show);
    }
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

/// The routes instead of the functions. The JSON has both in any case.
fn by_route(profile: Profile, format: ReportFormat, show: &Filters) -> anyhow::Result<ExitCode> {
    if !has_routes(&profile) {
        bail!("no sample of this recording says which route it is of");
    }
    match format {
        ReportFormat::Text => save::print_by_route(&profile, Output::text(), show)?,
        ReportFormat::Md => save::print_by_route(&profile, Output::markdown(), show)?,
        ReportFormat::Json => save::print_view(profile, Output::json(), show, Base::default())?,
        ReportFormat::Prof => bail!(Failure::Usage(
            "--format prof has no routes; text, md and json have".to_owned()
        )),
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
