//! A whole recording: choosing an engine, falling back to another, the live loop, the end.

mod engines;

use std::cell::RefCell;
use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Duration;

use nodespy_capture::engines::inspector::{CompanionCommand, is_node_command};
use nodespy_capture::engines::perf_events::{EventSpec, thin_out};
use nodespy_capture::target::{Target, Wanted};
use nodespy_capture::{CaptureError, Children, GcPlaces, Interrupts, LiveOrigin, with_causes};
use nodespy_model::{EventType, Nanoseconds, Origin, Profile};
use nodespy_symbolize::{SourceMapOptions, StoreOptions, map_sources};

use crate::ended;
use crate::error::RecordError;
use crate::journal::{CreateJournal, Journal, Journaling};
use crate::live::{End, Limits, Live, LiveOptions};
use crate::load::LoadEnd;
use crate::observer::Observer;
use crate::probes;
use crate::subject::Subject;
use crate::submitters::with_submitters;
use crate::throttled::Throttled;
use crate::twin::Twin;
use crate::warm_up::warm_up;
pub use engines::continuous_inspector;
use engines::{EngineSource, RealEngines};

/// How much is lost when nodespy is killed; of the inspector's, what V8 has not handed over yet as well.
const SLICE: Duration = Duration::from_secs(1);
/// Where there is no file to keep slices in, and where samples wait with whole stacks, a short recording is named when it is
/// over, when nothing has to be read in time any more: the first slice reads the symbols of node and the kernel.
const LONG_FIRST_SLICE: Duration = Duration::from_secs(5);
/// Slices get longer where naming them takes more than a twentieth of the time.
const SLICE_STRETCH: u32 = 20;
/// How many processes that have ended are remembered for their source maps.
const REMEMBERED_PROCESSES: usize = 256;

/// Which engine takes the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineChoice {
    /// Perf events where permitted, else the inspector.
    #[default]
    Auto,
    /// Perf events.
    Perf,
    /// V8's own profiler.
    Inspector,
    /// Perf events and V8's profiler at once.
    Both,
}

/// What makes samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sampled {
    /// Events of the kernel: CPU time, unless others are asked for.
    Perf(Vec<EventSpec>),
    /// Allocated bytes.
    Allocations,
}

impl Default for Sampled {
    fn default() -> Self {
        Self::Perf(vec![EventSpec::cpu()])
    }
}

impl Sampled {
    /// Whether tracefs has to be read.
    pub fn has_tracepoint(&self) -> bool {
        match self {
            Self::Perf(events) => events.iter().any(EventSpec::is_tracepoint),
            Self::Allocations => false,
        }
    }

    /// The first event that only the kernel sees.
    fn beyond_cpu(&self) -> Option<&EventSpec> {
        match self {
            Self::Perf(events) => events.iter().find(|event| !event.is_cpu()),
            Self::Allocations => None,
        }
    }
}

/// What is to be recorded, and how.
#[derive(Debug, Clone, Default)]
pub struct RecordRequest {
    /// The processes that are wanted.
    pub wanted: Wanted,
    /// The command to start and record instead.
    pub command: Vec<OsString>,
    /// Whether the command stays root under sudo.
    pub keep_root: bool,
    /// The inspector to record through instead.
    pub inspect_url: Option<String>,
    /// The engine.
    pub engine: EngineChoice,
    /// What makes samples.
    pub sampled: Sampled,
    /// Samples per second.
    pub rate_hz: Option<u32>,
    /// Microseconds between samples of the inspector.
    pub interval_us: Option<u32>,
    /// How much V8 keeps before it hands it over.
    pub v8_slice: Option<Duration>,
    /// Whether an inspector that other machines can reach is opened all the same.
    pub force: bool,
    /// Whether kernel frames are wanted.
    pub include_kernel: bool,
    /// Whether children are recorded too.
    pub follow_children: bool,
    /// Whether V8's heap is left alone.
    pub no_heap_walk: bool,
    /// Whether async callers are left out.
    pub no_async: bool,
    /// Whether the routes of requests are left out.
    pub no_routes: bool,
    /// What is wanted of the stores of AsyncLocalStorage.
    pub stores: StoreOptions,
    /// Whether no eBPF program runs at the samples.
    pub no_ebpf: bool,
    /// Whether threads read async callers and routes where no eBPF program runs.
    pub reads_async: bool,
    /// Whether breakpoints say who submits jobs to libuv's pool.
    pub pool_submitters: bool,
    /// Whether breakpoints measure the pauses of V8's garbage collector.
    pub gc_pauses: bool,
    /// Whether every context switch is watched.
    pub off_cpu_exact: bool,
    /// What the recording may cost, of one CPU.
    pub max_overhead: Option<f64>,
    /// Whether a process that is idle is to cost as little as can be.
    pub spares_idle: bool,
    /// Attach, but take no samples: for measuring what attaching costs.
    pub placebo: bool,
    /// How long samples are left lying before they are read; for tests.
    pub delay: Duration,
    /// How long to wait before samples are taken; a command runs meanwhile.
    pub warm_up: Option<Duration>,
    /// How long to record.
    pub duration: Option<Duration>,
    /// With how many bytes of its journal the recording ends.
    pub max_size: Option<u64>,
    /// A command for the shell that puts load on the recorded one once that listens on a port; the
    /// recording ends with it.
    pub load: Option<String>,
    /// Which source maps are used; none when absent.
    pub source_maps: Option<SourceMapOptions>,
    /// Whether the texts of the scripts go into the profile.
    pub embed_sources: bool,
    /// Ctrl-C and SIGTERM.
    pub interrupts: Option<Interrupts>,
    /// The command that closes an inspector when nodespy is killed.
    pub companion: Option<CompanionCommand>,
    /// Reports what the inspector waits for.
    pub report: Option<fn(&str)>,
}

