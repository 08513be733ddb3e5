//! A process that outlives nodespy, to close an inspector that nodespy opened and could not close.
//!
//! A port left open lets any user of the machine run code in the target. So the companion exists
//! before the signal that opens the inspector is sent, and reads its standard input: nodespy
//! dismisses it once the inspector is closed. Where the input ends without that (nodespy was
//! killed, gave up on a busy process, or left the inspector to another client), the companion ends a command that
//! nodespy has started and not let run yet, and otherwise waits
//! for the inspector to be open and without clients, and closes it. SIGTERM ends it only where no inspector is open and none
//! may open yet: a main thread in native code turns to the signal when it is done with that.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::close;
use super::giving_up::EventLoop;
use super::native_block::MainThread;
use super::open::{self, Opened};
use super::probes::Probes;
use crate::error::CaptureError;
use crate::target::Target;
use crate::target::{ports, stands_still};

/// The last word that the companion reads says what is left to do. Here: nothing.
const DISMISSED: &[u8] = b"done";
/// To end a command that nodespy has started and that stands before its first line.
const WAITS: &[u8] = b"wait";
/// To close the inspector of a command that runs.
const RUNS: &[u8] = b"runs";
/// To close the inspector that a signal opens, which is sent right after the word.
const SIGNALLED: &[u8] = b"sent";
/// More than all words together.
const MAX_WORDS: u64 = 64;
/// How long an inspector may take to open, once nodespy is gone.
const OPEN_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long an inspector is without clients before it is closed: another nodespy that found it open
/// connects within milliseconds.
const IDLE: Duration = Duration::from_secs(1);
/// How long another listener is looked for once the inspector is closed: nodespy may have asked it to move before it was killed.
const MOVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an inspector is looked for where no word came: nodespy was killed before it sent the signal.
const UNTOLD_TIMEOUT: Duration = Duration::from_secs(3);
/// How often the process is polled, which reads all its descriptors and the tables of sockets; less often the longer nothing
/// changes, as an hour may pass.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The process whose inspector a companion closes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abandoned {
    /// The process.
    pub pid: u32,
    /// Its start time in clock ticks: a pid alone may be another process by now.
    pub start_time: u64,
    /// What it listened on before the inspector was opened.
    pub listeners: Vec<SocketAddr>,
}

/// Makes the command that calls [`close_abandoned`].
pub type CompanionCommand = fn(&Abandoned) -> Command;

/// A companion that runs. Dropping it without [`Companion::dismiss`] leaves the rest to it.
#[derive(Debug)]
pub(super) struct Companion {
    /// None once it is dismissed.
    child: Option<Child>,
}

/// Companions that were left the rest: an agent that runs for months has to wait for each, or it stays a zombie.
static LEFT: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Those that still run.
fn left() -> MutexGuard<'static, Vec<Child>> {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    left
}

/// Waits for those that have ended.
pub(super) fn reap() {
    drop(left());
}

impl Companion {
    pub(super) fn spawn(
        command: CompanionCommand,
        abandoned: &Abandoned,
    ) -> Result<Self, CaptureError> {
        let child = command(abandoned)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in the terminal is for nodespy alone.
            .process_group(0)
            .spawn()
            .map_err(|source| {
                let doing = "starting the process that closes the inspector if nodespy is killed";
                CaptureError::call(doing, source)
            })?;
        reap();
        Ok(Self { child: Some(child) })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Says that the process is a command of ours, which does not run before [`Self::command_runs`].
    pub(super) fn command_waits(&mut self) {
        self.tell(WAITS);
    }

    /// Says that the process is sent the signal now.
    pub(super) fn signal_is_sent(&mut self) {
        self.tell(SIGNALLED);
    }

    /// Says that the command runs.
    pub(super) fn command_runs(&mut self) {
        self.tell(RUNS);
    }

    /// Ends it: the inspector is closed, or was never opened.
    pub(super) fn dismiss(mut self) {
        self.tell(DISMISSED);
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }

    fn tell(&mut self, word: &[u8]) {
        let stdin = self.child.as_mut().and_then(|child| child.stdin.as_mut());
        if let Some(stdin) = stdin {
            // One that was killed does nothing whatever it is told.
            let _ = stdin.write_all(word);
        }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The end of its input tells it to begin.
            drop(child.stdin.take());
            left().push(child);
        }
    }
}

