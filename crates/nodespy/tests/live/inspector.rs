//! V8's own profiler through the inspector: is the profile true, and is the process left as it was
//! found?

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use super::live;
use super::recorded::{record, record_pids};
use super::versions::on_every_node;
use super::workload::{Running, USUAL_NODE, Workload, node};
use crate::run::{DEADLINE, Started, nodespy, run_nodespy};
use crate::scratch::Scratch;

/// What an open inspector changes in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Traces {
    sockets: usize,
    threads: usize,
}

fn traces(pid: u32) -> Traces {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let sockets = links
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|link| link.to_string_lossy().starts_with("socket:"))
        .count();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    Traces { sockets, threads }
}

/// Waits until a process looks as it did before.
#[track_caller]
fn expect_as_found(pid: u32, before: Traces) {
    let until = Instant::now() + DEADLINE;
    while traces(pid) != before {
        assert!(
            Instant::now() < until,
            "{before:?} before, {:?} after",
            traces(pid)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A few lines of JavaScript that print `ready`.
fn start_code(flags: &[&str], code: &str) -> Running {
    let mut command = Command::new(node(USUAL_NODE).unwrap());
    command.args(flags).args(["-e", code]);
    Running::new(command)
}

fn expect_recorded_and_left_as_found(version: &str) {
    let Some(_live) = live() else { return };
    let mut target = Workload::new("split.js").on(version).start();
    let before = traces(target.pid());
    let recorded = record(&target, &["--engine", "inspector", "-d", "1"]);
    assert_eq!(recorded.profile.about.engine, "V8 inspector");
    // V8 gives what it inlined to the caller, so only the caller's total is sure.
    let turn = recorded.total_share("turn");
    assert!(turn > 0.8, "{turn}\n{}", recorded.describe());
    assert!(target.is_alive());
    expect_as_found(target.pid(), before);
}

on_every_node! {{
    a_process_is_recorded_and_left_as_it_was_found(expect_recorded_and_left_as_found);
}}

#[test]
fn workers_are_recorded_by_name() {
    let Some(_live) = live() else { return };
    let target = Workload::new("workers.js").start();
    let recorded = record(&target, &["--engine", "inspector", "-d", "3"]);
    let workers = recorded
        .profile
        .threads
        .iter()
        .filter(|thread| thread.role == nodespy_model::ThreadRole::Worker)
        .count();
    assert!(workers >= 2, "{}", recorded.describe());
}

#[test]
fn a_process_stuck_in_javascript_is_recorded_and_its_inspector_closed() {
    let Some(_live) = live() else { return };
    let target = Workload::new("stuck.js").start();
    std::thread::sleep(Duration::from_millis(300));
    let before = traces(target.pid());
    let recorded = record(&target, &["--engine", "inspector", "-d", "2"]);
    let idle = recorded.total_share("(idle)");
    assert!(idle < 0.1, "{}", recorded.describe());
    // No timer fires there, so closing it needs another way.
    expect_as_found(target.pid(), before);
}

#[test]
fn a_process_that_would_die_of_the_signal_is_not_sent_it() {
    let Some(_live) = live() else { return };
    let code = "const f = () => {}; process.on('SIGUSR1', f); process.off('SIGUSR1', f);
        setInterval(() => {}, 10); console.log('ready')";
    let mut target = start_code(&[], code);
    let outcome = run_nodespy(&[
        "record",
        "--engine",
        "inspector",
        "-d",
        "1",
        "-p",
        &target.pid_text(),
    ]);
    outcome
        .expect_code(1)
        .expect_stderr(&["SIGUSR1", "--engine perf"]);
    assert!(target.is_alive());
}

#[test]
fn an_inspector_that_was_open_stays_open() {
    let Some(_live) = live() else { return };
    let code = "console.log('ready'); setInterval(function busy() { const end = Date.now() + 20; while (Date.now() < end); }, 1)";
    let target = start_code(&["--inspect=127.0.0.1:0"], code);
    let before = traces(target.pid());
    let recorded = record(&target, &["--engine", "inspector", "-d", "2"]);
    assert!(
        recorded.total_share("listOnTimeout") > 0.2,
        "{}",
        recorded.describe()
    );
    expect_as_found(target.pid(), before);
    assert!(before.sockets > 0);
}

#[test]
fn two_processes_are_recorded_at_once() {
    let Some(_live) = live() else { return };
    let first = Workload::new("split.js").start();
    let second = Workload::new("split.js").start();
    let pids = format!("{},{}", first.pid(), second.pid());
    let before = [traces(first.pid()), traces(second.pid())];
    let recorded = record_pids(&pids, &["--engine", "inspector", "-d", "3"]);
    for target in [&first, &second] {
        let on = recorded.weight_of(|sample| recorded.process_of(sample).pid == target.pid());
        assert!(on > 0, "{}", recorded.describe());
    }
    expect_as_found(first.pid(), before[0]);
    expect_as_found(second.pid(), before[1]);
}

#[test]
fn a_process_that_exits_is_not_held_up_and_its_profile_is_kept() {
    let Some(_live) = live() else { return };
    // Two seconds after its inspector was opened, whenever that is.
    let code = "console.log('ready'); const { url } = require('inspector');
        setInterval(function busy() { const end = Date.now() + 20; while (Date.now() < end); }, 1);
        const opened = setInterval(() => { if (url()) { clearInterval(opened); setTimeout(() => process.exit(7), 2000); } }, 50)";
    let mut target = start_code(&[], code);
    let recorded = record(&target, &["--engine", "inspector", "-d", "60"]);
    assert!(
        recorded.total_share("listOnTimeout") > 0.2,
        "{}",
        recorded.describe()
    );
    assert!(
        recorded.outcome.took < Duration::from_secs(40),
        "{}",
        recorded.outcome
    );
    let until = Instant::now() + DEADLINE;
    while target.is_alive() {
        assert!(
            Instant::now() < until,
            "it waits for a debugger that is gone"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_nodespy_leaves_no_profiler_running() {
    let Some(_live) = live() else { return };
    let mut target = Workload::new("split.js").start();
    let before = traces(target.pid());
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let started = Started::new(
        nodespy(&[
            "record",
            "--engine",
            "inspector",
            "-o",
            &output,
            "-p",
            &target.pid_text(),
        ]),
        "",
    );
    let until = Instant::now() + DEADLINE;
    // The profiler has a thread of its own.
    while traces(target.pid()).threads < before.threads + 2 {
        assert!(Instant::now() < until, "no profiler was started");
        std::thread::sleep(Duration::from_millis(20));
    }
    started.signal("KILL");
    started.finish();
    let until = Instant::now() + DEADLINE;
    while traces(target.pid()).threads > before.threads + 1 {
        assert!(Instant::now() < until, "its profiler still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(target.is_alive());
}
