//! The inspector engine on every Node from 12 to 26, against the targets it finds hard: is each
//! recorded or refused for the right reason, and is it left as it was found?
//!
//! Every inspector wants the same port, so each version lives in a network namespace of its own and
//! the versions are tested side by side. After each case the target must still answer requests and
//! have no listener left.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nodespy_model::{Profile, ThreadRole};

use super::recorded::{Recorded, read};
use super::workload::{Running, children_of, node, script};
use super::{is_root, live};
use crate::run::{DEADLINE, Outcome, Started, nodespy, signal};
use crate::scratch::Scratch;
use crate::skip::skip;

const VERSIONS: [&str; 8] = ["12", "14", "16", "18", "20", "22", "24", "26"];
/// How many versions are tested at a time.
const SIDE_BY_SIDE: usize = 4;

/// What a case does on one version.
type Case = (&'static str, fn(&Bench));

const CASES: [Case; 15] = [
    ("plain", plain),
    ("modules", modules),
    ("blocked in a loop", blocked_in_a_loop),
    ("blocked in execSync", blocked_in_exec),
    ("own handler", own_handler),
    ("handler removed", handler_removed),
    ("--disable-sigusr1", signal_disabled),
    ("two at once, and a port that is taken", two_at_once),
    ("--inspect-port=0", any_port),
    ("process namespace", process_namespace),
    ("three workers", three_workers),
    ("exits", exits),
    ("SIGTERM", terminated),
    ("another debugger", another_debugger),
    ("nodespy killed", nodespy_killed),
];

/// One version in its network namespace.
struct Bench {
    version: &'static str,
    /// Keeps the namespace.
    holder: Running,
}

impl Bench {
    fn new(version: &'static str) -> Self {
        let mut command = Command::new("unshare");
        let keep = "ip link set lo up && echo ready && exec sleep 600";
        command.args(["--net", "sh", "-c", keep]);
        Self {
            version,
            holder: Running::new(command),
        }
    }

    fn major(&self) -> u32 {
        self.version.parse().unwrap()
    }

    /// A command that runs in the namespace.
    fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.pid()));
        command
    }

    fn service(&self, flags: &[&str], mode: &str) -> Service {
        self.start(self.command(), flags, mode, "service.js")
    }

    fn start(&self, mut command: Command, flags: &[&str], mode: &str, name: &str) -> Service {
        let folder = Scratch::new();
        let socket = folder.file("service.sock");
        command
            .arg(node(self.version).unwrap())
            .args(flags)
            .arg(script(name))
            .env("SOCKET", &socket)
            .env("MODE", mode);
        let running = Running::in_folder(command, folder);
        Service {
            pid: running.pid(),
            running,
            socket,
        }
    }
}

/// A server to record.
struct Service {
    running: Running,
    /// Of Node itself.
    pid: u32,
    socket: String,
}

impl Service {
    /// Sends a request and returns the answer.
    #[track_caller]
    fn get(&self, path: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        // What is asked for may block the server before it hangs up.
        let mut answer = String::new();
        let mut part = [0; 1024];
        while !answer.ends_with("pong") {
            let length = stream.read(&mut part).unwrap();
            assert!(length > 0, "no answer but {answer:?}");
            answer += &String::from_utf8_lossy(&part[..length]);
        }
        answer
    }

    /// Fails the test unless the server answers and listens nowhere.
    #[track_caller]
    fn expect_as_found(&mut self) {
        assert!(self.running.is_alive(), "it has ended");
        assert!(self.get("/").ends_with("pong"));
        wait_until("its inspector is closed", || listeners(self.pid) == 0);
    }

    /// Starts nodespy on it.
    fn record(&self, arguments: &[&str]) -> Recording {
        Recording::start(&self.pid.to_string(), arguments)
    }

    #[track_caller]
    fn expect_refusal(&mut self, words: &[&str]) {
        let outcome = self.record(&["-d", "500ms"]).outcome();
        outcome.expect_code(1).expect_stderr(words);
        self.expect_as_found();
    }
}

/// How many sockets of a process listen.
fn listeners(pid: u32) -> usize {
    sockets(pid, "0A")
}

/// How many sockets of a process are in a state, as the kernel writes it.
fn sockets(pid: u32, state: &str) -> usize {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let own: HashSet<String> = links
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            let link = link.to_str()?.strip_prefix("socket:[")?;
            Some(link.strip_suffix(']')?.to_owned())
        })
        .collect();
    let rows = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    rows.lines()
        .map(|row| row.split_whitespace().collect::<Vec<_>>())
        .filter(|row| row.len() > 9 && row[3] == state && own.contains(row[9]))
        .count()
}

fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

