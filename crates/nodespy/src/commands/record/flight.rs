//! `nodespy record --trigger`: the flight recorder and the files it leaves behind.

use std::process::ExitCode;
use std::time::Duration;

use nodespy_analysis::shaped;
use nodespy_capture::catch_interrupts;
use nodespy_capture::engines::perf_events::EventSpec;
use nodespy_model::{Profile, printable};
use nodespy_recorder::{EngineChoice, FlightOptions, RecordRequest, Sampled, Trigger, fly};
use nodespy_view::wording::counted;

use super::outputs::NumberedOutputs;
use super::reporting::Reporting;
use super::{prepare, request, source_roots, with_sources};
use crate::cli::RecordArgs;
use crate::failure::Failure;
use crate::output::{self, grouped};

const KEEP: Duration = Duration::from_secs(30);
const HOLD_OFF: Duration = Duration::from_secs(60);
const MAX_FILES: u32 = 10;
const MAX_SIZE: u64 = 100_000_000;
/// It goes on for days: as often as for a process that runs, also where that was launched.
const RATE_HZ: u32 = 99;

pub(super) fn run(arguments: &RecordArgs) -> anyhow::Result<ExitCode> {
    let mut request = flight_request(arguments)?;
    let subject = prepare(&request)?;
    let sources = source_roots(arguments, &subject);
    let mut files = Files {
        arguments,
        outputs: NumberedOutputs::new(arguments, &subject)?,
        written: 0,
        bytes: 0,
        failure: None,
    };
    let interrupts = catch_interrupts();
    request.interrupts = Some(interrupts);
    let options = FlightOptions {
        triggers: arguments.flight.trigger.clone(),
        keep: arguments.flight.keep.unwrap_or(KEEP),
        hold_off: arguments.flight.hold_off.unwrap_or(HOLD_OFF),
    };
    let mut reporting = Reporting::new(arguments);
    let flown = fly(
        &request,
        subject,
        &options,
        &mut reporting,
        &mut |profile| files.write(with_sources(profile, sources.as_ref())),
    );
    reporting.end();
    let flown = flown?;
    if let Some(failure) = files.failure {
        return Err(failure);
    }
    if !arguments.quiet {
        output::note(&closing(files.written, flown.missed, options.hold_off));
    }
    Ok(match flown.status {
        Some(status) if arguments.exit_code => super::exit_like(status),
        _ => ExitCode::SUCCESS,
    })
}

/// What is to be recorded, which shows waiting where a trigger is about it.
fn flight_request(arguments: &RecordArgs) -> anyhow::Result<RecordRequest> {
    let mut request = request(arguments)?;
    let is_perf = matches!(request.engine, EngineChoice::Auto | EngineChoice::Perf);
    let is_allocations = request.sampled == Sampled::Allocations;
    if !is_perf || is_allocations || request.inspect_url.is_some() {
        return Err(Failure::Usage(
            "--trigger records with perf events, not with the inspector: nodespy record --trigger \
             'stall>200ms' -p PID"
                .to_owned(),
        )
        .into());
    }
    request.engine = EngineChoice::Perf;
    request.rate_hz.get_or_insert(RATE_HZ);
    let triggers = &arguments.flight.trigger;
    if arguments.event.is_empty() && triggers.iter().any(Trigger::needs_waits) {
        let wall = EventSpec::parse("wall").map_err(Failure::Usage)?;
        request.sampled = Sampled::Perf(vec![wall]);
    }
    Ok(request)
}

/// The files that were written so far.
struct Files<'a> {
    arguments: &'a RecordArgs,
    outputs: NumberedOutputs,
    written: u32,
    bytes: u64,
    failure: Option<anyhow::Error>,
}

impl Files<'_> {
    /// Writes what a trigger asked for; whether more may be written.
    fn write(&mut self, profile: Profile) -> bool {
        if let Err(error) = self.write_all(profile) {
            self.failure = Some(error);
            return false;
        }
        self.written += 1;
        let flight = &self.arguments.flight;
        let max_files = flight.max_files.unwrap_or(MAX_FILES);
        let max_size = flight.max_size.unwrap_or(MAX_SIZE);
        let why = match (self.written >= max_files, self.bytes >= max_size) {
            (true, _) => "as many files are written as --max-files allows",
            (_, true) => "the files are as large as --max-size allows",
            (false, false) => return true,
        };
        output::note(&format!("The recording ends: {why}."));
        false
    }

    fn write_all(&mut self, profile: Profile) -> anyhow::Result<()> {
        let profile = shaped(profile, &self.arguments.show.filters());
        for destination in self.outputs.next()? {
            destination.write(&profile)?;
            let Some(path) = destination.path() else {
                continue;
            };
            let size = std::fs::metadata(path).map_or(0, |file| file.len());
            self.bytes = self.bytes.saturating_add(size);
            if !self.arguments.quiet {
                let why = profile.notes.triggers.join("; ");
                output::note(&format!(
                    "Wrote {} ({} KB), {}.",
                    path.display(),
                    grouped(size.div_ceil(1000)),
                    printable(&why)
                ));
            }
        }
        Ok(())
    }
}

/// What the recording came to.
fn closing(written: u32, missed: u64, hold_off: Duration) -> String {
    let files = match written {
        0 => "No trigger fired: nothing was written".to_owned(),
        written => format!("{} written", counted(u64::from(written), "file")),
    };
    match missed {
        0 => format!("{files}."),
        missed => format!(
            "{files}; triggers fired {} more within {} s of a file (--hold-off).",
            counted(missed, "time"),
            hold_off.as_secs_f64()
        ),
    }
}
