//! `nodespy agent --engine inspector`: windows by V8's own profiler, and no inspector left open, however it ends.
//!
//! Agents and programs run as a user of their own: one of root's would open the inspectors of every Node process of the
//! machine, also those of other users.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nodespy_model::ThreadRole;
use nodespy_store::{CPU_EVENT, OpenMode, Selection, SeriesSpan, SqliteStore, Store};

use super::agent::{FOREVER, file, share};
use super::certainty::margin;
use super::inspector_abandoned::{NATIVE, expect_opened_and_closed, listeners, wait_until};
use super::inspector_ways::refuse_perf;
use super::workload::{Running, USUAL_NODE, node, script};
use super::{is_root, live};
use crate::run::{Started, run, run_nodespy, signal};
use crate::scratch::Scratch;
use crate::skip::skip;

const USER: [&str; 3] = ["--reuid=64242", "--regid=64242", "--clear-groups"];
/// Samples a second.
const RATE: u32 = 199;

/// Busy for half of the time, with a worker that waits.
const HALF: &str = "const { Worker } = require('worker_threads');
    new Worker('setInterval(() => {}, 1000)', { eval: true });
    function half() { const end = Date.now() + 50; while (Date.now() < end); }
    setInterval(half, 100);
    console.log('ready');";
/// A program that has a use for the signal itself, and else nothing to do.
const OWN_HANDLER: &str =
    "process.on('SIGUSR1', () => console.log('signalled')); console.log('ready')
    setTimeout(() => {}, 1e9);";

fn as_user(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(USER).arg(program).env("NO_COLOR", "1");
    command
}

/// A service with this text. Its inspector opens at a port that is free: 9229 may be taken.
fn start(service: &str, text: &str, flags: &[&str]) -> Running {
    let folder = Scratch::for_other_users();
    let package = format!("{{\"name\":\"{service}\",\"version\":\"1.0.0\"}}");
    fs::write(folder.path().join("package.json"), package).unwrap();
    let path = folder.file("app.js");
    fs::write(&path, text).unwrap();
    let mut command = as_user(&node(USUAL_NODE).unwrap());
    command.arg("--inspect-port=0").args(flags).arg(path);
    Running::in_folder(command, folder)
}

/// `split.js` with a choice at each call instead of a plan: V8 samples at even intervals, which may keep step with that.
fn split_by_chance() -> String {
    let text = fs::read_to_string(script("split.js")).unwrap();
    let planned = "plan[at](";
    assert!(text.contains(planned));
    text.replace(planned, "plan[Math.floor(Math.random() * plan.length)](")
}

/// An agent where perf events are refused.
fn agent(scratch: &Scratch) -> Started {
    let program = scratch.copy_program(env!("CARGO_BIN_EXE_nodespy"), "nodespy");
    let mut command = as_user(&refuse_perf(scratch));
    let rate = RATE.to_string();
    command.args([&program, "agent", "--engine", "inspector", "-F", &rate]);
    command.args(["--store", &scratch.file("store")]);
    Started::new(command, "")
}

/// What a thread role of a service took in all windows, and how long those were sampled, in nanoseconds.
fn busy(store: &SqliteStore, span: &SeriesSpan, role: ThreadRole) -> u64 {
    let selection = Selection::new(&span.service, CPU_EVENT, FOREVER).on(role);
    let merged = store.merge(&selection, &[]).unwrap();
    let groups = merged.groups.iter().flat_map(|group| &group.stacks);
    groups.map(|stack| stack.weight).sum()
}

