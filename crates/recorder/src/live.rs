//! The live loop: an engine is drained into the resolver until the recording is over.

use std::time::Duration;

use nodespy_capture::engine::{self, Engine, Losses, Pace};
use nodespy_capture::engines::EngineId;
use nodespy_capture::target::{Launched, Target, proc};
use nodespy_capture::{
    CaptureError, GcWatch, NewProcesses, Priority, WaitWatch, monotonic_now, process_cpu_time,
    return_freed_memory, unix_now,
};
use nodespy_model::{About, EventType, Nanoseconds, Notes, Profile};
use nodespy_symbolize::{Resolver, SourceMapOptions};

use crate::budget::{Budget, INTERVAL};
use crate::ended;
use crate::habits::Habits;
use crate::joining::{Joining, NoneJoins};
use crate::named::NamedSamples;
use crate::observer::{Observer, Progress, Slice, Started};
use crate::rates::Rates;
use crate::subject::Subject;
use crate::twin::Twin;

use collector::Collector;
use watches::Watches;

mod collector;
mod options;
mod pacing;
mod watches;

pub use options::{Continuous, End, Limits, LiveOptions, SampledShare};

/// How often an engine is drained when it has nothing to report earlier.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// A drain waits at least this long: the loop never spins.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// A slice that takes long to make is at most so many times as long as asked for.
const MAX_STRETCH: u32 = 10;

/// How often freed memory is given back to the kernel, which takes a millisecond or two.
const RETURN_INTERVAL: Nanoseconds = 20_000_000_000;

const IDLE_RETURN_FACTOR: Nanoseconds = 10;

/// A recording that goes on.
pub struct Live<'e> {
    engine: &'e mut dyn Engine,
    pub(crate) subject: Subject,
    joining: Box<dyn Joining>,
    pub(crate) resolver: Resolver,
    pub(crate) named: NamedSamples,
    /// V8's own profiler, where both are wanted.
    pub(crate) twin: Option<Twin<'e>>,
    /// Whether an eBPF program copies at samples what names them.
    has_ebpf: bool,
    /// None where there is no end, which would cost too much.
    watches: Option<Watches>,
    /// What processes used until sampling ended.
    pub(crate) cpu_times: Vec<(u32, Option<Nanoseconds>)>,
    continuous: Option<Continuous>,
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
        mut options: LiveOptions,
        observer: &mut dyn Observer,
    ) -> Result<Self, CaptureError> {
        let resolver = options.resolver();
        let mut gc = options.gc_places.take().map(GcWatch::new);
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
            .take()
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
        let watches = options.continuous.is_none().then(|| {
            Watches::start(engine.id(), &subject, attached.started, &options).with(gc, exact_waits)
        });
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
            has_ebpf: attached.has_ebpf,
            watches,
            cpu_times: Vec::new(),
            continuous: options.continuous,
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
            // What was taken until then is drained; admitting others takes a while.
            let drained_until = monotonic_now();
            let is_over = self.drain(next)?;
            self.admit(observer);
            let now = monotonic_now();
            self.resolver.tick(now);
            if let Some(watches) = &mut self.watches
                && watches.poll(&self.subject, &mut self.resolver)
            {
                self.engine.poll_soon();
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
            if slice_end.is_some_and(|end| drained_until >= end) && !self.hand_out(observer) {
                break End::Interrupted;
            }
        };
        if let Some(watches) = &mut self.watches {
            watches.finish(&self.subject);
        }
        // What is left to read takes a while, in which they go on.
        self.cpu_times = ended::cpu_times(&self.subject);
        self.finish()?;
        Ok(end)
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
        self.watches.as_ref().is_some_and(Watches::is_idle)
    }

    /// Hands what was seen since the last slice to the observer; whether it wants more.
    pub fn hand_out(&mut self, observer: &mut dyn Observer) -> bool {
        let started = self.slice_started;
        let losses = self.losses;
        let watches = self.watches.as_mut();
        let stalls = watches.map_or_else(Vec::new, Watches::take_stalls);
        let before = own_cpu_time();
        // Before the slice forgets the sessions that have ended.
        let elapsed = self.elapsed();
        let complete_until = match self.engine.id() {
            EngineId::Inspector => self.named.complete_until(elapsed),
            EngineId::PerfEvents | EngineId::Snapshot => elapsed,
        };
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
            complete_until,
            is_last: self.is_finished,
            losses,
            stalls,
            pools: self.watches.as_ref().map_or_else(Vec::new, Watches::pools),
            targets: &self.subject.targets,
            engine: self.engine.id(),
            resolver: &self.resolver,
        });
        if self.continuous.is_some() {
            self.subject.targets.retain(|target| !target.has_ended());
        }
        if let (Some(since), Some(watches)) = (observer.counts_since(), &mut self.watches) {
            watches.start_period(self.started.saturating_add(since));
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

    /// Whether samples wait in rings that hold half a second of them, and lose their names meanwhile.
    pub(crate) fn must_read_soon(&self) -> bool {
        self.engine.id() == EngineId::PerfEvents && !self.has_ebpf
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
        if let Some(watches) = &mut self.watches {
            self.remarks.extend(watches.take_remarks());
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
        if let Some(watches) = &mut self.watches {
            watches.note_in(&mut profile);
            watches.forget_ended();
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
        if let Some(watches) = &mut self.watches {
            watches.note_in(profile);
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
        let watches = self.watches.as_ref();
        let until_next = watches.map_or(POLL_INTERVAL, Watches::until_next);
        let timeout = left.min(until_next).clamp(MIN_WAIT, POLL_INTERVAL);
        self.engine.read_by(next);
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
                    if !self.engine.attaches_meanwhile() {
                        observer.added(&target);
                    }
                    self.subject.targets.push(target);
                }
                // It came and went, or is another user's: what is recorded goes on.
                Err(error) => {
                    log::warn!("a process that joined is not recorded: {error}");
                    observer.not_added(&error);
                }
            }
        }
        for outcome in self.engine.take_outcomes() {
            let mut targets = self.subject.targets.iter();
            let target = targets.find(|target| target.pid() == outcome.pid);
            match (outcome.result, target) {
                (Ok(()), Some(target)) => observer.added(target),
                // It has ended already.
                (Ok(()), None) => {}
                (Err(error), _) => observer.not_added(&error),
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

#[cfg(test)]
mod tests;
