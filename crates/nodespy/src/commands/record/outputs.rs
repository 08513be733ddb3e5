//! Where a recording goes: the files it is written to, all of them checked before it starts.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use nodespy_analysis::Filters;
use nodespy_capture::target::Target;
use nodespy_capture::{Interrupts, unix_now};
use nodespy_model::{Profile, UtcTime};
use nodespy_outputs::Output;
use nodespy_recorder::Subject;

use crate::cli::RecordArgs;
use crate::failure::Failure;
use crate::output::{self, Stream, grouped};
use crate::save::{self, Destination, FormatChoice};

/// The files to write, known to be writable.
pub(super) fn destinations(
    arguments: &RecordArgs,
    subject: &Subject,
) -> anyhow::Result<Vec<Destination>> {
    let pid = subject.targets.first().map_or(0, Target::pid);
    let fill =
        |template: &Path| fill_template(template, pid, &subject.app, unix_now() / 1_000_000_000);
    let show = arguments.show.filters().of_shaped();
    if arguments.output.is_empty() {
        let stem = fill(Path::new("nodespy-{app}-{time}"));
        let format = match &arguments.format {
            Some(name) => save::known_format(name)?,
            None => Output::page(),
        };
        let page = Destination::new_in(Path::new(""), &stem.to_string_lossy(), format, &show)?;
        return Ok(vec![page.keeping_all()]);
    }
    let choice = FormatChoice {
        flag: "--format",
        name: arguments.format.as_deref(),
    };
    let check = |path: &PathBuf| Destination::check(&fill(path), choice, &show);
    let checked = arguments.output.iter().map(check);
    checked
        .map(|destination| Ok(destination?.keeping_all()))
        .collect()
}

/// The outputs of a recording that writes several files, each under a name that is free.
#[derive(Debug)]
pub(super) struct NumberedOutputs {
    pub(super) templates: Vec<(PathBuf, Output)>,
    pub(super) show: Filters,
    pub(super) pid: u32,
    pub(super) app: String,
}

impl NumberedOutputs {
    /// Finds out the formats and whether files can be written.
    pub(super) fn new(arguments: &RecordArgs, subject: &Subject) -> anyhow::Result<Self> {
        let choice = FormatChoice {
            flag: "--format",
            name: arguments.format.as_deref(),
        };
        let mut templates = Vec::new();
        for path in &arguments.output {
            if path == Path::new("-") {
                return Err(Failure::Usage(
                    "several files can't go to standard output: -o out.nspy".to_owned(),
                )
                .into());
            }
            templates.push((path.clone(), choice.format_of(path)?));
        }
        if templates.is_empty() {
            let format = match choice.name {
                Some(name) => save::known_format(name)?,
                None => Output::page(),
            };
            let name = format!("nodespy-{{app}}-{{time}}.{}", format.name());
            templates.push((PathBuf::from(name), format));
        }
        let outputs = Self {
            templates,
            show: arguments.show.filters().of_shaped(),
            pid: subject.targets.first().map_or(0, Target::pid),
            app: subject.app.clone(),
        };
        outputs.next().try_for_each(|next| next.map(drop))?;
        Ok(outputs)
    }

    /// The next files, known to be writable, or why one is not.
    pub(super) fn next(&self) -> impl Iterator<Item = anyhow::Result<Destination>> {
        let now = unix_now() / 1_000_000_000;
        let destination = move |(template, format): &(PathBuf, Output)| {
            let path = fill_template(template, self.pid, &self.app, now);
            Ok(Destination::numbered(&path, *format, &self.show)?.keeping_all())
        };
        self.templates.iter().map(destination)
    }
}

