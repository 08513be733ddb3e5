//! Opening the inspector of a process that did not ask for one, without ever harming it.
//!
//! SIGUSR1 opens it, and kills a process that does not catch the signal: what the kernel says of
//! the process's signals is read first, every time. Which port it opened is found by the process's
//! own sockets.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use nodespy_inspector::{InspectorError, InspectorUrl, Place, Session, list, version};
use nodespy_model::printable;
use serde_json::json;

use super::InspectorOptions;
use super::native_block::{MainThread, what_blocks};
use super::ports::{self, Holder};
use super::wanted::Wanted;
use crate::error::CaptureError;
use crate::sys::namespaces::connect_in_namespace;
use crate::target::{Target, proc};

/// The bit of SIGUSR1 in the masks of `/proc/PID/status`.
const SIGUSR1_BIT: u64 = 1 << (libc::SIGUSR1 - 1);
/// How long a connection on the same machine may take.
const CONNECT: Duration = Duration::from_secs(2);
/// The same to another machine.
const CONNECT_FAR: Duration = Duration::from_secs(10);
/// How often we look whether the process listens.
const LOOK: Duration = Duration::from_millis(5);
/// A main thread that ran, sleeps again and still does not listen has a handler of its own. Node
/// listens after 24 to 190 ms on a loaded machine.
const OWN_HANDLER: Duration = Duration::from_secs(3);
/// The kernel may deliver the signal to the main thread itself, which runs a little for that even
/// where it is blocked: only what it does after that counts.
const SETTLE: Duration = Duration::from_millis(200);
/// When the user is told that we wait for a main thread in native code.
const TELL: Duration = Duration::from_secs(1);
/// How long we wait for it: the signal has been sent, so somebody must be there to close what it
/// opens.
const LONGEST_BLOCK: Duration = Duration::from_secs(600);

/// How an inspector is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reach {
    /// As the process itself would.
    Process(u32),
    /// As the address says, which tells nothing of the process behind it.
    Url { path: Option<String> },
}

/// An inspector that listens.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    pub(super) reach: Reach,
    pub(super) listener: SocketAddr,
    /// Whether it listens because of us, and must be closed by us.
    pub(super) is_ours: bool,
    pub(super) version: String,
}

impl Opened {
    /// The process on this machine behind it.
    pub(super) fn pid(&self) -> Option<u32> {
        match self.reach {
            Reach::Process(pid) => Some(pid),
            Reach::Url { .. } => None,
        }
    }

    /// What an inspector said, as a failure of the capture.
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
    let before = ports::listeners(pid);
    if let Some(opened) = before
        .iter()
        .find_map(|&listener| found_open(pid, listener))
    {
        return Ok(opened);
    }
    refuse_deadly_signal(pid)?;
    let wanted = Wanted::by_flags(pid);
    if wanted.is_exposed() && !options.force {
        return Err(exposed(pid, wanted.host.as_deref().unwrap_or_default()));
    }
    refuse_taken_port(pid, &wanted)?;
    target.send_signal(libc::SIGUSR1)?;
    let listener = wait_for_listener(target, &before, options)?;
    let opened = Opened {
        reach: Reach::Process(pid),
        version: probe(pid, listener).map_err(|source| inspector_failure(pid, source))?,
        listener,
        is_ours: true,
    };
    if !listener.ip().is_loopback() && !options.force {
        // It listens now because of us, for everybody: it must not stay so.
        super::close::close_opened(&opened);
        return Err(exposed(pid, &listener.to_string()));
    }
    if options.is_interrupted() {
        super::close::close_opened(&opened);
        return Err(CaptureError::refused(
            "stopped before the recording could start".to_owned(),
        ));
    }
    Ok(opened)
}

/// The inspector behind a listener, if there is one.
pub(super) fn found_open(pid: u32, listener: SocketAddr) -> Option<Opened> {
    let version = probe(pid, listener).ok()?;
    Some(Opened {
        reach: Reach::Process(pid),
        listener,
        is_ours: false,
        version,
    })
}

/// The inspector behind an address: on another machine, or forwarded from there.
pub(super) fn open_url(url: &InspectorUrl) -> Result<Opened, CaptureError> {
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
        };
        match connect(&opened) {
            Ok(stream) => {
                opened.version = version(&stream, &listener.to_string(), CONNECT_FAR)
                    .map_err(|source| opened.failure(source))?;
                return Ok(opened);
            }
            Err(InspectorError::Broken(error)) => failure = error,
            Err(error) => return Err(opened.failure(error)),
        }
    }
    Err(unreachable(failure))
}

/// Sent to the target: its inspector moves to a free port when we have hung up.
const MOVE_LATER: &str = "(function(i){setTimeout(function(){i.close();i.open(0,'127.0.0.1')},100);return 1})(require('inspector'))";

/// Moves an inspector that we opened to a port of its own, so that the next process can have the
/// usual one. What can't be moved is closed.
pub(super) fn move_away(
    target: &Target,
    opened: Opened,
    options: &InspectorOptions,
) -> Result<Opened, CaptureError> {
    let pid = target.pid();
    let before = ports::listeners(pid);
    let moved = ask_to_move(&opened, options.patience)
        .and_then(|()| wait_for_listener(target, &before, options));
    match moved {
        Ok(listener) => Ok(Opened { listener, ..opened }),
        Err(error) => {
            super::close::close_opened(&opened);
            Err(error)
        }
    }
}

