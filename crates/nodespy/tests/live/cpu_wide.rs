//! Events of whole CPUs: is the profile that of the target, as with events of its threads?

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::ebpf::{expect_rare, expect_same_shares};
use super::recorded::{Recorded, expect_share, read};
use super::workload::{Running, Workload, node, root, script};
use super::{is_root, live};
use crate::run::{DEADLINE, Started, nodespy, run, run_nodespy};
use crate::scratch::Scratch;
use crate::skip::skip;

const SAID: &str = " CPU-wide with eBPF ";
const CHOICE: &str = "NODESPY_EVENTS";
const RATE_HZ: u32 = 999;

/// Whether the program can run here. In CI it must.
fn can_run() -> bool {
    if !is_root() {
        skip("eBPF programs need root");
    }
    is_root()
}

/// Starts to record with these variables of the environment.
fn start(arguments: &[&str], output: &str, environment: &[(&str, &str)]) -> Started {
    let mut command = nodespy(&["record", "-F", &RATE_HZ.to_string(), "-o", output]);
    command.args(arguments).envs(environment.iter().copied());
    Started::new(command, "")
}

fn finish(started: Started, output: &str) -> Recorded {
    let outcome = started.finish();
    outcome.expect_code(0);
    let profile = read(Path::new(output));
    Recorded { profile, outcome }
}

/// Records CPU-wide.
fn record_cpu_wide(arguments: &[&str]) -> Recorded {
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let recorded = finish(start(arguments, &output, &[(CHOICE, "cpus")]), &output);
    let said = recorded.outcome.stderr.contains(SAID);
    assert!(said, "{}", recorded.outcome);
    recorded
}

fn pids_of(recorded: &Recorded) -> Vec<u32> {
    let processes = recorded.profile.processes.iter();
    processes.map(|process| process.pid).collect()
}

/// Three nodespys at once, one of them with the program for older kernels, while another process is busy.
#[test]
fn events_of_cpus_and_of_threads_agree() {
    let Some(_live) = live() else { return };
    if !can_run() {
        return;
    }
    let target = Workload::new("mix.js").on("24").start();
    let _other = Workload::new("split.js").start();
    let (scratch, pid) = (Scratch::new(), target.pid_text());
    let started = [
        &[(CHOICE, "threads")][..],
        &[(CHOICE, "cpus")],
        &[(CHOICE, "cpus"), ("NODESPY_OLD_EBPF", "5.8")],
    ]
    .map(|environment| {
        let output = scratch.file(&format!("{}-{}.nspy", environment.len(), environment[0].1));
        let arguments = ["-p", pid.as_str(), "-d", "6"];
        (start(&arguments, &output, environment), output)
    });
    let [threads, newer, older] = started.map(|(started, output)| finish(started, &output));
    assert!(
        !threads.outcome.stderr.contains(SAID),
        "{}",
        threads.outcome
    );
    for cpus in [&newer, &older] {
        assert!(cpus.outcome.stderr.contains(SAID), "{}", cpus.outcome);
        assert_eq!(pids_of(cpus), [target.pid()], "{}", cpus.describe());
        cpus.expect_nothing_lost();
        expect_agreement(&threads, cpus);
    }
    for recorded in [&threads, &newer, &older] {
        expect_samples_of_cpu_time(recorded);
    }
}

/// As many samples as the target's CPU time has at this rate. Recordings that start one after the other are not of the same
/// time, and on a busy machine the target has another share of it.
fn expect_samples_of_cpu_time(recorded: &Recorded) {
    let processes = recorded.profile.processes.iter();
    let cpu_time: u64 = processes.filter_map(|process| process.cpu_time).sum();
    let expected = cpu_time as f64 / 1e9 * f64::from(RATE_HZ);
    let samples = recorded.profile.total_weight() as f64;
    // Whether one of the CPU's samples meets the target is chance.
    let margin = 0.05 + 4.5 / samples.sqrt();
    assert!(
        (samples / expected - 1.0).abs() < margin,
        "{samples} samples, {expected} by CPU time, {}\n{}",
        recorded.outcome,
        recorded.describe()
    );
}

/// Shares within the noise.
fn expect_agreement(threads: &Recorded, cpus: &Recorded) {
    let notes = &cpus.profile.notes;
    let (incomplete, all) = (notes.incomplete_stacks, notes.unwound_stacks);
    expect_rare(cpus, "incomplete", incomplete, all, 0.01);
    expect_same_shares(threads, cpus);
}

#[test]
fn children_that_start_later_are_recorded_from_their_start() {
    let Some(_live) = live() else { return };
    if !can_run() {
        return;
    }
    let target = Workload::new("child.js").start();
    let _other = Workload::new("split.js").start();
    let pid = target.pid_text();
    let recorded = record_cpu_wide(&["-p", &pid, "-d", "8"]);
    let busy = recorded.total_share("shortLived");
    assert!(busy > 0.4, "{busy}\n{}", recorded.describe());
    // What a child does before its first line of JavaScript is there too.
    let starting = recorded.total_share("node::InitializeOncePerProcessInternal");
    assert!(starting > 0.05, "{starting}\n{}", recorded.describe());
    for process in &recorded.profile.processes {
        let is_of_family = process.pid == target.pid() || process.parent_pid == target.pid();
        assert!(is_of_family, "{}\n{}", process.pid, recorded.describe());
    }
}