/// What was recorded.
#[derive(Debug)]
pub struct Recorded {
    /// The profile.
    pub profile: Profile,
    /// How the command ended, if there was one and it did.
    pub status: Option<ExitStatus>,
    /// When the recording started, by the monotonic clock.
    pub started: Nanoseconds,
    /// When the first sample was taken.
    pub first_sample: Option<Nanoseconds>,
    /// Why what was recorded is not what was asked for: there was no load.
    pub failure: Option<String>,
}

impl RecordRequest {
    /// Launches the command or takes hold of the processes.
    pub fn prepare(&self) -> Result<Subject, RecordError> {
        let by_inspector = self.needs_inspector()?;
        if by_inspector && !self.command.is_empty() && !is_node_command(&self.command) {
            return Err(RecordError::Usage(
                "the inspector engine starts only Node itself: nodespy record --engine inspector -- \
                 node app.js; attach to anything else with -p PID"
                    .to_owned(),
            ));
        }
        if self.engine == EngineChoice::Both && !self.command.is_empty() {
            return Err(RecordError::Usage(
                "--engine both attaches to processes that run already: -p PID".to_owned(),
            ));
        }
        let is_launch_by_inspector = by_inspector && !self.command.is_empty();
        if let (true, Some(option)) = (is_launch_by_inspector, self.needs_perf_events()) {
            return Err(RecordError::Usage(format!(
                "{option} starts the command for perf events: leave out --engine inspector"
            )));
        }
        Ok(Subject::of(self, by_inspector)?)
    }