/// Waits for something that must happen.
#[track_caller]
fn wait_until(what: &str, happened: impl Fn() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !happened() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[track_caller]
fn wait_for_listener(pid: u32) {
    wait_until("an inspector is open", || listeners(pid) > 0);
}

/// A nodespy that records.
struct Recording {
    nodespy: Started,
    scratch: Scratch,
}

impl Recording {
    fn start(pids: &str, arguments: &[&str]) -> Self {
        let scratch = Scratch::new();
        let output = scratch.file("out.nspy");
        let mut all = vec!["record", "--engine", "inspector", "-o", &output, "-p", pids];
        all.extend(arguments);
        Self {
            nodespy: Started::new(nodespy(&all), ""),
            scratch,
        }
    }

    fn outcome(self) -> Outcome {
        self.nodespy.finish()
    }

    /// Waits for the profile.
    #[track_caller]
    fn profile(self) -> Recorded {
        let outcome = self.nodespy.finish();
        outcome.expect_code(0);
        let profile = read(Path::new(&self.scratch.file("out.nspy")));
        Recorded { profile, outcome }
    }
}

/// Fails the test unless some of the time is under the timers, where all work of the service is. V8
/// may have inlined the rest, and then does not tell it.
#[track_caller]
fn expect_busy(recorded: &Recorded) {
    let busy = recorded.total_share("listOnTimeout");
    assert!(busy > 0.05, "{}", recorded.describe());
}

fn plain(bench: &Bench) {
    let mut service = bench.service(&[], "");
    expect_busy(&service.record(&["-d", "700ms"]).profile());
    service.expect_as_found();
}

fn modules(bench: &Bench) {
    let mut service = bench.start(bench.command(), &[], "", "service.mjs");
    expect_busy(&service.record(&["-d", "700ms"]).profile());
    service.expect_as_found();
}

fn blocked_in_a_loop(bench: &Bench) {
    let mut service = bench.service(&[], "");
    service.get("/loop");
    std::thread::sleep(Duration::from_millis(200));
    let recorded = service.record(&["-d", "700ms"]).profile();
    let stuck = recorded.total_share("listOnTimeout");
    assert!(stuck > 0.7, "{}", recorded.describe());
    // No timer fires in the loop: the inspector is closed in another way, before the loop ends.
    wait_until("its inspector is closed", || listeners(service.pid) == 0);
    fs::write(format!("{}.stop", service.socket), "").unwrap();
    service.expect_as_found();
}

fn blocked_in_exec(bench: &Bench) {
    let mut service = bench.service(&[], "");
    service.get("/exec");
    wait_until("it has a child", || !children_of(service.pid).is_empty());
    let recorded = service.record(&["-d", "500ms"]).profile();
    recorded
        .outcome
        .expect_stderr(&["in execSync or the like for", "sleep 4"]);
    assert!(!recorded.profile.samples.is_empty());
    service.expect_as_found();
}

fn own_handler(bench: &Bench) {
    let mut service = bench.service(&[], "handler");
    service.expect_refusal(&["a handler of its own", "--engine perf"]);
}

fn handler_removed(bench: &Bench) {
    let mut service = bench.service(&[], "removed");
    service.expect_refusal(&["does not catch SIGUSR1", "--engine perf"]);
}

fn signal_disabled(bench: &Bench) {
    if bench.major() < 22 {
        return;
    }
    let mut service = bench.service(&["--disable-sigusr1"], "");
    service.expect_refusal(&["--disable-sigusr1", "--engine perf"]);
}

fn two_at_once(bench: &Bench) {
    let mut services = [bench.service(&[], ""), bench.service(&[], "")];
    let pids = format!("{},{}", services[0].pid, services[1].pid);
    let recorded = Recording::start(&pids, &["-d", "700ms"]).profile();
    for service in &mut services {
        let on = recorded.weight_of(|sample| recorded.process_of(sample).pid == service.pid);
        assert!(on > 0, "{}", recorded.describe());
        service.expect_as_found();
    }
    let holder = bench.service(&["--inspect"], "");
    let held_by = format!("held by process {}", holder.pid);
    services[0].expect_refusal(&["9229", &held_by]);
    assert_eq!(listeners(holder.pid), 1);
}

fn any_port(bench: &Bench) {
    let mut service = bench.service(&["--inspect-port=0"], "");
    expect_busy(&service.record(&["-d", "700ms"]).profile());
    service.expect_as_found();
}

fn process_namespace(bench: &Bench) {
    let mut command = bench.command();
    command.args(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]);
    let mut service = bench.start(command, &[], "", "service.js");
    // Node is the first process of its namespace and a child of `unshare`.
    service.pid = children_of(service.running.pid())[0];
    expect_busy(&service.record(&["-d", "700ms"]).profile());
    service.expect_as_found();
}

fn three_workers(bench: &Bench) {
    let mut service = bench.service(&[], "workers");
    let before = threads(service.pid);
    let recording = service.record(&["--slice", "800ms"]);
    // The inspector has a thread of its own, and so has the profiler of each thread.
    wait_until("three profilers run", || threads(service.pid) >= before + 4);
    std::thread::sleep(Duration::from_millis(300));
    service.get("/worker");
    std::thread::sleep(Duration::from_millis(2500));
    signal(recording.nodespy.pid(), "INT");
    let recorded = recording.profile();
    let profile = &recorded.profile;
    let firsts: Vec<u64> = (0..profile.threads.len())
        .filter(|&at| profile.threads[at].role == ThreadRole::Worker)
        .filter_map(|at| first_sample(profile, at))
        .collect();
    assert_eq!(firsts.len(), 3, "{}", recorded.describe());
    // The third came later, and its samples say so.
    let (first, last) = (firsts.iter().min().unwrap(), firsts.iter().max().unwrap());
    assert!(last - first > 100_000_000, "{firsts:?}");
    for (at, thread) in profile.threads.iter().enumerate() {
        let weight = recorded.weight_of(|sample| sample.thread.at() == at);
        assert!(weight <= profile.about.duration, "{thread:?} {weight}");
    }
    service.expect_as_found();
}

