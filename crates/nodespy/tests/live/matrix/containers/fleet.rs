//! The whole of always-on profiling: three services in containers under load, an agent, a server, a slower version of one service
//! that the API, the command and the page name, and both killed twice on the way.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nodespy_model::label_key;
use nodespy_store::{
    CPU_EVENT, OpenMode, PID, Selection, SeriesSpan, SqliteStore, Store, WINDOW_SECONDS,
};
use serde_json::Value;

use super::engine::{Container, Docker};
use crate::agent::{FOREVER, file, unix_seconds};
use crate::run::signal;
use crate::scratch::Scratch;
use crate::serving::Server;
use crate::webdriver::Browser;
use crate::workload::root;

/// How long anything may take here. Most of the time goes by so that instances have enough samples to be compared.
const DEADLINE: Duration = Duration::from_secs(150);
/// How often each service gets a request.
const REQUEST_INTERVAL: Duration = Duration::from_millis(50);
/// One that does not answer for so long gets no more.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// What an instance does at first is left out, and how long it is compared for.
const WARM_UP: u64 = 20;
const MIN_LENGTH: u64 = 60;
/// How many instances of each version run beside each other: with three a change has to be large to be seen.
const INSTANCES: usize = 5;
/// How often parseOrders works on an order, and how often in the slower version: a quarter more.
const PARSE: u32 = 20;
const SLOWER_PARSE: u32 = 25;

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The folders of services and of their sockets.
struct Fleet<'a> {
    engine: &'a Docker,
    folder: &'a Path,
}

impl Fleet<'_> {
    /// Starts an instance of a service; the service is what its package.json says.
    fn start(&self, name: &str, service: &str, version: &str, parse: u32) -> Container<'_> {
        let app = self.folder.join(format!("{service}-{version}"));
        if !app.exists() {
            std::fs::create_dir(&app).unwrap();
            for script in ["shop.js", "web.js"] {
                let original = root().join("workloads/continuous").join(script);
                std::fs::copy(original, app.join(script)).unwrap();
            }
            let package = format!("{{\"name\":\"{service}\",\"version\":\"{version}\"}}");
            std::fs::write(app.join("package.json"), package).unwrap();
        }
        let sockets = self.folder.join("sockets");
        std::fs::create_dir_all(&sockets).unwrap();
        let options = [
            "-v".to_owned(),
            format!("{}:/app:ro", app.display()),
            "-v".to_owned(),
            format!("{}:/sockets", sockets.display()),
            "-e".to_owned(),
            format!("SOCKET=/sockets/{name}"),
            "-e".to_owned(),
            format!("PARSE={parse}"),
        ];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        self.engine
            .run(name, &options, &["/usr/bin/node", "/app/web.js"])
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.folder.join("sockets").join(name)
    }
}

/// Sends requests to all instances there are, each at the same rate, until it is told to end.
fn load(sockets: &Path, is_over: &AtomicBool) {
    let mut instances: Vec<(PathBuf, BufReader<UnixStream>)> = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let round = Instant::now();
        for entry in std::fs::read_dir(sockets).into_iter().flatten().flatten() {
            let path = entry.path();
            if instances.iter().all(|(known, _)| *known != path)
                && let Ok(stream) = UnixStream::connect(&path)
            {
                stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
                instances.push((path, BufReader::new(stream)));
            }
        }
        instances.retain_mut(|(_, stream)| {
            let request = b"GET /order HTTP/1.1\r\nHost: shop\r\n\r\n";
            stream.get_mut().write_all(request).is_ok()
        });
        instances.retain_mut(|(_, stream)| read_answer(stream).is_some());
        std::thread::sleep(REQUEST_INTERVAL.saturating_sub(round.elapsed()));
    }
}

/// Reads an answer with a body of three bytes.
fn read_answer(stream: &mut BufReader<UnixStream>) -> Option<()> {
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    }
    stream.read_exact(&mut [0; 3]).ok()
}

/// Waits for the middle of a window, when the one before is in the store: a kill loses that one alone.
#[track_caller]
fn wait_for_middle_of_window(store: &Path) {
    wait_until("the middle of a window", || {
        let now = unix_seconds();
        let window = now / WINDOW_SECONDS * WINDOW_SECONDS;
        let spans = spans(store);
        let mut of_mail = spans.iter().filter(|span| span.service == "mail");
        let is_before_there = of_mail.any(|span| span.last + WINDOW_SECONDS >= window);
        is_before_there && (2..8).contains(&(now - window))
    });
}

fn spans(store: &Path) -> Vec<SeriesSpan> {
    let opened = SqliteStore::open(&file(store), OpenMode::Read);
    let spans = opened.and_then(|store| store.labels(FOREVER));
    spans.unwrap_or_default()
}

