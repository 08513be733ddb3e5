//! Sampling by the kernel: `perf_event_open` on every thread, or on a whole control group, and on
//! every CPU; one ring per CPU.
//!
//! Samples carry registers and a copy of the stack; mappings, names, births and deaths come
//! through rings of their own, so that a flood of samples never costs us the knowledge of what
//! is mapped where. Both are merged by time before they are handed on. Nothing is written into
//! the target but the breakpoints that a user asks for, nothing stops it.

use std::fmt;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nodespy_model::{CopyRules, Event, Nanoseconds};

use crate::engine::Losses;
use crate::error::CaptureError;
use crate::sys::bpf::WalkProgram;
use crate::sys::clock::ticks_after_boot;
use crate::sys::perf_event::{Counted, PerfEvent, Sampling};
use crate::sys::pidfd::{Waker, Woken, wait_for};
use crate::sys::ring::Ring;
use crate::target::{Group, Target, no_mappings, proc, program, synthesize_initial_events};

mod arguments;
mod available;
mod cpu_wide;
mod engine;
mod faults;
mod filling;
mod followed;
mod javascript_threads;
mod job_rate;
mod mapping;
mod names;
mod opening;
mod pace;
mod probing;
mod rates;
mod reader;
mod reading;
mod records;
mod refusals;
mod ring_set;
mod sources;
mod spec;
mod tracefs;
mod unread;
mod walking;

pub use crate::sys::bpf::CopiedAtSample;
pub use available::{Availability, AvailableEvent, available_events};
pub use engine::PerfEvents;
use faults::Faults;
use filling::Filling;
pub(crate) use javascript_threads::may_run_javascript;
pub use job_rate::thin_out;
use mapping::map_rings;
use opening::{
    CpuEvents, OpenedThread, attach_program, choose_events, open_group, open_on_threads,
};
pub use probing::{probe, probe_group, probe_quickly};
use reading::Reading;
use ring_set::RingSet;
pub(crate) use sources::uprobe_pmu;
pub use spec::{EventSpec, POOL_JOBS, ProbePlace, Uprobe};
pub(crate) use tracefs::id_of as tracepoint_id;
use unread::Unread;
use walking::{SAMPLED, Walking};

/// Stack copied with each sample: all that fits into a record, whose length is 16 bits, beside a
/// full kernel call chain. The kernel copies only what there is of a stack, so this costs a target
/// with shallow stacks nothing; 16 KiB cut 65 % of an express server's samples (libuv's
/// `uv__io_poll` alone holds 12 KiB), 32 KiB cut 0.7 % of them and every recursion of 500 frames.
const STACK_BYTES: u32 = 62 << 10;
/// What is copied where a program copies the frames beyond it: enough to unwind code without frame pointers, which is at
/// the leaf.
const WALKED_STACK_BYTES: u32 = 4 << 10;
/// What is copied where the ring has to be small; the rest is then read live.
const SMALL_STACK_BYTES: u32 = 8 << 10;
/// A ring below this holds too few full samples.
const ROOMY_RING_BYTES: usize = 1 << 20;
/// An event is in its ring at the latest this long after its time stamp.
const SETTLING: Nanoseconds = 2_000_000;

/// How long a process or thread counts as new: it may be gone when the ring calls, and with it what
/// names its JavaScript. A worker that starts runs each of its functions once, and forgets them.
const NEW_AGE: Nanoseconds = 500_000_000;
/// Sideband events that wait for samples; they are sorted again whenever some come.
const MAX_PENDING: usize = 500;
/// How often rings are polled where samples wake their readers instead.
const READ_POLL_INTERVAL: Duration = Duration::from_millis(40);
/// How long after something was learned of what to copy more is likely to be.
const LEARNING: Nanoseconds = 100_000_000;
/// How often rings are polled while a process or thread is new, or something is learned.
const NEW_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What to sample.
#[derive(Debug, Clone)]
pub struct PerfOptions {
    /// What makes samples, at least one.
    pub events: Vec<EventSpec>,
    /// Samples per second of CPU time and thread, of events that have a rate and none of their own.
    pub rate_hz: u32,
    /// Whether kernel frames are wanted.
    pub include_kernel: bool,
    /// Whether processes born later are followed.
    pub follow_children: bool,
    /// Whether a program copies what names JavaScript at the sampled instruction, where the kernel allows that.
    pub walks_at_sample: bool,
    /// Whether threads of nodespy read it where no program may run, which hold a CPU for some 100 us a sample.
    pub reads_at_sample: bool,
    /// What is copied then, beside the stack and its functions.
    pub copies: CopiedAtSample,
    /// Whether main threads that stand still for long are polled less often too, for recordings that go
    /// on for days: what one waits for just after that may be seen late.
    pub spares_idle: bool,
    /// Whether events of whole CPUs are preferred to those of threads, whatever the targets do: for a recording of
    /// every process of the machine, where targets come and go.
    pub prefers_cpus: bool,
    /// Attach, but take no samples: for measuring what attaching costs.
    pub placebo: bool,
}

