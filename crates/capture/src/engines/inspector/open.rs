//! Opening the inspector of a process that did not ask for one, without ever harming it.
//!
//! SIGUSR1 opens it, and kills a process that does not catch the signal: the process's signal masks
//! are read right before it is sent, every time. Which port it opened is found by the process's
//! own sockets.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use nodespy_inspector::{
    Cancel, InspectorError, InspectorUrl, Recipient, Session, Wait, list, version,
};
use nodespy_model::{JsRuntime, Nanoseconds, printable};
use serde_json::json;

use super::InspectorOptions;
use super::companion::{Abandoned, Companion};
use super::giving_up::{EventLoop, MainState, what_if_later, why_not};
use super::native_block::{MainThread, what_blocks};
use super::port_request::PortRequest;
use super::probes::Probes;
use crate::error::CaptureError;
use crate::sys::namespaces::connect_in_namespace;
use crate::target::ports::{self, Holder};
use crate::target::{Target, looks_like_node, proc, program, stands_still};

/// The bit of SIGUSR1 in the masks of `/proc/PID/status`.
const SIGUSR1_BIT: u64 = 1 << (libc::SIGUSR1 - 1);
/// How long a connection on the same machine may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The same to another machine.
const REMOTE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the process's listeners are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The kernel may deliver the signal to the main thread itself, which runs a little for that even
/// where it is blocked: only what it does after that counts.
const SETTLE: Duration = Duration::from_millis(200);
/// When the user learns that a main thread in native code is waited for.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// How an inspector is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reach {
    /// As the process itself would.
    Process(u32),
    /// At an address, whichever process is behind it.
    Url { path: Option<String> },
}

/// A process before its inspector opens.
#[derive(Debug)]
struct Before {
    listeners: Vec<SocketAddr>,
    /// The CPU time of its main thread.
    main: Option<Nanoseconds>,
}

impl Before {
    fn of(pid: u32) -> Self {
        Self {
            listeners: ports::listeners(pid),
            main: proc::thread_cpu_time(pid, pid),
        }
    }
}

/// An inspector that listens.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) reach: Reach,
    pub(super) listener: SocketAddr,
    /// Whether it listens because of us, and must be closed by us.
    pub(super) is_ours: bool,
    pub(super) version: String,
    /// Closes it if we can't.
    companion: Option<Companion>,
}

impl Opened {
    pub(super) fn has_companion(&self) -> bool {
        self.companion.is_some()
    }

    /// The same of a command that nodespy has started, which listens because of us unless it asks for that itself.
    pub(super) fn by_launch(self, is_ours: bool, companion: Option<Companion>) -> Self {
        Self {
            is_ours,
            companion,
            ..self
        }
    }

    /// Tells the companion of a command that this runs, and needs it no more where the inspector is not ours.
    pub(super) fn command_runs(&mut self) {
        match &mut self.companion {
            Some(companion) if self.is_ours => companion.command_runs(),
            _ => self.dismiss_companion(),
        }
    }

    /// Ends the companion, once nothing is left to close.
    pub(super) fn dismiss_companion(&mut self) {
        if let Some(companion) = self.companion.take() {
            companion.dismiss();
        }
    }

    /// The process on this machine behind it.
    pub(super) fn pid(&self) -> Option<u32> {
        match self.reach {
            Reach::Process(pid) => Some(pid),
            Reach::Url { .. } => None,
        }
    }

    /// An inspector's error, as a failure of the capture.
    pub(super) fn failure(&self, source: InspectorError) -> CaptureError {
        match self.pid() {
            Some(pid) => inspector_failure(pid, source),
            None => CaptureError::InspectorAt {
                address: self.listener,
                source,
            },
        }
    }
}

/// What SIGUSR1 would do to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalState {
    /// It is caught: by Node, or by a handler of the application.
    Caught,
    /// It is blocked: `--disable-sigusr1`.
    Blocked,
    /// It is ignored.
    Ignored,
    /// It would end the process.
    Deadly,
}

pub(super) fn signal_state(pid: u32) -> Option<SignalState> {
    let status = proc::read_status(pid)?;
    Some(match status {
        status if status.blocked_signals & SIGUSR1_BIT != 0 => SignalState::Blocked,
        status if status.ignored_signals & SIGUSR1_BIT != 0 => SignalState::Ignored,
        status if status.caught_signals & SIGUSR1_BIT != 0 => SignalState::Caught,
        _ => SignalState::Deadly,
    })
}

