//! Servers that trickle, flood or never answer.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nodespy_inspector::{Cancel, InspectorError, Limits, Recipient, Session, Wait, list, version};
use serde_json::json;

use crate::fake_server::Fake;

const SHORT: Duration = Duration::from_millis(300);
/// Far more than `SHORT`, on a machine that is busy with something else.
const SOON: Duration = Duration::from_secs(5);

/// Sends a few bytes at a time, for ever.
fn trickle(head: &'static str) -> Fake {
    Fake::raw(move |mut stream| {
        let mut request = [0; 1024];
        let _ = stream.read(&mut request);
        let mut bytes = head.bytes().chain(std::iter::repeat(b'x'));
        while stream.write_all(&[bytes.next().unwrap()]).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    })
}

#[track_caller]
fn expect_timeout<T>(result: Result<T, InspectorError>, since: Instant) {
    let error = result.err().expect("no answer can have come");
    assert!(matches!(error, InspectorError::Timeout { .. }), "{error:?}");
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
}

#[test]
fn an_http_answer_that_trickles_ends_at_the_deadline() {
    for head in [
        "HTTP/1.0 200 OK\r\nContent-Length: 100000\r\n\r\n{",
        "HTTP/1.0 200 OK\r\nA: ",
    ] {
        let wait = Wait::at_most(SHORT);
        let since = Instant::now();
        expect_timeout(version(&trickle(head).stream, "127.0.0.1", &wait), since);
        let since = Instant::now();
        expect_timeout(list(&trickle(head).stream, "127.0.0.1", &wait), since);
    }
}

#[test]
fn a_handshake_that_trickles_ends_at_the_deadline() {
    let fake = trickle("HTTP/1.1 101 Switching Protocols\r\nA: ");
    let since = Instant::now();
    let wait = Wait::at_most(SHORT);
    expect_timeout(Session::open(fake.stream, "127.0.0.1", "/id", &wait), since);
}

#[test]
fn a_signal_ends_the_handshake_and_an_http_request() {
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_cancelled);
    let wait = Wait {
        timeout: Duration::from_secs(60),
        cancel: Cancel::when(move || flag.load(Ordering::Relaxed)),
    };
    let since = Instant::now();
    std::thread::spawn(move || {
        std::thread::sleep(SHORT);
        is_cancelled.store(true, Ordering::Relaxed);
    });
    let silent = || Fake::raw(|stream| while (&stream).read(&mut [0; 64]).is_ok_and(|n| n > 0) {});
    let opened = Session::open(silent().stream, "127.0.0.1", "/id", &wait);
    let asked = version(&silent().stream, "127.0.0.1", &wait);
    for error in [opened.err(), asked.err()] {
        let error = error.unwrap();
        assert!(
            matches!(error, InspectorError::Cancelled { .. }),
            "{error:?}"
        );
    }
    assert!(since.elapsed() < SOON);
}

#[test]
fn a_reply_that_trickles_ends_at_the_deadline_and_by_a_signal() {
    let fake = || {
        Fake::raw(|stream| {
            let mut stream = tungstenite::accept(stream)
                .unwrap()
                .get_ref()
                .try_clone()
                .unwrap();
            // A text frame of 60,000 bytes, one at a time.
            let head = [0x81, 126, 0xea, 0x60];
            for byte in head.into_iter().chain(std::iter::repeat(b'x')) {
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        })
    };
    let mut session = fake().open();
    let since = Instant::now();
    let called = session.call(&Recipient::Main, "Profiler.stop", &json!({}), SHORT);
    expect_timeout(called, since);
    let mut session = fake().open();
    session.set_cancel(Cancel::when(move || since.elapsed() > SHORT));
    let minute = Duration::from_secs(60);
    let called = session.call(&Recipient::Main, "Profiler.stop", &json!({}), minute);
    let error = called.unwrap_err();
    assert!(
        matches!(error, InspectorError::Cancelled { .. }),
        "{error:?}"
    );
    assert!(since.elapsed() < SOON);
}

/// Polls until the session fails, and checks that it stays failed.
#[track_caller]
fn poll_to_the_end(session: &mut Session) -> String {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        if let Err(error) = session.poll() {
            let again = session.poll().unwrap_err();
            assert_eq!(error.to_string(), again.to_string());
            assert_eq!(session.queued_bytes(), 0);
            return error.to_string();
        }
        assert!(Instant::now() < until, "it takes in everything");
    }
}

const LIMITS: Limits = Limits {
    message_bytes: 1 << 20,
    queued_bytes: 2 << 20,
};

#[test]
fn a_message_beyond_the_limit_ends_the_session_and_names_it() {
    let fake = Fake::websocket(|mut socket| {
        socket.send(&json!({ "id": 1, "result": "x".repeat(3 << 20) }));
        while socket.command().is_some() {}
    });
    let mut session = fake.open_with(LIMITS).unwrap();
    let id = session
        .send(&Recipient::Main, "Profiler.stop", &json!({}))
        .unwrap();
    let error = poll_to_the_end(&mut session);
    assert_eq!(
        error,
        "a message the inspector sent exceeds the limit of 1048576 bytes"
    );
    let reply = session.try_reply(&Recipient::Main, id, "Profiler.stop");
    assert_eq!(reply.unwrap().unwrap_err().to_string(), error);
    let sent = session.send(&Recipient::Main, "Profiler.stop", &json!({}));
    assert_eq!(sent.unwrap_err().to_string(), error);
}

#[test]
fn events_that_are_never_taken_end_the_session_at_the_limit() {
    let url = "x".repeat(100_000);
    let events = [
        json!({ "method": "Debugger.scriptParsed",
            "params": { "scriptId": "1", "url": "a.js", "sourceMapURL": url } }),
        json!({ "method": "NodeWorker.attachedToWorker",
            "params": { "sessionId": "1", "workerInfo": { "title": url, "url": "" } } }),
    ];
    for event in events {
        let fake = Fake::websocket(move |mut socket| while socket.send(&event) {});
        let mut session = fake.open_with(LIMITS).unwrap();
        let error = poll_to_the_end(&mut session);
        assert!(error.contains("2097152 bytes"), "{error}");
    }
}

#[test]
fn a_flood_of_replies_to_no_command_holds_no_memory() {
    let reply = json!({ "id": 77, "result": "x".repeat(500_000) });
    let fake = Fake::websocket(move |mut socket| while socket.send(&reply) {});
    let mut session = fake.open_with(LIMITS).unwrap();
    while session.dropped_replies() < 50 {
        session.poll().unwrap();
        assert_eq!(session.queued_bytes(), 0);
    }
}

#[test]
fn a_peer_that_stops_reading_does_not_hang_the_sender() {
    let fake = Fake::websocket(|socket| {
        std::thread::sleep(Duration::from_secs(30));
        drop(socket);
    });
    let mut session = fake.open();
    let since = Instant::now();
    let params = json!({ "expression": "x".repeat(8 << 20) });
    let sent = session.post(&Recipient::Main, "Runtime.evaluate", &params);
    let again = session.post(&Recipient::Main, "Runtime.evaluate", &params);
    assert!(sent.is_err() || again.is_err());
    assert!(since.elapsed() < Duration::from_secs(25));
}