/// A running capture.
#[derive(Debug)]
pub(crate) struct PerfSession {
    events: Vec<OpenEvent>,
    rings: RingSet<Ring>,
    wakers: Vec<Waker>,
    remarks: Vec<String>,
    /// One for each event.
    samplings: Vec<Sampling>,
    /// The same as they were asked for, before they got fewer.
    asked: Vec<Sampling>,
    /// For each CPU the positions in `events` of those whose rings all others write to.
    ring_owners: Vec<RingOwners>,
    /// The control group that events are open on, if so: what joins it is sampled already.
    group: Option<OwnedFd>,
    /// What copies memory at the sampled instruction.
    walking: Option<Walking>,
    /// What reads it where no program runs.
    reading: Option<Reading>,
    /// Since when samples wait, and until when they may.
    unread: Unread,
    filling: Filling,
    /// Until when more is likely to be learned of what to copy.
    learning_until: Nanoseconds,
    faults: Faults,
}

/// An event, and which of the samplings it is of; none for the sideband, and for one that is kept for its ring alone.
#[derive(Debug)]
struct OpenEvent {
    event: PerfEvent,
    sampling: Option<usize>,
}

/// The events of a CPU that the rings belong to, by their position.
#[derive(Debug, Clone)]
struct RingOwners {
    cpu: u32,
    /// One for each event that is sampled.
    samples: Vec<usize>,
    sideband: usize,
}

impl PerfSession {
    /// Starts to watch `targets`, or the whole `group` they are in where the kernel allows that. What
    /// is already mapped and named is reported by the first [`Self::drain`]. A target that is yet to
    /// be launched is sampled from when it starts its program (`start_on_exec`).
    pub(crate) fn attach(
        targets: &[Target],
        group: Option<&Group>,
        options: &PerfOptions,
        start_on_exec: bool,
    ) -> Result<Self, CaptureError> {
        if let Some(mut session) = Self::open_walking(targets, group, options, start_on_exec) {
            session.leave_out_large();
            return Ok(session.started(targets, options, start_on_exec));
        }
        let whole = (STACK_BYTES, start_on_exec);
        let mut session = Self::open(targets, group, options, whole, None)?;
        if session.smallest_ring() < ROOMY_RING_BYTES {
            let small = (SMALL_STACK_BYTES, start_on_exec);
            session = Self::open(targets, group, options, small, None)?;
            session.remarks.push(format!(
                "only {} KiB of locked memory per CPU allowed: {} KiB of each stack were copied \
                 and the rest read a moment later; for whole copies: ulimit -l unlimited, or run \
                 as root",
                session.smallest_ring() >> 10,
                SMALL_STACK_BYTES >> 10
            ));
        }
        if options.reads_at_sample && options.events[0].is_cpu() {
            session.reading = Some(Reading::new(cpu_wide::copied_at_sample(0, options)));
        }
        Ok(session.started(targets, options, start_on_exec))
    }

