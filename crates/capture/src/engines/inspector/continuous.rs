//! V8's inspector as the engine of an agent: any number of processes, which come and go for months.
//!
//! One thread opens inspectors, one after the other, because all of them want the same port first. Each process that is
//! recorded has a thread of its own. A process that refuses, or does not answer, is reported and delays others only by the
//! seconds that it is given.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nodespy_model::{EventType, Nanoseconds};

use super::companion;
use super::open;
use super::options::InspectorOptions;
use super::probe::probe;
use super::recording::InspectorSession;
use crate::engine::{Attached, Drained, Engine, Losses, NamedEvent, Outcome, Sink, Subject};
use crate::engines::{EngineId, Finding};
use crate::error::{CaptureError, with_causes};
use crate::monotonic_now;
use crate::sys::clock::ticks_after_boot;
use crate::sys::files::raise_descriptor_limit;
use crate::target::{Target, proc};

/// How old a process has to be: what is over before that is left alone.
const MIN_AGE: Duration = Duration::from_secs(5);
/// When a process is tried again, twice as late after each time.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_secs(600);
/// How often a process is sent the signal that does not open its inspector: its handler may be the application's own.
const MAX_UNANSWERED: u32 = 3;
/// A process that was recorded for so long is tried again at once when its inspector is lost.
const RELIABLE_AFTER: Duration = Duration::from_secs(600);
/// After so many attempts it is reported: Node may just be starting.
const REPORTED_ATTEMPT: u32 = 2;
/// How long a thread waits before it checks whether the recording has ended.
const WAIT: Duration = Duration::from_millis(200);
/// Messages that wait to be drained.
const MAX_QUEUED: usize = 1024;

/// The engine of an agent that asks V8's own profiler.
#[derive(Debug)]
pub struct ContinuousInspector {
    options: InspectorOptions,
    running: Option<Running>,
    outcomes: Vec<Outcome>,
}

/// The threads, while they run.
#[derive(Debug)]
struct Running {
    processes: Sender<Waiting>,
    /// None once nothing can follow.
    messages: Option<Receiver<Message>>,
    opener: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Message {
    Event(usize, NamedEvent),
    Outcome(Outcome),
}

/// A process whose inspector is to be opened.
#[derive(Debug)]
struct Waiting {
    target: Target,
    next_attempt: Instant,
    attempts: u32,
    /// How many of them had no answer.
    unanswered: u32,
    /// The CPU time of its main thread when the last of them ended.
    main_cpu: Option<Nanoseconds>,
    is_reported: bool,
    /// Why it is not recorded any more.
    lost: Option<CaptureError>,
}

impl ContinuousInspector {
    /// An engine for processes of this machine.
    pub fn new(options: InspectorOptions) -> Self {
        Self {
            options,
            running: None,
            outcomes: Vec::new(),
        }
    }

    /// Has processes of the caller's recorded, each as soon as it can be.
    fn take_in(&mut self, targets: &[Target]) -> Result<(), CaptureError> {
        for target in targets {
            let waiting = Waiting::for_process(target)?;
            if let Some(running) = &self.running {
                // A thread that has panicked is reported at the end.
                let _ = running.processes.send(waiting);
            }
        }
        Ok(())
    }
}

impl Engine for ContinuousInspector {
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
        let started = monotonic_now();
        self.options.started = Some(started);
        // Each process takes half a dozen.
        raise_descriptor_limit();
        self.running = Some(Running::start(&self.options));
        for target in subject.targets {
            // One that has ended meanwhile keeps no other out.
            let _ = self.take_in(std::slice::from_ref(target));
        }
        Ok(Attached {
            started,
            sampling_since: started,
            ..Attached::default()
        })
    }

    fn add(&mut self, targets: &[Target]) -> Result<(), CaptureError> {
        self.take_in(targets)
    }

    fn attaches_meanwhile(&self) -> bool {
        true
    }