/// Waits for the end of `input` and, unless it was dismissed, closes the inspector of a process as
/// soon as it is open and without clients. One that `is_told_to_end`, as systemd tells what an agent leaves behind, goes on
/// as long as an inspector is open or may open yet: systemd kills it in the end.
pub fn close_abandoned(
    abandoned: &Abandoned,
    input: &mut dyn Read,
    is_told_to_end: &dyn Fn() -> bool,
) {
    let mut words = Vec::new();
    let _ = input.take(MAX_WORDS).read_to_end(&mut words);
    if words.ends_with(DISMISSED) {
        return;
    }
    let Ok(target) = Target::hold_started(abandoned.pid, abandoned.start_time) else {
        return;
    };
    if words.ends_with(WAITS) {
        // Nobody else will ever let it run.
        target.terminate();
    }
    let timeout = match words.is_empty() {
        true => UNTOLD_TIMEOUT,
        false => OPEN_TIMEOUT,
    };
    let mut watch = Watch::new(Instant::now(), timeout);
    let mut main = SignalledMain::watch(abandoned.pid);
    let mut found = None;
    let mut probes = Probes::new(&abandoned.listeners);
    while !target.has_ended() {
        if stands_still(abandoned.pid) {
            // It neither opens an inspector nor answers.
            watch.pause(Instant::now(), POLL_INTERVAL);
            std::thread::sleep(POLL_INTERVAL);
            continue;
        }
        let inspector = found
            .take()
            .or_else(|| find_inspector(&target, &mut probes));
        let seen = inspector.as_ref().map(|opened| Seen {
            is_listening: !ports::is_closed(target.pid(), opened.listener),
            // It is not closed under clients that can't be seen.
            has_clients: !matches!(ports::connections(target.pid(), opened.listener), Ok(0)),
        });
        match (watch.next(seen, Instant::now()), inspector) {
            (Next::Done, _) if !probes.are_waited_for(&ports::listeners(abandoned.pid)) => return,
            // Another may be open by now.
            (Next::Closed, _) => {}
            (_, None) if main.has_own_handler && !listens_anew(abandoned) => return,
            (Next::Close, Some(mut opened)) => {
                close::close_opened(&mut opened);
                found = Some(opened);
            }
            (_, inspector) => found = inspector,
        }
        main.sleep(watch.interval(Instant::now()), is_told_to_end);
    }
}

/// The main thread of a process that was sent the signal, since nodespy is gone.
#[derive(Debug)]
struct SignalledMain {
    thread: MainThread,
    event_loop: EventLoop,
    /// Known only of one whose companion was told to end.
    has_own_handler: bool,
}

impl SignalledMain {
    fn watch(pid: u32) -> Self {
        Self {
            thread: MainThread::watch(pid),
            event_loop: EventLoop::default(),
            has_own_handler: false,
        }
    }

    /// Sleeps until the process is polled again; shorter where what is seen of the main thread lets the companion end.
    fn sleep(&mut self, interval: Duration, is_told_to_end: &dyn Fn() -> bool) {
        let until = Instant::now() + interval;
        let had_own_handler = self.has_own_handler;
        while Instant::now() < until && self.has_own_handler == had_own_handler {
            std::thread::sleep(POLL_INTERVAL);
            if is_told_to_end() {
                let is_waiting = self.thread.waits_for_events();
                let turning = self.event_loop.see(is_waiting, Instant::now());
                self.has_own_handler = is_waiting && EventLoop::is_past_the_signal(turning);
            }
        }
    }
}

/// Whether something listens that may be the inspector.
fn listens_anew(abandoned: &Abandoned) -> bool {
    let listeners = ports::listeners(abandoned.pid);
    let mut new = listeners
        .iter()
        .filter(|it| !abandoned.listeners.contains(it));
    new.next().is_some()
}

/// The inspector among the new listeners of a process.
fn find_inspector(target: &Target, probes: &mut Probes) -> Option<Opened> {
    let pid = target.pid();
    let mut opened = probes.find(&ports::listeners(pid), |listener| {
        open::found_open(pid, listener)
    })?;
    opened.is_ours = true;
    Some(opened)
}

/// An inspector that was found.
#[derive(Debug, Clone, Copy)]
struct Seen {
    is_listening: bool,
    has_clients: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Wait,
    Close,
    /// What was found does not listen any more, or listens elsewhere by now.
    Closed,
    Done,
}

/// What the companion does next, by what it saw so far.
#[derive(Debug)]
struct Watch {
    since: Instant,
    idle_since: Option<Instant>,
    /// Since when it has had clients.
    used_since: Option<Instant>,
    /// How long one may take to open from then on.
    timeout: Duration,
}

