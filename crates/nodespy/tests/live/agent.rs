//! `nodespy agent`: what ran is in the store, by service and version, once, even if the agent or the server is killed.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nodespy_model::ThreadRole;
use nodespy_store::{
    CPU_EVENT, OpenMode, Selection, SeriesSpan, SqliteStore, Store, WINDOW_SECONDS,
};

use super::privileges::FOR_PROCESSES;
use super::workload::{Running, USUAL_NODE, node};
use super::{is_root, live};
use crate::own_status::{FOR_FILES, capabilities_of};
use crate::run::{DEADLINE, Started, nodespy};
use crate::scratch::Scratch;

/// How much of a program's time its busy function has, at least.
pub(super) const HOT: f64 = 0.8;
pub(super) const FOREVER: std::ops::Range<u64> = 0..u32::MAX as u64;

/// A service whose time is in one function.
pub(super) fn start(service: &str, version: &str, function: &str) -> Running {
    start_in(Scratch::new(), service, version, function)
}

/// The same with its files in a folder of the caller's.
pub(super) fn start_in(folder: Scratch, service: &str, version: &str, function: &str) -> Running {
    start_on(USUAL_NODE, folder, service, version, function, "")
}

/// The same on a version of Node, with something done at first.
fn start_on(
    version_of_node: &str,
    folder: Scratch,
    service: &str,
    version: &str,
    function: &str,
    first: &str,
) -> Running {
    let path = write_service(&folder, service, version, function, first);
    let mut command = Command::new(node(version_of_node).unwrap());
    command.arg(path);
    Running::in_folder(command, folder)
}

/// Writes the files of a service, and says what to start.
fn write_service(
    folder: &Scratch,
    service: &str,
    version: &str,
    function: &str,
    first: &str,
) -> PathBuf {
    let package = format!("{{\"name\":\"{service}\",\"version\":\"{version}\"}}");
    fs::write(folder.path().join("package.json"), package).unwrap();
    let script = format!(
        "{first}\nfunction {function}() {{ const end = Date.now() + 50; let sum = 0;\n\
         while (Date.now() < end) for (let i = 0; i < 1e4; i++) sum += Math.sqrt(i); return sum; }}\n\
         function turn() {{ {function}(); setImmediate(turn); }}\n\
         turn(); console.log('ready');\n\
         setTimeout(() => process.exit(), 300000);"
    );
    let path = folder.path().join("app.js");
    fs::write(&path, script).unwrap();
    path
}

fn agent(store: &Path) -> Started {
    let store = store.to_str().unwrap();
    Started::new(nodespy(&["agent", "--store", store]), "")
}

pub(super) fn file(store: &Path) -> PathBuf {
    store.join("profiles.sqlite")
}

/// Whether a label says this version: with the commit behind it where the tests run in a checkout.
fn is_version(label: Option<&str>, version: &str) -> bool {
    let rest = label.and_then(|label| label.strip_prefix(version));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
}

