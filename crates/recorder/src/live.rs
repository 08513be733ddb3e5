//! The live loop: an engine is drained into the resolver until the recording is over.

use std::time::Duration;

use nodespy_capture::engine::{self, Engine, Losses, NamedEvent, Pace, Sink};
use nodespy_capture::engines::EngineId;
use nodespy_capture::target::{Launched, SchedulingWatch, Target, Wanted, proc};
use nodespy_capture::{
    CaptureError, Children, EventLoops, GcPlaces, GcWatch, LiveOrigin, NewProcesses, Priority,
    Stall, ThreadPools, WaitWatch, monotonic_now, process_cpu_time, return_freed_memory, unix_now,
};
use nodespy_model::{About, CopyRules, Event, EventType, Nanoseconds, Notes, Profile};
use nodespy_symbolize::{Resolver, SourceMapOptions, StoreOptions};

use crate::budget::{Budget, INTERVAL};
use crate::ended;
use crate::habits::Habits;
use crate::joining::{Joining, NoneJoins};
use crate::named::NamedSamples;
use crate::observer::{Observer, Progress, Slice, Started};
use crate::rates::Rates;
use crate::subject::Subject;
use crate::twin::Twin;

mod pacing;

/// How often an engine is drained when it has nothing to report earlier.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// A drain waits at least this long: the loop never spins.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// A slice that takes long to make is at most so many times as long as asked for.
const MAX_STRETCH: u32 = 10;

/// How often threads are asked what they did while all loops are idle, in recordings that watch for stalls.
const IDLE_ASK_INTERVAL: Nanoseconds = 10_000_000_000;

/// How often freed memory is given back to the kernel, which takes a millisecond or two.
const RETURN_INTERVAL: Nanoseconds = 20_000_000_000;

const IDLE_RETURN_FACTOR: Nanoseconds = 10;

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its time was over.
    Duration,
    /// The caller ended it.
    Interrupted,
    /// Every process has ended.
    TargetsGone,
}

/// When a recording ends, and how it is cut.
pub struct Limits<'a> {
    /// How long it lasts; until something else ends it when absent.
    pub duration: Option<Duration>,
    /// How long each slice is; one for all when absent.
    pub slice: Option<Duration>,
    /// How long the first slice is, where that differs: making it reads the symbols that all need, and
    /// meanwhile nothing else is read.
    pub first_slice: Option<Duration>,
    /// A slice is at least so many times as long as it took to make the one before, up to ten times
    /// its length.
    pub slice_stretch: u32,
    /// How long slices are while all event loops wait for events, in recordings that watch for stalls: nothing happens that
    /// would have to be known soon.
    pub idle_slice: Option<Duration>,
    /// Whether the user wants it to end.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// How events become a profile.
#[derive(Debug, Default)]
pub struct LiveOptions {
    /// What processes that appear later have to be to join, and what becomes of children; none join
    /// when absent.
    pub joining: Option<(Wanted, Children)>,
    /// Whether V8's heap is left alone.
    pub no_heap_walk: bool,
    /// Whether async callers are left out.
    pub no_async: bool,
    /// Whether the routes of requests are left out.
    pub no_routes: bool,
    /// What is wanted of the stores of AsyncLocalStorage.
    pub stores: StoreOptions,
    /// How many processes that have ended are remembered for their source maps, beyond the slice they
    /// ended in.
    pub remembered_processes: usize,
    /// How long samples are left lying before they are read: for tests of what happens when the heap
    /// has changed meanwhile.
    pub delay: Duration,
    /// From when on a time that an event loop is away from poll is reported as a stall; none are when
    /// absent.
    pub stalls: Option<Duration>,
    /// Where the pauses of V8's garbage collector are measured; they are not when absent.
    pub gc_places: Option<GcPlaces>,
    /// What the recording may cost, of one CPU; samples get fewer where it costs more.
    pub max_overhead: Option<f64>,
    /// Whether every context switch is watched.
    pub off_cpu_exact: bool,
    /// Whether it goes on for as long as the machine is up; none when it is a recording.
    pub continuous: Option<Continuous>,
}

