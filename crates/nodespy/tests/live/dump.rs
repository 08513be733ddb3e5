//! `nodespy dump`: does it say where a process is stuck, and does the process notice nothing?

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::errors::{busy_shell, run_as_nobody};
use super::versions::on_every_node;
use super::workload::{Running, Workload, children_of, script};
use super::{is_root, live};
use crate::run::{DEADLINE, run_nodespy, signal_if_alive};
use crate::scratch::Scratch;
use crate::skip::skip;

/// The dump of a process as JSON, after the usual checks that nothing was left behind.
#[track_caller]
fn dump(target: &mut Running, arguments: &[&str]) -> Value {
    let pid = target.pid_text();
    let mut all = vec!["dump", "--json", "-p", &pid];
    all.extend(arguments);
    let outcome = run_nodespy(&all);
    outcome.expect_code(0);
    assert!(target.is_alive(), "{outcome}");
    assert_eq!(target.status("TracerPid"), "0", "{outcome}");
    assert!(!target.status("State").starts_with('T'), "{outcome}");
    let dump: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(dump["version"], 1);
    assert_eq!(dump["incomplete_stacks"], 0, "{dump:#}");
    dump
}

/// The threads of the only process of a dump.
fn threads(dump: &Value) -> &[Value] {
    dump["processes"][0]["threads"].as_array().unwrap()
}

/// The names of a thread's functions, innermost first; none when nothing was seen of it.
fn names(thread: &Value) -> Vec<&str> {
    thread["frames"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|frame| frame["function"].as_str().unwrap())
        .collect()
}

/// The frame of a function.
#[track_caller]
fn frame<'a>(thread: &'a Value, name: &str) -> &'a Value {
    thread["frames"]
        .as_array()
        .unwrap()
        .iter()
        .find(|frame| frame["function"] == name)
        .unwrap_or_else(|| panic!("no {name} in {:#?}", names(thread)))
}

/// The lines of a workload that end with a comment of one word.
fn marked_lines(workload: &str, mark: &str) -> Vec<u64> {
    let text = fs::read_to_string(script(workload)).unwrap();
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.ends_with(&format!("// {mark}")))
        .map(|(number, _)| number)
        .collect()
}

/// CPU time of a process in clock ticks.
fn cpu_ticks(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text[text.rfind(')').unwrap()..].split(' ').collect();
    fields[12].parse::<u64>().unwrap() + fields[13].parse::<u64>().unwrap()
}