/// The version of a service, once a window of it is stored.
#[track_caller]
pub(super) fn wait_for(store: &Path, service: &str, version: &str) -> SeriesSpan {
    let since = Instant::now();
    loop {
        let opened = SqliteStore::open(&file(store), OpenMode::Read);
        let spans = opened.and_then(|store| store.labels(FOREVER));
        let found = spans.unwrap_or_default().into_iter().find(|span| {
            span.service == service && is_version(span.labels.get("version"), version)
        });
        if let Some(found) = found {
            return found;
        }
        // Samples are named in the agent's own time, a window is ten seconds, and a busy machine takes longer for both.
        assert!(
            since.elapsed() < 2 * DEADLINE,
            "no {service} {version} in the store"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// How much of the main thread's time of a version is under a function.
pub(super) fn share(store: &SqliteStore, span: &SeriesSpan, function: &str) -> f64 {
    let version = span.labels.get("version").unwrap();
    let selection = Selection::new(&span.service, CPU_EVENT, FOREVER)
        .with("version", version)
        .on(ThreadRole::Main);
    let merged = store.merge(&selection, &[]).unwrap();
    let stacks = &merged.groups[0].stacks;
    let ids: Vec<_> = stacks.iter().map(|stack| stack.stack).collect();
    let symbols = store.stacks(&ids).unwrap();
    let is_under = |path: &[u32]| {
        path.iter().any(|frame| {
            let frame = symbols.frames[*frame as usize];
            symbols.functions[frame.function as usize].name == function
        })
    };
    let all: u64 = stacks.iter().map(|stack| stack.weight).sum();
    let under = stacks.iter().zip(&symbols.stacks);
    let under: u64 = under
        .filter(|(_, path)| is_under(path))
        .map(|(stack, _)| stack.weight)
        .sum();
    under as f64 / all.max(1) as f64
}

pub(super) fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}

/// An agent is killed, a service deployed anew, and the agent started again.
#[test]
fn versions_have_their_functions_and_no_window_is_there_twice() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let store = scratch.path().join("store");
    // Other tests may run on this machine, and their processes are seen too.
    let number = std::process::id();
    let (shop, mail) = (format!("shop-{number}"), format!("mail-{number}"));
    let letters = start(&mail, "3.1.0", "writeLetters");
    let orders = start(&shop, "1.0.0", "parseOrders");

    let first = agent(&store);
    let span = wait_for(&store, &shop, "1.0.0");
    let of_letters = wait_for(&store, &mail, "3.1.0");
    assert_eq!(span.labels.get("pid"), Some(&*orders.pid_text()));
    assert_eq!(span.labels.get("sampling-rate"), Some("19"));
    for key in ["host", "instance", "node", "started", "folder"] {
        assert!(
            span.labels.get(key).is_some(),
            "no {key} in {:?}",
            span.labels
        );
    }
    let kept = capabilities_of(first.pid());
    assert_eq!(kept & !(FOR_FILES | FOR_PROCESSES), 0, "{kept:#x}");
    // An agent that waits for a CPU itself is behind by more than a window: what it has not stored is lost.
    let killed = unix_seconds().min(of_letters.last + 2 * WINDOW_SECONDS);
    first.signal("KILL");
    drop(first);
    drop(orders);

    // It joins while the agent runs.
    let second = agent(&store);
    second.wait_until_it_says("msg=started");
    let _orders = start(&shop, "2.0.0", "packOrders");
    let later = wait_for(&store, &shop, "2.0.0");
    let restarted = unix_seconds();
    second.signal("TERM");
    let outcome = second.finish();
    outcome.expect_code(0);
    outcome.expect_stderr(&[
        "msg=\"process joined\"",
        "version=2.0.0",
        "engine=",
        "msg=ended",
    ]);

    let store = SqliteStore::open(&file(&store), OpenMode::Read).unwrap();
    store.check().unwrap();
    for (span, function) in [
        (&span, "parseOrders"),
        (&later, "packOrders"),
        (&of_letters, "writeLetters"),
    ] {
        let share = share(&store, span, function);
        assert!(share > HOT, "{function} has {share} of {span:?}\n{outcome}");
    }
    assert_eq!(share(&store, &later, "parseOrders"), 0.0);
    expect_windows(&store, &mail, killed, restarted);
    drop(letters);
}

/// The windows of a service that was busy all the time are there, but for those around the kill, and none counts more
/// than it is long.
#[track_caller]
pub(super) fn expect_windows(store: &SqliteStore, service: &str, killed: u64, restarted: u64) {
    let span = store.labels(FOREVER).unwrap();
    let span = span.iter().find(|span| span.service == service).unwrap();
    let time = span.first..span.last + WINDOW_SECONDS;
    let selection = Selection::new(service, CPU_EVENT, time).on(ThreadRole::Main);
    let series = store.series(&selection, WINDOW_SECONDS, &[]).unwrap();
    let missing = killed - killed % WINDOW_SECONDS - WINDOW_SECONDS..restarted;
    let starts = (series.start..).step_by(WINDOW_SECONDS as usize);
    for (start, weight) in starts.zip(&series.series[0].weights) {
        let seconds = *weight as f64 / 1e9;
        assert!(
            seconds < 1.1 * WINDOW_SECONDS as f64,
            "{seconds} s at {start}"
        );
        let is_there = *weight > 0 || missing.contains(&start);
        assert!(
            is_there,
            "nothing at {start}, though it was killed at {killed}"
        );
    }
}

#[test]
fn an_agent_without_processes_waits_and_ends_when_told() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let store = scratch.file("store");
    let started = Started::new(nodespy(&["agent", "--store", &store, "--for", "1s"]), "");
    let outcome = started.finish();
    outcome.expect_code(0);
    outcome.expect_stderr(&["msg=started", "msg=ended", "dropped=0"]);
}

