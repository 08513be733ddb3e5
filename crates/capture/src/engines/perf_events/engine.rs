//! Perf events as an engine.

use std::time::Duration;

use nodespy_model::EventType;

use super::{EventSpec, PerfOptions, PerfSession, probe};
use crate::engine::{Attached, Drained, Engine, Losses, Sink, Subject};
use crate::engines::{EngineId, Finding};
use crate::error::CaptureError;
use crate::target::Target;

/// The engine that samples by the kernel's perf events.
#[derive(Debug)]
pub struct PerfEvents {
    options: PerfOptions,
    /// None before attaching.
    session: Option<PerfSession>,
}

impl PerfEvents {
    /// An engine that is not attached yet.
    pub fn new(options: PerfOptions) -> Self {
        Self {
            options,
            session: None,
        }
    }
}

impl Engine for PerfEvents {
    fn id(&self) -> EngineId {
        EngineId::PerfEvents
    }

    /// CPU time is `cycles` or `cpu-clock`; which of them is known once it is attached.
    fn events(&self) -> Vec<EventType> {
        let clock = self.session.as_ref().map_or("", PerfSession::clock);
        let event_type = |spec: &EventSpec| spec.event_type(self.options.rate_hz, clock);
        self.options.events.iter().map(event_type).collect()
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
            ..Attached::default()
        };
        self.session = Some(session);
        if let Some(launched) = subject.launched {
            launched.start()?;
        }
        Ok(attached)
    }

    fn add(&mut self, targets: &[Target]) -> Result<(), CaptureError> {
        match &mut self.session {
            Some(session) => session.add(targets),
            None => Ok(()),
        }
    }

    fn drain(&mut self, timeout: Duration, sink: &mut dyn Sink) -> Result<Drained, CaptureError> {
        let Some(session) = &mut self.session else {
            return Ok(Drained::default());
        };
        session.wait(timeout)?;
        sink.batch();
        session.read(&mut |event| sink.event(event));
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
        session.finish(&mut |event| sink.event(event));
        Ok(session.take_losses())
    }

    fn take_remarks(&mut self) -> Vec<String> {
        let session = self.session.as_mut();
        session.map_or_else(Vec::new, |session| std::mem::take(&mut session.remarks))
    }
}
