//! Why a file was written, in a sentence.

use nodespy_analysis::without_internals;
use nodespy_capture::Stall;
use nodespy_model::{Nanoseconds, Profile};

use super::trigger::Trigger;
use crate::blocker::{Blocker, loop_of};

/// What a trigger saw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cause {
    /// An event loop was away from poll.
    Stall(Stall),
    /// A process was over a limit: what was measured of it.
    Level {
        trigger: Trigger,
        pid: u32,
        measured: f64,
    },
    /// The user asked.
    Signal,
}

impl Cause {
    /// The reason, as a clause; `profile` is of the file, which starts `start` after the recording.
    pub(crate) fn sentence(&self, profile: &Profile, start: Nanoseconds) -> String {
        match self {
            Self::Stall(stall) => {
                let stall = Stall {
                    started: stall.started.saturating_sub(start),
                    ..*stall
                };
                stall_sentence(&stall, profile)
            }
            Self::Level {
                trigger,
                pid,
                measured,
            } => level_sentence(trigger, *pid, *measured),
            Self::Signal => "nodespy was sent SIGUSR2".to_owned(),
        }
    }
}

fn stall_sentence(stall: &Stall, profile: &Profile) -> String {
    let shown = without_internals(profile.clone());
    let blocker = Blocker::of(std::iter::once(&shown), stall);
    let going_on = match stall.is_over {
        true => "",
        false => " and was still",
    };
    let mostly = blocker.map_or_else(String::new, |blocker| {
        let caller = blocker.callers.first();
        let caller = caller.map(|caller| format!(" called by {caller}"));
        let wait = blocker.wait.map(|wait| format!(", waiting: {wait}"));
        format!(
            ", mostly in {}{}{} ({:.0} % of it)",
            blocker.function,
            caller.unwrap_or_default(),
            wait.unwrap_or_default(),
            100.0 * blocker.share
        )
    });
    format!(
        "the event loop of {} was away from poll for {} ms{going_on}, from {:.1} s on{mostly}",
        loop_of(std::iter::once(profile), stall),
        stall.lasted / 1_000_000,
        stall.started as f64 / 1e9,
    )
}

fn level_sentence(trigger: &Trigger, pid: u32, measured: f64) -> String {
    match trigger {
        Trigger::Cpu { window, .. } => format!(
            "process {pid} used {measured:.0} % of a CPU for {} s ({trigger})",
            window.as_secs_f64()
        ),
        Trigger::RunDelay { window, .. } => format!(
            "the main thread of process {pid} waited for a CPU for {measured:.0} % of {} s ({trigger})",
            window.as_secs_f64()
        ),
        _ => format!(
            "process {pid} had {:.0} MB of memory ({trigger})",
            measured / 1e6
        ),
    }
}
