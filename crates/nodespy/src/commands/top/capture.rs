//! The thread that takes samples and names them, a slice every second.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::sources::MappedFunctions;
use nodespy_analysis::{
    NO_REQUEST, Pattern, Shares, function_weights, only_routes, route_weights, shares,
    without_internals,
};
use nodespy_capture::engines::perf_events::{CopiedAtSample, EventSpec, PerfEvents, PerfOptions};
use nodespy_capture::target::{Target, Wanted, proc};
use nodespy_capture::{CaptureError, Children};
use nodespy_model::{Category, Nanoseconds, Pool, Profile, ThreadRole};
use nodespy_recorder::{
    self as recorder, End, Limits, Live, LiveOptions, Observer, Started, Subject,
};

use nodespy_symbolize::StoreOptions;
use nodespy_view::pool_moment;

use super::recent::Recent;
use super::table;
use crate::cli::TopBy;

/// How long a slice is.
const SLICE: Duration = Duration::from_secs(1);

/// What the capturing thread has to say.
pub(super) enum Update {
    /// Sampling has begun.
    Started {
        /// What takes the samples, in a few words.
        engine: &'static str,
        remarks: Vec<String>,
    },
    /// Another second went by.
    Slice(Slice),
    /// Something worth a line.
    Noted(String),
    /// What was asked to be recorded is in a file, or why it is not.
    Recorded(String),
    /// Every target has ended.
    Ended,
    /// It can't start or go on.
    Failed(anyhow::Error),
}

/// One second of samples, counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Slice {
    pub(super) length: Nanoseconds,
    pub(super) shares: Shares,
    pub(super) functions: Vec<FunctionCount>,
    pub(super) threads: Vec<ThreadUse>,
    /// What libuv's pool does at its end; that of the process with most to do.
    pub(super) pool: Option<String>,
    /// Samples taken in it, however many each counts for.
    pub(super) samples: u64,
    /// Samples lost in it.
    pub(super) lost: u64,
    pub(super) js_frames: u64,
    pub(super) js_frames_named: u64,
}

/// A function and how many samples it has.
#[derive(Debug, Clone)]
pub(super) struct FunctionCount {
    pub(super) function: FunctionKey,
    pub(super) category: Category,
    pub(super) own: u64,
    pub(super) total: u64,
}

/// What makes two functions of different slices the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct FunctionKey {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) line: u32,
    /// Minified code has all functions on one line.
    pub(super) column: u32,
}

/// A thread and the CPU time it used.
#[derive(Debug, Clone)]
pub(super) struct ThreadUse {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) name: String,
    pub(super) role: ThreadRole,
    pub(super) cpu_time: Nanoseconds,
}

/// What is captured.
pub(super) struct Request {
    pub(super) wanted: Wanted,
    /// What is wanted now.
    pub(super) targets: Vec<Target>,
    pub(super) rate_hz: u32,
    /// What becomes of processes that the targets start.
    pub(super) children: Children,
    /// Whether functions are shown where they were written.
    pub(super) maps_sources: bool,
    /// What is counted.
    pub(super) by: TopBy,
    /// Of requests of which routes; of all samples when empty.
    pub(super) route: Vec<Pattern>,
    /// Whether threads read async callers and routes where no eBPF program runs.
    pub(super) reads_async: bool,
    /// Whether async callers are left out.
    pub(super) no_async: bool,
    /// Whether the routes of requests are left out.
    pub(super) no_routes: bool,
    /// What it may cost, of one CPU.
    pub(super) max_overhead: Option<f64>,
    /// What is wanted of the stores of AsyncLocalStorage.
    pub(super) stores: StoreOptions,
    /// What a file is called that has what was seen lately.
    pub(super) file_stem: String,
}

/// A capture that goes on.
pub(super) struct Capture {
    pub(super) updates: Receiver<Update>,
    is_recording_wanted: Arc<AtomicBool>,
}

impl Capture {
    /// Has what was seen lately written to a file, with the next slice.
    pub(super) fn record(&self) {
        self.is_recording_wanted.store(true, Ordering::Relaxed);
    }
}

/// Starts to capture the targets and processes that join them. The thread ends when the receiver is
/// dropped.
pub(super) fn start(request: Request) -> Capture {
    let (sender, updates) = channel();
    let is_recording_wanted = Arc::new(AtomicBool::new(false));
    let is_wanted = is_recording_wanted.clone();
    std::thread::spawn(move || {
        let last = match capture(request, &sender, &is_wanted) {
            Ok(()) => Update::Ended,
            Err(error) => Update::Failed(error.into()),
        };
        let _ = sender.send(last);
    });
    Capture {
        updates,
        is_recording_wanted,
    }
}