/// Fills in `{pid}`, `{app}` and `{time}`.
fn fill_template(path: &Path, pid: u32, app: &str, unix_seconds: u64) -> PathBuf {
    let Some(text) = path.to_str() else {
        return path.to_owned();
    };
    let app: String = app
        .chars()
        .map(|character| {
            if character.is_alphanumeric() || "._-".contains(character) {
                character
            } else {
                '-'
            }
        })
        .take(80)
        .collect();
    let app = app.trim_matches(['.', '-']);
    let app = if app.is_empty() { "node" } else { app };
    PathBuf::from(
        text.replace("{pid}", &pid.to_string())
            .replace("{app}", app)
            .replace("{time}", &time_stamp(unix_seconds)),
    )
}

/// `20261115-024530` in universal time.
fn time_stamp(unix_seconds: u64) -> String {
    let time = UtcTime::of(unix_seconds);
    format!(
        "{:04}{:02}{:02}-{:02}{:02}{:02}",
        time.year, time.month, time.day, time.hour, time.minute, time.second
    )
}

/// Writes every output, whatever happens to the others; the error names those that failed.
pub(super) fn write_all(
    arguments: &RecordArgs,
    profile: &Profile,
    destinations: &[Destination],
    interrupts: Interrupts,
) -> anyhow::Result<()> {
    let uses_standard_output = destinations.iter().any(Destination::is_standard_output);
    let stream = if uses_standard_output {
        Stream::Error
    } else {
        Stream::Standard
    };
    if interrupts.is_discard_requested() {
        return Err(Failure::Discarded.into());
    }
    let mut failures = Vec::new();
    if !arguments.quiet || !uses_standard_output {
        let shown = save::print_summary(profile, &arguments.show.filters().of_shaped(), stream);
        failures.extend(shown.err());
    }
    let mut is_kept = false;
    for destination in destinations {
        if interrupts.is_discard_requested() {
            return Err(Failure::Discarded.into());
        }
        match destination.write(profile) {
            Ok(()) => {
                is_kept |= destination.keeps_recording();
                report_written(arguments, destination);
            }
            Err(error) => failures.push(error),
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(not_written(&failures, profile, is_kept)),
    }
}

fn report_written(arguments: &RecordArgs, destination: &Destination) {
    let Some(path) = destination.path().filter(|_| !arguments.quiet) else {
        return;
    };
    let size = std::fs::metadata(path).map_or(0, |file| file.len());
    output::note(&format!(
        "Wrote {} ({} KB).",
        path.display(),
        grouped(size.div_ceil(1000))
    ));
}

/// What could not be shown or written. A recording that no output keeps is kept elsewhere.
pub(super) fn not_written(
    failures: &[anyhow::Error],
    profile: &Profile,
    is_kept: bool,
) -> anyhow::Error {
    let mut sentences: Vec<String> = failures.iter().map(output::in_one_line).collect();
    if is_kept {
        return anyhow!(sentences.join("; "));
    }
    match save::rescue(profile) {
        Some(path) => {
            sentences.push(format!("the recording was kept in {}", path.display()));
            anyhow!(sentences.join("; "))
        }
        None => {
            sentences.push("and nowhere else could it be written".to_owned());
            NowhereWritten(sentences.join("; ")).into()
        }
    }
}

/// Whether an error means that no file has the recording.
pub(super) fn is_nowhere(error: &anyhow::Error) -> bool {
    error.is::<NowhereWritten>()
}

/// No file has the recording.
#[derive(Debug)]
struct NowhereWritten(String);

impl std::fmt::Display for NowhereWritten {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for NowhereWritten {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled_in_and_stay_one_file_name() {
        let path = fill_template(
            Path::new("out/{app}-{pid}-{time}.svg"),
            7,
            "@scope/../api",
            1_794_713_493,
        );
        assert_eq!(path, Path::new("out/scope-..-api-7-20261115-033133.svg"));
    }

    #[test]
    fn time_stamps_are_dates() {
        assert_eq!(time_stamp(0), "19700101-000000");
        assert_eq!(time_stamp(951_782_400), "20000229-000000");
        assert_eq!(time_stamp(4_102_444_799), "20991231-235959");
    }
}
