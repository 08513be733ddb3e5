//! A receiver over real HTTP for tests, and what sends to it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nodespy_http::{Client, ClientOptions};

use crate::counters::Counters;
use crate::destination::Destination;
use crate::log_line::{Log, LogLine};
use crate::writer::Writers;

pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A request.
pub(crate) struct Received {
    pub(crate) at: Instant,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

/// A server that answers with these heads and bodies, the last one for good; without a head the connection breaks.
pub(crate) fn receiver(answers: Vec<(&'static str, Vec<u8>)>) -> (String, Receiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for (number, connection) in listener.incoming().enumerate() {
            let mut connection = connection.unwrap();
            let request = read(&mut BufReader::new(connection.try_clone().unwrap()));
            // Before the answer: what is counted by then can be looked at.
            let _ = sender.send(request);
            let (head, body) = &answers[number.min(answers.len() - 1)];
            if !head.is_empty() {
                let length = body.len();
                let answer = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n");
                connection.write_all(answer.as_bytes()).unwrap();
                connection.write_all(body).unwrap();
            }
        }
    });
    (url, received)
}

fn read(reader: &mut impl BufRead) -> Received {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut content_type, mut length) = (String::new(), 0);
    let lines = reader.by_ref().lines().map_while(Result::ok);
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap();
        match &*name.to_ascii_lowercase() {
            "content-length" => length = value.trim().parse().unwrap(),
            "content-type" => content_type = value.trim().to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Received {
        at: Instant::now(),
        target,
        content_type,
        body,
    }
}

pub(crate) fn client(url: &str) -> Client {
    Client::new(url, &ClientOptions::default()).unwrap()
}

/// Writers to one destination, what they count, and what they log.
pub(crate) fn writers(
    destination: Destination,
) -> (Writers, Arc<Counters>, Arc<Mutex<Vec<String>>>) {
    let counters = Arc::new(Counters::default());
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lines);
    let log: Log = Arc::new(move |line: &LogLine| seen.lock().unwrap().push(line.to_string()));
    let destinations = vec![(destination, Arc::clone(&counters))];
    let writers = Writers::start(destinations, &log, || {});
    (writers, counters, lines)
}

#[track_caller]
pub(crate) fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < LONG, "waited for {what} in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}