fn capture(
    request: Request,
    sender: &Sender<Update>,
    is_recording_wanted: &AtomicBool,
) -> Result<(), CaptureError> {
    let mut engine = PerfEvents::new(PerfOptions {
        events: vec![EventSpec::cpu()],
        rate_hz: request.rate_hz,
        include_kernel: true,
        follow_children: matches!(request.children, Children::Followed),
        walks_at_sample: true,
        reads_at_sample: request.reads_async,
        copies: CopiedAtSample {
            async_callers: !request.no_async,
            requests: !request.no_routes,
            stores: !request.stores.is_empty(),
        },
        spares_idle: false,
        prefers_cpus: false,
        placebo: false,
    });
    let subject = Subject::running(request.targets);
    let options = LiveOptions {
        joining: Some((request.wanted, request.children)),
        no_async: request.no_async,
        no_routes: request.no_routes,
        max_overhead: request.max_overhead,
        stores: request.stores,
        ..LiveOptions::default()
    };
    let mut slices = Slices {
        sender,
        is_heard: true,
        threads: ThreadWatch::default(),
        sources: (request.maps_sources && request.by == TopBy::Function)
            .then(MappedFunctions::default),
        by: request.by,
        route: request.route,
        recent: Recent::new(request.maps_sources, request.file_stem),
        is_recording_wanted,
    };
    let mut live = Live::attach(&mut engine, subject, options, &mut slices)?;
    let limits = Limits {
        duration: None,
        slice: Some(SLICE),
        first_slice: None,
        slice_stretch: 0,
        idle_slice: None,
        is_stopped: &|| false,
    };
    if live.run(&limits, &mut slices)? == End::TargetsGone {
        live.hand_out(&mut slices);
    }
    Ok(())
}

/// Counts each slice and sends it.
struct Slices<'a> {
    sender: &'a Sender<Update>,
    is_heard: bool,
    threads: ThreadWatch,
    /// Where functions were written, if that is to be shown.
    sources: Option<MappedFunctions>,
    by: TopBy,
    route: Vec<Pattern>,
    recent: Recent,
    is_recording_wanted: &'a AtomicBool,
}

impl Observer for Slices<'_> {
    fn started(&mut self, started: &Started<'_>) {
        let update = Update::Started {
            engine: table::engine(started.attached),
            remarks: started.remarks.to_vec(),
        };
        self.is_heard = self.sender.send(update).is_ok();
        self.threads.measure_all(started.targets);
    }

    fn slice(&mut self, slice: recorder::Slice<'_>) -> bool {
        let mut counted = Slice {
            length: slice.length,
            lost: slice.losses.samples,
            threads: self.threads.measure(slice.targets, &slice.profile),
            pool: busiest(&slice.pools),
            ..self.count(&slice.profile)
        };
        if let Some(sources) = &mut self.sources {
            sources.apply(&slice, &mut counted.functions);
        }
        self.is_heard &= self.sender.send(Update::Slice(counted)).is_ok();
        self.recent.add(slice.profile.clone());
        if self.is_recording_wanted.swap(false, Ordering::Relaxed) {
            let told = self.recent.write(&slice);
            self.is_heard &= self.sender.send(Update::Recorded(told)).is_ok();
        }
        self.is_heard
    }

    fn note(&mut self, line: &str) {
        self.is_heard &= self.sender.send(Update::Noted(line.to_owned())).is_ok();
    }

    fn counts_since(&mut self) -> Option<Nanoseconds> {
        Some(self.recent.since())
    }
}

impl Slices<'_> {
    fn count(&self, profile: &Profile) -> Slice {
        match self.route.as_slice() {
            [] => count(profile, &self.by),
            route => count(&only_routes(profile.clone(), route), &self.by),
        }
    }
}

/// The pool that has most to do, in words.
fn busiest(pools: &[(u32, Pool)]) -> Option<String> {
    let (_, pool) = pools
        .iter()
        .max_by_key(|(_, pool)| (pool.waiting, pool.busy))?;
    Some(pool_moment(pool))
}

fn count(profile: &Profile, by: &TopBy) -> Slice {
    Slice {
        shares: shares(profile, |_| true),
        functions: match by {
            TopBy::Function => functions_of(profile),
            TopBy::Route => routes_of(profile),
            TopBy::Label(key) => values_of(profile, key),
        },
        samples: profile.samples.len() as u64,
        js_frames: profile.notes.jit_frames,
        js_frames_named: profile.notes.jit_named.iter().sum(),
        ..Default::default()
    }
}

/// What is counted as functions are, by its name.
fn row(name: &str, weight: u64, category: Category) -> FunctionCount {
    FunctionCount {
        function: FunctionKey {
            name: name.to_owned(),
            ..FunctionKey::default()
        },
        category,
        own: weight,
        total: weight,
    }
}

fn routes_of(profile: &Profile) -> Vec<FunctionCount> {
    let routes = route_weights(profile);
    let in_requests = routes.whole - routes.no_request.weight;
    let in_none = profile.total_weight().saturating_sub(in_requests);
    let rows = routes.rows.iter();
    let mut rows: Vec<FunctionCount> = rows
        .map(|each| row(&each.route, each.weight, Category::App))
        .collect();
    if in_none > 0 {
        rows.push(row(NO_REQUEST, in_none, Category::Unknown));
    }
    rows
}