/// The inspector of a process: the one that is open already, or one we open now.
pub(super) fn open(target: &Target, options: &InspectorOptions) -> Result<Opened, CaptureError> {
    let pid = target.pid();
    let before = Before::of(pid);
    if let Some(opened) = before
        .listeners
        .iter()
        .find_map(|&listener| found_open(pid, listener))
    {
        return Ok(opened);
    }
    check(pid, options)?;
    let mut opened = signal_and_wait(target, &before, options)?;
    if !opened.listener.ip().is_loopback() && !options.force {
        // It listens now because of us, to other machines: it must not stay so.
        let listener = opened.listener.to_string();
        super::close::close_opened(&mut opened);
        return Err(exposed(pid, &listener));
    }
    if options.cancel().is_cancelled() {
        super::close::close_opened(&mut opened);
        return Err(CaptureError::refused(
            "stopped before the recording could start".to_owned(),
        ));
    }
    Ok(opened)
}

/// Whether the inspector of a process could be opened now, as far as that can be known without sending it anything.
pub(super) fn check(pid: u32, options: &InspectorOptions) -> Result<(), CaptureError> {
    refuse_other_program(pid)?;
    let request = PortRequest::by_flags(pid);
    if request.is_exposed() && !options.force {
        return Err(exposed(pid, request.host.as_deref().unwrap_or_default()));
    }
    refuse_deadly_signal(pid)?;
    refuse_taken_port(pid, &request)
}

/// Whether a process has its inspector open.
pub(super) fn is_open(pid: u32) -> bool {
    let mut listeners = ports::listeners(pid).into_iter();
    listeners.any(|listener| probe(pid, listener).is_ok())
}

/// Opens the inspector of a process. The companion exists before the signal is sent: whatever
/// happens to nodespy then, it closes what opens.
fn signal_and_wait(
    target: &Target,
    before: &Before,
    options: &InspectorOptions,
) -> Result<Opened, CaptureError> {
    let pid = target.pid();
    let mut companion = match options.companion {
        Some(command) => {
            let abandoned = Abandoned {
                pid,
                start_time: target.start_time(),
                listeners: before.listeners.clone(),
            };
            Some(Companion::spawn(command, &abandoned)?)
        }
        None => None,
    };
    // The process may have changed while the companion was started.
    if let Err(error) = check_and_signal(target, companion.as_mut()) {
        if let Some(companion) = companion {
            companion.dismiss();
        }
        return Err(error);
    }
    let listener = wait_for_listener(target, before, options, companion.as_ref())
        .inspect_err(|_| drop(companion.take()))?;
    // From here on an error drops the companion, which then closes the inspector.
    let version = probe(pid, listener).map_err(|source| inspector_failure(pid, source))?;
    Ok(Opened {
        reach: Reach::Process(pid),
        version,
        listener,
        is_ours: true,
        companion,
    })
}

fn refuse_other_program(pid: u32) -> Result<(), CaptureError> {
    let what = match program(pid) {
        Some(found) if found.runtime == JsRuntime::Node => return Ok(()),
        Some(other) => other.title(),
        None if looks_like_node(pid) => return Ok(()),
        None => proc::command_line(pid)
            .into_iter()
            .next()
            .unwrap_or_default(),
    };
    Err(CaptureError::refused(format!(
        "process {pid} ({}) is not Node.js: it is not sent SIGUSR1, which opens the inspector \
         of Node and may end any other program; record it with perf events: nodespy record \
         --any --engine perf -p {pid}",
        printable(&what)
    )))
}

/// Sends SIGUSR1 to a process that is Node and catches it; its pidfd keeps the signal from any
/// other process that got its pid. A companion learns of it before: one without that word does not wait.
fn check_and_signal(
    target: &Target,
    companion: Option<&mut Companion>,
) -> Result<(), CaptureError> {
    let pid = target.pid();
    if target.has_ended() {
        return Err(CaptureError::Gone { pid });
    }
    refuse_other_program(pid)?;
    refuse_deadly_signal(pid)?;
    if let Some(companion) = companion {
        companion.signal_is_sent();
    }
    target.send_signal(libc::SIGUSR1)
}

/// The inspector behind a listener, if there is one.
pub(super) fn found_open(pid: u32, listener: SocketAddr) -> Option<Opened> {
    let version = probe(pid, listener).ok()?;
    Some(Opened {
        reach: Reach::Process(pid),
        listener,
        is_ours: false,
        version,
        companion: None,
    })
}

