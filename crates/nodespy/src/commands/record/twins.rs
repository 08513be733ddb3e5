//! Perf events and V8's own profiler at once, joined on the monotonic clock.

use nodespy_analysis::{Agreement, join_twins};
use nodespy_capture::target::Target;
use nodespy_capture::{Interrupts, monotonic_now};
use nodespy_model::{Nanoseconds, Profile};

use super::with_inspector::{self, Inspecting};
use crate::cli::{Engine, RecordArgs};
use crate::failure::Failure;

/// Samples so near to each other are of the same moment.
const WITHIN: Nanoseconds = 1_000_000;

/// V8's profiler, while perf events record too.
pub(super) struct Twin {
    inspecting: Inspecting,
    started: Nanoseconds,
}

/// Starts V8's profiler if both engines are wanted.
pub(super) fn start(
    arguments: &RecordArgs,
    targets: &[Target],
    app: &str,
    interrupts: Interrupts,
) -> anyhow::Result<Option<Twin>> {
    if arguments.engine != Engine::Both {
        return Ok(None);
    }
    if !arguments.command.is_empty() {
        return Err(Failure::Usage(
            "--engine both attaches to processes that run already: -p PID".to_owned(),
        )
        .into());
    }
    let started = monotonic_now();
    let inspecting = with_inspector::start_beside(arguments, targets, app, started, interrupts)?;
    Ok(Some(Twin {
        inspecting,
        started,
    }))
}

impl Twin {
    /// Ends V8's profiler and joins what it saw to `profile`, whose clock started at `started`. If
    /// it saw nothing the profile stays as it is and says why.
    pub(super) fn join(self, mut profile: Profile, started: Nanoseconds) -> Profile {
        let twin = match self.inspecting.finish() {
            Ok(inspected) => inspected.profile,
            Err(error) => {
                let why = format!("V8's own profiler could not be asked: {error:#}");
                profile.notes.remark(why);
                return profile;
            }
        };
        let earlier = started.saturating_sub(self.started);
        let (mut joined, agreement) = join_twins(profile, &twin, earlier, WITHIN);
        for clause in clauses(agreement) {
            joined.notes.add_cross_check(&clause);
        }
        for remark in twin.notes.remarks {
            joined.notes.remark(remark);
        }
        joined.about.engine = "perf events and V8 inspector".to_owned();
        joined
    }
}

fn clauses(agreement: Agreement) -> Vec<String> {
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let joined = percent(agreement.joined, agreement.javascript);
    let mut clauses = vec![format!("{joined:.0}% of JS samples joined with V8's own")];
    if agreement.compared > 0 {
        let agreeing = percent(agreement.agreeing, agreement.compared);
        clauses.push(format!("V8 agrees on {agreeing:.1}% of them"));
    }
    clauses
}