    fn take_outcomes(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.outcomes)
    }

    fn drain(&mut self, timeout: Duration, sink: &mut dyn Sink) -> Result<Drained, CaptureError> {
        let messages = self.running.as_ref().and_then(|it| it.messages.as_ref());
        let mut is_over = messages.is_none();
        if let Some(messages) = messages {
            match messages.recv_timeout(timeout) {
                Ok(first) => {
                    let rest = messages.try_iter().take(MAX_QUEUED);
                    for message in std::iter::once(first).chain(rest) {
                        hand_on(message, sink, &mut self.outcomes);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => is_over = true,
            }
        }
        Ok(Drained {
            is_over,
            ..Drained::default()
        })
    }

    fn finish(&mut self, sink: &mut dyn Sink) -> Result<Losses, CaptureError> {
        self.options.stop.store(true, Ordering::Relaxed);
        if let Some(mut running) = self.running.take() {
            // Until every session has ended.
            for message in running.messages.take().into_iter().flatten() {
                hand_on(message, sink, &mut self.outcomes);
            }
            if let Some(Err(panic)) = running.opener.take().map(JoinHandle::join) {
                std::panic::resume_unwind(panic);
            }
        }
        Ok(Losses::default())
    }

    /// Remarks are events of their sessions.
    fn take_remarks(&mut self) -> Vec<String> {
        Vec::new()
    }
}

impl Drop for ContinuousInspector {
    /// An early return or a panic leaves no inspector open: the threads close them and are waited for.
    fn drop(&mut self) {
        self.options.stop.store(true, Ordering::Relaxed);
        if let Some(mut running) = self.running.take() {
            // A thread that waits for room in the queue goes on.
            running.messages = None;
            if let Some(opener) = running.opener.take() {
                let _ = opener.join();
            }
        }
    }
}

fn hand_on(message: Message, sink: &mut dyn Sink, outcomes: &mut Vec<Outcome>) {
    match message {
        Message::Event(session, event) => sink.named(session, event),
        Message::Outcome(outcome) => outcomes.push(outcome),
    }
}

impl Running {
    fn start(options: &InspectorOptions) -> Self {
        let (processes, to_open) = channel();
        let (sender, messages) = sync_channel(MAX_QUEUED);
        let mut opener = Opener {
            options: options.clone(),
            lost: processes.clone(),
            messages: sender,
            waiting: Vec::new(),
            followers: Vec::new(),
            sessions: 0,
        };
        Self {
            processes,
            messages: Some(messages),
            opener: Some(std::thread::spawn(move || opener.run(&to_open))),
        }
    }
}

impl Waiting {
    /// Holds a process for itself: the caller's hold ends when it likes.
    fn for_process(target: &Target) -> Result<Self, CaptureError> {
        let target = Target::hold_started(target.pid(), target.start_time())?;
        let now = monotonic_now();
        let age = now.saturating_sub(ticks_after_boot(target.start_time(), now));
        let left = MIN_AGE.saturating_sub(Duration::from_nanos(age));
        Ok(Self {
            target,
            next_attempt: Instant::now() + left,
            attempts: 0,
            unanswered: 0,
            main_cpu: None,
            is_reported: false,
            lost: None,
        })
    }

    /// What was recorded and is no longer, though it runs: it may be soon.
    fn again(target: Target, why: CaptureError, attempts: u32) -> Self {
        let mut waiting = Self {
            target,
            next_attempt: Instant::now(),
            attempts,
            unanswered: 0,
            main_cpu: None,
            is_reported: false,
            lost: Some(why),
        };
        waiting.try_later(Instant::now());
        waiting
    }

    /// Counts an attempt that had no answer.
    fn had_no_answer(&mut self) {
        self.unanswered += 1;
        self.main_cpu = main_cpu(&self.target);
        self.try_later(Instant::now());
    }

    /// Whether its main thread has not run since the last attempt: what it was asked still waits for it.
    fn is_stuck(&self) -> bool {
        self.main_cpu.is_some() && self.main_cpu == main_cpu(&self.target)
    }

    /// Counts a failed attempt.
    fn try_later(&mut self, now: Instant) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.attempts.min(20));
        self.next_attempt = now + pause.min(MAX_PAUSE);
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Whether it is to be reported now that it is not recorded: once, however often it is tried.
    fn is_worth_a_line(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true)
    }
}

fn main_cpu(target: &Target) -> Option<Nanoseconds> {
    proc::thread_cpu_time(target.pid(), target.pid())
}