    /// Opens events that run a program at each sample, which copies what is needed of the rest of the stack; none where
    /// that is not wanted or not possible.
    fn open_walking(
        targets: &[Target],
        group: Option<&Group>,
        options: &PerfOptions,
        start_on_exec: bool,
    ) -> Option<Self> {
        if !options.walks_at_sample || !options.events[0].is_cpu() {
            return None;
        }
        let not_walking = |why: &dyn fmt::Display| log::info!("no program runs at samples: {why}");
        // Most other programs have no frame pointers, which the program follows: theirs are unwound from whole copies.
        let runs_javascript = |target: &Target| program(target.pid()).is_some();
        if group.is_none() && !start_on_exec && !targets.iter().any(runs_javascript) {
            not_walking(&"no target runs JavaScript");
            return None;
        }
        if cpu_wide::is_better(targets, group, options, start_on_exec) {
            match Self::open_cpu_wide(targets, options, start_on_exec) {
                Ok(session) => return Some(session),
                Err(why) => log::info!("no events of whole CPUs: {why}"),
            }
        }
        let walk = WalkProgram::load(cpu_wide::copied_at_sample(WALKED_STACK_BYTES, options));
        let walk = walk.inspect_err(|why| not_walking(why)).ok()?;
        let opening = (WALKED_STACK_BYTES, start_on_exec);
        let session = Self::open(targets, group, options, opening, Some(walk));
        session.inspect_err(|why| not_walking(why)).ok()
    }

    /// Copies no whole stacks without frame pointers into rings that have no room for them.
    fn leave_out_large(&mut self) {
        let Some(walking) = self.walking.as_mut().filter(|_| !self.filling.is_roomy()) else {
            return;
        };
        let ring_bytes = smallest(&self.rings);
        log::info!("rings of {ring_bytes} bytes have no room for stacks without frame pointers");
        if let Err(why) = walking.leave_out_bare() {
            log::debug!("the program copies them all the same: {why}");
        }
        if ring_bytes < mapping::ring_bytes(&self.samplings, self.ring_owners.len()) {
            self.remarks.push(format!(
                "only {} KiB of locked memory per CPU allowed: deep stacks of code without frame pointers are cut; \
                 for whole ones: ulimit -l unlimited, CAP_IPC_LOCK, or run as root",
                ring_bytes >> 10
            ));
        }
    }

    /// Starts to sample.
    fn started(mut self, targets: &[Target], options: &PerfOptions, start_on_exec: bool) -> Self {
        self.wakers.extend(targets.iter().filter_map(Target::waker));
        // Events of a thread start with its program by themselves.
        if !options.placebo && (!start_on_exec || self.is_cpu_wide()) {
            self.events.iter().for_each(|open| open.event.enable());
        }
        if !start_on_exec {
            // After enabling, so that nothing falls between this read and the first record.
            self.queue_initial_events(targets);
        }
        self
    }

    fn open(
        targets: &[Target],
        group: Option<&Group>,
        options: &PerfOptions,
        (stack_bytes, start_on_exec): (u32, bool),
        program: Option<WalkProgram>,
    ) -> Result<Self, CaptureError> {
        let cpus = proc::online_cpus();
        // Of several, those that ended meanwhile are left out: an app may lose a worker now and then.
        let needs_kind = options.events.iter().any(EventSpec::is_of_javascript);
        let threads = || threads_of(targets.iter().filter(|it| !it.has_ended()), needs_kind);
        let Some(first) = threads().first().map(|thread| thread.pid) else {
            let pid = targets.first().map_or(0, Target::pid);
            return Err(CaptureError::Gone { pid });
        };
        let (samplings, remarks) =
            choose_events(first, &cpus, options, (stack_bytes, start_on_exec))?;
        // A breakpoint that is not of a thread is set in every process that has the file mapped.
        let has_probe = options.events.iter().any(EventSpec::is_uprobe);
        let of_group = group
            .filter(|_| !has_probe)
            .and_then(|group| open_group(group, &cpus, &samplings));
        let group = match (&of_group, group) {
            (Some(_), Some(group)) => Some(group.as_fd().try_clone_to_owned())
                .transpose()
                .map_err(|error| CaptureError::call("holding a control group", error))?,
            _ => None,
        };
        let events = match of_group {
            Some(events) => {
                attach_program(program.as_ref(), &events)?;
                events
            }
            None => open_on_threads(&threads, &cpus, &samplings, program.as_ref())?,
        };
        let mut rings = map_rings(&events, &samplings)?;
        thin_out_threads(&mut rings, &samplings, &threads());
        let walking = program
            .map(|program| Walking::start(program, &events, &samplings[0], &mut rings))
            .transpose()
            .map_err(|error| CaptureError::call("running a program at samples", error))?;
        let session = Self::new(events, rings, (samplings, remarks), walking);
        Ok(Self { group, ..session })
    }

