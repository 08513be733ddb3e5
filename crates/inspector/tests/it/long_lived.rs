//! What a session holds after hours.

use std::time::Duration;

use nodespy_inspector::{Recipient, Session};
use serde_json::{Value, json};

use crate::fake_server::{Fake, Socket};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Answers a command as Node does: the carrier of a worker's command first, then the worker.
fn answer(socket: &mut Socket, command: &Value) {
    socket.send(&json!({ "id": command["id"], "result": {} }));
    if let Some(text) = command["params"]["message"].as_str() {
        let inner: Value = serde_json::from_str(text).unwrap();
        let reply = json!({ "id": inner["id"], "result": { "profile": 1 } }).to_string();
        let params = json!({ "sessionId": command["params"]["sessionId"], "message": reply });
        let method = "NodeWorker.receivedMessageFromWorker";
        socket.send(&json!({ "method": method, "params": params }));
    }
}

fn attach_worker(socket: &mut Socket, session: &str) {
    let params = json!({
        "sessionId": session,
        "workerInfo": { "workerId": session, "type": "worker", "title": "Worker 1", "url": "w.js" },
        "waitingForDebugger": false,
    });
    socket.send(&json!({ "method": "NodeWorker.attachedToWorker", "params": params }));
}

fn detach_worker(socket: &mut Socket, session: &str) {
    let params = json!({ "sessionId": session });
    socket.send(&json!({ "method": "NodeWorker.detachedFromWorker", "params": params }));
}

#[track_caller]
fn poll_until(session: &mut Session, mut happened: impl FnMut(&mut Session) -> bool) {
    let deadline = std::time::Instant::now() + TIMEOUT;
    while !happened(session) {
        assert!(std::time::Instant::now() < deadline, "it never happened");
        session.poll().unwrap();
    }
}

#[test]
fn the_twenty_thousandth_command_to_a_worker_is_answered() {
    let fake = Fake::websocket(|mut socket| {
        attach_worker(&mut socket, "1");
        while let Some(command) = socket.command() {
            answer(&mut socket, &command);
        }
    });
    let mut session = fake.open();
    poll_until(&mut session, |session| !session.new_workers().is_empty());
    let worker = Recipient::Worker("1".to_owned());
    for round in 0..20_000 {
        let called = session.call(&worker, "Profiler.stop", &json!({}), TIMEOUT);
        assert!(called.is_ok(), "round {round}: {called:?}");
    }
    assert_eq!((session.pending_commands(), session.queued_bytes()), (0, 0));
}

#[test]
fn replies_to_no_command_are_dropped_and_counted() {
    let fake = Fake::websocket(|mut socket| {
        for id in 1000..21_000 {
            socket.send(&json!({ "id": id, "result": { "text": "x".repeat(100) } }));
        }
        while let Some(command) = socket.command() {
            answer(&mut socket, &command);
            answer(&mut socket, &command);
        }
    });
    let mut session = fake.open();
    let called = session.call(&Recipient::Main, "Profiler.enable", &json!({}), TIMEOUT);
    assert_eq!(called.unwrap(), "{}");
    assert_eq!((session.pending_commands(), session.queued_bytes()), (0, 0));
    poll_until(&mut session, |session| session.dropped_replies() == 20_001);
}

#[test]
fn a_command_that_times_out_is_not_awaited_any_more() {
    let fake = Fake::websocket(|mut socket| {
        let first = socket.command().unwrap();
        let second = socket.command().unwrap();
        answer(&mut socket, &first);
        answer(&mut socket, &second);
        while socket.command().is_some() {}
    });
    let mut session = fake.open();
    let short = Duration::from_millis(50);
    let late = session.call(&Recipient::Main, "Profiler.stop", &json!({}), short);
    assert_eq!(
        late.unwrap_err().to_string(),
        "Profiler.stop was not answered within 0.05 s"
    );
    assert_eq!(session.pending_commands(), 0);
    let called = session.call(&Recipient::Main, "Profiler.enable", &json!({}), TIMEOUT);
    assert!(called.is_ok(), "{called:?}");
    assert_eq!(session.dropped_replies(), 1);
}

#[test]
fn ten_thousand_ended_workers_leave_nothing_behind() {
    let fake = Fake::websocket(|mut socket| {
        for number in 0..10_000 {
            let id = number.to_string();
            attach_worker(&mut socket, &id);
            detach_worker(&mut socket, &id);
        }
        attach_worker(&mut socket, "last");
        while let Some(command) = socket.command() {
            answer(&mut socket, &command);
        }
    });
    let mut session = fake.open();
    let mut seen = 0;
    let mut is_last_seen = false;
    poll_until(&mut session, |session| {
        for worker in session.new_workers() {
            seen += 1;
            is_last_seen |= worker.session == "last";
        }
        is_last_seen
    });
    assert_eq!(seen, 10_001);
    assert!(session.has_ended(&Recipient::Worker("9999".to_owned())));
    let last = Recipient::Worker("last".to_owned());
    assert!(!session.has_ended(&last));
    assert_eq!(session.queued_bytes(), 0);
    let called = session.call(&last, "Profiler.stop", &json!({}), TIMEOUT);
    assert!(called.is_ok(), "{called:?}");
}

#[test]
fn a_command_to_a_worker_that_ends_fails_at_once() {
    let fake = Fake::websocket(|mut socket| {
        attach_worker(&mut socket, "1");
        socket.command();
        detach_worker(&mut socket, "1");
        while socket.command().is_some() {}
    });
    let mut session = fake.open();
    poll_until(&mut session, |session| !session.new_workers().is_empty());
    let worker = Recipient::Worker("1".to_owned());
    let called = session.call(&worker, "Profiler.stop", &json!({}), TIMEOUT);
    assert!(called.unwrap_err().is_gone());
    assert_eq!(session.pending_commands(), 0);
}
