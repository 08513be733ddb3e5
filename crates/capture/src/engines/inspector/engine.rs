//! V8's inspector as an engine.
//!
//! Each process has a thread of its own here, because a process that ends waits for us to disconnect:
//! none of them must wait for another's profile, nor for the caller that drains the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nodespy_inspector::InspectorUrl;
use nodespy_model::EventType;

use super::options::InspectorOptions;
use super::probe::probe;
use super::recording::InspectorSession;
use crate::engine::{Attached, Drained, Engine, Losses, NamedEvent, Sink, Subject};
use crate::engines::{EngineId, Finding};
use crate::error::CaptureError;
use crate::target::{Target, looks_like_node};

/// How long a drain waits at most: the end of the recording is checked for between drains.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Events that wait to be drained.
const MAX_QUEUED: usize = 1024;

/// What the threads of the sessions send: the position of the session, and an event of it.
type Queued = (usize, NamedEvent);

/// The engine that asks V8's own profiler.
#[derive(Debug)]
pub struct InspectorEngine {
    options: InspectorOptions,
    url: Option<InspectorUrl>,
    asked: Vec<u32>,
    sessions: Option<Sessions>,
}

/// The sessions that go on, each on a thread of its own.
#[derive(Debug)]
struct Sessions {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), CaptureError>>>,
    /// None once nothing can follow.
    events: Option<Receiver<Queued>>,
}

impl InspectorEngine {
    /// An engine for processes of this machine. Those of `asked` must not refuse; another, such as a
    /// child of one, may as long as one does not.
    pub fn new(options: InspectorOptions, asked: Vec<u32>) -> Self {
        Self {
            options,
            url: None,
            asked,
            sessions: None,
        }
    }

    /// An engine for the process behind an address, on another machine or forwarded from there.
    pub fn at(url: InspectorUrl, options: InspectorOptions) -> Self {
        Self {
            url: Some(url),
            ..Self::new(options, Vec::new())
        }
    }

    fn open(&self, subject: Subject<'_>) -> Result<Vec<InspectorSession>, CaptureError> {
        if let Some(url) = &self.url {
            return Ok(vec![InspectorSession::attach_url(url, &self.options)?]);
        }
        if let (Some(launched), [target]) = (subject.launched, subject.targets) {
            let attached = InspectorSession::attach_launched(launched, target, &self.options);
            return attached
                .map(|session| vec![session])
                .inspect_err(|_| launched.terminate());
        }
        let asked = |pid: u32| self.asked.contains(&pid);
        let is_needed = |target: &&Target| asked(target.pid()) || looks_like_node(target.pid());
        let targets: Vec<&Target> = subject.targets.iter().filter(is_needed).collect();
        InspectorSession::attach_all(&targets, asked, &self.options)
    }
}

impl Engine for InspectorEngine {
    fn id(&self) -> EngineId {
        EngineId::Inspector
    }

    fn events(&self) -> Vec<EventType> {
        vec![self.options.event_type()]
    }

    fn probe(&self, pid: u32) -> Vec<Finding> {
        probe(pid)
    }

    fn attach(&mut self, subject: Subject<'_>) -> Result<Attached, CaptureError> {
        let started = crate::monotonic_now();
        self.options.started = Some(started);
        let sessions = self.open(subject)?;
        let inspectors = sessions.iter().map(InspectorSession::inspector).collect();
        self.sessions = Some(Sessions::start(sessions));
        Ok(Attached {
            started,
            sampling_since: crate::monotonic_now(),
            inspectors,
            ..Attached::default()
        })
    }

    /// Processes that join are not recorded: each would have to open its inspector.
    fn add(&mut self, _targets: &[Target]) -> Result<(), CaptureError> {
        Ok(())
    }

    fn drain(&mut self, timeout: Duration, sink: &mut dyn Sink) -> Result<Drained, CaptureError> {
        let is_over = match &mut self.sessions {
            Some(sessions) => sessions.drain(timeout.min(POLL_INTERVAL), sink),
            None => true,
        };
        Ok(Drained {
            is_over,
            ..Drained::default()
        })
    }

    fn finish(&mut self, sink: &mut dyn Sink) -> Result<Losses, CaptureError> {
        if let Some(sessions) = self.sessions.take() {
            sessions.finish(sink)?;
        }
        Ok(Losses::default())
    }

    /// Remarks are events of their sessions.
    fn take_remarks(&mut self) -> Vec<String> {
        Vec::new()
    }
}

impl Sessions {
    fn start(sessions: Vec<InspectorSession>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, events) = sync_channel(MAX_QUEUED);
        let follow = |(position, session): (usize, InspectorSession)| {
            let (stop, sender) = (Arc::clone(&stop), sender.clone());
            std::thread::spawn(move || follow(session, &stop, position, &sender))
        };
        let threads = sessions.into_iter().enumerate().map(follow).collect();
        Self {
            stop,
            threads,
            events: Some(events),
        }
    }

    /// Hands on what comes within `timeout`; true when nothing will follow.
    fn drain(&mut self, timeout: Duration, sink: &mut dyn Sink) -> bool {
        let Some(events) = &self.events else {
            return true;
        };
        match events.recv_timeout(timeout) {
            Ok((session, event)) => {
                sink.named(session, event);
                for (session, event) in events.try_iter() {
                    sink.named(session, event);
                }
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => {
                self.events = None;
                true
            }
        }
    }

    /// Ends the sessions. What became of those that failed is a remark, unless all of them did.
    fn finish(mut self, sink: &mut dyn Sink) -> Result<(), CaptureError> {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(events) = self.events.take() {
            // Until every session has ended.
            for (session, event) in events {
                sink.named(session, event);
            }
        }
        let threads = std::mem::take(&mut self.threads);
        let count = threads.len();
        let mut failures = Vec::new();
        for (session, thread) in threads.into_iter().enumerate() {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => failures.push((session, error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        if failures.len() == count
            && let Some((_, error)) = failures.pop()
        {
            return Err(error);
        }
        for (session, error) in failures {
            let sentence = crate::error::with_causes(&error);
            sink.named(session, NamedEvent::Remark(sentence));
        }
        Ok(())
    }
}

impl Drop for Sessions {
    /// An early return or a panic leaves no inspector open: the threads close them and are waited
    /// for.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that waits for room in the queue goes on.
        self.events = None;
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

/// Follows one process until it ends or the recording does.
fn follow(
    mut session: InspectorSession,
    stop: &AtomicBool,
    position: usize,
    sender: &SyncSender<Queued>,
) -> Result<(), CaptureError> {
    let hand_on = |session: &mut InspectorSession| {
        for event in session.take_events() {
            // An engine that was dropped wants nothing more.
            let _ = sender.send((position, event));
        }
    };
    // Each poll waits a moment. A process that ends waits for us: it must not wait long.
    while !stop.load(Ordering::Relaxed) {
        let is_over = session.poll().unwrap_or(true);
        hand_on(&mut session);
        if is_over {
            break;
        }
    }
    let finished = session.finish();
    hand_on(&mut session);
    finished
}