/// The inspector behind an address: on another machine, or forwarded from there.
pub(super) fn open_url(
    url: &InspectorUrl,
    options: &InspectorOptions,
) -> Result<Opened, CaptureError> {
    let wait = Wait {
        timeout: REMOTE_TIMEOUT,
        cancel: options.cancel(),
    };
    let unreachable = |source| {
        let doing = format!("connecting to the inspector at {}:{}", url.host, url.port);
        CaptureError::call(doing, source)
    };
    let addresses = (url.host.as_str(), url.port)
        .to_socket_addrs()
        .map_err(unreachable)?;
    let mut failure = std::io::Error::other("the name leads nowhere");
    for listener in addresses {
        let mut opened = Opened {
            reach: Reach::Url {
                path: url.path.clone(),
            },
            listener,
            is_ours: false,
            version: String::new(),
            companion: None,
        };
        match connect(&opened) {
            Ok(stream) => {
                opened.version = version(&stream, &listener.to_string(), &wait)
                    .map_err(|source| opened.failure(source))?;
                return Ok(opened);
            }
            Err(InspectorError::Broken(error)) => failure = error,
            Err(error) => return Err(opened.failure(error)),
        }
    }
    Err(unreachable(failure))
}

/// Sent to the target: its inspector moves to a free port when we have disconnected.
const MOVE_LATER: &str = "(function(i){setTimeout(function(){i.close();i.open(0,'127.0.0.1')},100);return 1})(require('inspector'))";

/// Moves an inspector that we opened to a port of its own, so that the next process can have the
/// usual one. What can't be moved is closed.
pub(super) fn move_away(
    target: &Target,
    mut opened: Opened,
    options: &InspectorOptions,
) -> Result<Opened, CaptureError> {
    let pid = target.pid();
    let before = Before::of(pid);
    let moved = ask_to_move(&opened, options)
        .and_then(|()| wait_for_listener(target, &before, options, None));
    match moved {
        Ok(listener) => Ok(Opened { listener, ..opened }),
        Err(error) => {
            super::close::close_opened(&mut opened);
            Err(error)
        }
    }
}

fn ask_to_move(opened: &Opened, options: &InspectorOptions) -> Result<(), CaptureError> {
    let mut session = attach(opened, &options.cancel())?;
    let evaluate = json!({
        "expression": MOVE_LATER,
        "includeCommandLineAPI": true,
        "returnByValue": true,
    });
    let asked = session.call(
        &Recipient::Main,
        "Runtime.evaluate",
        &evaluate,
        options.timeout,
    );
    session.close(Duration::from_millis(50));
    asked.map_err(|source| opened.failure(source)).map(drop)
}

/// Attaches to an inspector that listens.
pub(super) fn attach(opened: &Opened, cancel: &Cancel) -> Result<Session, CaptureError> {
    try_attach(opened, cancel).map_err(|source| opened.failure(source))
}

fn try_attach(opened: &Opened, cancel: &Cancel) -> Result<Session, InspectorError> {
    let timeout = match opened.reach {
        Reach::Process(_) => CONNECT_TIMEOUT,
        Reach::Url { .. } => REMOTE_TIMEOUT,
    };
    let cancel = cancel.clone();
    let wait = Wait { timeout, cancel };
    let stream = connect(opened)?;
    let host = stream
        .peer_addr()
        .map_err(InspectorError::Broken)?
        .to_string();
    if let Reach::Url { path: Some(path) } = &opened.reach {
        return Session::open(stream, &host, path, &wait);
    }
    let pages = list(&stream, &host, &wait)?;
    let page = pages.iter().find(|page| page.kind == "node");
    let path = page
        .and_then(|page| page.path())
        .ok_or_else(|| InspectorError::Refused {
            what: "it lists nothing to attach to (another client is attached)".to_owned(),
        })?;
    Session::open(connect(opened)?, &host, path, &wait)
}

/// The version of Node behind a listener, if Node's inspector is behind it.
pub(super) fn probe(pid: u32, listener: SocketAddr) -> Result<String, InspectorError> {
    let stream = connect_to(pid, listener)?;
    let host = stream.peer_addr().map_err(InspectorError::Broken)?;
    version(&stream, &host.to_string(), &Wait::at_most(CONNECT_TIMEOUT))
}

fn connect(opened: &Opened) -> Result<TcpStream, InspectorError> {
    match opened.pid() {
        Some(pid) => connect_to(pid, opened.listener),
        None => TcpStream::connect_timeout(&opened.listener, REMOTE_TIMEOUT)
            .map_err(InspectorError::Broken),
    }
}

/// Connects to a listener of process `pid`, and to no other process's.
fn connect_to(pid: u32, listener: SocketAddr) -> Result<TcpStream, InspectorError> {
    let mut failure = InspectorError::Refused {
        what: format!("another process listens at {listener} too"),
    };
    for address in ports::routes(pid, listener) {
        match connect_in_namespace(pid, address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = InspectorError::Broken(error),
        }
    }
    Err(failure)
}

