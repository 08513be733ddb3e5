//! Perf events as an engine.

use std::time::Duration;

use nodespy_model::{EventIndex, EventType, Nanoseconds};

use super::{EventSpec, PerfOptions, PerfSession, probe};
use crate::engine::{Attached, Drained, Engine, Losses, Sink, Subject};
use crate::engines::{EngineId, Finding};
use crate::error::CaptureError;
use crate::looking::{LookedEvent, Looks};
use crate::sys::clock::monotonic_now;
use crate::target::Target;

const TOO_MANY_FILES: &str = "some threads were not looked at: two files are open for each, and \
     there may be no more (ulimit -n)";

/// The engine that samples by the kernel's perf events.
#[derive(Debug)]
pub struct PerfEvents {
    options: PerfOptions,
    /// None before attaching.
    session: Option<PerfSession>,
    /// What threads are looked at for, if anything.
    looks: Option<Looks>,
    remarks: Vec<String>,
}

impl PerfEvents {
    /// An engine that is not attached yet.
    pub fn new(options: PerfOptions) -> Self {
        Self {
            looks: looks_of(&options),
            options,
            session: None,
            remarks: Vec::new(),
        }
    }

    /// Waits up to `timeout` for samples, and looks at threads meanwhile. Whether rings are to be read.
    fn wait(&mut self, timeout: Duration, sink: &mut dyn Sink) -> Result<bool, CaptureError> {
        let Some(session) = &mut self.session else {
            return Ok(false);
        };
        let Some(looks) = &mut self.looks else {
            return Ok(session.wait(timeout)? || session.is_read_due());
        };
        let end = monotonic_now().saturating_add(timeout.as_nanos() as Nanoseconds);
        loop {
            let next = looks.next().min(end).saturating_sub(monotonic_now());
            let is_ready = session.wait(Duration::from_nanos(next.max(1)))?;
            let now = monotonic_now();
            if now >= looks.next() {
                sink.batch();
                looks.look(now, &mut |event| sink.event(event));
            }
            if is_ready || now >= end {
                return Ok(true);
            }
        }
    }
}

/// What threads are looked at for.
fn looks_of(options: &PerfOptions) -> Option<Looks> {
    let looked = |(event, spec): (EventIndex, &EventSpec)| {
        spec.is_looked().then(|| LookedEvent {
            event,
            has_cpu: spec.samples_cpu(),
        })
    };
    let indexes = EventSpec::event_indexes(&options.events).into_iter();
    let events: Vec<LookedEvent> = indexes.zip(&options.events).filter_map(looked).collect();
    let looked = options.events.iter().filter(|spec| spec.is_looked());
    let rate = looked
        .clone()
        .map(|spec| spec.look_rate_hz(options.rate_hz));
    let cpu_rate = looked.map(|spec| spec.every(options.rate_hz).expected_rate_hz());
    let looks = Looks::new(events, rate.max()?, cpu_rate.max()?);
    Some(match options.spares_idle {
        true => looks.sparing_idle(),
        false => looks,
    })
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
        if let (Some(looks), false) = (&mut self.looks, start_on_exec) {
            for target in subject.targets {
                looks.add_target(target.pid())?;
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
        }
        if let Some(looks) = &mut self.looks {
            for target in targets {
                looks.add_target(target.pid())?;
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
        match &mut self.looks {
            Some(looks) => {
                session.read(&mut |event| looks.pass(event, &mut |event| sink.event(event)))
            }
            None => session.read(&mut |event| sink.event(event)),
        }
        session.copy_also(&sink.take_copy_rules());
        if self.looks.as_mut().is_some_and(Looks::take_is_full) {
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
        match &mut self.looks {
            Some(looks) => {
                session.finish(&mut |event| looks.pass(event, &mut |event| sink.event(event)));
                looks.finish(&mut |event| sink.event(event));
            }
            None => session.finish(&mut |event| sink.event(event)),
        }
        Ok(session.take_losses())
    }

    fn look_soon(&mut self) {
        if let Some(looks) = &mut self.looks {
            looks.look_soon();
        }
    }

    fn take_remarks(&mut self) -> Vec<String> {
        let mut remarks = std::mem::take(&mut self.remarks);
        if let Some(session) = &mut self.session {
            remarks.append(&mut session.remarks);
        }
        remarks
    }
}