#[test]
fn subprocesses_are_left_out_when_asked() {
    let Some(_live) = live() else { return };
    if !can_run() {
        return;
    }
    let target = Workload::new("cluster.js").env("PRIMARY", "busy").start();
    let recorded = record_cpu_wide(&["-p", &target.pid_text(), "-d", "2", "--no-subprocesses"]);
    assert_eq!(
        pids_of(&recorded),
        [target.pid()],
        "{}",
        recorded.describe()
    );
    let supervising = recorded.total_share("superviseWorkers");
    assert!(supervising > 0.9, "{}", recorded.describe());
}

#[test]
fn a_launched_command_and_its_workers_are_recorded() {
    let Some(_live) = live() else { return };
    if !can_run() {
        return;
    }
    let (node, script) = (node("24").unwrap(), script("workers.js"));
    let recorded = record_cpu_wide(&["-d", "4", "--", &node, &script]);
    assert_eq!(recorded.profile.processes.len(), 1);
    for function in ["resizeImages", "parseFeeds"] {
        let busy = recorded.total_share(function);
        assert!(busy > 0.2, "{function} {busy}\n{}", recorded.describe());
    }
}

/// Where a pid is another one inside: nodespy in there, and nodespy outside.
#[test]
fn pid_namespaces_are_told_apart() {
    let Some(_live) = live() else { return };
    if !can_run() {
        return;
    }
    let scratch = Scratch::new();
    let output = scratch.file("inner.nspy");
    let inner = r#""$1" "$2" > "$4.said" & while ! grep -q ready "$4.said"; do sleep 0.1; done
        "$3" record -p $! -F 499 -d 2 -o "$4"; status=$?; kill $!; exit $status"#;
    let (node, script) = (node("24").unwrap(), script("split.js"));
    let binary = nodespy(&[]).get_program().to_owned();
    let mut command = Command::new("unshare");
    command
        .args(["-p", "-f", "--mount-proc", "sh", "-c", inner, "sh"])
        .args([&node, &script])
        .arg(binary)
        .arg(&output)
        .env(CHOICE, "cpus")
        .current_dir(root());
    let _other = Workload::new("mix.js").start();
    let outcome = run(command);
    outcome.expect_code(0);
    assert!(outcome.stderr.contains(SAID), "{outcome}");
    let profile = read(Path::new(&output));
    expect_split_alone(&Recorded { profile, outcome });

    let mut command = Command::new("unshare");
    command.args(["-p", "-f", "--mount-proc", "--kill-child", &node, &script]);
    let outer = Running::new(command);
    let children = super::workload::children_of(outer.pid());
    let pid = children[0].to_string();
    expect_split_alone(&record_cpu_wide(&["-p", &pid, "-d", "2"]));
}

fn expect_split_alone(recorded: &Recorded) {
    assert_eq!(pids_of(recorded).len(), 1, "{}", recorded.describe());
    let [seventy, thirty] =
        ["seventyPercent", "thirtyPercent"].map(|function| recorded.total_share(function));
    expect_share(
        "seventyPercent",
        seventy / (seventy + thirty),
        0.7,
        recorded,
    );
}

#[test]
fn a_server_under_load_is_recorded_cpu_wide_and_a_loop_is_not() {
    let Some(_live) = live() else { return };
    if !can_run() {
        return;
    }
    let spinning = Workload::new("split.js").start();
    let outcome = run_nodespy(&["check", "-p", &spinning.pid_text()]);
    assert!(
        outcome.stdout.contains("events are of threads"),
        "{outcome}"
    );
    drop(spinning);
    let switching = Workload::new("pingpong.js").start();
    let recorded = record_cpu_wide(&["-p", &switching.pid_text(), "-d", "2"]);
    let taking = recorded.total_share("takeTurns");
    assert!(taking > 0.8, "{taking}\n{}", recorded.describe());
    drop(switching);
    let server = Workload::new("server.js").start();
    let load = Workload::new("load.js").argument(&server.ready);
    let _load = load.argument(60).argument(1_000_000).start();
    let pid = server.pid_text();
    // Its start, which is all it has done at first, has hardly a switch.
    let until = Instant::now() + DEADLINE;
    loop {
        let outcome = run_nodespy(&["check", "-p", &pid]);
        if outcome.stdout.contains("events are of whole CPUs") {
            break;
        }
        assert!(Instant::now() < until, "{outcome}");
    }
    let outcome = run_nodespy(&["record", "-p", &pid, "-d", "1", "-o", "-", "-f", "folded"]);
    assert!(outcome.stderr.contains(SAID), "{outcome}");
}
