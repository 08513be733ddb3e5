//! The snapshot as an engine: it has seen everything once it is attached.

use std::time::Duration;

use nodespy_model::{Event, EventType};

use super::{Snapshot, ThreadLook, look_without_stopping, stop_and_look};
use crate::engine::{Attached, Drained, Engine, Losses, Sink, Subject};
use crate::engines::{EngineId, Finding, Verdict};
use crate::error::{CaptureError, explain_no_tracing};
use crate::target::{Target, proc};

/// Whether threads are stopped while their stacks are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopping {
    /// Each for some microseconds, one after the other.
    EachThread,
    /// None: waiting threads are read as they wait, running ones sampled for a moment.
    Nothing,
}

/// The engine that takes every thread's stack once.
#[derive(Debug)]
pub struct SnapshotEngine {
    stopping: Stopping,
    snapshot: Snapshot,
}

impl SnapshotEngine {
    /// An engine that is not attached yet.
    pub fn new(stopping: Stopping) -> Self {
        Self {
            stopping,
            snapshot: Snapshot::default(),
        }
    }

    /// How it went with each thread.
    pub fn into_threads(self) -> Vec<ThreadLook> {
        self.snapshot.threads
    }
}

impl Engine for SnapshotEngine {
    fn id(&self) -> EngineId {
        EngineId::Snapshot
    }

    fn events(&self) -> Vec<EventType> {
        vec![EventType::default()]
    }

    fn probe(&self, pid: u32) -> Vec<Finding> {
        let readable = proc::code_mappings(pid).map_err(|error| explain_no_tracing(pid, error));
        vec![Finding {
            subject: "snapshot",
            verdict: match readable {
                Ok(_) => Verdict::Good,
                Err(_) => Verdict::Bad,
            },
            detail: match readable {
                Ok(_) => "its memory can be read".to_owned(),
                Err(error) => error.to_string(),
            },
            remedy: None,
        }]
    }

    fn attach(&mut self, subject: Subject<'_>) -> Result<Attached, CaptureError> {
        self.snapshot = match self.stopping {
            Stopping::EachThread => stop_and_look(subject.targets)?,
            Stopping::Nothing => look_without_stopping(subject.targets)?,
        };
        let started = crate::monotonic_now();
        Ok(Attached {
            started,
            sampling_since: started,
            ..Attached::default()
        })
    }

    /// A snapshot is of the processes there were.
    fn add(&mut self, _targets: &[Target]) -> Result<(), CaptureError> {
        Ok(())
    }

    fn drain(&mut self, _timeout: Duration, sink: &mut dyn Sink) -> Result<Drained, CaptureError> {
        for event in std::mem::take(&mut self.snapshot.events) {
            // What may be read of the heap is bounded by batch; each stack gets one of its own.
            if matches!(event, Event::Sample(_)) {
                sink.batch();
            }
            sink.event(event);
        }
        Ok(Drained {
            is_over: true,
            ..Drained::default()
        })
    }

    fn finish(&mut self, _sink: &mut dyn Sink) -> Result<Losses, CaptureError> {
        Ok(Losses::default())
    }

    fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.snapshot.remarks)
    }
}
