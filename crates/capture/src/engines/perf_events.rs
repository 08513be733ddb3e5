//! Sampling by the kernel: `perf_event_open` on every thread, or on a whole control group, and on
//! every CPU; one ring per CPU.
//!
//! Samples carry registers and a copy of the stack; mappings, names, births and deaths come
//! through rings of their own, so that a flood of samples never costs us the knowledge of what
//! is mapped where. Both are merged by time before they are handed on. Nothing is written into
//! the target, nothing stops it.

use std::io;
use std::time::Duration;

use nodespy_model::{Event, Nanoseconds};

use super::{Finding, Verdict};
use crate::engine::Losses;
use crate::error::{CaptureError, explain_refusal};
use crate::sys::perf_event::{Clock, PerfEvent, Sampling, Subject};
use crate::sys::pidfd::{Waker, wait_for};
use crate::sys::ring::{Ring, page_size};
use crate::target::{Group, Target, no_mappings, proc, synthesize_initial_events};

mod engine;
mod opening;
mod records;
mod ring_set;

pub use engine::PerfEvents;
use opening::{CpuEvents, check_descriptors, choose_event, open_group, open_on_cpu};
use ring_set::RingSet;

/// Stack copied with each sample: all that fits into a record, whose length is 16 bits, beside a
/// full kernel call chain. The kernel copies only what there is of a stack, so this costs a target
/// with shallow stacks nothing; 16 KiB cut 65 % of an express server's samples (libuv's
/// `uv__io_poll` alone holds 12 KiB), 32 KiB cut 0.7 % of them and every recursion of 500 frames.
const STACK_BYTES: u32 = 62 << 10;
/// What is copied where the ring has to be small; the rest is then read live.
const SMALL_STACK_BYTES: u32 = 8 << 10;
/// A ring below this holds too few full samples.
const ROOMY_RING_BYTES: usize = 1 << 20;
/// The sample rings of all CPUs together never exceed this.
const ALL_RINGS_BYTES: usize = 256 << 20;
const LARGEST_RING_BYTES: usize = 32 << 20;
const SIDEBAND_RING_BYTES: usize = 256 << 10;
const SMALLEST_RING_BYTES: usize = 64 << 10;
/// An event is in its ring at the latest this long after its time stamp.
const SETTLING: Nanoseconds = 2_000_000;

/// How long a process counts as new: it may be gone when the ring calls, and with it what names
/// its JavaScript.
const NEW_PROCESS_AGE: Nanoseconds = 500_000_000;
/// How often rings are polled while a process is new.
const NEW_PROCESS_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What to sample.
#[derive(Debug, Clone, Default)]
pub struct PerfOptions {
    /// Samples per second of CPU time and thread.
    pub rate_hz: u32,
    /// Whether kernel frames are wanted.
    pub include_kernel: bool,
    /// Whether processes born later are followed.
    pub follow_children: bool,
    /// Attach, but take no samples: for measuring what attaching costs.
    pub placebo: bool,
}

/// A running capture.
#[derive(Debug)]
pub(crate) struct PerfSession {
    events: Vec<PerfEvent>,
    rings: RingSet<Ring>,
    wakers: Vec<Waker>,
    remarks: Vec<String>,
    sampling: Sampling,
    /// For each CPU the positions in `events` of those whose rings all others write to.
    ring_owners: Vec<RingOwners>,
    /// Whether events are open on a control group, so that what joins it is sampled already.
    has_group: bool,
}