/// What an agent answers to a request.
fn ask(address: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_agent_says_how_it_is() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let store = scratch.path().join("store");
    let service = format!("well-{}", std::process::id());
    let _busy = start(&service, "1.0.0", "parseOrders");
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let folder = store.to_str().unwrap();
    let arguments = ["agent", "--store", folder, "--listen", &address];
    let _agent = Started::new(nodespy(&arguments), "");
    wait_for(&store, &service, "1.0.0");
    assert!(ask(&address, "/healthz").starts_with("HTTP/1.1 200"));
    assert!(ask(&address, "/other").starts_with("HTTP/1.1 404"));
    let metrics = ask(&address, "/metrics");
    if is_root() {
        let engine = "nodespy_agent_engine_info{engine=\"ebpf, cpu-wide\"}";
        assert!(metrics.contains(engine), "{metrics}");
    }
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {metrics}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(value("nodespy_agent_processes ") >= 1.0, "{metrics}");
    assert!(value("nodespy_agent_samples_total ") >= 1.0, "{metrics}");
    assert!(value("process_cpu_seconds_total ") > 0.0, "{metrics}");
    let wide = ["agent", "--store", folder, "--listen", "0.0.0.0:0"];
    crate::run::run_nodespy(&wide).expect_code(2);
}

/// The pid is the same, and so is the parent: what runs is another service.
#[test]
fn a_process_that_executes_another_program_is_another_service() {
    let Some(_live) = live() else { return };
    let (scratch, later) = (Scratch::new(), Scratch::new());
    let store = scratch.path().join("store");
    let number = std::process::id();
    let (first, second) = (format!("first-{number}"), format!("second-{number}"));
    let script = write_service(&later, &second, "2.0.0", "packOrders", "");
    let becomes = format!(
        "process.on('SIGUSR2', () => process.execve(process.execPath, [process.execPath, '{}'], process.env));",
        script.display()
    );
    let target = start_on(
        "26",
        Scratch::new(),
        &first,
        "1.0.0",
        "parseOrders",
        &becomes,
    );

    let agent = agent(&store);
    let before = wait_for(&store, &first, "1.0.0");
    crate::run::signal(target.pid(), "USR2");
    let after = wait_for(&store, &second, "2.0.0");
    agent.signal("TERM");
    let outcome = agent.finish();
    outcome.expect_code(0);
    for span in [&before, &after] {
        assert_eq!(span.labels.get("pid"), Some(&*target.pid_text()));
    }
    let store = SqliteStore::open(&file(&store), OpenMode::Read).unwrap();
    for (span, function, other, most) in [
        (&before, "parseOrders", "packOrders", 0.0),
        // Samples of the same slice count for what the process is at its end.
        (&after, "packOrders", "parseOrders", 1.0 - HOT),
    ] {
        let (own, others) = (share(&store, span, function), share(&store, span, other));
        assert!(
            own > HOT && others <= most,
            "{own} and {others} of {span:?}\n{outcome}"
        );
    }
}
