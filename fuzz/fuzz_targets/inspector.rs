//! The inspector client, with a server that answers anything: HTTP first, then a websocket whose
//! handshake is right and whose messages are the input.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nodespy_inspector::{Limits, Recipient, Session, Wait, list, version};
use serde_json::json;
use tungstenite::Message;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::{Role, WebSocket};

const TIMEOUT: Duration = Duration::from_secs(5);
/// What fits into the buffer of a socket that nobody reads yet.
const MAX_BYTES: usize = 64 << 10;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((mode, bytes)) = bytes.split_first() else {
        return;
    };
    let bytes = &bytes[..bytes.len().min(MAX_BYTES)];
    let wait = Wait::at_most(TIMEOUT);
    match mode % 4 {
        0 => answering(bytes, |client| drop(version(client, "127.0.0.1", &wait))),
        1 => answering(bytes, |client| drop(list(client, "127.0.0.1", &wait))),
        2 => talk(bytes.to_vec(), true),
        _ => talk(bytes.to_vec(), false),
    }
});

/// A connection without ports, which a fast run would use up.
fn pair() -> (TcpStream, UnixStream) {
    let (client, server) = UnixStream::pair().expect("a pair of sockets");
    (TcpStream::from(OwnedFd::from(client)), server)
}

/// Asks a server that has answered already.
fn answering(bytes: &[u8], ask: impl FnOnce(&TcpStream)) {
    let (client, mut server) = pair();
    let _ = server.write_all(bytes);
    let _ = server.shutdown(Shutdown::Write);
    // The request must find a reader until the client is done.
    let reader = std::thread::spawn(move || server.read_to_end(&mut Vec::new()));
    ask(&client);
    drop(client);
    let _ = reader.join();
}

/// A session in which the server sends `bytes`: a message per line, or frames as they are.
fn talk(bytes: Vec<u8>, is_lines: bool) {
    let (client, server) = pair();
    let server = std::thread::spawn(move || serve(server, &bytes, is_lines));
    let limits = Limits {
        message_bytes: 1 << 16,
        queued_bytes: 1 << 18,
    };
    let wait = Wait::at_most(TIMEOUT);
    if let Ok(mut session) = Session::open_with(client, "127.0.0.1", "/id", &wait, limits) {
        let workers = Recipient::Worker("1".to_owned());
        for recipient in [&Recipient::Main, &workers, &Recipient::Main] {
            let _ = session.send(recipient, "Profiler.stop", &json!({}));
        }
        while session.poll().is_ok() && !session.is_closed() {
            for id in 1..5 {
                let _ = session.try_reply(&Recipient::Main, id, "Profiler.stop");
            }
            session.new_workers();
            session.new_scripts(&workers);
            assert!(session.queued_bytes() <= 1 << 18);
        }
        session.close(Duration::from_millis(1));
    }
    let _ = server.join();
}

fn serve(mut stream: UnixStream, bytes: &[u8], is_lines: bool) {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut chunk) {
            Ok(length @ 1..) => head.extend_from_slice(&chunk[..length]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head);
    let key = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("sec-websocket-key")
            .then(|| value.trim())
    });
    let accept = derive_accept_key(key.unwrap_or_default().as_bytes());
    let _ = write!(
        stream,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    if is_lines {
        let mut socket = WebSocket::from_raw_socket(&stream, Role::Server, None);
        for line in bytes.split(|byte| *byte == b'\n') {
            let text = String::from_utf8_lossy(line).into_owned();
            if socket.send(Message::text(text)).is_err() {
                break;
            }
        }
    } else {
        let _ = stream.write_all(bytes);
    }
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
}