/// The events of a CPU that the rings belong to, by their position.
#[derive(Debug, Clone, Copy)]
struct RingOwners {
    cpu: u32,
    samples: usize,
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
        let mut session = Self::open(targets, group, options, (STACK_BYTES, start_on_exec))?;
        if session.smallest_ring() < ROOMY_RING_BYTES {
            session = Self::open(targets, group, options, (SMALL_STACK_BYTES, start_on_exec))?;
            session.remarks.push(format!(
                "only {} KiB of locked memory per CPU allowed: {} KiB of each stack were copied \
                 and the rest read a moment later; for whole copies: ulimit -l unlimited, or run \
                 as root",
                session.smallest_ring() >> 10,
                SMALL_STACK_BYTES >> 10
            ));
        }
        session
            .wakers
            .extend(targets.iter().filter_map(Target::waker));
        if !start_on_exec {
            if !options.placebo {
                session.events.iter().for_each(PerfEvent::enable);
            }
            // After enabling, so that nothing falls between this look and the first record.
            session.queue_initial_events(targets);
        }
        Ok(session)
    }

    fn open(
        targets: &[Target],
        group: Option<&Group>,
        options: &PerfOptions,
        (stack_bytes, start_on_exec): (u32, bool),
    ) -> Result<Self, CaptureError> {
        let cpus = proc::online_cpus();
        // Of several, those that ended meanwhile are left out: an app may lose a worker now and then.
        let threads = threads_of(targets.iter().filter(|target| !target.has_ended()));
        let Some(&(first, _)) = threads.first() else {
            let pid = targets.first().map_or(0, Target::pid);
            return Err(CaptureError::Gone { pid });
        };
        let (sampling, mut remarks) =
            choose_event(first, &cpus, options, (stack_bytes, start_on_exec))?;
        let of_group = group.and_then(|group| open_group(group, &cpus, &sampling));
        let has_group = of_group.is_some();
        let events = match of_group {
            Some(events) => events,
            None => {
                check_descriptors(threads.len(), cpus.len())?;
                let on_cpu = |&cpu: &u32| open_on_cpu(&threads, cpu, &sampling);
                cpus.iter().map(on_cpu).collect::<Result<Vec<_>, _>>()?
            }
        };
        let mut session = Self {
            events: Vec::new(),
            rings: map_rings(&events, &sampling, ring_bytes(&sampling, cpus.len()))?,
            wakers: Vec::new(),
            remarks: Vec::new(),
            sampling,
            ring_owners: Vec::new(),
            has_group,
        };
        for of_cpu in events {
            let (samples, sideband) = (of_cpu.samples, of_cpu.sideband);
            session.wakers.extend(samples.first().map(PerfEvent::waker));
            session
                .wakers
                .extend(sideband.first().map(PerfEvent::waker));
            if !samples.is_empty() && !sideband.is_empty() {
                session.ring_owners.push(RingOwners {
                    cpu: of_cpu.cpu.into(),
                    sideband: session.events.len(),
                    samples: session.events.len() + sideband.len(),
                });
            }
            session.events.extend(sideband);
            session.events.extend(samples);
        }
        session.remarks.append(&mut remarks);
        Ok(session)
    }

    /// Whether every process of the group is sampled, those that join it later included.
    fn samples_group(&self) -> bool {
        self.has_group
    }

    /// Watches further processes, through the rings there are.
    pub(crate) fn add(&mut self, targets: &[Target]) -> Result<(), CaptureError> {
        if !self.has_group {
            self.add_threads(&threads_of(targets.iter()))?;
            self.queue_initial_events(targets);
        }
        self.wakers.extend(targets.iter().filter_map(Target::waker));
        Ok(())
    }

    fn add_threads(&mut self, threads: &[(u32, u32)]) -> Result<(), CaptureError> {
        let mut added = Vec::new();
        for owners in &self.ring_owners {
            let events = open_on_cpu(threads, owners.cpu, &self.sampling)?;
            for (owner, events) in [
                (owners.sideband, events.sideband),
                (owners.samples, events.samples),
            ] {
                for event in events {
                    event
                        .write_to_ring_of(&self.events[owner])
                        .map_err(|error| CaptureError::call("sharing a ring buffer", error))?;
                    added.push(event);
                }
            }
        }
        added.iter().for_each(PerfEvent::enable);
        self.wakers.extend(added.iter().map(PerfEvent::waker));
        self.events.extend(added);
        Ok(())
    }

    fn smallest_ring(&self) -> usize {
        self.rings
            .sample_rings()
            .map(Ring::data_len)
            .min()
            .unwrap_or(0)
    }

    /// Queues what existed before the events did: names of threads and code mappings.
    fn queue_initial_events(&mut self, targets: &[Target]) {
        for target in targets {
            let pid = target.pid();
            let (events, mappings) = synthesize_initial_events(pid);
            self.rings.queue(events);
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

    /// Waits up to `timeout` for samples.
    fn wait(&mut self, timeout: Duration) -> Result<(), CaptureError> {
        let timeout = self.poll_interval(timeout);
        if !timeout.is_zero() {
            // A ring that hung up is still read.
            wait_for(&mut self.wakers, timeout)
                .map_err(|error| CaptureError::call("waiting for samples", error))?;
        }
        Ok(())
    }

    /// Hands on everything there is in order of time.
    fn read(&mut self, take: &mut dyn FnMut(Event<'_>)) {
        let settled = crate::monotonic_now().saturating_sub(SETTLING);
        self.rings.drain(settled, take);
    }

    /// How long to wait at most when nothing is in a hurry for `timeout`.
    fn poll_interval(&self, timeout: Duration) -> Duration {
        let mut interval = timeout;
        let new_until = self.rings.newest_birth().saturating_add(NEW_PROCESS_AGE);
        if crate::monotonic_now() < new_until {
            interval = interval.min(NEW_PROCESS_POLL_INTERVAL);
        }
        // What waits until it is settled may be the fork of a short-lived process.
        if self.rings.has_pending() {
            interval = interval.min(Duration::from_nanos(SETTLING));
        }
        interval
    }

    /// Stops sampling and hands on what is left.
    pub(crate) fn finish(&mut self, take: &mut dyn FnMut(Event<'_>)) {
        self.events.iter().for_each(PerfEvent::disable);
        self.rings.drain(Nanoseconds::MAX, take);
    }

    /// What was lost since the last call.
    fn take_losses(&mut self) -> Losses {
        self.rings.take_losses()
    }

    /// What makes a sample: `cycles` or `cpu-clock`.
    fn event(&self) -> &'static str {
        self.sampling.clock.label()
    }
}

/// Maps two rings per CPU, all as large as the first wish allows: what may be locked is shared by
/// all of them, so when one is refused they all become smaller.
fn map_rings(
    events: &[CpuEvents],
    sampling: &Sampling,
    wish: usize,
) -> Result<RingSet<Ring>, CaptureError> {
    let mut size = wish;
    loop {
        let mut rings = RingSet::new(sampling.sample_layout(), sampling.sideband_layout());
        let mapped = events.iter().try_for_each(|of_cpu| {
            if let Some(ring) = share_ring(&of_cpu.samples, size)? {
                rings.add_samples(of_cpu.cpu, ring);
            }
            if let Some(ring) = share_ring(&of_cpu.sideband, SIDEBAND_RING_BYTES.min(size))? {
                rings.add_sideband(ring);
            }
            Ok(())
        });
        match mapped {
            Ok(()) => return Ok(rings),
            // EPERM: more than may be locked. ENOMEM: more than there is.
            Err(error) if is_too_large(&error) && size > 2 * page_size() => size /= 2,
            Err(error) => return Err(CaptureError::call("mapping a ring buffer", error)),
        }
    }
}

/// Every thread of these processes, with its process.
fn threads_of<'a>(targets: impl Iterator<Item = &'a Target>) -> Vec<(u32, u32)> {
    let of_target = |target: &Target| {
        let pid = target.pid();
        proc::threads(pid).into_iter().map(move |tid| (pid, tid))
    };
    targets.flat_map(of_target).collect()
}

/// Room for a second of samples of a busy CPU, within what all rings together may take. More
/// would only make attaching slower: the kernel clears every page first.
fn ring_bytes(sampling: &Sampling, cpus: usize) -> usize {
    let sample_bytes = sampling.stack_bytes as usize + 1024;
    let wish = (sampling.rate_hz as usize * sample_bytes).next_power_of_two();
    let allowed = (ALL_RINGS_BYTES / cpus + 1).next_power_of_two() / 2;
    wish.min(allowed)
        .clamp(SMALLEST_RING_BYTES, LARGEST_RING_BYTES)
}

fn is_too_large(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM))
}

