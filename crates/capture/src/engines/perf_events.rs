//! Sampling by the kernel: `perf_event_open` on every thread and CPU, one ring per CPU.
//!
//! Samples carry registers and a copy of the stack; mappings, names, births and deaths come
//! through rings of their own, so that a flood of samples never costs us the knowledge of what
//! is mapped where. Both are merged by time before they are handed on. Nothing is written into
//! the target, nothing stops it.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use nodespy_model::{Event, FastSet, Nanoseconds};

use super::{Finding, Verdict};
use crate::error::{CaptureError, explain_refusal};
use crate::sys::files::raise_descriptor_limit;
use crate::sys::perf_event::{Clock, PerfEvent, Sampling};
use crate::sys::pidfd::wait_readable;
use crate::sys::ring::{Ring, page_size};
use crate::target::{Target, proc};

mod records;

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
const BOOKKEEPING_RING_BYTES: usize = 256 << 10;
const SMALLEST_RING_BYTES: usize = 64 << 10;
/// An event is in its ring at the latest this long after its time stamp.
const SETTLING: Nanoseconds = 2_000_000;

/// What to sample.
#[derive(Debug, Clone)]
pub struct PerfOptions {
    /// Samples per second of CPU time and thread.
    pub rate_hz: u32,
    /// Whether kernel frames are wanted.
    pub include_kernel: bool,
    /// Whether processes born later are followed.
    pub follow_children: bool,
    /// Whether sampling starts when the (launched) target starts its program.
    pub start_on_exec: bool,
    /// Attach, but take no samples: for measuring what attaching costs.
    pub placebo: bool,
}

/// What was lost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Samples the kernel dropped because a ring was full.
    pub samples: u64,
    /// Records about threads and mappings that were dropped.
    pub records: u64,
    /// How often the kernel throttled the sampling.
    pub throttled: u64,
}

/// A running capture.
#[derive(Debug)]
pub struct PerfSession {
    events: Vec<PerfEvent>,
    sample_rings: Vec<Ring>,
    /// The CPU of each sample ring.
    ring_cpus: Vec<u16>,
    bookkeeping_rings: Vec<Ring>,
    /// Descriptors that wake us; one that hung up is dropped from here.
    wakers: Vec<i32>,
    pending: VecDeque<Event<'static>>,
    losses: Losses,
    clock: Clock,
    include_kernel: bool,
    stack_bytes: u32,
    remarks: Vec<String>,
    sampling: Sampling,
    /// For each CPU the positions in `events` of those whose rings all others write to.
    ring_owners: Vec<RingOwners>,
}

/// The events of a CPU that the rings belong to, by their position.
#[derive(Debug, Clone, Copy)]
struct RingOwners {
    cpu: u32,
    samples: usize,
    bookkeeping: usize,
}