fn first_sample(profile: &Profile, thread: usize) -> Option<u64> {
    let mut samples = profile.samples.iter();
    let first = samples.find(|sample| sample.thread.at() == thread)?;
    Some(first.time)
}

fn exits(bench: &Bench) {
    let mut service = bench.service(&[], "");
    let before = threads(service.pid);
    let recording = service.record(&["-d", "60"]);
    wait_until("a profiler runs", || threads(service.pid) >= before + 2);
    std::thread::sleep(Duration::from_millis(500));
    service.get("/exit");
    let recorded = recording.profile();
    expect_busy(&recorded);
    assert!(recorded.outcome.took < Duration::from_secs(30));
    service.running.expect_status(7);
}

fn terminated(bench: &Bench) {
    // One that does not catch it dies at once: what was handed over before is kept.
    let mut service = bench.service(&[], "");
    let recording = service.record(&["-d", "60", "--slice", "400ms"]);
    // The second conversation is opened when the first slice is over.
    wait_until("it is spoken to twice", || sockets(service.pid, "01") >= 2);
    std::thread::sleep(Duration::from_millis(2000));
    signal(service.pid, "TERM");
    let recorded = recording.profile();
    expect_busy(&recorded);
    let remarks = recorded.profile.notes.remarks.join("\n");
    assert!(remarks.contains("are lost"), "{remarks}");
    service.running.expect_signal(15);
    // One that exits by itself waits for us, but not long, and nothing is lost.
    let mut service = bench.service(&[], "term");
    let before = threads(service.pid);
    let recording = service.record(&["-d", "60"]);
    wait_until("a profiler runs", || threads(service.pid) >= before + 2);
    std::thread::sleep(Duration::from_millis(500));
    signal(service.pid, "TERM");
    expect_busy(&recording.profile());
    service.running.expect_status(3);
}

fn another_debugger(bench: &Bench) {
    let mut service = bench.service(&[], "");
    let before = threads(service.pid);
    let first = service.record(&[]);
    wait_for_listener(service.pid);
    // The other one did not open it, so it does not close it.
    expect_busy(&service.record(&["-d", "500ms"]).profile());
    assert_eq!(listeners(service.pid), 1);
    signal(first.nodespy.pid(), "INT");
    expect_busy(&first.profile());
    service.expect_as_found();
    // The one that opened it goes first: it must not close it under the other's feet.
    let first = service.record(&[]);
    wait_for_listener(service.pid);
    let second = service.record(&[]);
    wait_until("two profilers run", || threads(service.pid) >= before + 3);
    std::thread::sleep(Duration::from_millis(500));
    signal(first.nodespy.pid(), "INT");
    let remarks = first.profile().profile.notes.remarks.join("\n");
    assert!(remarks.contains("another client is attached"), "{remarks}");
    assert!(service.get("/").ends_with("pong"));
    signal(second.nodespy.pid(), "INT");
    expect_busy(&second.profile());
    // The last one to go closes it.
    service.expect_as_found();
}

fn nodespy_killed(bench: &Bench) {
    let mut service = bench.service(&[], "");
    let before = threads(service.pid);
    let recording = service.record(&["-d", "60"]);
    wait_until("a profiler runs", || threads(service.pid) >= before + 2);
    std::thread::sleep(Duration::from_millis(300));
    signal(recording.nodespy.pid(), "KILL");
    recording.outcome();
    service.expect_as_found();
    wait_until("its profiler is gone", || threads(service.pid) <= before);
}

/// Runs every case on one version: what went wrong.
fn run_cases(version: &'static str) -> Vec<String> {
    let wanted = std::env::var("NODESPY_CASE").unwrap_or_default();
    let bench = Bench::new(version);
    let mut failures = Vec::new();
    for (name, case) in CASES.iter().filter(|(name, _)| name.contains(&wanted)) {
        let started = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| case(&bench))).is_err() {
            failures.push(format!("node {version}: {name}"));
        }
        eprintln!("node {version}: {name} took {:?}", started.elapsed());
    }
    failures
}

#[test]
fn every_node_is_recorded_or_refused_rightly_and_left_as_it_was_found() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can make the namespaces");
        return;
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failures = Vec::new();
        while let Some(version) = VERSIONS.get(next.fetch_add(1, Ordering::Relaxed)) {
            failures.extend(run_cases(version));
        }
        failures
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..SIDE_BY_SIDE).map(|_| scope.spawn(work)).collect();
        let failures = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap());
        failures.collect()
    });
    assert!(failures.is_empty(), "{failures:#?}");
}
