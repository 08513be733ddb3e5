//! `nodespy recover`: the journal of a recording that was killed becomes its output.

use std::path::Path;
use std::process::ExitCode;

use nodespy_analysis::Filters;
use nodespy_outputs::Output;

use super::record::journal::SUFFIX;
use crate::cli::{ReadArgs, RecoverArgs};
use crate::confine::Confinement;
use crate::output::{self, Stream, grouped};
use crate::save::{self, Destination, FormatChoice};

pub(crate) fn run(arguments: &RecoverArgs) -> anyhow::Result<ExitCode> {
    let show = Filters::default();
    let destination = match &arguments.output {
        Some(path) => {
            let choice = FormatChoice {
                flag: "--format",
                name: arguments.format.as_deref(),
            };
            Destination::check(path, choice, &show)?
        }
        None => beside(&arguments.journal, arguments.format.as_deref(), &show)?,
    };
    let destination = destination.keeping_all();
    let reading = ReadArgs {
        from: Some("journal".to_owned()),
        source_maps: arguments.source_maps.clone(),
        ..ReadArgs::default()
    };
    Confinement::reading([&arguments.journal], &reading)
        .writing(destination.folder())
        .apply();
    let profile = save::read(&arguments.journal, &reading)?;
    let stream = match destination.is_standard_output() {
        true => Stream::Error,
        false => Stream::Standard,
    };
    save::print_summary(&profile, &show, stream)?;
    destination.write(&profile)?;
    if let Some(path) = destination.path() {
        output::note(&format!(
            "Wrote {} with {} samples; {} is not needed any more.",
            path.display(),
            grouped(profile.samples.len() as u64),
            arguments.journal.display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The output that the recording would have had, under a name that is free.
fn beside(journal: &Path, format: Option<&str>, show: &Filters) -> anyhow::Result<Destination> {
    let output = match journal.extension() {
        Some(extension) if extension == SUFFIX => journal.with_extension(""),
        _ => journal.to_owned(),
    };
    let format = match format {
        Some(name) => save::known_format(name)?,
        None => Output::for_path(&output).unwrap_or_else(Output::native),
    };
    let folder = output.parent().unwrap_or(Path::new(""));
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    Destination::new_in(folder, &stem, format, show)
}