#[test]
fn an_agent_fills_windows_by_v8s_profiler_and_closes_every_inspector() {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("only root can become another user");
    }
    let number = std::process::id();
    let [split, half] = ["split", "half"].map(|name| format!("{name}-{number}"));
    let text = split_by_chance();
    // What runs by on-stack replacement since before its profiler started V8 counts for the caller.
    let mut first = start(&split, &text, &["--no-use-osr"]);
    let scratch = Scratch::for_other_users();
    let started = agent(&scratch);
    started.wait_until_it_says("msg=started");
    // It joins while the agent runs.
    let mut second = start(&half, HALF, &[]);
    for service in [&split, &half] {
        started.wait_until_it_says(&format!("service={service}"));
    }
    wait_until("both listen", || {
        [&first, &second].iter().all(|it| listeners(it.pid()) == 1)
    });
    // V8 hands over a profile for the first time after ten seconds: two make no gap and count nothing twice.
    std::thread::sleep(Duration::from_secs(14));
    started.signal("TERM");
    let outcome = started.finish();
    outcome.expect_code(0);
    outcome.expect_stderr(&["engine=inspector", "msg=ended", "dropped=0"]);
    for target in [&mut first, &mut second] {
        let pid = target.pid();
        wait_until("its inspector is closed", || listeners(pid) == 0);
        assert!(target.is_alive());
    }

    let store = SqliteStore::open(&file(&scratch.path().join("store")), OpenMode::Read).unwrap();
    store.check().unwrap();
    let spans = store.labels(FOREVER).unwrap();
    let span_of = |service: &str| spans.iter().find(|span| span.service == service);
    let of_split = span_of(&split).unwrap_or_else(|| panic!("{outcome}"));
    let of_half = span_of(&half).unwrap_or_else(|| panic!("{outcome}"));
    assert_eq!(of_split.labels.get("version"), Some("1.0.0"));
    assert_eq!(of_split.labels.get("pid"), Some(&*first.pid_text()));
    // Both were sampled for about as long. One was busy all the time, the other for half of it at most, and its worker never.
    let whole = busy(&store, of_split, ThreadRole::Main) as f64;
    let of_main = busy(&store, of_half, ThreadRole::Main) as f64;
    let of_worker = busy(&store, of_half, ThreadRole::Worker) as f64;
    eprintln!("busy: {whole} ns, {of_main} ns, worker {of_worker} ns");
    assert!(of_main > 0.1 * whole && of_main < 0.75 * whole, "{outcome}");
    assert!(of_worker < 0.1 * whole, "{outcome}");
    assert_eq!(share(&store, of_half, "(idle)"), 0.0);
    expect_split(&store, of_split);
    for span in [of_split, of_half] {
        expect_no_window_too_full(&store, span);
    }
}

/// Of the time in the two functions of `split.js`, 70 % is in one.
#[track_caller]
fn expect_split(store: &SqliteStore, span: &SeriesSpan) {
    let [seventy, thirty] = ["seventyPercent", "thirtyPercent"].map(|it| share(store, span, it));
    assert!(seventy + thirty > 0.9, "{seventy} and {thirty}");
    let whole = busy(store, span, ThreadRole::Main) as f64;
    let samples = whole / 1e9 * f64::from(RATE) * (seventy + thirty);
    let found = seventy / (seventy + thirty);
    let margin = margin(0.7, samples);
    eprintln!("70 % are {found} of {samples} samples, +-{margin}");
    assert!((found - 0.7).abs() < margin, "{found} is not 0.7");
}

/// A thread is in no window for longer than that is.
#[track_caller]
fn expect_no_window_too_full(store: &SqliteStore, span: &SeriesSpan) {
    let time = span.first..span.last + nodespy_store::WINDOW_SECONDS;
    let selection = Selection::new(&span.service, CPU_EVENT, time).on(ThreadRole::Main);
    let series = store
        .series(&selection, nodespy_store::WINDOW_SECONDS, &[])
        .unwrap();
    for weight in &series.series[0].weights {
        let windows = *weight as f64 / 1e9 / nodespy_store::WINDOW_SECONDS as f64;
        assert!(windows < 1.05, "{windows} in one of {span:?}");
    }
}