/// Maps a ring for the first event and sends the others' records there.
fn share_ring(events: &[PerfEvent], size: usize) -> io::Result<Option<Ring>> {
    let Some((first, others)) = events.split_first() else {
        return Ok(None);
    };
    let ring = Ring::map(first, size)?;
    for other in others {
        other.write_to_ring_of(first)?;
    }
    Ok(Some(ring))
}

/// The largest ring that may be mapped for one event, for `nodespy check`.
fn largest_ring(event: PerfEvent) -> usize {
    let events = [event];
    let mut size = LARGEST_RING_BYTES;
    while size > page_size() {
        if share_ring(&events, size).is_ok() {
            return size;
        }
        size /= 2;
    }
    0
}

/// The least that can be asked for.
const PROBE: Sampling = Sampling {
    clock: Clock::CpuClock,
    rate_hz: 99,
    include_kernel: false,
    stack_bytes: SMALL_STACK_BYTES,
    follow_children: false,
    start_on_exec: false,
    wakeup_bytes: 1 << 20,
};

/// Whether process `pid` can be sampled at all, by opening one event on it and closing it again.
pub fn probe_quickly(pid: u32) -> Result<(), CaptureError> {
    let cpu = proc::online_cpus()[0];
    match PerfEvent::sampling(Subject::Thread(pid), cpu, &PROBE) {
        Ok(_) => Ok(()),
        Err(error) => Err(explain_refusal(pid, error)),
    }
}

