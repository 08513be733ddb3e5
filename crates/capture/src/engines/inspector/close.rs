//! Leaving a process as it was found.
//!
//! Closing an inspector blocks the main thread until every client has disconnected (seen on Node 10
//! to 26), other debuggers included: so it is closed only when no other client is attached, by a
//! timer that runs after we have disconnected.

use std::io;
use std::time::{Duration, Instant};

use nodespy_inspector::{Cancel, Recipient, Session};
use serde_json::json;

use super::open::{self, Opened};
use crate::target::ports;

/// Sent to the target: its own inspector closes a moment later, when we are gone. It needs no
/// `require`, and must not run inside this very message (Node 8 crashes).
const CLOSE_LATER: &str = "setTimeout(function(){process._debugEnd()},100),1";
/// Sent to a target whose event loop is stuck, where no timer fires: closes at once, which is
/// answered by a close frame only. From Node 10 on this is safe.
const CLOSE_NOW: &str = "process._debugEnd()";
/// How long the target may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection that was ended may be seen.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the listener may linger.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// How the process was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// As it was found.
    AsFound,
    /// Its inspector still listens, because another client is attached to it.
    OpenForOthers,
    /// Its inspector may still listen.
    Open,
}

/// Ends the sessions and, if the inspector listens because of us, closes it. What can't be closed is
/// left to the companion.
pub(super) fn close(opened: &mut Opened, sessions: Vec<Session>) -> Left {
    let left = try_close(opened, sessions);
    if left == Left::AsFound {
        opened.dismiss_companion();
    }
    left
}

fn try_close(opened: &Opened, mut sessions: Vec<Session>) -> Left {
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
    let left = match has_others(pid, opened) {
        Ok(false) => None,
        Ok(true) => Some(Left::OpenForOthers),
        // There may be others.
        Err(_) => Some(Left::Open),
    };
    if let Some(left) = left {
        last.close(Duration::from_secs(1));
        return left;
    }
    last.set_cancel(Cancel::default());
    let evaluate = json!({ "expression": CLOSE_LATER, "returnByValue": true });
    let answered = last.call(
        &Recipient::Main,
        "Runtime.evaluate",
        &evaluate,
        ANSWER_TIMEOUT,
    );
    last.close(Duration::from_millis(50));
    if answered.is_err() && !ports::is_closed(pid, opened.listener) {
        return Left::Open;
    }
    if is_closed_within(pid, opened, CLOSE_TIMEOUT) {
        return Left::AsFound;
    }
    close_stuck(pid, opened)
}

/// Whether another client is attached. Connections that have just ended, such as our own others or
/// those of a nodespy that was killed, may be seen a moment longer.
fn has_others(pid: u32, opened: &Opened) -> io::Result<bool> {
    let deadline = Instant::now() + DISCONNECT_TIMEOUT;
    loop {
        let connections = ports::connections(pid, opened.listener);
        if matches!(connections, Ok(0 | 1)) {
            return Ok(false);
        }
        if Instant::now() >= deadline {
            return connections.map(|_| true);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Closes the inspector of a process whose event loop does not turn.
fn close_stuck(pid: u32, opened: &Opened) -> Left {
    match ports::connections(pid, opened.listener) {
        Ok(0) => {}
        Ok(_) => return Left::OpenForOthers,
        Err(_) => return Left::Open,
    }
    if opened.version.starts_with("v8.") {
        return Left::Open;
    }
    if let Ok(mut session) = open::attach(opened, &Cancel::default()) {
        let evaluate = json!({ "expression": CLOSE_NOW });
        let _ = session.post(&Recipient::Main, "Runtime.evaluate", &evaluate);
        // The process waits for us to answer its close frame.
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        while Instant::now() < deadline && session.poll().is_ok() && !session.is_closed() {}
        session.close(Duration::from_millis(50));
    }
    match is_closed_within(pid, opened, CLOSE_TIMEOUT) {
        true => Left::AsFound,
        false => Left::Open,
    }
}

fn is_closed_within(pid: u32, opened: &Opened, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    while Instant::now() < deadline {
        if ports::is_closed(pid, opened.listener) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Closes an inspector we opened and have no session with.
pub(super) fn close_opened(opened: &mut Opened) {
    if let Ok(session) = open::attach(opened, &Cancel::default()) {
        close(opened, vec![session]);
    }
}