impl PerfSession {
    /// Starts to watch `targets`. What is already mapped and named is reported by the first
    /// [`Self::drain`].
    pub fn attach(targets: &[Target], options: &PerfOptions) -> Result<Self, CaptureError> {
        let mut session = Self::open(targets, options, STACK_BYTES)?;
        if session.smallest_ring() < ROOMY_RING_BYTES {
            session = Self::open(targets, options, SMALL_STACK_BYTES)?;
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
            .extend(targets.iter().filter_map(Target::raw_fd));
        if !options.start_on_exec {
            if !options.placebo {
                session.events.iter().for_each(PerfEvent::enable);
            }
            // After enabling, so that nothing falls between this look and the first record.
            session.report_what_is_there(targets);
        }
        Ok(session)
    }

    fn open(
        targets: &[Target],
        options: &PerfOptions,
        stack_bytes: u32,
    ) -> Result<Self, CaptureError> {
        let cpus = proc::online_cpus();
        let mut threads = Vec::new();
        // Of several, those that ended meanwhile are left out: an app may lose a worker now and then.
        for target in targets.iter().filter(|target| !target.has_ended()) {
            let of_target = proc::threads(target.pid());
            threads.extend(of_target.into_iter().map(|tid| (target.pid(), tid)));
        }
        let Some(&(first, _)) = threads.first() else {
            let pid = targets.first().map_or(0, Target::pid);
            return Err(CaptureError::Gone { pid });
        };
        check_descriptors(threads.len(), cpus.len())?;
        let (sampling, mut remarks) = choose_event(first, &cpus, options, stack_bytes)?;
        let mut session = Self {
            events: Vec::new(),
            sample_rings: Vec::new(),
            ring_cpus: Vec::new(),
            bookkeeping_rings: Vec::new(),
            wakers: Vec::new(),
            pending: VecDeque::new(),
            losses: Losses::default(),
            clock: sampling.clock,
            include_kernel: sampling.include_kernel,
            stack_bytes,
            remarks: Vec::new(),
            sampling,
            ring_owners: Vec::new(),
        };
        let mut events = Vec::new();
        for &cpu in &cpus {
            events.push(open_on_cpu(&threads, cpu, &sampling)?);
        }
        session.map_rings(&events, ring_bytes(&sampling, cpus.len()))?;
        for of_cpu in events {
            let (samples, bookkeeping) = (of_cpu.samples, of_cpu.bookkeeping);
            session
                .wakers
                .extend(samples.first().map(PerfEvent::as_raw_fd));
            session
                .wakers
                .extend(bookkeeping.first().map(PerfEvent::as_raw_fd));
            if !samples.is_empty() && !bookkeeping.is_empty() {
                session.ring_owners.push(RingOwners {
                    cpu: of_cpu.cpu.into(),
                    bookkeeping: session.events.len(),
                    samples: session.events.len() + bookkeeping.len(),
                });
            }
            session.events.extend(bookkeeping);
            session.events.extend(samples);
        }
        session.remarks.append(&mut remarks);
        Ok(session)
    }

    /// Watches further processes, through the rings there are.
    pub fn add(&mut self, targets: &[Target]) -> Result<(), CaptureError> {
        let mut threads = Vec::new();
        for target in targets {
            let of_target = proc::threads(target.pid());
            threads.extend(of_target.into_iter().map(|tid| (target.pid(), tid)));
        }
        let mut added = Vec::new();
        for owners in &self.ring_owners {
            let events = open_on_cpu(&threads, owners.cpu, &self.sampling)?;
            for (owner, events) in [
                (owners.bookkeeping, events.bookkeeping),
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
        self.wakers.extend(added.iter().map(PerfEvent::as_raw_fd));
        self.wakers
            .extend(targets.iter().filter_map(Target::raw_fd));
        self.events.extend(added);
        self.report_what_is_there(targets);
        // What was there before comes before everything that waits.
        self.pending
            .make_contiguous()
            .sort_by_key(|event| records::time_of(event));
        Ok(())
    }

    /// Maps two rings per CPU, all as large as the first wish allows: what may be locked is shared
    /// by all of them, so when one is refused they all become smaller.
    fn map_rings(&mut self, events: &[CpuEvents], wish: usize) -> Result<(), CaptureError> {
        let mut size = wish;
        loop {
            self.sample_rings.clear();
            self.ring_cpus.clear();
            self.bookkeeping_rings.clear();
            let mapped = events.iter().try_for_each(|of_cpu| {
                if let Some(ring) = share_ring(&of_cpu.samples, size)? {
                    self.sample_rings.push(ring);
                    self.ring_cpus.push(of_cpu.cpu);
                }
                let small = BOOKKEEPING_RING_BYTES.min(size);
                self.bookkeeping_rings
                    .extend(share_ring(&of_cpu.bookkeeping, small)?);
                Ok(())
            });
            match mapped {
                Ok(()) => return Ok(()),
                // EPERM: more than may be locked. ENOMEM: more than there is.
                Err(error) if is_too_large(&error) && size > 2 * page_size() => size /= 2,
                Err(error) => return Err(CaptureError::call("mapping a ring buffer", error)),
            }
        }
    }

    fn smallest_ring(&self) -> usize {
        self.sample_rings
            .iter()
            .map(Ring::data_len)
            .min()
            .unwrap_or(0)
    }

    /// Queues what existed before the events did: names of threads and code mappings.
    fn report_what_is_there(&mut self, targets: &[Target]) {
        for target in targets {
            let pid = target.pid();
            for tid in proc::threads(pid) {
                if let Some(name) = proc::thread_name(pid, tid) {
                    self.pending.push_back(Event::ThreadName {
                        pid,
                        tid,
                        name,
                        is_exec: false,
                        time: 0,
                    });
                }
            }
            match proc::code_mappings(pid) {
                Ok(mappings) => self.pending.extend(mappings.into_iter().map(Event::Mapping)),
                Err(error) => self.remarks.push(format!(
                    "the mappings of process {pid} can't be read ({error}): its frames have no names"
                )),
            }
        }
    }

    /// Waits up to `timeout` for samples, then hands on everything there is in order of time.
    pub fn drain(
        &mut self,
        timeout: Duration,
        take: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), CaptureError> {
        if !timeout.is_zero() {
            let ready = wait_readable(&self.wakers, timeout)
                .map_err(|error| CaptureError::call("waiting for samples", error))?;
            // A descriptor that hung up would wake us for ever; its ring is still read.
            let hung_up: FastSet<i32> = ready
                .iter()
                .filter(|(_, hung_up)| *hung_up)
                .map(|(position, _)| self.wakers[*position])
                .collect();
            self.wakers.retain(|fd| !hung_up.contains(fd));
        }
        self.hand_on(take, crate::monotonic_now().saturating_sub(SETTLING));
        Ok(())
    }

    /// Stops sampling and hands on what is left.
    pub fn finish(&mut self, take: &mut dyn FnMut(Event<'_>)) {
        self.events.iter().for_each(PerfEvent::disable);
        self.hand_on(take, Nanoseconds::MAX);
    }

    /// What was lost so far.
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// What makes a sample: `cycles` or `cpu-clock`.
    pub fn event(&self) -> &'static str {
        self.clock.label()
    }

    /// What the reader of the profile should know of how it was captured.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Merges both kinds of rings by time. Bookkeeping later than `settled` waits for the next
    /// round: a sample that was taken before it may still be on its way.
    fn hand_on(&mut self, take: &mut dyn FnMut(Event<'_>), settled: Nanoseconds) {
        // The heads of the sample rings are fixed before the bookkeeping is read, so everything
        // these samples depend on has been read when they are handed on.
        let heads: Vec<u64> = self.sample_rings.iter().map(Ring::head).collect();
        self.collect_bookkeeping();
        let layout = records::SampleLayout {
            has_callchain: self.include_kernel,
            stack_bytes: self.stack_bytes as usize,
        };
        while let Some(position) = self.earliest_sample(&heads) {
            let ring = &mut self.sample_rings[position];
            let Some(record) = ring.peek(heads[position]) else {
                break;
            };
            let length = record.body.len();
            if let Some(sample) = records::sample(&record, layout, self.ring_cpus[position]) {
                while self
                    .pending
                    .front()
                    .is_some_and(|event| records::time_of(event) <= sample.time)
                {
                    take(self.pending.pop_front().expect("just seen"));
                }
                take(Event::Sample(sample));
            }
            ring.skip(length);
            ring.release();
        }
        self.sample_rings.iter_mut().for_each(Ring::release);
        while self
            .pending
            .front()
            .is_some_and(|event| records::time_of(event) <= settled)
        {
            take(self.pending.pop_front().expect("just seen"));
        }
    }

    /// The ring whose next sample is the oldest. Records about losses are counted on the way.
    fn earliest_sample(&mut self, heads: &[u64]) -> Option<usize> {
        let mut earliest: Option<(Nanoseconds, usize)> = None;
        for (position, ring) in self.sample_rings.iter_mut().enumerate() {
            while let Some(record) = ring.peek(heads[position]) {
                match records::sample_time(&record) {
                    Some(time) => {
                        if earliest.is_none_or(|(known, _)| time < known) {
                            earliest = Some((time, position));
                        }
                        break;
                    }
                    None => {
                        records::count_loss(&record, &mut self.losses, true);
                        let length = record.body.len();
                        ring.skip(length);
                    }
                }
            }
        }
        earliest.map(|(_, position)| position)
    }

    fn collect_bookkeeping(&mut self) {
        let before = self.pending.len();
        for ring in &mut self.bookkeeping_rings {
            let head = ring.head();
            while let Some(record) = ring.peek(head) {
                let length = record.body.len();
                match records::bookkeeping(&record) {
                    Some(event) => self.pending.push_back(event),
                    None => records::count_loss(&record, &mut self.losses, false),
                }
                ring.skip(length);
            }
            ring.release();
        }
        if self.pending.len() != before {
            self.pending
                .make_contiguous()
                .sort_by_key(|event| records::time_of(event));
        }
    }
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

/// Wakes us a dozen times a second on a busy CPU, oftener at high rates. The heap that names
/// JavaScript moves on while a sample waits, and a short-lived child may be gone, so sooner is
/// better; but memory read for one sample serves its whole batch.
fn wakeup_bytes(rate_hz: u32, stack_bytes: u32) -> u32 {
    let wakes_per_second = if rate_hz <= 200 { 12 } else { 40 };
    (rate_hz / wakes_per_second).clamp(1, 64) * stack_bytes
}

/// The sampling and the bookkeeping events of every thread on one CPU.
struct CpuEvents {
    cpu: u16,
    samples: Vec<PerfEvent>,
    bookkeeping: Vec<PerfEvent>,
}

fn open_on_cpu(
    threads: &[(u32, u32)],
    cpu: u32,
    sampling: &Sampling,
) -> Result<CpuEvents, CaptureError> {
    let mut samples = Vec::new();
    let mut bookkeeping = Vec::new();
    for &(pid, tid) in threads {
        let opened = PerfEvent::sampling(tid, cpu, sampling).and_then(|sample| {
            let (follow, on_exec) = (sampling.follow_children, sampling.start_on_exec);
            Ok((sample, PerfEvent::bookkeeping(tid, cpu, follow, on_exec)?))
        });
        match opened {
            Ok((sample, book)) => {
                samples.push(sample);
                bookkeeping.push(book);
            }
            // A thread may end while we go through the list, and so may one process of several.
            Err(error)
                if error.raw_os_error() == Some(libc::ESRCH)
                    && (tid != pid || threads.iter().any(|(other, _)| *other != pid)) => {}
            Err(error) => return Err(explain_refusal(pid, error)),
        }
    }
    Ok(CpuEvents {
        // Linux knows at most 8,192 CPUs on x86_64 (CONFIG_NR_CPUS of 6.12).
        cpu: cpu as u16,
        samples,
        bookkeeping,
    })
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

fn check_descriptors(threads: usize, cpus: usize) -> Result<(), CaptureError> {
    let needed = (threads * cpus * 2 + 256) as u64;
    let limit = raise_descriptor_limit();
    if needed > limit {
        return Err(CaptureError::TooManyDescriptors {
            needed,
            threads,
            cpus,
            limit,
        });
    }
    Ok(())
}

/// Finds the best event this machine and these rights allow: hardware cycles, else the CPU clock;
/// with kernel frames, else without.
fn choose_event(
    pid: u32,
    cpus: &[u32],
    options: &PerfOptions,
    stack_bytes: u32,
) -> Result<(Sampling, Vec<String>), CaptureError> {
    let mut remarks = Vec::new();
    let mut sampling = Sampling {
        clock: Clock::Cycles,
        rate_hz: options.rate_hz,
        include_kernel: options.include_kernel,
        stack_bytes,
        follow_children: options.follow_children,
        start_on_exec: options.start_on_exec && !options.placebo,
        wakeup_bytes: wakeup_bytes(options.rate_hz, stack_bytes),
    };
    loop {
        let Err(error) = PerfEvent::sampling(pid, cpus[0], &sampling) else {
            return Ok((sampling, remarks));
        };
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::EINVAL)
                if sampling.clock == Clock::Cycles =>
            {
                sampling.clock = Clock::CpuClock;
            }
            Some(libc::EACCES | libc::EPERM) if sampling.include_kernel => {
                sampling.include_kernel = false;
                remarks.push(format!(
                    "kernel frames left out: kernel.perf_event_paranoid is {} (run as root, or: \
                     sudo sysctl kernel.perf_event_paranoid=1)",
                    proc::perf_event_paranoid()
                        .map_or_else(|| "unknown".to_owned(), |level| level.to_string())
                ));
            }
            Some(libc::EINVAL) => {
                let most = proc::sysctl("perf_event_max_sample_rate").unwrap_or(0);
                let doing = format!(
                    "opening an event at {} Hz (the kernel allows {most} Hz: kernel.perf_event_max_sample_rate)",
                    options.rate_hz
                );
                return Err(CaptureError::call(doing, error));
            }
            _ => return Err(explain_refusal(pid, error)),
        }
    }
}

/// Whether process `pid` can be sampled at all, by opening one event on it and closing it again.
pub fn probe_quickly(pid: u32) -> Result<(), CaptureError> {
    let cpu = proc::online_cpus()[0];
    let sampling = Sampling {
        clock: Clock::CpuClock,
        rate_hz: 99,
        include_kernel: false,
        stack_bytes: SMALL_STACK_BYTES,
        follow_children: false,
        start_on_exec: false,
        wakeup_bytes: 1 << 20,
    };
    match PerfEvent::sampling(pid, cpu, &sampling) {
        Ok(_) => Ok(()),
        Err(error) => Err(explain_refusal(pid, error)),
    }
}

/// What works on process `pid`, and what to type where something does not.
pub fn probe(pid: u32) -> Vec<Finding> {
    let cpus = proc::online_cpus();
    let try_open = |clock, include_kernel| {
        PerfEvent::sampling(
            pid,
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