/// Waits until a process has used more CPU time than it had.
#[track_caller]
pub(super) fn expect_it_runs_on(target: &Running) {
    let before = cpu_ticks(target.pid());
    let until = Instant::now() + DEADLINE;
    while cpu_ticks(target.pid()) <= before {
        assert!(Instant::now() < until, "the target stands still");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The dump of a process, repeated until its main thread is in `function`: a workload says it is
/// ready a moment before it is there.
#[track_caller]
fn dump_in(target: &mut Running, arguments: &[&str], function: &str) -> Value {
    dump_until(target, arguments, function, |found| {
        names(&threads(found)[0]).contains(&function)
    })
}

/// The first dump of a process in which something `is_there`.
#[track_caller]
fn dump_until(
    target: &mut Running,
    arguments: &[&str],
    what: &str,
    is_there: impl Fn(&Value) -> bool,
) -> Value {
    let until = Instant::now() + DEADLINE;
    loop {
        let found = dump(target, arguments);
        if is_there(&found) {
            return found;
        }
        assert!(Instant::now() < until, "never in {what}: {found:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An endless loop: its function and line are named, and it goes on.
fn expect_stuck(major: &str, arguments: &[&str]) {
    let Some(_live) = live() else { return };
    let mut target = Workload::new("stuck.js").on(major).start();
    // Until it is optimized it also wakes the threads that do so.
    let found = dump_until(&mut target, arguments, "spinForever", |found| {
        let main = &threads(found)[0];
        names(main).contains(&"spinForever") && main["activity"] == "running"
    });
    expect_it_runs_on(&target);
    let main = &threads(&found)[0];
    assert_eq!(main["role"], "main");
    for (name, mark) in [("spinForever", "loop"), ("handleRequest", "caller")] {
        let frame = frame(main, name);
        let lines = marked_lines("stuck.js", mark);
        let line = frame["line"].as_u64();
        assert!(
            line.is_some_and(|line| lines.contains(&line)),
            "{frame:#}, not at {lines:?}"
        );
        assert_eq!(frame["file"], script("stuck.js"));
        assert!(frame["tier"].is_string(), "{frame:#}");
    }
}

on_every_node! {{
    an_endless_loop_is_named_with_its_line(|version| expect_stuck(version, &[]));
}}

#[test]
fn an_endless_loop_is_named_without_stopping_it() {
    expect_stuck("20", &["--nonblocking"]);
}

/// A main thread that waits in a synchronous call: the call and who made it are named.
fn expect_blocked(major: &str, how: &str, calls: &[&str], arguments: &[&str]) {
    let Some(_live) = live() else { return };
    let mut target = Workload::new("blocked.js")
        .on(major)
        .env("HOW", how)
        .env("MS", 120_000)
        .start();
    // What it starts may be in the middle of vfork, whose caller is in a register only.
    let arguments = &[arguments, &["--no-subprocesses"]].concat();
    // It may still be on its way into the call.
    let mut found = dump_in(&mut target, arguments, calls[0]);
    for _ in 0..50 {
        if threads(&found)[0]["activity"] == "blocked" {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        found = dump_in(&mut target, arguments, calls[0]);
    }
    let main = &threads(&found)[0];
    let names = names(main);
    for name in calls.iter().chain(&["waitForIt"]) {
        assert!(names.contains(name), "no {name} in {names:#?}");
    }
    assert_eq!(main["activity"], "blocked", "{main:#}");
    assert_eq!(main["state"], "sleeping");
    for child in children_of(target.pid()) {
        signal_if_alive(child, "KILL");
    }
}

const EXEC: [&str; 2] = ["spawnSync", "execSync"];

#[test]
fn a_thread_blocked_in_exec_sync_shows_spawn_sync() {
    expect_blocked("20", "exec", &EXEC, &[]);
    expect_blocked("26", "exec", &EXEC, &[]);
}

#[test]
fn a_thread_blocked_in_exec_sync_shows_spawn_sync_without_stopping_it() {
    expect_blocked("16", "exec", &EXEC, &["--nonblocking"]);
    expect_blocked("26", "exec", &EXEC, &["--nonblocking"]);
}

#[test]
fn a_thread_blocked_in_a_read_of_a_pipe_shows_it() {
    expect_blocked("20", "pipe", &["readSync"], &[]);
    expect_blocked("26", "pipe", &["readSync"], &["--nonblocking"]);
}

#[test]
fn a_thread_blocked_in_atomics_wait_shows_it() {
    for arguments in [&[][..], &["--nonblocking"][..]] {
        let Some(_live) = live() else { return };
        let mut target = Workload::new("blocked.js")
            .env("HOW", "atomics")
            .env("MS", 120_000)
            .start();
        // It may still be on its way into the call.
        dump_until(&mut target, arguments, "AtomicsWait", |found| {
            let main = &threads(found)[0];
            let summary = main["summary"].as_str().unwrap_or_default();
            names(main).contains(&"atomics") && summary.contains("blocked: in AtomicsWait")
        });
    }
}

#[test]
fn an_idle_event_loop_is_in_epoll() {
    for (major, arguments) in [("16", &[][..]), ("20", &["--nonblocking"]), ("26", &[])] {
        let Some(_live) = live() else { return };
        let mut target = Workload::new("idle.js").on(major).start();
        // It says that it is ready a moment before it waits.
        let found = dump_until(&mut target, arguments, "epoll", |found| {
            let leaf = names(&threads(found)[0]).first().copied();
            leaf.is_some_and(|leaf| leaf.starts_with("epoll_"))
        });
        let main = &threads(&found)[0];
        assert!(names(main).contains(&"uv_run"), "{main:#}");
        assert_eq!(main["activity"], "idle", "{main:#}");
        // V8's helpers wait too.
        let helpers = threads(&found)
            .iter()
            .filter(|thread| thread["role"] == "V8 platform");
        assert!(helpers.count() >= 4, "{found:#}");
    }
}

#[test]
fn workers_have_their_names_and_their_own_functions() {
    let Some(_live) = live() else { return };
    for arguments in [&[][..], &["--nonblocking"][..]] {
        let mut target = Workload::new("workers.js")
            .on("26")
            .env("ENDLESS", 1)
            .start();
        // It says that it is ready a moment before its workers are where they stay.
        for (name, function) in [("resize", "resizeImages"), ("parse", "parseFeeds")] {
            let is_there = |found: &Value| names(worker(found, name)).contains(&function);
            let found = dump_until(&mut target, arguments, function, is_there);
            let again = dump(&mut target, arguments);
            assert!(is_there(&again), "{found:#}\n{again:#}");
        }
    }
}

fn worker<'a>(found: &'a Value, name: &str) -> &'a Value {
    threads(found)
        .iter()
        .find(|thread| thread["role"] == "worker" && thread["name"] == name)
        .unwrap_or_else(|| panic!("no worker {name}: {found:#}"))
}

#[test]
fn held_times_are_told_and_a_stop_can_be_done_without() {
    let Some(_live) = live() else { return };
    let mut target = Workload::new("split.js").start();
    let found = dump(&mut target, &[]);
    assert_eq!(found["mode"], "stop");
    let held = |thread: &Value| thread["stopped_ns"].as_u64().unwrap();
    let sum: u64 = threads(&found).iter().map(held).sum();
    assert_eq!(found["stopped_ns"].as_u64(), Some(sum));
    assert!(threads(&found).iter().all(|thread| held(thread) > 0));
    let found = dump(&mut target, &["--nonblocking"]);
    assert_eq!(found["mode"], "nonblocking");
    assert_eq!(found["stopped_ns"], 0);
    expect_it_runs_on(&target);
}

#[test]
fn the_text_says_what_the_event_loop_does_and_shows_recursion_once() {
    let Some(_live) = live() else { return };
    let target = Workload::new("recursion.js").start();
    let expected = [
        "main, tid ",
        ", held ",
        "the event loop is busy: ",
        "… the same ",
        "in all",
    ];
    // One turn in ten does not recurse.
    let until = Instant::now() + DEADLINE;
    loop {
        let outcome = run_nodespy(&["dump", "-p", &target.pid_text()]);
        outcome.expect_code(0);
        if expected.iter().all(|text| outcome.stdout.contains(text)) {
            break;
        }
        assert!(Instant::now() < until, "{outcome}");
    }
}

#[test]
fn a_stopped_process_stays_stopped() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    crate::run::signal(target.pid(), "STOP");
    // A thread stops when it is its turn to run.
    let until = Instant::now() + DEADLINE;
    while !target.status("State").starts_with('T') {
        assert!(Instant::now() < until, "it does not stop");
        std::thread::sleep(Duration::from_millis(10));
    }
    let outcome = run_nodespy(&["dump", "-p", &target.pid_text()]);
    outcome.expect_code(0);
    assert!(outcome.stdout.contains("stopped, held"), "{outcome}");
    // It may have stopped between two turns of the program, in what calls it.
    let javascript = ["split.js:", "processImmediate"];
    let is_named = javascript.iter().any(|name| outcome.stdout.contains(name));
    assert!(is_named, "{outcome}");
    assert_eq!(target.status("TracerPid"), "0");
    assert!(target.status("State").starts_with('T'), "{outcome}");
    crate::run::signal(target.pid(), "CONT");
    expect_it_runs_on(&target);
}

/// Another user's process: exit code 3, and who may.
fn expect_refusal_of_others(arguments: &[&str]) {
    if !is_root() {
        skip("only root can become another user");
        return;
    }
    let target = Workload::new("split.js").start();
    let scratch = Scratch::for_other_users();
    let pid = target.pid_text();
    let outcome = run_as_nobody(&scratch, &[arguments, &["-p", &pid]].concat());
    outcome
        .expect_code(3)
        .expect_stderr(&[&format!("pid {pid} belongs to uid 0")]);
}

#[test]
fn errors_are_those_of_record() {
    let Some(_live) = live() else { return };
    run_nodespy(&["dump", "-p", "999999999"]).expect_code(4);
    run_nodespy(&["dump"]).expect_code(2);
    for arguments in [&["dump"][..], &["dump", "--nonblocking"][..]] {
        expect_refusal_of_others(arguments);
    }
    let shell = busy_shell();
    let outcome = run_nodespy(&["dump", "-p", &shell.pid_text()]);
    outcome.expect_code(1).expect_stderr(&["--any"]);
    let outcome = run_nodespy(&["dump", "--any", "-p", &shell.pid_text()]);
    outcome.expect_code(0);
}