fn refuse_deadly_signal(pid: u32) -> Result<(), CaptureError> {
    let sentence = match signal_state(pid).ok_or(CaptureError::Gone { pid })? {
        SignalState::Caught => return Ok(()),
        SignalState::Deadly => format!(
            "process {pid} does not catch SIGUSR1, which would end it (the application removed a \
             handler of its own, or Node is still starting), so its inspector is not opened; \
             record with perf events instead: nodespy record --engine perf -p {pid}"
        ),
        SignalState::Blocked => format!(
            "process {pid} was started with --disable-sigusr1, so its inspector can't be opened; \
             record with perf events instead: nodespy record --engine perf -p {pid}"
        ),
        SignalState::Ignored => format!(
            "process {pid} ignores SIGUSR1, so its inspector can't be opened; record with perf \
             events instead: nodespy record --engine perf -p {pid}"
        ),
    };
    Err(CaptureError::refused(sentence))
}

fn exposed(pid: u32, place: &str) -> CaptureError {
    CaptureError::refused(format!(
        "process {pid} would open its inspector at {}, where other machines can reach it and run \
         code in it (by its --inspect-port), so it is not opened; to do it all the same add \
         --force",
        printable(place)
    ))
}

/// Node reports a taken port on its own standard error only; we report it before, and by whom.
fn refuse_taken_port(pid: u32, request: &PortRequest) -> Result<(), CaptureError> {
    let port = request.port;
    let holder = match ports::holder_of(pid, port) {
        Holder::None => return Ok(()),
        Holder::Process(holder) if holder == pid => return Ok(()),
        Holder::Process(holder) => format!(
            "process {holder} ({})",
            printable(&proc::command_line(holder).join(" "))
                .chars()
                .take(80)
                .collect::<String>()
        ),
        Holder::Unknown => "a process of another user".to_owned(),
    };
    Err(CaptureError::refused(format!(
        "process {pid} opens its inspector at port {port}, which is held by {holder}: record one \
         after the other, or with perf events: nodespy record --engine perf -p {pid}"
    )))
}

fn wait_for_listener(
    target: &Target,
    before: &Before,
    options: &InspectorOptions,
    companion: Option<&Companion>,
) -> Result<SocketAddr, CaptureError> {
    let cancel = options.cancel();
    let pid = target.pid();
    let started = Instant::now();
    let mut main = MainThread::watch(pid);
    let mut probes = Probes::new(&before.listeners);
    let mut blocked_until = started;
    let mut event_loop = EventLoop::default();
    let mut is_reported = false;
    loop {
        if target.has_ended() {
            return Err(CaptureError::Gone { pid });
        }
        let is_inspector = |listener| probe(pid, listener).is_ok().then_some(listener);
        if let Some(listener) = probes.find(&ports::listeners(pid), is_inspector) {
            return Ok(listener);
        }
        let waited = started.elapsed();
        if waited < SETTLE {
            main = MainThread::watch(pid);
        }
        let is_blocked = main.is_blocked();
        if is_blocked {
            blocked_until = Instant::now();
        }
        let may_be_blocked = is_blocked || main.may_wait_for_child();
        if may_be_blocked && waited > REPORT_AFTER && !is_reported {
            is_reported = true;
            (options.report)(&format!(
                "The main thread of process {pid} is {}: its inspector opens when that ends.",
                what_blocks(pid)
            ));
        }
        let has_run = proc::thread_cpu_time(pid, pid) != before.main;
        let is_waiting = has_run && main.waits_for_events() && !stands_still(pid);
        let state = MainState {
            is_blocked,
            is_busy: !is_waiting,
            waited,
            free: blocked_until.elapsed(),
            turning: event_loop.see(is_waiting, Instant::now()),
        };
        let companion = companion.map(Companion::pid);
        if cancel.is_cancelled() {
            return Err(CaptureError::refused(format!(
                "interrupted before process {pid} opened its inspector. {}",
                what_if_later(companion)
            )));
        }
        if state.gives_up(options) {
            let sentence = why_not(pid, &state, companion);
            return Err(match state.is_blocked || state.is_busy {
                true => CaptureError::Unanswered { sentence },
                false => CaptureError::refused(sentence),
            });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// An inspector's error, as a failure of the capture.
fn inspector_failure(pid: u32, source: InspectorError) -> CaptureError {
    match source {
        source if source.is_gone() && proc::read_status(pid).is_none() => {
            CaptureError::Gone { pid }
        }
        source => CaptureError::Inspector { pid, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_node_is_never_signalled() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let target = Target::hold(child.id()).unwrap();
        let refused = check_and_signal(&target, None).unwrap_err().to_string();
        let is_alive = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(refused.contains("is not Node.js"), "{refused}");
        assert!(is_alive);
    }
}