/// Waits until there are windows of so many instances of a version that ended after now.
#[track_caller]
fn wait_for_windows(store: &Path, service: &str, version: &str, instances: usize) {
    let now = unix_seconds();
    let mut seen = Vec::new();
    let what = format!("windows of {service} {version} after {now}");
    wait_until(&what, || {
        let mut spans = spans(store);
        spans.retain(|span| {
            let is_version = span.labels.get(label_key::VERSION) == Some(version);
            span.service == service && is_version && span.last + WINDOW_SECONDS > now
        });
        let is_enough = spans.len() >= instances;
        let containers = spans.iter().map(|span| {
            let container = span.labels.get(label_key::CONTAINER);
            container.unwrap_or_default().to_owned()
        });
        let containers: Vec<String> = containers.collect();
        if containers != seen {
            eprintln!("{what}: {containers:?}");
            seen = containers;
        }
        is_enough
    });
}

/// What the server says is slower in a service.
fn regressions(server: &Server, service: &str) -> Value {
    server.json(&format!(
        "/api/v1/regressions?service={service}&from=-1h&warm_up={WARM_UP}&min_length={MIN_LENGTH}"
    ))
}

/// No window of an instance is missing but one for each kill, none is there twice, and their sum is what the kernel counted.
#[track_caller]
fn expect_windows(store: &SqliteStore, container: &Container<'_>, used: f64, kills: usize) {
    let all = store.labels(FOREVER).unwrap();
    let pid = container.pid.to_string();
    let is_of = |span: &&SeriesSpan| span.labels.get(PID) == Some(&pid);
    let of_container: Vec<&SeriesSpan> = all.iter().filter(is_of).collect();
    let name = &container.name;
    // Another series for the same process would be another window for the same time.
    let [span] = of_container[..] else {
        panic!("{name}: {of_container:?}")
    };
    assert_eq!(span.labels.get(label_key::CONTAINER), Some(&**name));
    let time = span.first..span.last + WINDOW_SECONDS;
    let selection = Selection::new(&span.service, CPU_EVENT, time);
    let selection = selection.with(label_key::CONTAINER, name);
    let series = store.series(&selection, WINDOW_SECONDS, &[]).unwrap();
    let weights: Vec<f64> = series.series[0]
        .weights
        .iter()
        .map(|it| *it as f64 / 1e9)
        .collect();
    let missing = weights.iter().filter(|it| **it == 0.0).count();
    assert!(missing <= kills, "{name}: {missing} missing of {weights:?}");
    let sum: f64 = weights.iter().sum();
    // What was used before the agent came and in the windows of the kills is not in it.
    assert!(
        sum < 1.1 * used && sum > 0.3 * used,
        "{name}: {sum} s in {weights:?}, the kernel says {used} s"
    );
}

#[test]
fn a_slower_version_is_found_whoever_is_killed_meanwhile() {
    let Some(engine) = Docker::start() else {
        return;
    };
    let scratch = Scratch::new();
    let fleet = Fleet {
        engine: &engine,
        folder: scratch.path(),
    };
    let (store, spool) = (scratch.path().join("store"), scratch.path().join("agent"));
    let started = Instant::now();
    let say = |what: &str| eprintln!("{:.0} s: {what}", started.elapsed().as_secs_f64());
    let mut containers: Vec<Container<'_>> = (0..INSTANCES)
        .map(|number| fleet.start(&format!("shop-{number}"), "shop", "1.0.0", PARSE))
        .collect();
    containers.push(fleet.start("mail", "mail", "3.1.0", PARSE));
    containers.push(fleet.start("stock", "stock", "0.9.0", PARSE));
    let is_over = AtomicBool::new(false);
    let sockets = fleet.socket("");
    std::thread::scope(|scope| {
        scope.spawn(|| load(&sockets, &is_over));
        // However it ends, so does the load.
        let _end = EndsLoad(&is_over);
        let serve = |address: &str| Server::start(&store, address, &["--ingest"]);
        let server = serve("127.0.0.1:0");
        let address = server.address.clone();
        let agent = || {
            let url = format!("http://{address}");
            let folder = spool.to_str().unwrap();
            let arguments = ["agent", "--store", folder, "--to", &url, "-F", "999"];
            Agent::start(
                engine.nodespy(&arguments),
                &scratch.path().join("agent.log"),
            )
        };
        let first_agent = agent();
        say("all run");
        wait_for_windows(&store, "shop", "1.0.0", INSTANCES);
        wait_for_windows(&store, "stock", "0.9.0", 1);

        // The agent is killed, and the new version is deployed beside the old one.
        wait_for_middle_of_window(&store);
        drop(first_agent);
        let second_agent = agent();
        say("the agent was killed");
        let slower = (0..INSTANCES).map(|number| {
            fleet.start(
                &format!("shop-slower-{number}"),
                "shop",
                "2.0.0",
                SLOWER_PARSE,
            )
        });
        containers.extend(slower);
        say("the new version runs");
        wait_for_windows(&store, "shop", "2.0.0", INSTANCES);
        // The server is killed, then once more together with the agent.
        drop(server);
        std::thread::sleep(Duration::from_secs(WINDOW_SECONDS + 2));
        let server = serve(&address);
        wait_for_windows(&store, "mail", "3.1.0", 1);
        wait_for_middle_of_window(&store);
        drop(server);
        drop(second_agent);
        let third_agent = agent();
        std::thread::sleep(Duration::from_secs(2));
        let server = serve(&address);
        say("all were killed twice");

        let mut found = Value::Null;
        wait_until("a regression of shop", || {
            found = regressions(&server, "shop");
            rows(&found)
                .any(|row| row["function"] == "parseOrders" && row["verdict"] == "regression")
        });
        say("found");
        expect_named(&found, &store);
        expect_on_page(&server);
        say("on the page");
        for service in ["mail", "stock"] {
            let quiet = regressions(&server, service);
            assert_eq!(quiet["regressions"], Value::Array(Vec::new()), "{service}");
        }
        let used: Vec<f64> = containers.iter().map(cpu_seconds).collect();
        assert_eq!(third_agent.terminate().code(), Some(0));
        assert_eq!(server.terminate().code(), Some(0));
        let store = SqliteStore::open(&file(&store), OpenMode::Read).unwrap();
        store.check().unwrap();
        for (container, used) in containers.iter().zip(used) {
            // The new version started after the first kill.
            expect_windows(&store, container, used, 2);
        }
    });
}