/// A recording without an end: it outlives its processes, keeps nothing of those that have ended, and reads nothing
/// beside their samples but their CPU times now and then, neither event loops nor pools nor the scheduler's accounts.
#[derive(Debug, Clone, Copy)]
pub struct Continuous {
    /// A slice ends at this time plus a multiple of its length, by the monotonic clock: none drifts away from the windows
    /// that it fills.
    pub aligned_to: Nanoseconds,
    /// How often `max_overhead` is judged: as often as slices end, of which naming is a large part of the costs.
    pub judged_every: Nanoseconds,
    /// How often samples are taken, of those that the engine is asked for.
    pub sampled: SampledShare,
}

/// How many of the samples that an engine is asked for an agent takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledShare {
    /// One in so many, usually.
    pub one_in: u32,
    /// One in so many at least, whatever it costs.
    pub one_in_at_least: u32,
    /// Whether all of them are taken while a process is unusual, and fewer while all are idle.
    pub is_adaptive: bool,
}

impl SampledShare {
    fn rates(self) -> Rates {
        Rates::new(self.one_in, self.one_in_at_least)
    }
}

/// A recording that goes on.
pub struct Live<'e> {
    engine: &'e mut dyn Engine,
    pub(crate) subject: Subject,
    joining: Box<dyn Joining>,
    pub(crate) resolver: Resolver,
    pub(crate) named: NamedSamples,
    /// V8's own profiler, where both are wanted.
    pub(crate) twin: Option<Twin<'e>>,
    scheduling: SchedulingWatch,
    /// What processes used until sampling ended.
    pub(crate) cpu_times: Vec<(u32, Option<Nanoseconds>)>,
    /// None where one moment is looked at.
    loops: Option<EventLoops>,
    pools: ThreadPools,
    gc: Option<GcWatch>,
    continuous: Option<Continuous>,
    waits: Option<WaitWatch>,
    budget: Option<Budget>,
    /// How often samples are taken, where that is not what was asked for.
    rates: Option<Rates>,
    habits: Option<Habits>,
    /// Samples that were taken in the processes.
    taken_samples: u64,
    delay: Duration,
    pub(crate) started: Nanoseconds,
    /// What its duration counts from.
    sampling_since: Nanoseconds,
    started_unix: Nanoseconds,
    slice_started: Nanoseconds,
    /// How long it took to make the last slice; none before the first, which reads what all need.
    slicing: Option<Duration>,
    /// When freed memory is given back next.
    next_return: Nanoseconds,
    /// When idle threads are asked next.
    next_asked: Nanoseconds,
    is_finished: bool,
    samples_before: usize,
    first_sample: Option<Nanoseconds>,
    /// Of this slice.
    losses: Losses,
    lost_samples: u64,
    remarks: Vec<String>,
}

