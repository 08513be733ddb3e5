//! Who kept an event loop from poll: the function that most of a stall is charged to.

use nodespy_analysis::charged_stacks;
use nodespy_capture::Stall;
use nodespy_model::{
    Category, FastMap, FunctionIndex, Nanoseconds, Profile, Sample, StackIndex, ThreadRole,
    label_key, printable, state,
};

/// How many callers of the function are named.
const MAX_CALLERS: usize = 2;
/// A wait is handed on a moment after it was seen.
const LATE: Nanoseconds = 100_000_000;

/// The function that most of a stall is charged to.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocker {
    /// `blockingWork app.js:3:20`.
    pub function: String,
    /// Who called it, the nearest first: functions of the application and its packages.
    pub callers: Vec<String>,
    /// What it waited for; none while it ran.
    pub wait: Option<String>,
    /// Its part of the stall, from 0 to 1.
    pub share: f64,
}

impl Blocker {
    /// Finds it in what was seen meanwhile; none where no sample was taken.
    pub fn of<'a>(profiles: impl Iterator<Item = &'a Profile>, stall: &Stall) -> Option<Self> {
        let mut suspects: FastMap<String, Suspect> = FastMap::default();
        let mut total = 0u64;
        for profile in profiles {
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
                let waited = suspect.waits.entry(wait_of(profile, sample)).or_default();
                *waited = waited.saturating_add(sample.weight);
                suspect.weight = suspect.weight.saturating_add(sample.weight);
            }
        }
        let (function, suspect) = suspects.into_iter().max_by_key(|(_, it)| it.weight)?;
        let most = suspect.waits.into_iter().max_by_key(|(_, weight)| *weight);
        Some(Self {
            function,
            callers: suspect.callers,
            wait: most.and_then(|(wait, _)| wait),
            share: suspect.weight as f64 / total.max(1) as f64,
        })
    }
}

/// A function that a stall may be charged to.
#[derive(Default)]
struct Suspect {
    weight: u64,
    callers: Vec<String>,
    /// By what it waited for.
    waits: FastMap<Option<String>, u64>,
}

/// Whose event loop it is: `pid 12`, with the name of a worker.
pub fn loop_of<'a>(profiles: impl Iterator<Item = &'a Profile>, stall: &Stall) -> String {
    let (pid, tid) = (stall.pid, stall.tid);
    if pid == tid {
        return format!("pid {pid}");
    }
    let mut threads = profiles.flat_map(|profile| &profile.threads);
    let worker = threads.find(|thread| thread.tid == tid && thread.role == ThreadRole::Worker);
    match worker {
        Some(worker) => format!("pid {pid} {}", printable(&worker.name)),
        None => format!("pid {pid} tid {tid}"),
    }
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
fn callers(profile: &Profile, stack: StackIndex) -> Vec<String> {
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
    shown.map(|function| named(profile, *function)).collect()
}

/// What it waited for, where it did not run.
fn wait_of(profile: &Profile, sample: &Sample) -> Option<String> {
    let labels = profile.contexts.get(sample.context);
    match (labels.get(label_key::STATE), labels.get(label_key::WAIT)) {
        (Some(state::WAITING), Some(wait)) => Some(printable(wait).into_owned()),
        _ => None,
    }
}
