//! Leaving a process as it was found.
//!
//! Closing an inspector blocks the main thread until every client has hung up (seen on Node 10 to
//! 26), other people's debuggers included: so it is closed only when nobody else is attached, by a
//! timer that runs after we have hung up.

use std::time::{Duration, Instant};

use nodespy_inspector::{Place, Session};
use serde_json::json;

use super::open::{self, Opened};
use super::ports;

/// Sent to the target: its own inspector closes a moment later, when we are gone. It needs no
/// `require`, and must not run inside this very message (Node 8 crashes).
const CLOSE_LATER: &str = "setTimeout(function(){process._debugEnd()},100),1";
/// Sent to a target whose event loop is stuck, where no timer fires: closes at once, which is
/// answered by hanging up only. From Node 10 on this is safe.
const CLOSE_NOW: &str = "process._debugEnd()";
/// How long the target may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a connection that was ended may be seen.
const PARTING: Duration = Duration::from_secs(1);
/// How long the listener may linger.
const LINGER: Duration = Duration::from_secs(3);

/// How the process was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// As it was found.
    AsFound,
    /// Its inspector still listens, because somebody else is attached to it.
    OpenForOthers,
    /// Its inspector may still listen.
    Open,
}

/// Ends the conversations and, if the inspector listens because of us, closes it.
pub(super) fn close(opened: &Opened, mut sessions: Vec<Session>) -> Left {
    let Some(mut last) = sessions.pop() else {
        return Left::AsFound;
    };
    for session in sessions {
        session.close(Duration::from_millis(200));
    }
    let pid = match (opened.is_ours, opened.pid()) {
        (true, Some(pid)) => pid,
        _ => {
            last.close(Duration::from_secs(1));
            return Left::AsFound;
        }
    };
    if has_others(pid, opened) {
        last.close(Duration::from_secs(1));
        return Left::OpenForOthers;
    }
    let evaluate = json!({ "expression": CLOSE_LATER, "returnByValue": true });
    let answered = last.call(&Place::Main, "Runtime.evaluate", &evaluate, ANSWER);
    last.close(Duration::from_millis(50));
    if answered.is_err() && !ports::listeners(pid).is_empty() {
        return Left::Open;
    }
    if is_closed_within(pid, opened, LINGER) {
        return Left::AsFound;
    }
    close_stuck(pid, opened)
}

/// Whether somebody else is attached. Connections that have just ended, such as our own others or
/// those of a nodespy that was killed, may be seen a moment longer.
fn has_others(pid: u32, opened: &Opened) -> bool {
    let deadline = Instant::now() + PARTING;
    while ports::connections(pid, opened.listener) > 1 {
        if Instant::now() >= deadline {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Closes the inspector of a process whose event loop does not turn.
fn close_stuck(pid: u32, opened: &Opened) -> Left {
    if ports::connections(pid, opened.listener) > 0 {
        return Left::OpenForOthers;
    }
    if opened.version.starts_with("v8.") {
        return Left::Open;
    }
    if let Ok(mut session) = open::attach(opened) {
        let evaluate = json!({ "expression": CLOSE_NOW });
        let _ = session.send(&Place::Main, "Runtime.evaluate", &evaluate);
        // The process waits for us to answer its farewell, so we stay to do it.
        let deadline = Instant::now() + ANSWER;
        while Instant::now() < deadline && session.look().is_ok() && !session.is_closed() {}
        session.close(Duration::from_millis(50));
    }
    match is_closed_within(pid, opened, LINGER) {
        true => Left::AsFound,
        false => Left::Open,
    }
}

fn is_closed_within(pid: u32, opened: &Opened, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        if !ports::listeners(pid).contains(&opened.listener) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Closes an inspector we opened and have no session with.
pub(super) fn close_opened(opened: &Opened) {
    if let Ok(session) = open::attach(opened) {
        close(opened, vec![session]);
    }
}