impl<'e> Live<'e> {
    /// Attaches an engine and starts to record.
    pub fn attach(
        engine: &'e mut dyn Engine,
        mut subject: Subject,
        options: LiveOptions,
        observer: &mut dyn Observer,
    ) -> Result<Self, CaptureError> {
        let resolver = resolver_for(&options);
        let mut gc = options.gc_places.map(GcWatch::new);
        if let Some(gc) = &mut gc {
            subject.pids().try_for_each(|pid| gc.watch(pid))?;
        }
        let group = options
            .joining
            .as_ref()
            .and_then(|(wanted, _)| wanted.group(&subject.targets));
        // Before sampling starts, so that no process is missed.
        let mut joining = options
            .joining
            .map(|(wanted, children)| NewProcesses::watch(wanted, &subject.targets, children));
        // One that runs already is a process like any other.
        let waiting = |launched: &&mut Launched| !launched.is_started();
        let waits = subject.launched.as_mut().filter(waiting);
        let attached = engine.attach(engine::Subject {
            targets: &subject.targets,
            group: group.as_ref(),
            launched: waits,
        })?;
        // Once attached: that takes a while, in which no sample is taken.
        let targets = subject.targets.iter_mut();
        targets.for_each(Target::restart_cpu_time);
        let exact_waits = options
            .off_cpu_exact
            .then(|| WaitWatch::start(subject.pids()));
        let exact_waits = exact_waits.transpose()?;
        if let (true, Some(group), Some(joining)) =
            (attached.samples_group, group, joining.as_mut())
        {
            joining.rely_on(group, &subject.targets);
        }
        let remarks = engine.take_remarks();
        let launched = subject.launched.as_ref();
        observer.started(&Started {
            engine: engine.id(),
            events: &engine.events(),
            app: &subject.app,
            targets: &subject.targets,
            runs_as: launched.and_then(|launched| launched.runs_as()),
            attached: &attached,
            remarks: &remarks,
        });
        let measured = match options.continuous {
            Some(_) => &[][..],
            None => &subject.targets,
        };
        let scheduling = SchedulingWatch::start(measured.iter().map(Target::pid));
        let loops = match (engine.id(), options.stalls) {
            _ if options.continuous.is_some() => None,
            // V8's profiler interrupts poll with its signals, so that loops say of themselves what is not so.
            (EngineId::Snapshot | EngineId::Inspector, _) => None,
            (_, Some(limit)) => Some(EventLoops::with_stalls(attached.started, limit)),
            (_, None) => Some(EventLoops::new(attached.started)),
        };
        let resolver = resolver.with_events(engine.events());
        let adapts = options.continuous.is_some_and(|it| it.sampled.is_adaptive);
        if let Some(continuous) = options.continuous
            && continuous.sampled.one_in > 1
        {
            engine.change_pace(Pace::OneIn(continuous.sampled.one_in))?;
        }
        Ok(Self {
            joining: match joining {
                Some(joining) => Box::new(joining),
                None => Box::new(NoneJoins),
            },
            engine,
            subject,
            resolver,
            named: NamedSamples::default(),
            twin: None,
            scheduling,
            cpu_times: Vec::new(),
            loops,
            pools: ThreadPools::new(attached.started),
            gc,
            continuous: options.continuous,
            waits: exact_waits,
            budget: options.max_overhead.map(|share| {
                let interval = options.continuous.map_or(INTERVAL, |it| it.judged_every);
                Budget::new(share, interval)
            }),
            rates: options.continuous.map(|it| it.sampled.rates()),
            habits: adapts.then(Habits::default),
            taken_samples: 0,
            delay: options.delay,
            started: attached.started,
            sampling_since: attached.sampling_since,
            started_unix: unix_now().saturating_sub(monotonic_now() - attached.started),
            slice_started: attached.started,
            slicing: None,
            next_return: attached.started.saturating_add(RETURN_INTERVAL),
            next_asked: 0,
            is_finished: false,
            samples_before: 0,
            first_sample: None,
            losses: Losses::default(),
            lost_samples: 0,
            remarks,
        })
    }

    /// Records until it is over. What was seen since the last slice is left for [`Self::slice`].
    pub fn run(
        &mut self,
        limits: &Limits<'_>,
        observer: &mut dyn Observer,
    ) -> Result<End, CaptureError> {
        let after = |start: Nanoseconds, time: Option<Duration>| {
            time.map(|time| start.saturating_add(time.as_nanos() as Nanoseconds))
        };
        let deadline = after(self.sampling_since, limits.duration);
        // V8's own samples have their names already.
        let _priority = match self.engine.id() {
            EngineId::PerfEvents => Priority::raise(),
            EngineId::Inspector | EngineId::Snapshot => None,
        };
        let end = loop {
            let slice_end = match self.continuous {
                Some(continuous) => limits
                    .slice
                    .map(|slice| self.aligned_end(continuous, slice)),
                None => after(self.slice_started, self.slice_length(limits)),
            };
            let next = [deadline, slice_end].into_iter().flatten().min();
            let is_over = self.drain(next)?;
            self.admit(observer);
            let now = monotonic_now();
            self.resolver.tick(now);
            if self.continuous.is_none() {
                if self.has_work(now) {
                    self.scheduling.poll(self.subject.pids());
                }
                self.watch_libuv();
            }
            self.follow_habits(observer)?;
            self.keep_budget(observer)?;
            if (limits.is_stopped)() {
                break End::Interrupted;
            }
            if is_over || self.continuous.is_none() && self.subject.has_ended() {
                break End::TargetsGone;
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                break End::Duration;
            }
            self.report(now, observer);
            if slice_end.is_some_and(|end| now >= end) && !self.hand_out(observer) {
                break End::Interrupted;
            }
        };
        if self.continuous.is_none() {
            self.scheduling.read(self.subject.pids());
        }
        // What is left to read takes a while, in which they go on.
        self.cpu_times = ended::cpu_times(&self.subject);
        self.finish()?;
        Ok(end)
    }

