//! The flight recorder: does it write what blocked the loop, and nothing where nothing did?

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nodespy_analysis::{charged_weights, function_weights, without_idle_states};
use nodespy_model::Profile;

use super::live;
use super::recorded::{read, share};
use super::workload::{Running, USUAL_NODE, Workload, node};
use crate::run::{DEADLINE, Outcome, Started, nodespy, run_nodespy};
use crate::scratch::Scratch;

/// What a flight recorder wrote of a workload, and said.
struct Flight {
    files: Vec<Profile>,
    outcome: Outcome,
}

/// Records with triggers into `out.nspy`, `out-2.nspy` and so on.
#[track_caller]
fn fly(target: &Running, arguments: &[&str]) -> Flight {
    let folder = Scratch::new();
    let (pid, output) = (target.pid_text(), folder.file("out.nspy"));
    let mut all = vec!["record", "-p", &pid, "-o", &output];
    all.extend(arguments);
    let outcome = run_nodespy(&all);
    outcome.expect_code(0);
    let files = files_in(&folder);
    Flight { files, outcome }
}

fn files_in(folder: &Scratch) -> Vec<Profile> {
    let names = folder.names();
    let paths = names.iter().map(|name| folder.path().join(name));
    paths.map(|path| read(Path::new(&path))).collect()
}

/// The function that most is charged to, idle time apart.
fn top_function(profile: &Profile) -> String {
    let busy = without_idle_states(profile);
    let charged = charged_weights(&busy, |_| true);
    let top = charged.iter().max_by_key(|entry| entry.charged_weight);
    top.map_or_else(String::new, |entry| busy.name_of(entry.function).to_owned())
}

/// The part of what was not idle that a function or what it called had.
fn total_share(profile: &Profile, name: &str) -> f64 {
    let busy = without_idle_states(profile);
    let weights = function_weights(&busy, |_| true);
    let under = weights
        .iter()
        .filter(|entry| busy.name_of(entry.function) == name)
        .map(|entry| entry.total_weight)
        .sum();
    share(under, busy.total_weight())
}

#[test]
fn a_blocked_loop_gives_a_file_with_who_blocked_it() {
    let Some(_live) = live() else { return };
    // Far longer than other programs keep it from its CPU.
    let stalls = Workload::new("stalls.js").env("FOR", 1500);
    let target = stalls.env("EVERY", 4000).start();
    let arguments = ["--trigger", "stall>1s", "--keep", "10s", "-d", "12"];
    let flight = fly(&target, &arguments);
    let [file] = &flight.files[..] else {
        panic!("{}", flight.outcome);
    };
    assert_eq!(top_function(file), "burn", "{}", flight.outcome);
    // The rest is innocent, which on a busy machine waits for a CPU twenty times a second.
    let blocking = total_share(file, "blockLoop");
    assert!(blocking > 0.25, "{blocking} {}", flight.outcome);
    let said = file.notes.triggers.join("\n");
    assert!(
        said.starts_with("written because the event loop of pid"),
        "{said}"
    );
    assert!(said.contains("blockLoop"), "{said}");
    flight
        .outcome
        .expect_stderr(&["away from poll for", "1 file written"]);
    let last = file.samples.last().map_or(0, |sample| sample.time);
    // Ten seconds of what was before, at most ten of what follows.
    assert!(file.about.duration <= 21_000_000_000 && last <= file.about.duration);
}

#[test]
fn what_an_idle_program_waits_for_all_at_once_is_seen() {
    let Some(_live) = live() else { return };
    let node = node(USUAL_NODE).unwrap();
    let program = "const { execSync } = require('child_process');
        function waitForChild() { execSync('sleep 0.7'); }
        setInterval(waitForChild, 5000);
        console.log('ready');";
    let mut command = Command::new(node);
    command.args(["-e", program]);
    let target = Running::new(command);
    let arguments = ["--trigger", "stall>200ms", "--no-subprocesses", "-d", "13"];
    let flight = fly(&target, &arguments);
    let [file] = &flight.files[..] else {
        panic!("{}", flight.outcome);
    };
    assert!(
        total_share(file, "waitForChild") > 0.5,
        "{}",
        flight.outcome
    );
    flight.outcome.expect_stderr(&["waitForChild", "waiting: "]);
}

#[test]
fn a_healthy_program_writes_nothing() {
    let Some(_live) = live() else { return };
    let target = Workload::new("stalls.js").env("EVERY", 1_000_000).start();
    let flight = fly(
        &target,
        &["--trigger", "stall>2s", "--trigger", "rss>100GB", "-d", "6"],
    );
    assert!(flight.files.is_empty(), "{}", flight.outcome);
    flight.outcome.expect_stderr(&["nothing was written"]);
}