/// An agent; killed when dropped. What it logged is shown where the test fails.
struct Agent {
    child: Child,
    log: PathBuf,
}

impl Agent {
    fn start(mut command: Command, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log);
        let child = command.stdout(Stdio::null()).stderr(file.unwrap()).spawn();
        Self {
            child: child.unwrap(),
            log: log.to_owned(),
        }
    }

    fn terminate(mut self) -> ExitStatus {
        signal(self.child.id(), "TERM");
        self.child.wait().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("--- the log of agents\n{log}");
        }
    }
}

struct EndsLoad<'a>(&'a AtomicBool);

impl Drop for EndsLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What the kernel counted for the first process of a container.
fn cpu_seconds(container: &Container<'_>) -> f64 {
    let time = nodespy_capture::process_cpu_time(container.pid).unwrap();
    time as f64 / 1e9
}

fn rows(found: &Value) -> impl Iterator<Item = &Value> {
    found["regressions"].as_array().into_iter().flatten()
}

/// The function and its versions, among what the page lists.
#[track_caller]
fn expect_on_page(server: &Server) {
    let Some(browser) = Browser::start() else {
        return;
    };
    let address = &server.address;
    browser.open(&format!(
        "http://{address}/?service=shop&warm_up={WARM_UP}&min_length={MIN_LENGTH}"
    ));
    browser.wait_for("document.querySelector('#found .link')?.textContent === 'parseOrders'");
    let said = browser.text("document.querySelector('#found li').innerText");
    assert!(said.contains("1.0.0 → 2.0.0, regression"), "{said}");
    browser.expect_quiet_console();
}

/// Function, file, version and verdict, by the server and by the command.
#[track_caller]
fn expect_named(found: &Value, store: &Path) {
    eprintln!("{found:#}");
    let rows: Vec<&Value> = rows(found).collect();
    let [first] = rows[..] else {
        panic!("more than one function is slower")
    };
    assert_eq!(first["function"], "parseOrders");
    let change = first["change"].as_f64().unwrap();
    let planted = f64::from(SLOWER_PARSE) / f64::from(PARSE);
    assert!((change - planted).abs() < 0.15, "{change}");
    assert!(first["file"].as_str().unwrap().ends_with("/app/shop.js"));
    assert_eq!(first["version"], "2.0.0");
    assert_eq!(first["before_version"], "1.0.0");
    assert_eq!(first["verdict"], "regression");
    let (warm_up, min_length) = (format!("{WARM_UP}s"), format!("{MIN_LENGTH}s"));
    let outcome = crate::run::run_nodespy(&[
        "regressions",
        "--store",
        store.to_str().unwrap(),
        "--service",
        "shop",
        "--since",
        "1h",
        "--warm-up",
        &warm_up,
        "--min-length",
        &min_length,
    ]);
    outcome.expect_code(10);
    assert!(outcome.stdout.contains("parseOrders"), "{outcome}");
}
