//! `nodespy record --trigger`: the flight recorder and the files it leaves behind.

use std::process::ExitCode;
use std::time::Duration;

use nodespy_capture::catch_interrupts;
use nodespy_capture::engines::perf_events::EventSpec;
use nodespy_recorder::{FlightOptions, RecordRequest, Sampled, Trigger, fly};
use nodespy_view::wording::counted;

use super::files::{Caps, Files};
use super::reporting::Reporting;
use super::{perf_request, prepare, source_roots, with_sources};
use crate::cli::RecordArgs;
use crate::failure::Failure;
use crate::output;

const KEEP: Duration = Duration::from_secs(30);
const HOLD_OFF: Duration = Duration::from_secs(60);
const MAX_FILES: u32 = 10;
const MAX_SIZE: u64 = 100_000_000;
/// It goes on for days: as often as for a process that runs, also where that was launched.
const RATE_HZ: u32 = 99;

pub(super) fn run(arguments: &RecordArgs) -> anyhow::Result<ExitCode> {
    let mut request = flight_request(arguments)?;
    let subject = prepare(arguments, &request)?;
    let sources = source_roots(arguments, &subject);
    let caps = Caps {
        files: Some(arguments.flight.max_files.unwrap_or(MAX_FILES)),
        bytes: Some(arguments.flight.max_size.unwrap_or(MAX_SIZE)),
    };
    let mut files = Files::new(arguments, &subject, caps)?;
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
        // What is recorded meanwhile is not written: nothing is, for a while.
        &mut |profile| files.write_and_wait(with_sources(profile, sources.as_ref())),
    );
    reporting.end();
    let flown = flown?;
    let written = files.finish()?;
    if !arguments.quiet {
        output::note(&closing(written, flown.missed, options.hold_off));
    }
    Ok(match flown.status {
        Some(status) if arguments.exit_code => super::exit_like(status),
        _ => ExitCode::SUCCESS,
    })
}

/// What is to be recorded, which shows waiting where a trigger is about it.
fn flight_request(arguments: &RecordArgs) -> anyhow::Result<RecordRequest> {
    let mut request = perf_request(arguments, "--trigger 'stall>200ms'")?;
    request.spares_idle = true;
    request.rate_hz.get_or_insert(RATE_HZ);
    let triggers = &arguments.flight.trigger;
    if arguments.event.is_empty() && triggers.iter().any(Trigger::needs_waits) {
        let wall = EventSpec::parse("wall").map_err(Failure::Usage)?;
        request.sampled = Sampled::Perf(vec![wall]);
    }
    Ok(request)
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