    /// A session of open events that does not sample yet.
    fn new(
        events: Vec<CpuEvents>,
        rings: RingSet<Ring>,
        (samplings, remarks): (Vec<Sampling>, Vec<String>),
        walking: Option<Walking>,
    ) -> Self {
        let filling = Filling::new(smallest(&rings), &samplings);
        let unread = Unread::new(filling.time());
        let mut session = Self {
            events: Vec::new(),
            rings,
            wakers: Vec::new(),
            remarks,
            asked: samplings.clone(),
            samplings,
            ring_owners: Vec::new(),
            group: None,
            walking,
            reading: None,
            unread,
            filling,
            // All there is to copy has to be learned first.
            learning_until: crate::monotonic_now().saturating_add(NEW_AGE),
            faults: Faults::default(),
        };
        events.into_iter().for_each(|of_cpu| session.keep(of_cpu));
        session
    }

    /// Keeps the open events of a CPU, whose first ones own its rings.
    fn keep(&mut self, of_cpu: CpuEvents) {
        let sideband = of_cpu.sideband.first();
        self.wakers.extend(sideband.map(PerfEvent::sideband_waker));
        let samples = of_cpu.samples.iter().filter_map(|events| events.first());
        self.wakers.extend(samples.map(PerfEvent::waker));
        let has_all = |events: &Vec<PerfEvent>| !events.is_empty();
        let is_whole = has_all(&of_cpu.sideband) && of_cpu.samples.iter().all(has_all);
        let sideband = self.events.len();
        let open = |event, sampling| OpenEvent { event, sampling };
        let of_sideband = of_cpu.sideband.into_iter();
        self.events
            .extend(of_sideband.map(|event| open(event, None)));
        let mut samples = Vec::new();
        for (sampling, events) in of_cpu.samples.into_iter().enumerate() {
            samples.push(self.events.len());
            let events = events.into_iter();
            self.events
                .extend(events.map(|event| open(event, Some(sampling))));
        }
        if is_whole {
            self.ring_owners.push(RingOwners {
                cpu: of_cpu.cpu.into(),
                samples,
                sideband,
            });
        }
    }

    /// Whether every process of the group is sampled, those that join it later included.
    fn samples_group(&self) -> bool {
        self.group.is_some()
    }

    /// Whether events are of whole CPUs, and a program drops samples of other processes.
    fn is_cpu_wide(&self) -> bool {
        self.rings.has_others()
    }

    /// Watches further processes, through the rings there are.
    pub(crate) fn add(&mut self, targets: &[Target]) -> Result<(), CaptureError> {
        if let Some(followed) = self.rings.followed() {
            for target in targets {
                cpu_wide::check_sees(target.pid())?;
                followed.record(target.pid(), false);
            }
            self.queue_initial_events(targets);
        } else if self.group.is_none() {
            let needs_kind = self.samplings.iter().any(|one| one.is_of_javascript);
            self.add_threads(&|| threads_of(targets.iter(), needs_kind))?;
            self.queue_initial_events(targets);
        }
        self.wakers.extend(targets.iter().filter_map(Target::waker));
        Ok(())
    }

