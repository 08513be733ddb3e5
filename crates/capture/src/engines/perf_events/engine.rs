//! Perf events as an engine.

use std::time::Duration;

use nodespy_model::{Event, EventIndex, EventType, FastSet, Nanoseconds};

use super::pace::Pace;
use super::walking::Walking;
use super::{EventSpec, PerfOptions, PerfSession, probe};
use crate::engine::{self, Attached, Drained, Engine, Losses, Prices, Sink, Subject};
use crate::engines::{EngineId, Finding};
use crate::error::CaptureError;
use crate::polling::{PolledEvent, ThreadPoller};
use crate::sys::clock::monotonic_now;
use crate::target::Target;

const TOO_MANY_FILES: &str = "some threads were not polled: two files are open for each, and \
     there may be no more (ulimit -n)";

/// What a sample costs its thread: the timer's interrupt, and what is copied. With a program: what that takes on an express
/// server (docs/decisions/0018), and 4 KiB of stack; without, the whole stack (62 KiB take 4.8 µs on Linux 6.18).
const WALKED_SAMPLE: Nanoseconds = 20_000;
const COPIED_SAMPLE: Nanoseconds = 6_000;
/// With `--async` and no program: a reader holds the CPU meanwhile (docs/decisions/0020).
const READ_SAMPLE: Nanoseconds = 100_000;
/// What an event of a thread costs whenever that goes on a CPU: 2.6 µs at 99 Hz and 8.7 at 999 (docs/decisions/0018).
const SWITCH: Nanoseconds = 1_900;
const SWITCH_PER_HZ: Nanoseconds = 7;

/// The engine that samples by the kernel's perf events.
#[derive(Debug)]
pub struct PerfEvents {
    options: PerfOptions,
    /// None before attaching.
    session: Option<PerfSession>,
    /// What threads are polled for, if anything.
    poller: Option<ThreadPoller>,
    pace: Pace,
    /// The processes that have events, born ones included.
    pids: FastSet<u32>,
    remarks: Vec<String>,
}

impl PerfEvents {
    /// An engine that is not attached yet.
    pub fn new(options: PerfOptions) -> Self {
        Self {
            poller: poller_of(&options),
            pace: pace_of(&options),
            options,
            session: None,
            pids: FastSet::default(),
            remarks: Vec::new(),
        }
    }

    /// Waits up to `timeout` for samples, and polls threads meanwhile. Whether rings are to be read.
    fn wait(&mut self, timeout: Duration, sink: &mut dyn Sink) -> Result<bool, CaptureError> {
        let Some(session) = &mut self.session else {
            return Ok(false);
        };
        let Some(poller) = &mut self.poller else {
            return Ok(session.wait(timeout)? || session.is_read_due());
        };
        let end = monotonic_now().saturating_add(timeout.as_nanos() as Nanoseconds);
        loop {
            let next = poller.next().min(end).saturating_sub(monotonic_now());
            let is_ready = session.wait(Duration::from_nanos(next.max(1)))?;
            let now = monotonic_now();
            if now >= poller.next() {
                sink.batch();
                poller.poll(now, &mut |event| sink.event(event));
            }
            if is_ready || now >= end {
                return Ok(true);
            }
        }
    }
}

/// What threads are polled for.
fn poller_of(options: &PerfOptions) -> Option<ThreadPoller> {
    let polled = |(event, spec): (EventIndex, &EventSpec)| {
        spec.is_polled().then(|| PolledEvent {
            event,
            has_cpu: spec.samples_cpu(),
        })
    };
    let indexes = EventSpec::event_indexes(&options.events).into_iter();
    let events: Vec<PolledEvent> = indexes.zip(&options.events).filter_map(polled).collect();
    let polled = options.events.iter().filter(|spec| spec.is_polled());
    let rate = polled
        .clone()
        .map(|spec| spec.poll_rate_hz(options.rate_hz));
    let cpu_rate = polled.map(|spec| spec.every(options.rate_hz).expected_rate_hz());
    let poller = ThreadPoller::new(events, rate.max()?, cpu_rate.max()?);
    Some(match options.spares_idle {
        true => poller.sparing_idle(),
        false => poller,
    })
}

/// As often as asked for.
fn pace_of(options: &PerfOptions) -> Pace {
    let rates = options.events.iter().filter(|spec| spec.samples_cpu());
    let rate_hz = rates.map(|spec| spec.every(options.rate_hz).expected_rate_hz());
    let polled = options.events.iter().filter(|spec| spec.is_polled());
    let polls_hz = polled.map(|spec| spec.poll_rate_hz(options.rate_hz)).max();
    Pace::new(rate_hz.max().unwrap_or(options.rate_hz), polls_hz)
}

/// Keeps account of the processes that have inherited events.
fn note_birth(pids: &mut FastSet<u32>, follows: bool, event: &Event<'_>) {
    match *event {
        Event::Fork {
            pid, parent_pid, ..
        } if follows && pid != parent_pid && pids.contains(&parent_pid) => {
            pids.insert(pid);
        }
        Event::Exit { pid, tid, .. } if pid == tid => {
            pids.remove(&pid);
        }
        _ => {}
    }
}

impl Engine for PerfEvents {
    fn id(&self) -> EngineId {
        EngineId::PerfEvents
    }

