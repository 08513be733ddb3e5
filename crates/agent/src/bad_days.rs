//! What becomes of windows on bad days: receivers over real HTTP that are out of order, and a disk that is full.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nodespy_http::{Client, ClientOptions};
use nodespy_model::{Labels, WeightUnit};
use nodespy_store::{Batch, Series, Window, batch_from_bytes, batch_to_bytes};

use crate::counters::Counters;
use crate::destination::Destination;
use crate::log_line::{Log, LogLine};
use crate::spool::Spool;
use crate::writer::Writers;

const LONG: Duration = Duration::from_secs(60);
const CHILD: &str = "NODESPY_AGENT_FULL_DISK";

/// A batch with one window.
fn batch(start: u64) -> Batch {
    Batch {
        series: vec![Series {
            service: "shop".to_owned(),
            event: "cpu".to_owned(),
            unit: WeightUnit::Samples,
            period: 1,
            labels: Labels::default(),
        }],
        windows: vec![Window {
            series: 0,
            start,
            counts: Vec::new(),
        }],
        ..Batch::default()
    }
}

/// A server that answers with these heads, the last one for good; when it was asked, and the bodies.
fn server(answers: &'static [&'static str]) -> (String, Receiver<(Instant, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for (number, connection) in listener.incoming().enumerate() {
            let mut connection = connection.unwrap();
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            let mut length = 0;
            for line in reader.by_ref().lines().map_while(Result::ok) {
                if line.is_empty() {
                    break;
                }
                let header = line.to_ascii_lowercase();
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let head = answers[number.min(answers.len() - 1)];
            // None: the connection breaks.
            if !head.is_empty() {
                let answer = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n");
                connection.write_all(answer.as_bytes()).unwrap();
            }
            let _ = sender.send((Instant::now(), body));
        }
    });
    (url, received)
}

fn client(url: &str) -> Client {
    Client::new(url, &ClientOptions::default()).unwrap()
}

/// Writers to one destination, what they count, and what they log.
fn writers(destination: Destination) -> (Writers, Arc<Counters>, Arc<Mutex<Vec<String>>>) {
    let counters = Arc::new(Counters::default());
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lines);
    let log: Log = Arc::new(move |line: &LogLine| seen.lock().unwrap().push(line.to_string()));
    let destinations = vec![(destination, Arc::clone(&counters))];
    let writers = Writers::start(destinations, &log, || {});
    (writers, counters, lines)
}

#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < LONG, "waited for {what} in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn receivers_that_are_busy_or_broken_get_everything_in_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let (url, received) = server(&[
        "429 Too Many Requests\r\nRetry-After: 3",
        "500 Internal Server Error",
        "",
        "200 OK",
        "422 Unprocessable Content",
        "200 OK",
    ]);
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    let (writers, counters, lines) = writers(Destination::server(client(&url), spool));
    (0..4).for_each(|number| writers.write(batch(number * 10)));
    let next = || {
        let (at, body) = received.recv_timeout(LONG).unwrap();
        (at, batch_from_bytes(&body).unwrap().windows[0].start)
    };
    let (asked, first) = next();
    let (again, second) = next();
    // It is left alone for as long as it says.
    assert!(again - asked >= Duration::from_millis(2900));
    let starts: Vec<u64> = (0..5).map(|_| next().1).collect();
    assert_eq!((first, second), (0, 0));
    assert_eq!(starts, [0, 0, 10, 20, 30]);
    wait_for("what was counted", || {
        let written = counters.written();
        (written.windows, written.dropped, written.retries) == (3, 1, 3)
    });
    writers.finish();
    let lines = lines.lock().unwrap().join("\n");
    assert!(lines.contains("429"), "{lines}");
    assert!(lines.contains("windows refused"), "{lines}");
}

#[test]
fn otlp_receivers_get_what_waited_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    // An earlier agent has left it: there is no process to sample now.
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    spool.push(&batch_to_bytes(&batch(70)), 1).unwrap();
    drop(spool);
    let (url, received) = server(&["503 Service Unavailable", "200 OK"]);
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    let (writers, counters, _) = writers(Destination::otlp(client(&url), spool));
    let first = received.recv_timeout(LONG).unwrap().1;
    let second = received.recv_timeout(LONG).unwrap().1;
    assert_eq!(first, second);
    let decoded = nodespy_otlp::decode(&second, Some("gzip")).unwrap().batch;
    assert_eq!(
        decoded.windows.len(),
        0,
        "a window without counts is no sample"
    );
    wait_for("what was counted", || counters.written().windows == 1);
    writers.finish();
}

/// A disk of 256 KiB that is full for a while: the window waits in memory and is sent once there is room.
#[test]
fn a_full_disk_loses_nothing_while_it_is_short() {
    if let Ok(folder) = std::env::var(CHILD) {
        return write_to_full_disk(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let test = std::env::current_exe().unwrap();
    // A file system of its own, which only the child sees.
    let script = format!(
        "mount -t tmpfs -o size=256k tmpfs '{path}' || exit 77; \
         exec '{}' bad_days::a_full_disk_loses_nothing_while_it_is_short --exact --nocapture",
        test.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", &script]);
    let Ok(output) = command.env(CHILD, path).output() else {
        return eprintln!("skipped: there is no unshare");
    };
    let text = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {}
        _ if !text.contains("panicked") => eprintln!("skipped: no file system of our own: {text}"),
        code => panic!("{code:?}: {text}"),
    }
}

fn write_to_full_disk(folder: &Path) {
    let (url, received) = server(&["200 OK"]);
    let spool = Spool::open(folder, 1 << 20).unwrap();
    let (writers, counters, lines) = writers(Destination::server(client(&url), spool));
    let filler = folder.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[7; 4096]).is_ok() {}
    drop(file);
    writers.write(batch(10));
    wait_for("a write that fails", || counters.written().retries > 0);
    writers.write(batch(20));
    std::fs::remove_file(&filler).unwrap();
    for start in [10, 20] {
        let (_, body) = received.recv_timeout(LONG).unwrap();
        assert_eq!(batch_from_bytes(&body).unwrap().windows[0].start, start);
    }
    wait_for("what was counted", || counters.written().windows == 2);
    writers.finish();
    assert_eq!(counters.written().dropped, 0);
    let lines = lines.lock().unwrap().join("\n");
    assert!(
        lines.contains("windows not written, trying again"),
        "{lines}"
    );
    let left = std::fs::read_dir(folder).unwrap().count();
    assert_eq!(left, 1, "nothing but the lock is left");
}