fn ask_to_move(opened: &Opened, patience: Duration) -> Result<(), CaptureError> {
    let mut session = attach(opened)?;
    let evaluate = json!({
        "expression": MOVE_LATER,
        "includeCommandLineAPI": true,
        "returnByValue": true,
    });
    let asked = session.call(&Place::Main, "Runtime.evaluate", &evaluate, patience);
    session.close(Duration::from_millis(50));
    asked.map_err(|source| opened.failure(source)).map(drop)
}

/// Attaches to an inspector that listens.
pub(super) fn attach(opened: &Opened) -> Result<Session, CaptureError> {
    try_attach(opened).map_err(|source| opened.failure(source))
}

fn try_attach(opened: &Opened) -> Result<Session, InspectorError> {
    let host = ports::reachable(opened.listener).to_string();
    let stream = connect(opened)?;
    if let Reach::Url { path: Some(path) } = &opened.reach {
        return Session::open(stream, &host, path, CONNECT_FAR);
    }
    let pages = list(&stream, &host, CONNECT)?;
    let page = pages.iter().find(|page| page.kind == "node");
    let path = page
        .and_then(|page| page.path())
        .ok_or_else(|| InspectorError::Refused {
            what: "it lists nothing to attach to (somebody else is attached)".to_owned(),
        })?;
    Session::open(connect(opened)?, &host, path, CONNECT)
}

/// The version of Node behind a listener, if Node's inspector is behind it.
pub(super) fn probe(pid: u32, listener: SocketAddr) -> Result<String, InspectorError> {
    let stream = connect_in_namespace(pid, ports::reachable(listener), CONNECT)
        .map_err(InspectorError::Broken)?;
    version(&stream, &ports::reachable(listener).to_string(), CONNECT)
}

fn connect(opened: &Opened) -> Result<TcpStream, InspectorError> {
    let address = ports::reachable(opened.listener);
    match opened.pid() {
        Some(pid) => connect_in_namespace(pid, address, CONNECT),
        None => TcpStream::connect_timeout(&address, CONNECT_FAR),
    }
    .map_err(InspectorError::Broken)
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
         code in it (--inspect-port says so), so it is not opened; to do it all the same add \
         --force",
        printable(place)
    ))
}

/// Node says on its own standard error only that the port is taken; we say it before, and by whom.
fn refuse_taken_port(pid: u32, wanted: &Wanted) -> Result<(), CaptureError> {
    let port = wanted.port;
    let holder = match ports::holder_of(pid, port) {
        Holder::Nobody => return Ok(()),
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
    before: &[SocketAddr],
    options: &InspectorOptions,
) -> Result<SocketAddr, CaptureError> {
    let pid = target.pid();
    let started = Instant::now();
    let mut main = MainThread::watch(pid);
    let mut free_since = started;
    let mut is_told = false;
    loop {
        if target.has_ended() {
            return Err(CaptureError::Gone { pid });
        }
        let new = ports::listeners(pid)
            .into_iter()
            .find(|listener| !before.contains(listener) && probe(pid, *listener).is_ok());
        if let Some(listener) = new {
            return Ok(listener);
        }
        let waited = started.elapsed();
        if waited < SETTLE {
            main = MainThread::watch(pid);
        }
        let is_blocked = main.is_blocked();
        let may_be_blocked = is_blocked || main.may_wait_for_child();
        if may_be_blocked {
            free_since = Instant::now();
        }
        if may_be_blocked && waited > TELL && !is_told {
            is_told = true;
            (options.tell)(&format!(
                "The main thread of process {pid} is {}: its inspector opens when that ends.",
                what_blocks(pid)
            ));
        }
        let gives_up = match is_blocked {
            true => waited > LONGEST_BLOCK || options.is_impatient(),
            false if main.is_busy() || may_be_blocked => waited > options.patience,
            // One that was blocked gets its time from then on.
            false => free_since.elapsed() > OWN_HANDLER.min(options.patience),
        };
        if gives_up {
            return Err(CaptureError::refused(why_not(pid, waited, is_blocked)));
        }
        std::thread::sleep(LOOK);
    }
}

/// Why a process did not open its inspector: only its own standard error says it for sure.
fn why_not(pid: u32, waited: Duration, is_blocked: bool) -> String {
    let seconds = waited.as_secs_f64();
    if is_blocked {
        return format!(
            "process {pid} did not open its inspector within {seconds:.1} s: its main thread is \
             {}. It will open when that ends, and then stays open",
            what_blocks(pid)
        );
    }
    format!(
        "process {pid} did not open its inspector within {seconds:.1} s although its main thread \
         runs: it has a handler of its own for SIGUSR1, or never leaves native code; record with \
         perf events instead: nodespy record --engine perf -p {pid}"
    )
}

/// What an inspector said, as a failure of the capture.
fn inspector_failure(pid: u32, source: InspectorError) -> CaptureError {
    match source {
        source if source.is_gone() && proc::read_status(pid).is_none() => {
            CaptureError::Gone { pid }
        }
        source => CaptureError::Inspector { pid, source },
    }
}