#[test]
fn as_many_files_are_written_as_are_allowed() {
    let Some(_live) = live() else { return };
    let target = Workload::new("stalls.js").start();
    let often = [
        "--trigger",
        "stall>200ms",
        "--keep",
        "2s",
        "--hold-off",
        "1s",
    ];
    let mut arguments = often.to_vec();
    arguments.extend(["--max-files", "2", "-d", "60"]);
    let flight = fly(&target, &arguments);
    assert_eq!(flight.files.len(), 2, "{}", flight.outcome);
    flight
        .outcome
        .expect_stderr(&["--max-files", "2 files written"]);
    let mut arguments = often.to_vec();
    arguments.extend(["--max-size", "1KB", "-d", "60"]);
    let flight = fly(&target, &arguments);
    assert_eq!(flight.files.len(), 1, "{}", flight.outcome);
    flight.outcome.expect_stderr(&["--max-size"]);
    assert!(flight.outcome.took < Duration::from_secs(50));
}

#[test]
fn a_signal_asks_for_what_was_recorded_lately() {
    let Some(_live) = live() else { return };
    let target = Workload::new("stalls.js").start();
    let folder = Scratch::new();
    let (pid, output) = (target.pid_text(), folder.file("out.nspy"));
    let arguments = [
        "record",
        "-p",
        &pid,
        "-o",
        &output,
        "--trigger",
        "signal",
        "--keep",
        "5s",
    ];
    let started = Started::new(nodespy(&arguments), "");
    started.wait_until_it_says("Recording ");
    std::thread::sleep(Duration::from_secs(5));
    assert!(folder.names().is_empty());
    started.signal("USR2");
    let until = Instant::now() + DEADLINE;
    while !Path::new(&output).exists() {
        assert!(Instant::now() < until, "{:?}", folder.names());
        std::thread::sleep(Duration::from_millis(50));
    }
    started.signal("INT");
    let outcome = started.finish();
    outcome.expect_code(0);
    let files = files_in(&folder);
    assert_eq!(files.len(), 1, "{outcome}");
    assert_eq!(top_function(&files[0]), "burn");
    assert!(files[0].notes.triggers[0].contains("SIGUSR2"), "{outcome}");
}

#[test]
fn what_led_to_a_trigger_is_kept_elsewhere_where_its_output_fails() {
    let Some(_live) = live() else { return };
    let target = Workload::new("stalls.js").start();
    let folder = Scratch::new();
    let gone = folder.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let mut command = nodespy(&["record", "-p", &target.pid_text(), "--trigger", "signal"]);
    command
        .args(["--keep", "5s", "-o", "gone/out.nspy"])
        .current_dir(folder.path());
    let started = Started::new(command, "");
    started.wait_until_it_says("Recording ");
    std::fs::remove_dir(&gone).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    started.signal("USR2");
    let outcome = started.finish();
    outcome
        .expect_code(1)
        .expect_stderr(&["gone/out", "the recording was kept in"]);
    let files = files_in(&folder);
    assert_eq!(files.len(), 1, "{outcome}");
    assert!(files[0].notes.triggers[0].contains("SIGUSR2"), "{outcome}");
}

#[test]
fn a_busy_process_and_a_large_one_are_written_once() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let flight = fly(
        &target,
        &[
            "--trigger",
            "cpu>2%/2s",
            "--keep",
            "3s",
            "--hold-off",
            "1s",
            "-d",
            "12",
        ],
    );
    assert_eq!(flight.files.len(), 1, "{}", flight.outcome);
    flight.outcome.expect_stderr(&["% of a CPU for 2 s"]);
    let flight = fly(&target, &["--trigger", "rss>1MB", "-d", "4"]);
    assert_eq!(flight.files.len(), 1, "{}", flight.outcome);
    flight.outcome.expect_stderr(&["MB of memory"]);
}

#[test]
fn what_makes_no_sense_is_answered_with_an_example() {
    let refused = |arguments: &[&str]| {
        let mut all = vec!["record", "-p", "1"];
        all.extend(arguments);
        let outcome = run_nodespy(&all);
        outcome.expect_code(2).expect_stderr(&["stall>200ms"]);
    };
    refused(&["--trigger", "slow"]);
    refused(&["--trigger", "stall"]);
    refused(&["--keep", "30s"]);
    refused(&["--max-files", "3"]);
    refused(&["--trigger", "signal", "--engine", "inspector"]);
    refused(&["--trigger", "signal", "-e", "alloc"]);
}