/// What works on process `pid`, and what to type where something does not.
pub fn probe(pid: u32) -> Vec<Finding> {
    let cpus = proc::online_cpus();
    let try_open = |clock, include_kernel| {
        PerfEvent::sampling(
            Subject::Thread(pid),
            cpus[0],
            &Sampling {
                clock,
                rate_hz: 99,
                include_kernel,
                stack_bytes: STACK_BYTES,
                follow_children: true,
                start_on_exec: false,
                wakeup_bytes: 1 << 20,
            },
        )
    };
    vec![
        probe_user(pid, try_open(Clock::CpuClock, false)),
        probe_kernel(try_open(Clock::CpuClock, true)),
        probe_hardware(try_open(Clock::Cycles, false)),
        probe_ring(try_open(Clock::CpuClock, false)),
    ]
}

/// Whether a control group can be sampled as a whole.
pub fn probe_group(group: &Group) -> Finding {
    let subject = "new processes";
    let path = nodespy_model::printable(group.path());
    let cpu = proc::online_cpus()[0];
    match PerfEvent::sampling(Subject::Group(group.as_fd()), cpu, &PROBE) {
        Ok(_) => Finding {
            subject,
            verdict: Verdict::Good,
            detail: format!("sampled from their start, with the whole control group {path}"),
            remedy: None,
        },
        Err(error) => Finding {
            subject,
            verdict: Verdict::Limited,
            detail: format!(
                "found a few tenths of a second late: the control group {path} can't be sampled as \
                 a whole ({error})"
            ),
            remedy: Some(format!("sudo nodespy record --cgroup '{path}'")),
        },
    }
}

fn probe_user(pid: u32, opened: io::Result<PerfEvent>) -> Finding {
    match opened {
        Ok(_) => Finding {
            subject: "sampling",
            verdict: Verdict::Good,
            detail: "perf events can be opened on the process".to_owned(),
            remedy: None,
        },
        Err(error) => Finding {
            subject: "sampling",
            verdict: Verdict::Bad,
            detail: explain_refusal(pid, error).to_string(),
            remedy: Some(format!("sudo nodespy record -p {pid}")),
        },
    }
}

fn probe_kernel(opened: io::Result<PerfEvent>) -> Finding {
    let subject = "kernel frames";
    match opened {
        Ok(_) => Finding {
            subject,
            verdict: Verdict::Good,
            detail: "allowed".to_owned(),
            remedy: None,
        },
        Err(error) => Finding {
            subject,
            verdict: Verdict::Limited,
            detail: format!(
                "left out: {error} (kernel.perf_event_paranoid is {})",
                proc::perf_event_paranoid().unwrap_or(-99)
            ),
            remedy: Some("sudo sysctl kernel.perf_event_paranoid=1".to_owned()),
        },
    }
}

fn probe_hardware(opened: io::Result<PerfEvent>) -> Finding {
    Finding {
        subject: "clock",
        verdict: Verdict::Good,
        detail: match opened {
            Ok(_) => "hardware cycles".to_owned(),
            Err(_) => "the kernel's CPU clock (this machine shows no hardware counters)".to_owned(),
        },
        remedy: None,
    }
}

fn probe_ring(opened: io::Result<PerfEvent>) -> Finding {
    let subject = "ring buffer";
    let size = opened.map_or(0, largest_ring);
    if size >= ROOMY_RING_BYTES {
        return Finding {
            subject,
            verdict: Verdict::Good,
            detail: format!("{} MiB per CPU can be locked", size >> 20),
            remedy: None,
        };
    }
    Finding {
        subject,
        verdict: Verdict::Limited,
        detail: format!(
            "only {} KiB per CPU can be locked: {} KiB of each stack are copied, the rest is read a moment later",
            size >> 10,
            SMALL_STACK_BYTES >> 10
        ),
        remedy: Some("ulimit -l unlimited".to_owned()),
    }
}