/// The values of a label of samples.
fn values_of(profile: &Profile, key: &str) -> Vec<FunctionCount> {
    let mut weights: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for sample in &profile.samples {
        let value = profile.contexts.get(sample.context).get(key);
        *weights.entry(value).or_default() += sample.weight;
    }
    let none = format!("(no {key})");
    let weights = weights.into_iter();
    weights
        .map(|(value, weight)| match value {
            Some(value) => row(value, weight, Category::App),
            None => row(&none, weight, Category::Unknown),
        })
        .collect()
}

fn functions_of(profile: &Profile) -> Vec<FunctionCount> {
    let shown = without_internals(profile.clone());
    function_weights(&shown, |_| true)
        .into_iter()
        .map(|weights| {
            let function = shown.function(weights.function);
            FunctionCount {
                function: FunctionKey {
                    name: shown.name_of(weights.function).to_owned(),
                    file: shown.file_of(weights.function).to_owned(),
                    line: function.line,
                    column: function.column,
                },
                category: function.category,
                own: weights.self_weight,
                total: weights.total_weight,
            }
        })
        .collect()
}

/// The CPU time of every thread, by the kernel's own account.
#[derive(Debug, Default)]
struct ThreadWatch {
    known: HashMap<(u32, u32), KnownThread>,
}

#[derive(Debug, Clone)]
struct KnownThread {
    cpu_time: Nanoseconds,
    name: String,
    role: ThreadRole,
}

impl ThreadWatch {
    /// Notes where every thread's clock stands; returns how far each went.
    fn measure_all(&mut self, targets: &[Target]) -> Vec<((u32, u32), Nanoseconds)> {
        let mut went = Vec::new();
        let mut alive = HashMap::new();
        for pid in targets.iter().map(Target::pid) {
            for tid in proc::threads(pid) {
                let Some(cpu_time) = proc::thread_cpu_time(pid, tid) else {
                    continue;
                };
                let known = self.known.remove(&(pid, tid));
                let mut thread = known.unwrap_or_else(|| KnownThread {
                    cpu_time: 0,
                    name: proc::thread_name(pid, tid).unwrap_or_default(),
                    role: match tid == pid {
                        true => ThreadRole::Main,
                        false => ThreadRole::Other,
                    },
                });
                went.push(((pid, tid), cpu_time.saturating_sub(thread.cpu_time)));
                thread.cpu_time = cpu_time;
                alive.insert((pid, tid), thread);
            }
        }
        self.known = alive;
        went
    }

    /// What every thread used since the last measurement. Threads that were seen running get the name and
    /// the role their stacks gave them.
    fn measure(&mut self, targets: &[Target], profile: &Profile) -> Vec<ThreadUse> {
        let went = self.measure_all(targets);
        for thread in &profile.threads {
            let pid = profile.processes[thread.process.at()].pid;
            if let Some(known) = self.known.get_mut(&(pid, thread.tid)) {
                known.name.clone_from(&thread.name);
                known.role = thread.role;
            }
        }
        went.into_iter()
            .filter_map(|((pid, tid), cpu_time)| {
                let known = self.known.get(&(pid, tid))?;
                Some(ThreadUse {
                    pid,
                    tid,
                    name: known.name.clone(),
                    role: known.role,
                    cpu_time,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::{
        About, Labels, Notes, Process, ProfileBuilder, Sample, Thread, WeightUnit, label_key,
    };

    /// Samples by route; those of none have none.
    fn profile(rows: &[(&str, u64)]) -> Profile {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let process = builder.process(Process::default());
        let thread = builder.thread(Thread {
            process,
            ..Thread::default()
        });
        for (route, weight) in rows {
            let mut labels = Labels::default();
            labels.set(label_key::ROUTE, route);
            let context = builder.context(labels);
            builder.add_sample(Sample {
                thread,
                weight: *weight,
                context,
                ..Sample::default()
            });
        }
        builder.finish(About::default(), Notes::default())
    }

    fn counted(profile: &Profile) -> Vec<(String, u64)> {
        let rows = count(profile, &TopBy::Route).functions.into_iter();
        rows.map(|row| (row.function.name, row.own)).collect()
    }

    #[test]
    fn routes_are_counted_in_place_of_functions_and_nothing_is_left_out() {
        let row = |name: &str, own| (name.to_owned(), own);
        assert_eq!(
            counted(&profile(&[("GET /a", 3), ("", 2), ("POST /b", 9)])),
            [row("POST /b", 9), row("GET /a", 3), row(NO_REQUEST, 2)]
        );
        assert_eq!(counted(&profile(&[("", 2)])), [row(NO_REQUEST, 2)]);
        assert!(counted(&profile(&[])).is_empty());
    }

    #[test]
    fn values_of_a_label_are_counted_in_place_of_functions() {
        let profile = profile(&[("acme", 3), ("", 2), ("acme", 4)]);
        let by = TopBy::Label(label_key::ROUTE.to_owned());
        let rows = count(&profile, &by).functions.into_iter();
        let rows: Vec<(String, u64)> = rows.map(|row| (row.function.name, row.own)).collect();
        let row = |name: &str, own| (name.to_owned(), own);
        assert_eq!(rows, [row("(no route)", 2), row("acme", 7)]);
    }
}