    /// Whether threads may have done something since they were asked last: while every loop waits for events, one in ten
    /// seconds is enough.
    fn has_work(&mut self, now: Nanoseconds) -> bool {
        if self.is_idle() && now < self.next_asked {
            return false;
        }
        self.next_asked = now + IDLE_ASK_INTERVAL;
        true
    }

    /// Reads event loops and thread pools, those of the processes that have joined too.
    fn watch_libuv(&mut self) {
        for pid in self.subject.pids() {
            if !self.pools.has(pid)
                && let Some(libuv) = self.resolver.libuv_of(pid)
            {
                self.pools.watch(pid, libuv.pool);
                if let Some(loops) = &mut self.loops {
                    loops.know_default(pid, libuv.default_loop);
                }
            }
        }
        if let Some(loops) = &mut self.loops {
            loops.poll(self.subject.pids());
            if loops.take_has_left_poll() {
                self.engine.look_soon();
            }
        }
        let is_idle = self.is_idle();
        self.pools.poll(is_idle);
        if let Some(gc) = &mut self.gc {
            gc.poll(self.subject.pids());
        }
        if let Some(waits) = &mut self.waits {
            waits.poll(self.subject.pids());
        }
    }

    /// When the slice that goes on ends: at least half a slice after it started.
    fn aligned_end(&self, continuous: Continuous, slice: Duration) -> Nanoseconds {
        let slice = (slice.as_nanos() as Nanoseconds).max(1);
        let phase = continuous.aligned_to % slice;
        let after = self.slice_started.saturating_add(slice / 2);
        let slices = after.saturating_sub(phase).div_ceil(slice);
        slices.saturating_mul(slice).saturating_add(phase)
    }

    /// What the recording has cost, where that was limited.
    pub(crate) fn overhead(&self) -> Option<String> {
        self.budget.as_ref()?.sentence()
    }

    /// How long the slice that goes on is to be.
    fn slice_length(&self, limits: &Limits<'_>) -> Option<Duration> {
        let slice = limits.slice?;
        if let (Some(idle), true) = (limits.idle_slice, self.is_idle()) {
            return Some(idle.max(slice));
        }
        let Some(slicing) = self.slicing else {
            return limits.first_slice.or(limits.slice);
        };
        let stretched = slicing * limits.slice_stretch;
        Some(stretched.clamp(slice, slice * MAX_STRETCH))
    }

    /// Whether all event loops wait for events, in recordings that watch for stalls.
    fn is_idle(&self) -> bool {
        self.loops.as_ref().is_some_and(EventLoops::are_idle)
    }

    /// Hands what was seen since the last slice to the observer; whether it wants more.
    pub fn hand_out(&mut self, observer: &mut dyn Observer) -> bool {
        let started = self.slice_started;
        let losses = self.losses;
        let stalls = self.take_stalls();
        let before = own_cpu_time();
        let profile = self.slice();
        if let (Some(budget), None) = (&mut self.budget, self.slicing) {
            // The first reads the symbols that all need.
            budget.forgive(own_cpu_time().saturating_sub(before));
        }
        let made_from = self.slice_started;
        let wants_more = observer.slice(Slice {
            profile,
            length: self.slice_started.saturating_sub(started),
            started: self.started,
            is_last: self.is_finished,
            losses,
            stalls,
            pools: self.pools.latest(),
            targets: &self.subject.targets,
            resolver: &self.resolver,
        });
        if self.continuous.is_some() {
            self.subject.targets.retain(|target| !target.has_ended());
        }
        if let Some(since) = observer.counts_since() {
            self.start_period(self.started.saturating_add(since));
        }
        let now = monotonic_now();
        if now >= self.next_return {
            // What is idle frees little.
            let factor = if self.is_idle() {
                IDLE_RETURN_FACTOR
            } else {
                1
            };
            self.next_return = now + RETURN_INTERVAL * factor;
            return_freed_memory();
        }
        let took = Duration::from_nanos(now.saturating_sub(made_from));
        self.slicing = Some(self.slicing.map_or(Duration::ZERO, |_| took));
        wants_more
    }