/// The children of all threads of a process.
fn companions_of(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let lists = threads.filter_map(|thread| {
        let path = thread.ok()?.path().join("children");
        fs::read_to_string(path).ok()
    });
    let lists: String = lists.collect();
    let pids = lists.split_whitespace();
    pids.filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether a process that is nobody's child any more runs; what has ended has no command line.
fn is_running(pid: &u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// All are told to end at once, as systemd does it, before the inspector has opened.
#[test]
fn an_inspector_that_opens_after_agent_and_companion_were_told_to_end_is_closed() {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("only root can become another user");
    }
    let busy = format!("busy-{}", std::process::id());
    let mut target = start(&busy, &NATIVE.replace("SECONDS", "25"), &[]);
    let scratch = Scratch::for_other_users();
    let started = agent(&scratch);
    // Other processes of this user have companions too.
    let its = format!("close-abandoned\0{}\0", target.pid());
    let is_its = |pid: &u32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline"));
        line.is_ok_and(|line| line.contains(&its))
    };
    wait_until("the companion runs", || {
        companions_of(started.pid()).iter().any(is_its)
    });
    // Long enough for the signal, much shorter than the native call.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(
        listeners(target.pid()),
        0,
        "it opened too early for this test"
    );
    for companion in companions_of(started.pid()) {
        signal(companion, "TERM");
    }
    started.signal("TERM");
    started.finish().expect_code(0);
    expect_opened_and_closed(&mut target);
}

/// Killed together with what closes its inspectors being told to end, as systemd does it.
#[test]
fn an_agent_that_is_killed_leaves_no_inspector_open_but_those_that_were() {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("only root can become another user");
    }
    let number = std::process::id();
    let [plain, own, debugged] =
        ["plain", "own", "debugged"].map(|name| format!("{name}-{number}"));
    let idle = "setInterval(() => {}, 20); console.log('ready')";
    let mut with_handler = start(&own, OWN_HANDLER, &[]);
    let mut open_before = start(&debugged, idle, &["--inspect=127.0.0.1:0"]);
    let mut target = start(&plain, idle, &[]);
    let scratch = Scratch::for_other_users();
    let started = agent(&scratch);
    // One that refuses keeps no other out, and is left alone from then on.
    started.wait_until_it_says(&format!("process {} did not open", with_handler.pid()));
    for service in [&plain, &debugged] {
        started.wait_until_it_says(&format!("service={service}"));
    }
    with_handler.line_after("signalled");
    assert_eq!(listeners(target.pid()), 1);
    let companions = companions_of(started.pid());
    assert!(!companions.is_empty(), "no companion would close them");
    for companion in &companions {
        signal(*companion, "TERM");
    }
    started.signal("KILL");
    started.finish();
    wait_until("the inspector closes", || listeners(target.pid()) == 0);
    // Nor does one wait for the process that has a handler of its own.
    wait_until("the companions end", || !companions.iter().any(is_running));
    assert_eq!(listeners(open_before.pid()), 1);
    for target in [&mut with_handler, &mut open_before, &mut target] {
        assert!(target.is_alive());
    }
}

#[test]
fn where_perf_events_are_refused_an_agent_says_what_helps_and_opens_nothing() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let refuse = refuse_perf(&scratch);
    let mut command = Command::new(node(USUAL_NODE).unwrap());
    command.args(["-e", "setInterval(() => {}, 20); console.log('ready')"]);
    let mut target = Running::new(command);
    let refused = |engine: &str| {
        let mut command = Command::new(&refuse);
        command
            .args([env!("CARGO_BIN_EXE_nodespy"), "agent", "--engine", engine])
            .args(["--store", &scratch.file("store")])
            .env("NO_COLOR", "1");
        run(command)
    };
    let outcome = refused("auto");
    outcome.expect_code(3).expect_stderr(&[
        "seccomp",
        "nodespy agent --engine inspector",
        "any local user can run code",
    ]);
    let outcome = refused("perf");
    outcome.expect_code(3).expect_stderr(&["seccomp"]);
    assert!(!outcome.stderr.contains("--engine inspector"), "{outcome}");
    assert_eq!(listeners(target.pid()), 0);
    assert!(target.is_alive());
    let both = ["agent", "--engine", "inspector", "--max-overhead", "1%"];
    let outcome = run_nodespy(&[&both[..], &["--store", &scratch.file("none")]].concat());
    outcome
        .expect_code(2)
        .expect_stderr(&["--max-overhead needs perf events"]);
    assert!(!Path::new(&scratch.file("none")).exists());
}