    /// What the inspector can't do with a command, whose start is its own.
    fn needs_perf_events(&self) -> Option<&'static str> {
        match (self.warm_up, &self.load) {
            (Some(_), _) => Some("--delay"),
            (_, Some(_)) => Some("--on-port"),
            (None, None) => None,
        }
    }

    /// The option that V8's profiler knows nothing of: it sets no breakpoints, and has one rate.
    fn perf_option(&self) -> Option<&'static str> {
        let options = [
            (self.pool_submitters, "--pool-submitters"),
            (self.gc_pauses, "--gc-pauses"),
            (self.max_overhead.is_some(), "--max-overhead"),
            (self.off_cpu_exact, "--off-cpu-exact"),
        ];
        options
            .iter()
            .find(|(is_set, _)| *is_set)
            .map(|(_, name)| *name)
    }

    /// Samples per second of perf events.
    pub fn perf_rate_hz(&self) -> u32 {
        let is_seldom = self.command.is_empty() && self.engine != EngineChoice::Both;
        self.rate_hz.unwrap_or(if is_seldom { 99 } else { 999 })
    }

    /// Whether only the inspector can do what is asked.
    fn needs_inspector(&self) -> Result<bool, RecordError> {
        let is_inspector = self.engine == EngineChoice::Inspector || self.inspect_url.is_some();
        if let (true, Some(event)) = (is_inspector, self.sampled.beyond_cpu()) {
            return Err(RecordError::Usage(format!(
                "V8's profiler knows nothing of {}: leave out --engine inspector and --inspect-url",
                event.name()
            )));
        }
        let is_allocations = self.sampled == Sampled::Allocations;
        if let (Some(option), true) = (self.perf_option(), is_inspector || is_allocations) {
            return Err(RecordError::Usage(format!(
                "{option} needs perf events: leave out --engine inspector, --inspect-url and -e alloc"
            )));
        }
        let reason = match (&self.sampled, &self.inspect_url) {
            (_, Some(_)) => "--inspect-url",
            (Sampled::Allocations, None) => "-e alloc",
            (Sampled::Perf(_), None) => return Ok(self.engine == EngineChoice::Inspector),
        };
        match self.engine {
            EngineChoice::Auto | EngineChoice::Inspector => Ok(true),
            EngineChoice::Perf | EngineChoice::Both => Err(RecordError::Usage(format!(
                "{reason} needs --engine inspector"
            ))),
        }
    }

    /// Whether the inspector is tried where perf events are refused.
    fn falls_back(&self, error: &CaptureError) -> bool {
        let is_refused = matches!(error, CaptureError::NotPermitted { .. });
        let is_plain = is_node_command(&self.command) && self.needs_perf_events().is_none();
        let is_possible = self.command.is_empty() || is_plain;
        let is_cpu = self.sampled.beyond_cpu().is_none();
        let is_auto = self.engine == EngineChoice::Auto && self.perf_option().is_none();
        is_refused && is_cpu && is_auto && is_possible && !self.wanted.any
    }

    /// What processes that appear later have to be to join.
    pub(crate) fn joining(&self) -> (Wanted, Children) {
        let children = match self.follow_children {
            true => Children::Followed,
            false => Children::LeftOut,
        };
        (self.wanted.clone(), children)
    }
}

/// Records until it is over, and leaves the processes as they were found. Until then everything that
/// was seen is in the file that `journal` creates, or else in memory.
pub fn record(
    request: &RecordRequest,
    subject: Subject,
    journal: Option<CreateJournal>,
    observer: &mut dyn Observer,
) -> Result<Recorded, RecordError> {
    record_with(&RealEngines, request, subject, journal, observer)
}

fn record_with(
    engines: &dyn EngineSource,
    request: &RecordRequest,
    subject: Subject,
    journal: Option<CreateJournal>,
    observer: &mut dyn Observer,
) -> Result<Recorded, RecordError> {
    let subject = warm_up(request, subject)?;
    let throttled = Throttled::watch(&subject.targets);
    let mut journal = Journal::new(journal);
    let observer = &mut Journaling {
        journal: &mut journal,
        max_size: request.max_size,
        observer,
    };
    let recorded = match request.needs_inspector()? {
        true => by_inspector(engines, request, subject, observer),
        false => match by_perf_events(engines, request, subject, observer) {
            Err(RecordError::Capture(error)) if request.falls_back(&error) => {
                let why = with_causes(&error);
                observer.note(&format!("{why}. Using V8's inspector instead."));
                let subject = Subject::of(request, true)?;
                by_inspector(engines, request, subject, observer)
            }
            recorded => recorded,
        },
    };
    let mut recorded = recorded?;
    for remark in throttled.remarks(recorded.profile.about.duration) {
        recorded.profile.notes.add_quota(&remark);
    }
    Ok(recorded)
}

/// How a recording ended.
struct Ran {
    end: End,
    load: Option<LoadEnd>,
    /// What the reader should know of it.
    remarks: Vec<String>,
}

/// Records into the journal until it is over.
fn run(
    live: &mut Live<'_>,
    request: &RecordRequest,
    observer: &mut Journaling<'_>,
) -> Result<Ran, CaptureError> {
    live.subject.keep_command();
    let interrupts = request.interrupts;
    let app = live.subject.targets.first().map_or(0, Target::pid);
    let load = live.subject.load.take().map(RefCell::new);
    let is_load_over = || {
        let load = load.as_ref();
        load.is_some_and(|load| load.borrow_mut().poll(app))
    };
    let is_long = !observer.journal.has_file() || live.must_read_soon();
    let limits = Limits {
        duration: request.duration,
        slice: Some(SLICE),
        first_slice: is_long.then_some(LONG_FIRST_SLICE),
        slice_stretch: SLICE_STRETCH,
        idle_slice: None,
        is_stopped: &|| interrupts.is_some_and(Interrupts::is_stop_requested) || is_load_over(),
    };
    let mut end = live.run(&limits, observer)?;
    let mut remarks = Vec::new();
    if end == End::Interrupted && observer.is_full() {
        end = End::Duration;
        remarks.push(format!(
            "the recording ended after {:.1} s, when its journal had {} KB (--max-size)",
            live.elapsed() as f64 / 1e9,
            observer.journal.byte_count().div_ceil(1000)
        ));
    }
    live.hand_out(observer);
    let load = load.map(|load| load.into_inner().finish());
    if let Some(load) = &load {
        remarks.push(load.sentence.clone());
        if load.was_over && end == End::Interrupted {
            end = End::Duration;
        }
    }
    Ok(Ran { end, load, remarks })
}

