//! Recording through V8's inspector.

use std::time::Duration;

use nodespy_capture::engines::inspector::{InspectorOptions, InspectorSession};
use nodespy_capture::target::{Target, proc};
use nodespy_capture::{Interrupts, monotonic_now, unix_now};
use nodespy_model::{About, Notes, Profile, ProfileBuilder, WeightUnit, add_samples, add_threads};

use crate::cli::RecordArgs;
use crate::failure::Failure;
use crate::output;

/// The rate V8 samples at unless told otherwise.
const INTERVAL_US: u32 = 1000;

/// Records until it is over, and leaves the processes as they were found.
pub(super) fn record(
    arguments: &RecordArgs,
    targets: &[Target],
    app: &str,
    interrupts: Interrupts,
) -> anyhow::Result<Profile> {
    let options = InspectorOptions {
        interval_us: arguments.interval.unwrap_or(INTERVAL_US),
        force: arguments.force,
        ..InspectorOptions::default()
    };
    let started_unix = unix_now();
    let mut sessions = InspectorSession::attach_all(targets, &options)?;
    if !arguments.quiet {
        announce(arguments, &sessions, app);
    }
    wait(arguments, &mut sessions, targets, interrupts);
    let about = About {
        app: app.to_owned(),
        host: proc::host_name(),
        engine: "V8 inspector".to_owned(),
        event: "CPU profiler".to_owned(),
        rate_hz: 1_000_000 / options.interval_us,
        started_unix,
        nodespy_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..About::default()
    };
    let mut profiles = Vec::new();
    let mut failures = Vec::new();
    for session in sessions {
        match session.finish(about.clone()) {
            Ok(profile) => profiles.push(profile),
            Err(error) => failures.push(error),
        }
    }
    let mut profile = match (profiles.len(), failures.pop()) {
        (0, Some(error)) => return Err(error.into()),
        (0, None) => {
            return Err(Failure::NoSamples("no process could be recorded".to_owned()).into());
        }
        (1, _) => profiles.remove(0),
        _ => together(&profiles, about),
    };
    for error in failures {
        profile
            .notes
            .remark(format!("{:#}", anyhow::Error::from(error)));
    }
    if profile.samples.is_empty() {
        return Err(Failure::NoSamples("no samples: V8's profiler saw nothing".to_owned()).into());
    }
    Ok(profile)
}

fn announce(arguments: &RecordArgs, sessions: &[InspectorSession], app: &str) {
    let until = match arguments.duration {
        Some(duration) => format!("for {} s", duration.as_secs_f64()),
        None => "until Ctrl-C".to_owned(),
    };
    for session in sessions {
        output::note(&format!(
            "Recording {} (pid {}, Node {}) with V8's profiler {until}.",
            nodespy_model::printable(app),
            session.pid(),
            nodespy_model::printable(session.node_version()),
        ));
        if session.is_opened_by_us() {
            output::note(&format!(
                "Its inspector is open at {} meanwhile: any user of this machine can run code in it.",
                session.address()
            ));
        }
    }
}

/// Waits until the time is over, the user has enough, or nobody is left.
fn wait(
    arguments: &RecordArgs,
    sessions: &mut [InspectorSession],
    targets: &[Target],
    interrupts: Interrupts,
) {
    let started = monotonic_now();
    let deadline = arguments
        .duration
        .map(|duration| started.saturating_add(duration.as_nanos() as u64));
    loop {
        let is_late = deadline.is_some_and(|deadline| monotonic_now() >= deadline);
        if is_late || interrupts.count() > 0 || targets.iter().all(Target::has_ended) {
            return;
        }
        // Each look waits a moment. A process that ends only waits for us: it must not wait long.
        let mut is_ending = false;
        for session in sessions.iter_mut() {
            is_ending |= session.look().unwrap_or(true);
        }
        if is_ending {
            return;
        }
        if sessions.is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// One profile of several processes.
fn together(profiles: &[Profile], mut about: About) -> Profile {
    let mut builder = ProfileBuilder::new(WeightUnit::Nanoseconds);
    let mut notes = Notes::default();
    for profile in profiles {
        let threads = add_threads(&mut builder, profile);
        add_samples(&mut builder, profile, 0, |thread| threads[thread.at()]);
        about.duration = about.duration.max(profile.about.duration);
        for remark in &profile.notes.remarks {
            notes.remark(remark.clone());
        }
    }
    builder.finish(about, notes)
}