    /// From now on what threads, loops and pools do is counted from `since` on.
    fn start_period(&mut self, since: Nanoseconds) {
        self.scheduling.start_period(since);
        if let Some(loops) = &mut self.loops {
            loops.start_period(since);
        }
        self.pools.start_period(since);
        if let Some(gc) = &mut self.gc {
            gc.start_period(since);
        }
    }

    /// The stalls since the last slice, counted from the start of the recording.
    fn take_stalls(&mut self) -> Vec<Stall> {
        let mut stalls = match &mut self.loops {
            Some(loops) => loops.take_stalls(),
            None => Vec::new(),
        };
        for stall in &mut stalls {
            stall.started = stall.started.saturating_sub(self.started);
        }
        stalls
    }

    /// When the first sample was taken.
    pub(crate) fn first_sample(&self) -> Option<Nanoseconds> {
        self.first_sample
            .or_else(|| self.resolver.first_sample_time())
    }

    /// What was seen since the last slice, with names. Times and duration count from the start of the
    /// recording.
    pub fn slice(&mut self) -> Profile {
        let now = monotonic_now();
        self.remarks.extend(self.engine.take_remarks());
        if let Some(loops) = &mut self.loops {
            self.remarks.extend(loops.take_remarks());
        }
        if let Some(waits) = &mut self.waits {
            self.remarks.extend(waits.take_remarks());
        }
        let losses = std::mem::take(&mut self.losses);
        let mut notes = Notes {
            lost_samples: losses.samples,
            lost_records: losses.records,
            throttled: losses.throttled,
            ..Notes::default()
        };
        for remark in self.remarks.drain(..) {
            notes.remark(remark);
        }
        self.slice_started = now;
        self.first_sample = self.first_sample();
        self.samples_before += self.resolver.sample_count();
        let mut about = About {
            app: self.subject.app.clone(),
            host: proc::host_name(),
            engine: self.engine.id().label().to_owned(),
            started_unix: self.started_unix,
            nodespy_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..About::default()
        };
        let mut profile = match self.engine.id() {
            // How long it lasts is known to V8.
            EngineId::Inspector => self.named.slice(about),
            EngineId::PerfEvents => {
                about.duration = now.saturating_sub(self.started);
                self.resolver.slice(about, notes, self.started)
            }
            EngineId::Snapshot => self.resolver.slice(about, notes, self.started),
        };
        self.scheduling.note_in(&mut profile);
        self.scheduling.forget_ended();
        if let Some(loops) = &mut self.loops {
            loops.note_in(&mut profile);
            loops.forget_ended();
        }
        self.pools.note_in(&mut profile);
        self.pools.forget_ended();
        if let Some(gc) = &mut self.gc {
            gc.note_in(&mut profile, self.started);
            gc.forget_ended();
        }
        if let Some(waits) = &mut self.waits {
            waits.note_in(&mut profile);
        }
        profile
    }

    /// The suspended async functions of the processes, as they are now.
    pub fn pending(&mut self) -> Profile {
        self.resolver.pending()
    }

    /// What makes samples.
    pub(crate) fn events(&self) -> Vec<EventType> {
        self.engine.events()
    }

    /// How long it goes on.
    pub(crate) fn elapsed(&self) -> Nanoseconds {
        monotonic_now().saturating_sub(self.started)
    }

    /// Notes in a profile of this recording how threads that still run shared the CPUs, and what their
    /// event loops did.
    pub(crate) fn note_scheduling(&mut self, profile: &mut Profile) {
        self.scheduling.note_in(profile);
        if let Some(loops) = &mut self.loops {
            loops.note_in(profile);
        }
        self.pools.note_in(profile);
        if let Some(gc) = &mut self.gc {
            gc.note_in(profile, self.started);
        }
        if let Some(waits) = &mut self.waits {
            waits.note_in(profile);
        }
    }

    /// Puts the functions of a profile of this recording where they were written.
    pub fn map_sources(&self, profile: Profile, options: &SourceMapOptions) -> Profile {
        self.resolver.map_sources(profile, options)
    }

