//! `nodespy stalls`: every time an event loop was away from poll for too long, live, one line each.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Duration;

use nodespy_analysis::{charged_stacks, without_internals};
use nodespy_capture::engines::perf_events::{EventSpec, PerfEvents, PerfOptions};
use nodespy_capture::target::{Target, app_name};
use nodespy_capture::{Children, Stall, catch_interrupts};
use nodespy_model::{
    Category, FastMap, FunctionIndex, Nanoseconds, Profile, Sample, StackIndex, ThreadRole,
    label_key, printable, state,
};
use nodespy_recorder::{Limits, Live, LiveOptions, Observer, Slice, Started, Subject};
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
/// How many callers of the function are shown.
const MAX_CALLERS: usize = 2;
/// A wait is handed on a moment after it was seen.
const LATE: Nanoseconds = 100_000_000;

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
        placebo: false,
    });
    let subject = Subject {
        app: targets
            .first()
            .map(Target::pid)
            .map_or_else(String::new, app_name),
        targets,
        launched: None,
        remarks: Vec::new(),
    };
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
            self.whose(stall),
            self.culprit(stall)
        )
    }

    fn whose(&self, stall: &Stall) -> String {
        let is_main = stall.pid == stall.tid;
        let mut threads = self.recent.iter().flat_map(|profile| &profile.threads);
        let worker = threads
            .find(|thread| thread.tid == stall.tid && thread.role == ThreadRole::Worker)
            .map(|thread| printable(&thread.name).into_owned());
        match worker {
            Some(name) if !is_main => format!("pid {} {name}", stall.pid),
            _ if is_main => format!("pid {}", stall.pid),
            _ => format!("pid {} tid {}", stall.pid, stall.tid),
        }
    }

    /// The function that most of it is charged to, who called it, and what it waited for.
    fn culprit(&self, stall: &Stall) -> String {
        let mut suspects: FastMap<String, Suspect> = FastMap::default();
        let mut total = 0u64;
        for profile in &self.recent {
            let charged = charged_stacks(profile);
            let samples = profile.samples.iter();
            for sample in samples.filter(|sample| is_in(profile, sample, stall)) {
                total = total.saturating_add(sample.weight);
                let written = sample.stack.and_then(|stack| charged[stack.at()]);
                let Some(stack) = written.or(sample.stack) else {
                    continue;
                };
                let function = named(profile, profile.function_of(stack));
                let suspect = suspects.entry(function).or_insert_with(|| Suspect {
                    callers: callers(profile, stack),
                    ..Suspect::default()
                });
                let waited = suspect.waits.entry(waits(profile, sample)).or_default();
                *waited = waited.saturating_add(sample.weight);
                suspect.weight = suspect.weight.saturating_add(sample.weight);
            }
        }
        let heaviest = suspects.into_iter().max_by_key(|(_, it)| it.weight);
        match heaviest {
            Some((function, suspect)) => {
                let share = 100.0 * suspect.weight as f64 / total.max(1) as f64;
                let waits = suspect.waits.into_iter().max_by_key(|(_, weight)| *weight);
                let waits = waits.map_or_else(String::new, |(waits, _)| waits);
                format!("{function}{}{waits} ({share:.0} % of it)", suspect.callers)
            }
            None => "(not sampled)".to_owned(),
        }
    }
}

/// A function that a stall may be charged to.
#[derive(Default)]
struct Suspect {
    weight: u64,
    callers: String,
    /// What it waited for, in words, empty while it ran.
    waits: FastMap<String, u64>,
}

/// Whether a sample was taken of the thread while it stalled.
fn is_in(profile: &Profile, sample: &Sample, stall: &Stall) -> bool {
    let thread = &profile.threads[sample.thread.at()];
    let process = &profile.processes[thread.process.at()];
    let end = stall
        .started
        .saturating_add(stall.lasted)
        .saturating_add(LATE);
    let labels = profile.contexts.get(sample.context);
    (process.pid, thread.tid) == (stall.pid, stall.tid)
        && (stall.started..=end).contains(&sample.time)
        && labels.get(label_key::STATE) != Some(state::IDLE)
}

/// `blockingWork app.js:3:20`.
fn named(profile: &Profile, function: FunctionIndex) -> String {
    let name = printable(profile.name_of(function)).into_owned();
    format!("{name} {}", printable(&profile.location_of(function)))
}

/// The functions of the application and its packages that led to one, the nearest first.
fn callers(profile: &Profile, stack: StackIndex) -> String {
    let own = profile.function_of(stack);
    let mut functions: Vec<FunctionIndex> = profile
        .frames_of(stack)
        .map(|frame| profile.frame(frame).function)
        .filter(|function| {
            let category = profile.function(*function).category;
            *function != own && matches!(category, Category::App | Category::Dependency)
        })
        .collect();
    functions.dedup();
    let shown = functions.iter().take(MAX_CALLERS);
    shown
        .map(|function| format!(" < {}", named(profile, *function)))
        .collect()
}

/// What it waited for, where it did not run.
fn waits(profile: &Profile, sample: &Sample) -> String {
    let labels = profile.contexts.get(sample.context);
    match (labels.get(label_key::STATE), labels.get(label_key::WAIT)) {
        (Some(state::WAITING), Some(wait)) => format!(", waiting: {}", printable(wait)),
        _ => String::new(),
    }
}