/// Records with perf events, and V8's profiler beside them if both are wanted.
fn by_perf_events(
    engines: &dyn EngineSource,
    request: &RecordRequest,
    subject: Subject,
    observer: &mut Journaling<'_>,
) -> Result<Recorded, RecordError> {
    let mut beside = match request.engine {
        EngineChoice::Both => Some(engines.inspector(request)?),
        _ => None,
    };
    let twin = match &mut beside {
        Some(engine) => Some(Twin::attach(&mut **engine, &subject, observer)?),
        None => None,
    };
    let mut engine = engines.perf_events(request, perf_events_of(request, &subject)?);
    let options = LiveOptions {
        joining: Some(request.joining()),
        no_heap_walk: request.no_heap_walk,
        no_async: request.no_async,
        no_routes: request.no_routes,
        stores: request.stores.clone(),
        remembered_processes: REMEMBERED_PROCESSES,
        delay: request.delay,
        gc_places: gc_places(request, &subject)?,
        max_overhead: request.max_overhead,
        off_cpu_exact: request.off_cpu_exact,
        ..LiveOptions::default()
    };
    let mut live = Live::attach(&mut *engine, subject, options, observer)?;
    live.twin = twin;
    let ran = run(&mut live, request, observer)?;
    let first_sample = live.first_sample();
    let profile = name_all(&mut live, request, ran.end, observer.journal);
    let status = match request.load {
        Some(_) => ended::end_all(&mut live.subject),
        None => ended::end_command(&mut live.subject, ran.end, observer),
    };
    let mut profile = profile?;
    for remark in ran.remarks.iter().chain(&live.overhead()) {
        profile.notes.remark(remark);
    }
    Ok(Recorded {
        profile,
        status,
        started: live.started,
        first_sample,
        failure: ran
            .load
            .filter(|load| load.is_failure)
            .map(|load| load.sentence),
    })
}

/// Records with perf events until it is over, for an observer that keeps the slices itself, one a second. Returns how the
/// command ended, if there was one and it did.
pub(crate) fn record_slices(
    request: &RecordRequest,
    subject: Subject,
    (stalls, idle_slice): (Option<Duration>, Option<Duration>),
    observer: &mut dyn Observer,
) -> Result<Option<ExitStatus>, RecordError> {
    let subject = warm_up(request, subject)?;
    let mut engine = RealEngines.perf_events(request, perf_events_of(request, &subject)?);
    let options = LiveOptions {
        joining: Some(request.joining()),
        no_heap_walk: request.no_heap_walk,
        no_async: request.no_async,
        no_routes: request.no_routes,
        stores: request.stores.clone(),
        remembered_processes: REMEMBERED_PROCESSES,
        delay: request.delay,
        stalls,
        gc_places: gc_places(request, &subject)?,
        max_overhead: request.max_overhead,
        ..LiveOptions::default()
    };
    let mut live = Live::attach(&mut *engine, subject, options, observer)?;
    live.subject.keep_command();
    let interrupts = request.interrupts;
    let limits = Limits {
        duration: request.duration,
        slice: Some(SLICE),
        first_slice: None,
        slice_stretch: 0,
        idle_slice,
        is_stopped: &|| interrupts.is_some_and(Interrupts::is_stop_requested),
    };
    let end = live.run(&limits, observer)?;
    live.hand_out(observer);
    Ok(ended::end_command(&mut live.subject, end, observer))
}