    fn add_threads(&mut self, threads: &dyn Fn() -> Vec<OpenedThread>) -> Result<(), CaptureError> {
        let cpus: Vec<u32> = self.ring_owners.iter().map(|owners| owners.cpu).collect();
        let program = self.walking.as_ref().map(Walking::program);
        let opened = open_on_threads(threads, &cpus, &self.samplings, program)?;
        let mut added = Vec::new();
        for (owners, events) in self.ring_owners.iter().zip(opened) {
            let owned = owners.samples.iter().copied().zip(events.samples);
            let samples = owned
                .enumerate()
                .map(|(sampling, (owner, events))| (Some(sampling), owner, events));
            for (sampling, owner, events) in [(None, owners.sideband, events.sideband)]
                .into_iter()
                .chain(samples)
            {
                for event in events {
                    event
                        .write_to_ring_of(&self.events[owner].event)
                        .map_err(|error| CaptureError::call("sharing a ring buffer", error))?;
                    added.push(OpenEvent { event, sampling });
                }
            }
        }
        self.weigh(&added)?;
        thin_out_threads(&mut self.rings, &self.samplings, &threads());
        added.iter().for_each(|open| open.event.enable());
        // A ring tells one of those who wait for it: its reader, where there is one.
        if self.reading.is_none() {
            self.wakers
                .extend(added.iter().map(|open| open.event.waker()));
        }
        self.events.extend(added);
        Ok(())
    }

    fn smallest_ring(&self) -> usize {
        smallest(&self.rings)
    }

    /// Queues what existed before the events did: names of threads and code mappings.
    fn queue_initial_events(&mut self, targets: &[Target]) {
        let now = crate::monotonic_now();
        for target in targets {
            let pid = target.pid();
            let (events, mappings) = synthesize_initial_events(pid);
            self.rings.queue(events);
            self.rings
                .note_birth(ticks_after_boot(target.start_time(), now));
            if let Err(error) = mappings {
                self.remarks.push(no_mappings(pid, &error));
            }
        }
    }

    /// Waits up to `timeout` for samples, then hands on everything there is in order of time.
    pub(crate) fn drain(
        &mut self,
        timeout: Duration,
        take: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), CaptureError> {
        self.wait(timeout)?;
        self.read(take);
        Ok(())
    }

    /// Starts to read at samples, where no program does: from now on the readers are woken by them.
    fn start_readers(&mut self) {
        let Some(reading) = &mut self.reading else {
            return;
        };
        if reading.has_started() {
            return;
        }
        let layout = self.samplings[SAMPLED].sample_layout();
        let owners = self.ring_owners.iter().map(|owners| {
            let open = &self.events[owners.samples[SAMPLED]];
            (owners.cpu, open.event.as_raw_fd())
        });
        let owners: Vec<(u32, i32)> = owners.collect();
        let woken = reading.start(&owners, &layout, &mut self.rings);
        self.wakers
            .retain(|waker| !woken.iter().any(|&fd| *waker == Waker::Ring(fd)));
    }

    /// Waits up to `timeout` for samples; whether there are any, or something is in a hurry.
    fn wait(&mut self, timeout: Duration) -> Result<bool, CaptureError> {
        self.start_readers();
        let interval = self.poll_interval(timeout);
        if interval.is_zero() {
            return Ok(true);
        }
        // A ring that hung up is still read.
        let woken = wait_for(&mut self.wakers, interval)
            .map_err(|error| CaptureError::call("waiting for samples", error))?;
        match woken {
            Woken::BySideband if self.rings.has_others() => {
                // Processes come and go all the time on a busy machine; samples are read sooner only for those that are recorded.
                self.rings.collect_sideband();
                Ok(self.poll_interval(timeout) < timeout)
            }
            // The kernel counts what is written, whatever was read of it: the ring may have been read a moment ago.
            Woken::BySamples if self.is_copied() => {
                Ok(self.is_filling() || self.poll_interval(timeout) < timeout)
            }
            woken => Ok(woken != Woken::Timeout || interval < timeout),
        }
    }

    /// Whether a program copies what moves at every sample.
    fn is_copied(&self) -> bool {
        self.walking.is_some() && self.samplings.len() == 1
    }

    fn is_filling(&self) -> bool {
        self.rings.sample_rings().any(Ring::is_filling)
    }

    /// Whether rings are to be read though none of them asks for it. Memory that is read for a sample serves its whole
    /// batch, so the smaller ones are left to grow where a program has copied what moves: at samples of CPU time alone.
    fn is_read_due(&self) -> bool {
        let newest_birth = self.rings.newest_birth();
        !self.is_copied()
            || self.is_filling()
            || self.rings.pending_len() > MAX_PENDING
            || self.unread.is_due(crate::monotonic_now(), newest_birth)
    }

