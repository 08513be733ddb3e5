//! The snapshot as an engine: a drain reads some threads, until all were.

use std::collections::VecDeque;
use std::time::Duration;

use nodespy_model::{Event, EventType, FastSet, UserStack};

use super::process_snapshot::{Part, ProcessSnapshot};
use super::stopping::Stops;
use super::without_stop::{Waiters, sample_running};
use super::{SnapshotOutcome, ThreadSnapshot, sample};
use crate::engine::{Attached, Drained, Engine, Losses, Sink, Subject};
use crate::engines::{EngineId, Finding, Verdict};
use crate::error::{CaptureError, explain_no_tracing};
use crate::polling::StackCopies;
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
    targets: Vec<Target>,
    /// The processes that are left.
    pids: VecDeque<u32>,
    first: u32,
    current: Option<ProcessSnapshot>,
    stops: Stops,
    copies: StackCopies,
    /// The threads seen so far, process by process, the main one first.
    threads: Vec<ThreadSnapshot>,
    remarks: Vec<String>,
    gone: Option<CaptureError>,
}

impl SnapshotEngine {
    /// An engine that is not attached yet.
    pub fn new(stopping: Stopping) -> Self {
        Self {
            stopping,
            targets: Vec::new(),
            pids: VecDeque::new(),
            first: 0,
            current: None,
            stops: Stops::new(),
            copies: StackCopies::new(),
            threads: Vec::new(),
            remarks: Vec::new(),
            gone: None,
        }
    }

    /// How it went with each thread.
    pub fn into_threads(self) -> Vec<ThreadSnapshot> {
        self.threads
    }

    /// Reads the next threads; none when all were seen. Children come and go: one that ended
    /// meanwhile is left out, unless there was no other.
    fn next_part(&mut self) -> Result<Option<Part>, CaptureError> {
        loop {
            let mut process = match self.current.take() {
                Some(process) => process,
                None => match self.pids.pop_front().map(ProcessSnapshot::new) {
                    Some(Ok(process)) => process,
                    Some(Err(error)) => {
                        self.gone.get_or_insert(error);
                        continue;
                    }
                    None => return Ok(None),
                },
            };
            let part = match self.stopping {
                Stopping::EachThread => process.next_part(&mut self.stops, &mut self.copies)?,
                Stopping::Nothing => process.next_part(&mut Waiters, &mut self.copies)?,
            };
            self.current = (!process.is_over()).then_some(process);
            return Ok(Some(part));
        }
    }

    /// Hands on what was seen of some threads. What may be read of the heap is bounded by batch; each
    /// stack gets one of its own.
    fn hand_on(&mut self, part: Part, sink: &mut dyn Sink) {
        self.remarks.extend(part.remarks);
        for event in part.events {
            sink.event(event);
        }
        for (thread, user) in part.threads {
            let is_left = thread.outcome == SnapshotOutcome::Sampled;
            if !is_left {
                sink.batch();
                sink.event(sample(thread.pid, thread.tid, user, thread.state));
            }
            self.threads.push(thread);
        }
    }

    /// Samples the threads that run, where none is stopped.
    fn sample_running(&mut self, sink: &mut dyn Sink) {
        let mut unseen: FastSet<(u32, u32)> = self
            .threads
            .iter()
            .filter(|thread| thread.outcome == SnapshotOutcome::Sampled)
            .map(|thread| (thread.pid, thread.tid))
            .collect();
        let why_not = sample_running(&self.targets, &mut unseen, &mut |event| {
            sink.batch();
            sink.event(event);
        });
        for thread in &mut self.threads {
            if unseen.contains(&(thread.pid, thread.tid)) {
                thread.outcome = SnapshotOutcome::Unseen {
                    why: why_not.clone(),
                };
                // It is still one of the threads.
                let event: Event<'_> =
                    sample(thread.pid, thread.tid, UserStack::Absent, thread.state);
                sink.event(event);
            }
        }
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
        self.pids = subject.targets.iter().map(Target::pid).collect();
        self.first = self.pids.front().copied().unwrap_or_default();
        if self.stopping == Stopping::Nothing {
            // One that has ended meanwhile has no threads to be sampled.
            let held = self.pids.iter().filter_map(|&pid| Target::hold(pid).ok());
            self.targets = held.collect();
        }
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
        let part = self.next_part()?;
        let is_over = part.is_none();
        if let Some(part) = part {
            self.hand_on(part, sink);
        } else {
            self.sample_running(sink);
            if self.threads.is_empty() {
                return Err(self
                    .gone
                    .take()
                    .unwrap_or(CaptureError::Gone { pid: self.first }));
            }
        }
        Ok(Drained {
            is_over,
            ..Drained::default()
        })
    }

    fn finish(&mut self, _sink: &mut dyn Sink) -> Result<Losses, CaptureError> {
        Ok(Losses::default())
    }

    fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::NamedEvent;
    use crate::target::proc::RunState;
    use std::process::Command;

    #[derive(Default)]
    struct Samples(Vec<u32>);

    impl Sink for Samples {
        fn batch(&mut self) {}

        fn event(&mut self, event: Event<'_>) {
            if let Event::Sample(sample) = event {
                self.0.push(sample.pid);
            }
        }

        fn named(&mut self, _session: usize, _event: NamedEvent) {}
    }

    fn snapshot_of(targets: &[Target]) -> Result<Vec<u32>, CaptureError> {
        let mut engine = SnapshotEngine::new(Stopping::Nothing);
        let (group, launched) = (None, None);
        engine.attach(Subject {
            targets,
            group,
            launched,
        })?;
        let mut samples = Samples::default();
        while !engine.drain(Duration::ZERO, &mut samples)?.is_over {}
        Ok(samples.0)
    }

    #[test]
    fn an_ended_process_is_left_out_unless_it_is_the_only_one() {
        let mut alive = Command::new("sleep").arg("60").spawn().unwrap();
        let mut ended = Command::new("sleep").arg("60").spawn().unwrap();
        let mut targets = vec![Target::hold(ended.id()).unwrap()];
        ended.kill().unwrap();
        // A zombie until it is waited for.
        while proc::run_state(ended.id(), ended.id()) != Some(RunState::Ended) {
            std::thread::yield_now();
        }
        let only = snapshot_of(&targets);
        targets.push(Target::hold(alive.id()).unwrap());
        let both = snapshot_of(&targets);
        let pid = alive.id();
        alive.kill().unwrap();
        ended.wait().unwrap();
        alive.wait().unwrap();
        assert!(matches!(only, Err(CaptureError::Gone { .. })), "{only:?}");
        assert_eq!(both.unwrap(), [pid]);
    }
}