/// What makes samples, with breakpoints where the process has the functions.
fn perf_events_of(
    request: &RecordRequest,
    subject: &Subject,
) -> Result<Vec<EventSpec>, RecordError> {
    let mut events = match &request.sampled {
        Sampled::Perf(events) => events.clone(),
        Sampled::Allocations => vec![EventSpec::cpu()],
    };
    if request.pool_submitters {
        events.extend(EventSpec::pool_jobs());
    }
    let mut placed = Vec::new();
    for event in events {
        placed.extend(probes::place(event, subject)?);
    }
    let mut events = placed;
    if let (true, Some(target)) = (request.pool_submitters, subject.targets.first()) {
        thin_out(&mut events, target.pid())?;
    }
    Ok(events)
}

/// Where the pauses of the garbage collector are measured, if they are to be.
fn gc_places(request: &RecordRequest, subject: &Subject) -> Result<Option<GcPlaces>, RecordError> {
    let places = request.gc_pauses.then(|| probes::gc_places(subject));
    places.transpose()
}

/// Reads the journal and adds what only the capturing side knows.
fn name_all(
    live: &mut Live<'_>,
    request: &RecordRequest,
    end: End,
    journal: &mut Journal,
) -> Result<Profile, RecordError> {
    let cpu_times = std::mem::take(&mut live.cpu_times);
    if journal.sample_count() == 0 {
        let sentence = match request.sampled.beyond_cpu() {
            Some(event) => ended::why_no_events(live.elapsed(), event.name()),
            None => ended::why_no_samples(live.elapsed(), &cpu_times, end),
        };
        return Err(RecordError::NoSamples(sentence));
    }
    let mut profile = journal.profile()?;
    for event in live.events() {
        if EventType::find(&profile.events, &event.name).is_none() {
            profile
                .notes
                .remark(format!("no samples of {}", event.name));
        }
    }
    live.note_scheduling(&mut profile);
    for process in &mut profile.processes {
        let known = cpu_times.iter().find(|(pid, _)| *pid == process.pid);
        process.cpu_time = known.and_then(|(_, time)| *time);
    }
    ended::remark_ended(&mut live.subject, &mut profile);
    // Twins are compared by where the code runs.
    let profile = match live.twin.take() {
        Some(twin) => twin.join(profile, live.started),
        None => profile,
    };
    Ok(with_submitters(match &request.source_maps {
        Some(options) => live.map_sources(profile, options),
        None => profile,
    }))
}

/// Records with V8's own profiler.
fn by_inspector(
    engines: &dyn EngineSource,
    request: &RecordRequest,
    subject: Subject,
    observer: &mut Journaling<'_>,
) -> Result<Recorded, RecordError> {
    let mut engine = engines.inspector(request)?;
    // A process behind an address is none of this machine, whatever its pid.
    let origin = (!subject.targets.is_empty()).then(|| origin_of(&subject));
    let from_start = match subject.launched {
        Some(_) => RecordError::FromStart,
        None => RecordError::Capture,
    };
    let options = LiveOptions::default();
    let mut live = Live::attach(&mut *engine, subject, options, observer).map_err(from_start)?;
    let ran = run(&mut live, request, observer);
    // A command that can't be recorded any more is not waited for to end by itself.
    let end = ran.as_ref().map_or(End::Duration, |ran| ran.end);
    let status = ended::end_command(&mut live.subject, end, observer);
    let ran = ran?;
    if live.named.is_empty() {
        let sentence = "no process could be recorded".to_owned();
        return Err(RecordError::NoSamples(sentence));
    }
    if observer.journal.sample_count() == 0 {
        let sentence = "no samples: V8's profiler saw nothing".to_owned();
        return Err(RecordError::NoSamples(sentence));
    }
    let mut profile = observer.journal.profile()?;
    live.note_scheduling(&mut profile);
    if request.inspect_url.is_some() {
        profile.about.host = String::new();
    }
    for remark in &ran.remarks {
        profile.notes.remark(remark);
    }
    let first_sample = profile.samples.first().map(|sample| sample.time);
    let profile = match &request.source_maps {
        Some(options) => {
            let origin = origin.as_ref().map(|origin| origin as &dyn Origin);
            map_sources(profile, &live.named.scripts, origin, options)
        }
        None => profile,
    };
    Ok(Recorded {
        profile,
        status,
        started: live.started,
        first_sample: first_sample.map(|time| time.saturating_add(live.started)),
        failure: None,
    })
}

/// What opens the files of the targets, also when they have ended.
fn origin_of(subject: &Subject) -> LiveOrigin {
    let origin = LiveOrigin::new();
    for target in &subject.targets {
        origin.describe(target.pid());
    }
    origin
}

#[cfg(test)]
mod tests;