impl Watch {
    fn new(now: Instant, timeout: Duration) -> Self {
        Self {
            since: now,
            idle_since: None,
            used_since: None,
            timeout,
        }
    }

    /// When the process is polled again.
    fn interval(&self, now: Instant) -> Duration {
        // The clients of an idle one come and go within a second.
        if self.idle_since.is_some() {
            return POLL_INTERVAL;
        }
        let unchanged = now.saturating_duration_since(self.used_since.unwrap_or(self.since));
        (unchanged / 10).clamp(POLL_INTERVAL, MAX_POLL_INTERVAL)
    }

    /// The process has stood still for so long.
    fn pause(&mut self, now: Instant, time: Duration) {
        self.since = (self.since + time).min(now);
    }

    fn next(&mut self, seen: Option<Seen>, now: Instant) -> Next {
        let Some(seen) = seen else {
            return match now.saturating_duration_since(self.since) > self.timeout {
                true => Next::Done,
                false => Next::Wait,
            };
        };
        if !seen.is_listening {
            *self = Self::new(now, MOVE_TIMEOUT);
            return Next::Closed;
        }
        if seen.has_clients {
            self.idle_since = None;
            self.used_since.get_or_insert(now);
            return Next::Wait;
        }
        self.used_since = None;
        let idle_since = *self.idle_since.get_or_insert(now);
        if now.saturating_duration_since(idle_since) < IDLE {
            return Next::Wait;
        }
        // One that can't be closed now is tried again.
        self.idle_since = None;
        Next::Close
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const OPEN: Option<Seen> = Some(Seen {
        is_listening: true,
        has_clients: false,
    });
    const IN_USE: Option<Seen> = Some(Seen {
        is_listening: true,
        has_clients: true,
    });
    const CLOSED: Option<Seen> = Some(Seen {
        is_listening: false,
        has_clients: false,
    });

    #[test]
    fn an_inspector_that_opens_late_is_closed_when_it_has_been_idle() {
        let start = Instant::now();
        let mut watch = Watch::new(start, OPEN_TIMEOUT);
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(watch.next(None, at(600)), Next::Wait);
        assert_eq!(watch.next(OPEN, at(601)), Next::Wait);
        assert_eq!(watch.next(OPEN, at(602)), Next::Close);
        assert_eq!(watch.next(CLOSED, at(603)), Next::Closed);
        assert_eq!(watch.next(None, at(608)), Next::Wait);
        assert_eq!(watch.next(None, at(609)), Next::Done);
    }

    #[test]
    fn an_inspector_that_moves_is_closed_where_it_went() {
        let start = Instant::now();
        let mut watch = Watch::new(start, OPEN_TIMEOUT);
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(watch.next(OPEN, at(0)), Next::Wait);
        assert_eq!(watch.next(CLOSED, at(1)), Next::Closed);
        assert_eq!(watch.next(OPEN, at(2)), Next::Wait);
        assert_eq!(watch.next(OPEN, at(3)), Next::Close);
        // And once more.
        assert_eq!(watch.next(CLOSED, at(4)), Next::Closed);
        assert_eq!(watch.next(OPEN, at(5)), Next::Wait);
        assert_eq!(watch.next(OPEN, at(6)), Next::Close);
        assert_eq!(watch.next(CLOSED, at(7)), Next::Closed);
        assert_eq!(watch.next(None, at(13)), Next::Done);
    }

    #[test]
    fn time_in_which_the_process_stands_still_does_not_count() {
        let start = Instant::now();
        let mut watch = Watch::new(start, OPEN_TIMEOUT);
        let mut now = start;
        for _ in 0..200 {
            now += OPEN_TIMEOUT / 100;
            watch.pause(now, OPEN_TIMEOUT / 100);
        }
        assert_eq!(watch.next(None, now + OPEN_TIMEOUT), Next::Wait);
    }

    #[test]
    fn other_clients_are_waited_for_however_long() {
        let start = Instant::now();
        let mut watch = Watch::new(start, OPEN_TIMEOUT);
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(watch.next(OPEN, at(0)), Next::Wait);
        assert_eq!(watch.next(IN_USE, at(1)), Next::Wait);
        assert_eq!(watch.next(IN_USE, at(90_000)), Next::Wait);
        assert_eq!(watch.next(OPEN, at(90_001)), Next::Wait);
        assert_eq!(watch.next(OPEN, at(90_002)), Next::Close);
        // It did not close.
        assert_eq!(watch.next(OPEN, at(90_003)), Next::Wait);
        assert_eq!(watch.next(OPEN, at(90_004)), Next::Close);
    }

    #[test]
    fn a_process_in_which_nothing_changes_is_polled_less_and_less() {
        let start = Instant::now();
        let mut watch = Watch::new(start, OPEN_TIMEOUT);
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(watch.interval(at(1)), POLL_INTERVAL);
        assert_eq!(watch.interval(at(10)), Duration::from_secs(1));
        assert_eq!(watch.interval(at(3000)), MAX_POLL_INTERVAL);
        // It opens, and other clients use it for long.
        watch.next(OPEN, at(3001));
        assert_eq!(watch.interval(at(3001)), POLL_INTERVAL);
        watch.next(IN_USE, at(3002));
        assert_eq!(watch.interval(at(3002)), POLL_INTERVAL);
        watch.next(IN_USE, at(4000));
        assert_eq!(watch.interval(at(4000)), MAX_POLL_INTERVAL);
        watch.next(OPEN, at(4002));
        assert_eq!(watch.interval(at(4002)), POLL_INTERVAL);
    }

    #[test]
    fn what_never_opens_is_given_up() {
        let start = Instant::now();
        let mut watch = Watch::new(start, OPEN_TIMEOUT);
        assert_eq!(watch.next(None, start + OPEN_TIMEOUT), Next::Wait);
        let late = start + OPEN_TIMEOUT + Duration::from_secs(1);
        assert_eq!(watch.next(None, late), Next::Done);
    }

    #[test]
    fn a_dismissed_companion_and_one_of_another_process_do_nothing() {
        let mut abandoned = Abandoned {
            pid: std::process::id(),
            start_time: 1,
            listeners: Vec::new(),
        };
        close_abandoned(&abandoned, &mut &b""[..], &|| false);
        abandoned.start_time = crate::target::proc::start_time(abandoned.pid).unwrap();
        close_abandoned(&abandoned, &mut &b"done"[..], &|| false);
        close_abandoned(&abandoned, &mut &b"waitrunsdone"[..], &|| false);
    }

    #[test]
    fn a_command_that_nobody_lets_run_any_more_is_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let abandoned = Abandoned {
            pid: child.id(),
            start_time: crate::target::proc::start_time(child.id()).unwrap(),
            listeners: Vec::new(),
        };
        close_abandoned(&abandoned, &mut &WAITS[..], &|| false);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }

