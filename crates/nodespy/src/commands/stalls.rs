//! `nodespy stalls`: every time an event loop was away from poll for too long, live, one line each.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Duration;

use nodespy_analysis::without_internals;
use nodespy_capture::engines::perf_events::{CopiedAtSample, EventSpec, PerfEvents, PerfOptions};
use nodespy_capture::{Children, Stall, catch_interrupts};
use nodespy_model::{Profile, printable};
use nodespy_recorder::{
    Blocker, Limits, Live, LiveOptions, Observer, Slice, Started, Subject, loop_of,
};
use nodespy_symbolize::SourceMapOptions;

use crate::cli::StallsArgs;
use crate::failure::Failure;
use crate::output;
use crate::privileges::{self, Extra};
use crate::targets;

/// How often stalls are reported.
const SLICE: Duration = Duration::from_millis(500);
const RATE_HZ: u32 = 99;
/// How many slices are kept: of longer stalls the end is looked at.
const MAX_SLICES: usize = 60;

pub(crate) fn run(arguments: &StallsArgs) -> anyhow::Result<ExitCode> {
    privileges::keep_for_processes(Extra::default());
    let targets = targets::hold(&arguments.target, true)?;
    let interrupts = catch_interrupts();
    let wall = EventSpec::parse("wall").map_err(Failure::Usage)?;
    let mut engine = PerfEvents::new(PerfOptions {
        events: vec![wall],
        rate_hz: RATE_HZ,
        include_kernel: false,
        follow_children: false,
        walks_at_sample: false,
        reads_at_sample: false,
        copies: CopiedAtSample::default(),
        spares_idle: false,
        prefers_cpus: false,
        placebo: false,
    });
    let subject = Subject::running(targets);
    let options = LiveOptions {
        joining: Some((arguments.target.wanted(), Children::LeftOut)),
        stalls: Some(arguments.over),
        ..LiveOptions::default()
    };
    let mut watch = StallWatch {
        over: arguments.over,
        recent: VecDeque::new(),
    };
    let mut live = Live::attach(&mut engine, subject, options, &mut watch)?;
    let limits = Limits {
        duration: arguments.duration,
        slice: Some(SLICE),
        first_slice: None,
        slice_stretch: 0,
        idle_slice: None,
        is_stopped: &|| interrupts.is_stop_requested(),
    };
    live.run(&limits, &mut watch)?;
    live.hand_out(&mut watch);
    Ok(ExitCode::SUCCESS)
}

/// Tells stalls with what was seen meanwhile.
struct StallWatch {
    over: Duration,
    /// What was seen lately, the oldest first.
    recent: VecDeque<Profile>,
}

impl Observer for StallWatch {
    fn started(&mut self, started: &Started<'_>) {
        let pids: Vec<String> = started
            .targets
            .iter()
            .map(|target| target.pid().to_string())
            .collect();
        output::note(&format!(
            "Watching the event loops of {} (pid {}): a line for each time one is away from poll for \
             {} ms or more. Ctrl-C ends.",
            printable(started.app),
            pids.join(", "),
            self.over.as_millis()
        ));
        for remark in started.remarks {
            output::note(&format!("note: {}", printable(remark)));
        }
    }

    fn slice(&mut self, mut slice: Slice<'_>) -> bool {
        let stalls = std::mem::take(&mut slice.stalls);
        let profile = std::mem::take(&mut slice.profile);
        let profile = slice.map_sources(profile, &SourceMapOptions::default());
        for remark in &profile.notes.remarks {
            output::note(&format!("note: {}", printable(remark)));
        }
        self.recent.push_back(without_internals(profile));
        if self.recent.len() > MAX_SLICES {
            self.recent.pop_front();
        }
        stalls.iter().all(|stall| output::stream(&self.line(stall)))
    }
}

impl StallWatch {
    fn line(&self, stall: &Stall) -> String {
        let is_over = if stall.is_over { "" } else { " and going on" };
        format!(
            "{:>9.3} s  {:>6} ms{is_over}  {}  {}\n",
            stall.started as f64 / 1e9,
            stall.lasted / 1_000_000,
            loop_of(self.recent.iter(), stall),
            self.culprit(stall)
        )
    }

    /// The function that most of it is charged to, who called it, and what it waited for.
    fn culprit(&self, stall: &Stall) -> String {
        let Some(blocker) = Blocker::of(self.recent.iter(), stall) else {
            return "(not sampled)".to_owned();
        };
        let callers = blocker.callers.iter();
        let callers: String = callers.map(|caller| format!(" < {caller}")).collect();
        let wait = blocker
            .wait
            .map_or_else(String::new, |wait| format!(", waiting: {wait}"));
        format!(
            "{}{callers}{wait} ({:.0} % of it)",
            blocker.function,
            100.0 * blocker.share
        )
    }
}
