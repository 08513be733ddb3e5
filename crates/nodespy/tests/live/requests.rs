//! `[requests]` of `nodespy agent`: what a counter of a real server rose by is what was sent to it.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nodespy_store::{
    CPU_EVENT, OpenMode, REQUESTS_EVENT, Selection, SeriesSpan, SqliteStore, Store, WINDOW_SECONDS,
};

use super::agent::{FOREVER, file, start};
use super::live;
use super::workload::{Running, USUAL_NODE, node};
use crate::run::{DEADLINE, Started, nodespy};
use crate::scratch::Scratch;

/// How many whole windows are compared.
const WINDOWS: u64 = 4;
const PAUSE: Duration = Duration::from_millis(15);

/// A server that takes some milliseconds for each request and counts them by method; /metrics is not counted.
fn server(service: &str, port: u16) -> Running {
    let folder = Scratch::new();
    let package = format!("{{\"name\":\"{service}\",\"version\":\"1.0.0\"}}");
    fs::write(folder.path().join("package.json"), package).unwrap();
    let script = format!(
        "const counts = {{ GET: 0, POST: 0 }};\n\
         function page() {{ return ['# HELP http_requests_total Requests.', '# TYPE http_requests_total counter',\n\
           ...Object.keys(counts).map(method => `http_requests_total{{method=\"${{method}}\",path=\"/a}}b\"}} ${{counts[method]}}`),\n\
           'http_requests_created 1700000000', ''].join('\\n'); }}\n\
         function handle() {{ const end = Date.now() + 4; while (Date.now() < end); }}\n\
         require('http').createServer((request, response) => {{\n\
           if (request.url === '/stats') return response.end(page());\n\
           handle(); counts[request.method]++; response.end('ok');\n\
         }}).listen({port}, '127.0.0.1', () => console.log('ready'));\n\
         setTimeout(() => process.exit(), 600000);"
    );
    let path = folder.path().join("app.js");
    fs::write(&path, script).unwrap();
    let mut command = Command::new(node(USUAL_NODE).unwrap());
    command.arg(path);
    Running::in_folder(command, folder)
}

/// Sends a request and waits for its answer.
fn send(port: u16, method: &str) -> std::io::Result<()> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_read_timeout(Some(DEADLINE))?;
    let head = "Host: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    connection.write_all(format!("{method} / HTTP/1.1\r\n{head}").as_bytes())?;
    connection.read_to_end(&mut Vec::new()).map(drop)
}

/// Clients of a server, and when each request was answered, in seconds since 1970.
struct Load {
    answered: Arc<Mutex<Vec<f64>>>,
    is_over: Arc<AtomicBool>,
}

impl Load {
    fn start(port: u16) -> Self {
        let load = Self {
            answered: Arc::default(),
            is_over: Arc::default(),
        };
        let (answered, is_over) = (Arc::clone(&load.answered), Arc::clone(&load.is_over));
        std::thread::spawn(move || {
            for method in ["GET", "POST", "GET"].into_iter().cycle() {
                if is_over.load(Ordering::Relaxed) || send(port, method).is_err() {
                    return;
                }
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                answered.lock().unwrap().push(now.as_secs_f64());
                std::thread::sleep(PAUSE);
            }
        });
        load
    }

    fn between(&self, from: u64, until: u64) -> usize {
        let answered = self.answered.lock().unwrap();
        let times = answered.iter();
        times
            .filter(|time| (from as f64..until as f64).contains(*time))
            .count()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The series of an event of a service, if it is stored.
fn span(store: &Path, service: &str, event: &str) -> Option<SeriesSpan> {
    let store = SqliteStore::open(&file(store), OpenMode::Read).ok()?;
    let mut spans = store.labels(FOREVER).ok()?.into_iter();
    spans.find(|span| span.service == service && span.event == event)
}

#[test]
fn what_was_sent_to_a_server_is_stored() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let store = scratch.path().join("store");
    let number = std::process::id();
    let (shop, batch) = (format!("counted-{number}"), format!("uncounted-{number}"));
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let serving = server(&shop, port);
    let beside = start(&batch, "1.0.0", "writeLetters");
    let load = Load::start(port);

    let config = scratch.file("agent.toml");
    let settings = format!(
        "rate = 49\n[requests]\nmetric = \"http_requests_total\"\nport = [{port}, 1]\npath = \"/stats\"\n"
    );
    fs::write(&config, settings).unwrap();
    let folder = store.to_str().unwrap();
    let arguments = ["agent", "--store", folder, "--config", &config];
    let agent = Started::new(nodespy(&arguments), "");

    let since = Instant::now();
    let counted = loop {
        let counted = span(&store, &shop, REQUESTS_EVENT);
        let windows = |span: &SeriesSpan| (span.last - span.first) / WINDOW_SECONDS + 1;
        if let Some(counted) = counted.filter(|span| windows(span) >= WINDOWS) {
            break counted;
        }
        assert!(since.elapsed() < 4 * DEADLINE, "{WINDOWS} windows");
        std::thread::sleep(Duration::from_millis(500));
    };
    agent.wait_until_it_says(&format!("pid={} service={batch} why=", beside.pid_text()));
    agent.signal("TERM");
    let outcome = agent.finish();
    outcome.expect_code(0);
    let lines = outcome.stderr.lines();
    let not_read = lines.filter(|line| line.contains("requests not read"));
    assert_eq!(not_read.filter(|it| it.contains(&batch)).count(), 1);

    let sampled = span(&store, &shop, CPU_EVENT).unwrap();
    assert_eq!(counted.labels, sampled.labels);
    assert_eq!(counted.labels.get("pid"), Some(&*serving.pid_text()));
    assert!(span(&store, &batch, CPU_EVENT).is_some());
    assert!(span(&store, &batch, REQUESTS_EVENT).is_none());

    let (from, until) = (counted.first, counted.last + WINDOW_SECONDS);
    let opened = SqliteStore::open(&file(&store), OpenMode::Read).unwrap();
    opened.check().unwrap();
    let asked = Selection::new(&shop, REQUESTS_EVENT, from..until);
    let stored = opened.series(&asked, WINDOW_SECONDS, &[]).unwrap();
    let weights = &stored.series[0].weights;
    assert!(weights.iter().all(|weight| *weight > 0), "{weights:?}");
    let (total, sent) = (weights.iter().sum::<u64>(), load.between(from, until));
    let ratio = total as f64 / sent as f64;
    eprintln!(
        "{total} requests are stored of {sent} in {} s, by window {weights:?}",
        until - from
    );
    assert!(
        (0.95..1.05).contains(&ratio),
        "{total} of {sent}\n{outcome}"
    );
}