    /// Whether the companion of a program, which nodespy told a word, is still there after some seconds.
    fn goes_on(script: &str, word: &'static [u8], is_told_to_end: bool, seconds: u64) -> bool {
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let abandoned = Abandoned {
            pid: child.id(),
            start_time: crate::target::proc::start_time(child.id()).unwrap(),
            listeners: Vec::new(),
        };
        let (sender, ended) = std::sync::mpsc::channel();
        let companion = std::thread::spawn(move || {
            close_abandoned(&abandoned, &mut &*word, &|| is_told_to_end);
            sender.send(()).unwrap();
        });
        let goes_on = ended.recv_timeout(Duration::from_secs(seconds)).is_err();
        child.kill().unwrap();
        child.wait().unwrap();
        companion.join().unwrap();
        goes_on
    }

    #[test]
    fn a_companion_that_is_told_to_end_waits_for_a_main_thread_in_native_code() {
        assert!(goes_on("while :; do :; done", SIGNALLED, true, 5));
    }

    #[test]
    fn a_companion_that_is_told_to_end_waits_for_a_main_thread_that_waits_for_a_child() {
        assert!(goes_on("sleep 60; true", SIGNALLED, true, 5));
    }

    #[test]
    fn a_companion_that_heard_of_no_signal_does_not_wait_for_an_inspector() {
        let script = "exec sleep 60";
        assert!(!goes_on(script, b"", false, 30));
        assert!(goes_on(script, SIGNALLED, false, 5));
    }

    #[test]
    fn what_is_left_to_a_companion_leaves_no_zombie() {
        let abandoned = Abandoned {
            pid: 1,
            start_time: 1,
            listeners: Vec::new(),
        };
        let cat: CompanionCommand = |_| Command::new("cat");
        let dropped = Companion::spawn(cat, &abandoned).unwrap();
        let pid = dropped.pid();
        drop(dropped);
        let until = Instant::now() + Duration::from_secs(60);
        while left().iter().any(|child| child.id() == pid) {
            assert!(Instant::now() < until, "it still waits for input");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(crate::target::proc::read_status(pid).is_none());
        Companion::spawn(cat, &abandoned).unwrap().dismiss();
    }
}