    /// Hands on everything there is in order of time.
    fn read(&mut self, take: &mut dyn FnMut(Event<'_>)) {
        let now = crate::monotonic_now();
        self.unread.last_read = now;
        let settled = now.saturating_sub(SETTLING);
        self.rings.drain(settled, take);
        if self.walking.is_some() {
            self.filling.note(self.rings.copied());
            self.unread.fill_time = self.filling.time();
        }
    }

    /// Copies more of objects from now on, where a program copies anything.
    fn copy_also(&mut self, rules: &CopyRules) {
        if rules.is_empty() {
            return;
        }
        let now = crate::monotonic_now();
        if rules.lead_further() {
            self.learning_until = now.saturating_add(LEARNING);
        }
        if rules.has_new_maps {
            self.unread.expect_new_maps(now);
        }
        if let Some(walking) = &mut self.walking {
            walking.copy_also(rules);
        }
        if let Some(reading) = &self.reading {
            reading.copy_also(rules);
        }
    }

    /// How long to wait at most when nothing is in a hurry for `timeout`.
    fn poll_interval(&self, timeout: Duration) -> Duration {
        let mut interval = timeout.min(Duration::from_nanos(self.unread.fill_time));
        if self.reading.is_some() {
            interval = interval.min(READ_POLL_INTERVAL);
        }
        let new_until = self.rings.newest_birth().saturating_add(NEW_AGE);
        if crate::monotonic_now() < new_until {
            interval = interval.min(NEW_POLL_INTERVAL);
        }
        // A request is found step by step, each of which takes a sample that was copied with what the last has told.
        if crate::monotonic_now() < self.learning_until {
            interval = interval.min(NEW_POLL_INTERVAL);
        }
        // What waits until it is settled may be the fork of a short-lived process.
        if self.rings.has_pending() {
            interval = interval.min(Duration::from_nanos(SETTLING));
        }
        interval
    }

    /// Stops sampling and hands on what is left.
    pub(crate) fn finish(&mut self, take: &mut dyn FnMut(Event<'_>)) {
        self.events.iter().for_each(|open| open.event.disable());
        if let Some(reading) = &mut self.reading {
            self.remarks.extend(reading.finish());
        }
        self.rings.drain(Nanoseconds::MAX, take);
        if self.walking.is_some() || self.reading.is_some() {
            let copied = self.rings.copied();
            log::info!(
                "memory was copied for {} samples, {} bytes; {} reads failed, {} chunks had no room",
                copied.samples,
                copied.bytes,
                copied.faults,
                copied.dropped
            );
        }
    }

    /// What was lost since the last call.
    fn take_losses(&mut self) -> Losses {
        self.rings.take_losses()
    }

    /// The clock of CPU time: `cycles` or `cpu-clock`.
    fn clock(&self) -> &'static str {
        let has_cycles = self
            .samplings
            .iter()
            .any(|sampling| sampling.counted == Counted::CYCLES);
        if has_cycles { "cycles" } else { "cpu-clock" }
    }
}

/// How many bytes the smallest ring of samples has.
fn smallest(rings: &RingSet<Ring>) -> usize {
    let bytes = rings.sample_rings().map(Ring::data_len);
    bytes.min().unwrap_or(0)
}

/// These threads are those that a program drops hits of breakpoints on, where one does.
fn thin_out_threads(rings: &mut RingSet<Ring>, samplings: &[Sampling], threads: &[OpenedThread]) {
    if let Some(thinned) = samplings.iter().find(|it| it.one_in.is_some()) {
        rings.thin_out(thinned.event, threads.iter().map(|thread| thread.tid));
    }
}

/// Every thread of these processes. Which run JavaScript is asked where some event is of those alone.
fn threads_of<'a>(
    targets: impl Iterator<Item = &'a Target>,
    needs_kind: bool,
) -> Vec<OpenedThread> {
    let of_target = |target: &Target| {
        let pid = target.pid();
        proc::threads(pid).into_iter().map(move |tid| OpenedThread {
            pid,
            tid,
            is_of_javascript: !needs_kind || may_run_javascript(pid, tid),
        })
    };
    targets.flat_map(of_target).collect()
}
