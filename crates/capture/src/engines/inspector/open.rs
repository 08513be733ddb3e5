//! Opening the inspector of a process that did not ask for one, without ever harming it.
//!
//! SIGUSR1 opens it, and kills a process that does not catch the signal: what the kernel says of
//! the process's signals is read first, every time. Which port it opened is found by the process's
//! own sockets.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nodespy_inspector::{InspectorError, Place, Session, list, version};
use serde_json::json;

use super::ports;
use crate::error::CaptureError;
use crate::sys::namespaces::connect_in_namespace;
use crate::target::proc::RunState;
use crate::target::{Target, proc};

/// The bit of SIGUSR1 in the masks of `/proc/PID/status`.
const SIGUSR1_BIT: u64 = 1 << (libc::SIGUSR1 - 1);
/// Where Node listens unless told otherwise.
const USUAL_PORT: u16 = 9229;
/// How long a connection on the same machine may take.
const CONNECT: Duration = Duration::from_secs(2);
/// How often we look whether the process listens.
const LOOK: Duration = Duration::from_millis(5);

/// An inspector that listens.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    pub(super) listener: SocketAddr,
    /// Whether it listens because of us, and must be closed by us.
    pub(super) is_ours: bool,
    pub(super) version: String,
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
pub(super) fn open(
    target: &Target,
    patience: Duration,
    force: bool,
) -> Result<Opened, CaptureError> {
    let pid = target.pid();
    let before = ports::listeners(pid);
    if let Some((listener, version)) = before
        .iter()
        .find_map(|&listener| probe(pid, listener).ok().map(|version| (listener, version)))
    {
        return Ok(Opened {
            listener,
            is_ours: false,
            version,
        });
    }
    refuse_deadly_signal(pid)?;
    target.send_signal(libc::SIGUSR1)?;
    let listener = wait_for_listener(target, &before, patience)?;
    let opened = Opened {
        version: probe(pid, listener).map_err(|source| inspector_failure(pid, source))?,
        listener,
        is_ours: true,
    };
    if !listener.ip().is_loopback() && !force {
        // It listens now because of us, for everybody: it must not stay so.
        super::close::close_opened(pid, &opened);
        return Err(CaptureError::refused(format!(
            "process {pid} opens its inspector at {listener}, where other machines can reach it and \
             run code in it (it was started with --inspect-port={listener}); it was closed again. \
             To do it all the same add --force"
        )));
    }
    Ok(opened)
}

/// Sent to the target: its inspector moves to a free port when we have hung up.
const MOVE_LATER: &str = "(function(i){setTimeout(function(){i.close();i.open(0,'127.0.0.1')},100);return 1})(require('inspector'))";

/// Moves an inspector that we opened to a port of its own, so that the next process can have the
/// usual one.
pub(super) fn move_away(
    target: &Target,
    opened: Opened,
    patience: Duration,
) -> Result<Opened, CaptureError> {
    let pid = target.pid();
    let before = ports::listeners(pid);
    let mut session = attach(pid, &opened)?;
    let evaluate = json!({
        "expression": MOVE_LATER,
        "includeCommandLineAPI": true,
        "returnByValue": true,
    });
    let asked = session.call(&Place::Main, "Runtime.evaluate", &evaluate, patience);
    session.close(Duration::from_millis(50));
    asked.map_err(|source| inspector_failure(pid, source))?;
    let listener = wait_for_listener(target, &before, patience)?;
    Ok(Opened { listener, ..opened })
}

/// Attaches to an inspector that listens.
pub(super) fn attach(pid: u32, opened: &Opened) -> Result<Session, CaptureError> {
    attach_to(pid, opened.listener).map_err(|source| inspector_failure(pid, source))
}

fn attach_to(pid: u32, listener: SocketAddr) -> Result<Session, InspectorError> {
    let stream = connect(pid, listener)?;
    let host = ports::reachable(listener).to_string();
    let pages = list(&stream, &host, CONNECT)?;
    let page = pages.iter().find(|page| page.kind == "node");
    let path = page
        .and_then(|page| page.path())
        .ok_or_else(|| InspectorError::Refused {
            what: "it lists nothing to attach to (somebody else is attached)".to_owned(),
        })?;
    Session::open(connect(pid, listener)?, &host, path, CONNECT)
}

/// The version of Node behind a listener, if Node's inspector is behind it.
pub(super) fn probe(pid: u32, listener: SocketAddr) -> Result<String, InspectorError> {
    let stream = connect(pid, listener)?;
    version(&stream, &ports::reachable(listener).to_string(), CONNECT)
}

fn connect(pid: u32, listener: SocketAddr) -> Result<TcpStream, InspectorError> {
    connect_in_namespace(pid, ports::reachable(listener), CONNECT).map_err(InspectorError::Broken)
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

fn wait_for_listener(
    target: &Target,
    before: &[SocketAddr],
    patience: Duration,
) -> Result<SocketAddr, CaptureError> {
    let pid = target.pid();
    let started = Instant::now();
    while started.elapsed() < patience {
        if target.has_ended() {
            return Err(CaptureError::Gone { pid });
        }
        let new = ports::listeners(pid)
            .into_iter()
            .find(|listener| !before.contains(listener) && probe(pid, *listener).is_ok());
        if let Some(listener) = new {
            return Ok(listener);
        }
        std::thread::sleep(LOOK);
    }
    Err(CaptureError::refused(why_not(pid, patience)))
}

/// Why a process did not open its inspector: only its own standard error says it for sure.
fn why_not(pid: u32, patience: Duration) -> String {
    let seconds = patience.as_secs_f64();
    let holder = ports::holder_of(pid, USUAL_PORT).filter(|holder| *holder != pid);
    let wait = proc::run_state(pid, pid);
    if let Some(holder) = holder {
        return format!(
            "process {pid} did not open its inspector within {seconds} s: port {USUAL_PORT} is \
             held by process {holder}; end that, or record the two one after the other"
        );
    }
    match wait {
        Some(RunState::Running) => format!(
            "process {pid} did not open its inspector within {seconds} s although it runs: it may \
             have a handler of its own for SIGUSR1, or be in native code all the time"
        ),
        _ => format!(
            "process {pid} did not open its inspector within {seconds} s: its main thread is \
             blocked in native code (execSync, a synchronous addon), or the application has a \
             handler of its own for SIGUSR1; nodespy dump -p {pid} shows where it is"
        ),
    }
}

/// What an inspector said, as a failure of the capture.
pub(super) fn inspector_failure(pid: u32, source: InspectorError) -> CaptureError {
    match source {
        source if source.is_gone() && proc::read_status(pid).is_none() => {
            CaptureError::Gone { pid }
        }
        source => CaptureError::Inspector { pid, source },
    }
}