    /// Waits for events, at most until `next`, and takes them in. True when nothing will follow.
    fn drain(&mut self, next: Option<Nanoseconds>) -> Result<bool, CaptureError> {
        let left = next.map_or(POLL_INTERVAL, |next| {
            Duration::from_nanos(next.saturating_sub(monotonic_now()))
        });
        std::thread::sleep(self.delay);
        let mut sink = Collector {
            joining: &mut *self.joining,
            resolver: &mut self.resolver,
            named: &mut self.named,
            taken: &mut self.taken_samples,
        };
        let until_next = self
            .loops
            .as_ref()
            .map_or(POLL_INTERVAL, EventLoops::until_next);
        let timeout = left.min(until_next).clamp(MIN_WAIT, POLL_INTERVAL);
        let drained = self.engine.drain(timeout, &mut sink)?;
        self.count(drained.losses);
        if let Some(twin) = &mut self.twin {
            twin.drain();
        }
        Ok(drained.is_over)
    }

    /// Ends the engines' work and takes in what is left.
    fn finish(&mut self) -> Result<(), CaptureError> {
        let mut sink = Collector {
            joining: &mut *self.joining,
            resolver: &mut self.resolver,
            named: &mut self.named,
            taken: &mut self.taken_samples,
        };
        let losses = self.engine.finish(&mut sink)?;
        self.is_finished = true;
        self.count(losses);
        Ok(())
    }

    fn count(&mut self, losses: Losses) {
        self.losses += losses;
        self.lost_samples = self.lost_samples.saturating_add(losses.samples);
    }

    /// Takes in the processes that joined what is recorded.
    fn admit(&mut self, observer: &mut dyn Observer) {
        // One at a time: one that is refused keeps no other out.
        for target in self.joining.joined() {
            match self.engine.add(std::slice::from_ref(&target)) {
                Ok(()) => {
                    observer.added(&target);
                    self.subject.targets.push(target);
                }
                // It came and went, or is another user's: what is recorded goes on.
                Err(error) => {
                    log::warn!("a process that joined is not recorded: {error}");
                    observer.not_added(&error);
                }
            }
        }
    }

    fn report(&mut self, now: Nanoseconds, observer: &mut dyn Observer) {
        observer.progress(&mut Progress {
            engine: self.engine.id(),
            elapsed: now.saturating_sub(self.started),
            lost_samples: self.lost_samples,
            samples_before: self.samples_before,
            resolver: &mut self.resolver,
        });
    }

    #[cfg(test)]
    pub(crate) fn with_joining(mut self, joining: impl Joining + 'static) -> Self {
        self.joining = Box::new(joining);
        self
    }
}

/// CPU time that nodespy has used.
fn own_cpu_time() -> Nanoseconds {
    process_cpu_time(std::process::id()).unwrap_or(0)
}

fn upper_first(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// A resolver that leaves out what is not wanted.
fn resolver_for(options: &LiveOptions) -> Resolver {
    let mut resolver =
        Resolver::new(Box::new(LiveOrigin::new())).remembering_ended(options.remembered_processes);
    if options.no_heap_walk {
        resolver = resolver.without_heap_walk();
    }
    if options.no_async {
        resolver = resolver.without_async_callers();
    }
    if options.no_routes {
        resolver = resolver.without_routes();
    }
    resolver.with_stores(options.stores.clone())
}

/// Where the events of an engine go.
struct Collector<'a> {
    joining: &'a mut dyn Joining,
    resolver: &'a mut Resolver,
    named: &'a mut NamedSamples,
    /// How many samples were taken in the processes.
    taken: &'a mut u64,
}

impl Sink for Collector<'_> {
    fn batch(&mut self) {
        self.resolver.start_batch();
    }

    fn event(&mut self, event: Event<'_>) {
        // What is seen from outside has no CPU.
        if matches!(&event, Event::Sample(sample) if sample.cpu.is_some()) {
            *self.taken += 1;
        }
        let resolver = &mut *self.resolver;
        self.joining.pass(event, &mut |event| resolver.take(event));
    }

    fn named(&mut self, session: usize, event: NamedEvent) {
        self.named.take(session, event);
    }

    fn take_copy_rules(&mut self) -> CopyRules {
        self.resolver.take_copy_rules()
    }
}

#[cfg(test)]
mod tests;