    /// CPU time is `cycles` or `cpu-clock`; which of them is known once it is attached.
    fn events(&self) -> Vec<EventType> {
        let clock = self.session.as_ref().map_or("", PerfSession::clock);
        let specs = &self.options.events;
        let mut types = Vec::new();
        for (spec, index) in specs.iter().zip(EventSpec::event_indexes(specs)) {
            if index.0 as usize == types.len() {
                types.push(spec.event_type(self.options.rate_hz, clock));
            }
        }
        types
    }

    fn probe(&self, pid: u32) -> Vec<Finding> {
        probe(pid)
    }

    fn attach(&mut self, subject: Subject<'_>) -> Result<Attached, CaptureError> {
        let start_on_exec = subject.launched.is_some();
        let session =
            PerfSession::attach(subject.targets, subject.group, &self.options, start_on_exec)?;
        let started = crate::monotonic_now();
        let attached = Attached {
            started,
            sampling_since: started,
            samples_group: session.samples_group(),
            has_ebpf: session.walking.is_some(),
            has_readers: session.reading.is_some(),
            is_cpu_wide: session.is_cpu_wide(),
            ..Attached::default()
        };
        self.session = Some(session);
        self.pids.extend(subject.targets.iter().map(Target::pid));
        if let (Some(poller), false) = (&mut self.poller, start_on_exec) {
            for target in subject.targets {
                poller.add_target(target.pid())?;
            }
        }
        if let Some(launched) = subject.launched {
            launched.start()?;
        }
        Ok(attached)
    }

    fn add(&mut self, targets: &[Target]) -> Result<(), CaptureError> {
        if let Some(session) = &mut self.session {
            session.add(targets)?;
            self.pids.extend(targets.iter().map(Target::pid));
        }
        if let Some(poller) = &mut self.poller {
            for target in targets {
                poller.add_target(target.pid())?;
            }
        }
        Ok(())
    }

    fn drain(&mut self, timeout: Duration, sink: &mut dyn Sink) -> Result<Drained, CaptureError> {
        let is_ready = self.wait(timeout, sink)?;
        let Some(session) = self.session.as_mut().filter(|_| is_ready) else {
            return Ok(Drained::default());
        };
        sink.batch();
        let (pids, follows) = (&mut self.pids, self.options.follow_children);
        let mut seen = |event: Event<'_>| {
            note_birth(pids, follows, &event);
            sink.event(event);
        };
        match &mut self.poller {
            Some(poller) => session.read(&mut |event| poller.pass(event, &mut seen)),
            None => session.read(&mut seen),
        }
        session.copy_also(&sink.take_copy_rules());
        if self.poller.as_mut().is_some_and(ThreadPoller::take_is_full) {
            self.remarks.push(TOO_MANY_FILES.to_owned());
        }
        Ok(Drained {
            losses: session.take_losses(),
            is_over: false,
        })
    }

    fn finish(&mut self, sink: &mut dyn Sink) -> Result<Losses, CaptureError> {
        let Some(session) = &mut self.session else {
            return Ok(Losses::default());
        };
        sink.batch();
        match &mut self.poller {
            Some(poller) => {
                session.finish(&mut |event| poller.pass(event, &mut |event| sink.event(event)));
                poller.finish(&mut |event| sink.event(event));
            }
            None => session.finish(&mut |event| sink.event(event)),
        }
        Ok(session.take_losses())
    }

    fn read_by(&mut self, time: Option<Nanoseconds>) {
        if let Some(session) = &mut self.session {
            session.unread.read_by = time;
        }
    }

    fn poll_soon(&mut self) {
        if let Some(poller) = &mut self.poller {
            poller.poll_soon();
        }
    }

    fn change_pace(&mut self, change: engine::Pace) -> Result<Option<String>, CaptureError> {
        let next = match change {
            engine::Pace::Slower => self.pace.slower(),
            engine::Pace::Faster => self.pace.faster(),
            engine::Pace::OneIn(divisor) => Some(self.pace.one_in(divisor)),
        };
        let (Some(next), Some(session)) = (next, &mut self.session) else {
            return Ok(None);
        };
        if next.divisor() != self.pace.divisor() {
            let pids: Vec<u32> = self.pids.iter().copied().collect();
            session.set_divisor(next.divisor(), &pids)?;
        }
        if let (Some(poller), Some(rate_hz)) = (&mut self.poller, next.polls_hz()) {
            poller.set_rate(rate_hz);
        }
        self.pace = next;
        Ok(Some(next.to_string()))
    }

    fn prices(&self) -> Prices {
        let session = self.session.as_ref();
        Prices {
            sample: match session {
                Some(session) if session.walking.is_some() => WALKED_SAMPLE,
                Some(session) if session.reading.is_some() => READ_SAMPLE,
                _ => COPIED_SAMPLE,
            },
            switch: match session.is_some_and(PerfSession::is_cpu_wide) {
                true => 0,
                false => {
                    let rate_hz = self.options.rate_hz / self.pace.divisor();
                    SWITCH + SWITCH_PER_HZ * Nanoseconds::from(rate_hz)
                }
            },
        }
    }

    fn take_remarks(&mut self) -> Vec<String> {
        let mut remarks = std::mem::take(&mut self.remarks);
        if let Some(session) = &mut self.session {
            remarks.append(&mut session.remarks);
            remarks.extend(session.faults.take_remark(session.rings.copied()));
            remarks.extend(session.walking.as_mut().and_then(Walking::take_remark));
        }
        remarks
    }
}