/// The thread that opens inspectors.
struct Opener {
    options: InspectorOptions,
    /// Where processes come back to that are not recorded any more.
    lost: Sender<Waiting>,
    messages: SyncSender<Message>,
    waiting: Vec<Waiting>,
    followers: Vec<Following>,
    /// How many there were so far.
    sessions: usize,
}

/// The thread of a process, as the opener has it.
struct Following {
    pid: u32,
    session: usize,
    thread: JoinHandle<()>,
}

impl Opener {
    /// Opens inspectors until the recording ends, and waits until all are closed.
    fn run(&mut self, to_open: &Receiver<Waiting>) {
        while !self.is_stopped() {
            self.waiting.extend(to_open.recv_timeout(WAIT));
            self.waiting.extend(to_open.try_iter());
            self.waiting.retain(|it| !it.target.has_ended());
            self.join_followers(|follower| follower.thread.is_finished());
            companion::reap();
            while let Some(due) = self.take_due() {
                self.try_to_attach(due);
            }
        }
        self.join_followers(|_| true);
    }

    /// Joins some of the threads. The session of one that panicked ends here: nobody else would say so.
    fn join_followers(&mut self, is_meant: impl Fn(&Following) -> bool) {
        let followers = std::mem::take(&mut self.followers);
        let (ended, others): (Vec<_>, _) = followers.into_iter().partition(is_meant);
        self.followers = others;
        for Following {
            pid,
            session,
            thread,
        } in ended
        {
            if thread.join().is_err() {
                let _ = self
                    .messages
                    .send(Message::Event(session, NamedEvent::Ended));
                let sentence = format!("the thread that records process {pid} panicked");
                self.report(pid, Err(CaptureError::refused(sentence)));
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }

    fn take_due(&mut self) -> Option<Waiting> {
        let now = Instant::now();
        let is_due = |waiting: &Waiting| waiting.next_attempt <= now;
        let position = self.waiting.iter().position(is_due)?;
        (!self.is_stopped()).then(|| self.waiting.remove(position))
    }

    /// Attaches to a process. What can't be sent the signal, or has not answered yet, is tried again; what turned to the
    /// signal and did not open its inspector never is: it has a handler of its own, which was not meant for us.
    fn try_to_attach(&mut self, mut waiting: Waiting) {
        let pid = waiting.target.pid();
        if let Some(why) = waiting.lost.take() {
            self.report(pid, Err(why));
        }
        if waiting.is_stuck() {
            waiting.try_later(Instant::now());
            self.waiting.push(waiting);
            return;
        }
        if let Err(why) = open::check(pid, &self.options)
            && (waiting.attempts > 0 || !open::is_open(pid))
        {
            waiting.try_later(Instant::now());
            if waiting.attempts >= REPORTED_ATTEMPT && waiting.is_worth_a_line() {
                self.report(pid, Err(why));
            }
            self.waiting.push(waiting);
            return;
        }
        match InspectorSession::attach(&waiting.target, false, &self.options) {
            Ok(session) => {
                self.report(pid, Ok(()));
                self.follow(session, waiting);
            }
            Err(why @ (CaptureError::Refused { .. } | CaptureError::Gone { .. })) => {
                self.report(pid, Err(why));
            }
            Err(why) => {
                waiting.had_no_answer();
                if waiting.is_worth_a_line() {
                    self.report(pid, Err(why));
                }
                if waiting.unanswered < MAX_UNANSWERED {
                    self.waiting.push(waiting);
                }
            }
        }
    }

    fn report(&self, pid: u32, result: Result<(), CaptureError>) {
        // Processes end all the time, and an agent that ends need not say what it leaves.
        if !matches!(result, Err(CaptureError::Gone { .. })) && !self.is_stopped() {
            let outcome = Outcome { pid, result };
            let _ = self.messages.send(Message::Outcome(outcome));
        }
    }

    fn follow(&mut self, session: InspectorSession, waiting: Waiting) {
        let (pid, number) = (waiting.target.pid(), self.sessions);
        let follower = Follower {
            session,
            number,
            attempts: waiting.attempts,
            since: Instant::now(),
            messages: self.messages.clone(),
            lost: self.lost.clone(),
            stop: Arc::clone(&self.options.stop),
        };
        self.sessions += 1;
        let thread = std::thread::spawn(move || follower.run(waiting.target));
        self.followers.push(Following {
            pid,
            session: number,
            thread,
        });
    }
}

/// The thread of a process that is recorded.
struct Follower {
    session: InspectorSession,
    number: usize,
    /// How often the process was tried before, and since when it is recorded.
    attempts: u32,
    since: Instant,
    messages: SyncSender<Message>,
    lost: Sender<Waiting>,
    stop: Arc<AtomicBool>,
}

impl Follower {
    /// Follows a process until it ends or the recording does.
    fn run(mut self, target: Target) {
        self.hand_on();
        let mut failure = None;
        // A process that ends waits for us: it must not wait long.
        while !self.is_stopped() {
            let polled = self.session.poll_within(WAIT);
            self.hand_on();
            match polled {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let was_stopped = self.is_stopped();
        if let Err(error) = self.session.finish() {
            failure.get_or_insert(error);
        }
        self.hand_on();
        if let Some(error) = failure.as_ref().filter(|_| was_stopped) {
            self.send(NamedEvent::Remark(with_causes(error)));
        }
        self.send(NamedEvent::Ended);
        if !was_stopped && !target.has_ended() {
            let pid = target.pid();
            let why = failure.unwrap_or_else(|| {
                CaptureError::refused(format!("the inspector of process {pid} was closed"))
            });
            let attempts = match self.since.elapsed() < RELIABLE_AFTER {
                true => self.attempts,
                false => 0,
            };
            let _ = self.lost.send(Waiting::again(target, why, attempts));
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn hand_on(&mut self) {
        for event in self.session.take_events() {
            self.send(event);
        }
    }

    fn send(&self, event: NamedEvent) {
        // An engine that was dropped wants nothing more.
        let _ = self.messages.send(Message::Event(self.number, event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::proc::RunState;

    #[test]
    fn a_process_that_refuses_is_tried_less_and_less_and_reported_once() {
        let target = Target::hold(std::process::id()).unwrap();
        let mut waiting = Waiting::for_process(&target).unwrap();
        let mut now = Instant::now();
        let (mut reported, mut pauses) = (0, Vec::new());
        for _ in 0..12 {
            waiting.try_later(now);
            reported += usize::from(waiting.is_worth_a_line());
            pauses.push(waiting.next_attempt - now);
            now = waiting.next_attempt;
        }
        assert_eq!(reported, 1);
        assert_eq!(pauses[0], FIRST_PAUSE);
        assert_eq!(pauses[11], MAX_PAUSE);
        assert!(pauses.is_sorted());
    }

    #[test]
    fn an_inspector_that_is_lost_again_and_again_is_opened_less_and_less() {
        let why = || CaptureError::refused("it was closed".to_owned());
        let (mut attempts, mut pauses) = (0, Vec::new());
        for _ in 0..7 {
            let target = Target::hold(std::process::id()).unwrap();
            let waiting = Waiting::again(target, why(), attempts);
            pauses.push(waiting.next_attempt - Instant::now());
            attempts = waiting.attempts;
        }
        assert!(
            pauses.is_sorted() && pauses[6] > MAX_PAUSE / 2,
            "{pauses:?}"
        );
    }

    #[test]
    fn a_main_thread_that_has_not_run_since_is_not_sent_another_signal() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let asleep = || proc::run_state(child.id(), child.id()) == Some(RunState::Sleeping);
        while !asleep() {
            std::thread::sleep(WAIT);
        }
        let target = Target::hold(child.id()).unwrap();
        let mut waiting = Waiting::for_process(&target).unwrap();
        assert!(!waiting.is_stuck());
        waiting.had_no_answer();
        assert!(waiting.is_stuck());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!waiting.is_stuck());
    }

    #[test]
    fn a_young_process_is_left_alone_for_a_while() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let target = Target::hold(child.id()).unwrap();
        let waiting = Waiting::for_process(&target).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let left = waiting
            .next_attempt
            .saturating_duration_since(Instant::now());
        assert!(left > Duration::ZERO && left <= MIN_AGE, "{left:?}");
    }
}
