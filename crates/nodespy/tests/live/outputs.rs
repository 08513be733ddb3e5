//! What is written and printed: every kind of output from one recording, and the list of processes.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use nodespy_model::Category;

use super::live;
use super::recorded::read;
use super::workload::{Running, Workload};
use crate::run::{nodespy, run, run_nodespy};
use crate::scratch::Scratch;

fn split() -> Running {
    Workload::new("split.js").with_perf_map().start()
}

#[test]
fn one_recording_writes_every_kind_of_output() {
    let Some(_live) = live() else { return };
    let target = split();
    let scratch = Scratch::new();
    let outputs =
        ["html", "svg", "folded", "nspy"].map(|kind| scratch.file(&format!("out.{kind}")));
    let pid = target.pid_text();
    let mut arguments = vec!["record", "-p", &pid, "-d", "2", "-F", "199"];
    for output in &outputs {
        arguments.extend(["-o", output]);
    }
    let outcome = run_nodespy(&arguments);
    outcome.expect_code(0);
    assert!(outcome.stdout.contains("seventyPercent"), "{outcome}");
    assert_eq!(
        scratch.names(),
        ["out.folded", "out.html", "out.nspy", "out.svg"]
    );
    for output in &outputs {
        let bytes = fs::read(output).unwrap();
        assert!(bytes.len() > 200, "{output} has {} bytes", bytes.len());
    }
    let folded = fs::read_to_string(&outputs[2]).unwrap();
    assert!(folded.lines().any(|line| line.contains("seventyPercent")));
    // The page holds the whole profile.
    let native = read(Path::new(&outputs[3]));
    assert!(native.samples.iter().all(|sample| sample.cpu.is_some()));
    assert_eq!(native, read(Path::new(&outputs[0])));
    let of_lines: u64 = folded
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(of_lines, native.total_weight());

    // Converting gives what recording gave.
    for (input, kind) in [
        (&outputs[3], "folded"),
        (&outputs[0], "folded"),
        (&outputs[3], "svg"),
    ] {
        let again = scratch.file(&format!("again.{kind}"));
        run_nodespy(&["convert", input, &again]).expect_code(0);
        let first = fs::read_to_string(scratch.file(&format!("out.{kind}"))).unwrap();
        assert!(
            first == fs::read_to_string(&again).unwrap(),
            "{input} to {kind}"
        );
    }
}

#[test]
fn a_recording_holds_what_is_not_shown() {
    let Some(_live) = live() else { return };
    let target = split();
    let scratch = Scratch::new();
    let outputs = [scratch.file("out.nspy"), scratch.file("out.folded")];
    let pid = target.pid_text();
    let outcome = run_nodespy(&[
        "record",
        "-p",
        &pid,
        "-d",
        "1",
        "-o",
        &outputs[0],
        "-o",
        &outputs[1],
        "--only",
        "app",
    ]);
    outcome.expect_code(0);
    let whole = read(Path::new(&outputs[0]));
    assert!(whole.notes.filters.is_empty());
    let is_native = |each: &nodespy_model::Function| each.category == Category::Native;
    assert!(whole.functions.iter().any(is_native));
    let folded = fs::read_to_string(&outputs[1]).unwrap();
    assert!(folded.lines().all(|line| line.contains("_[j]")), "{folded}");
    assert!(outcome.stdout.contains("filtered: --only app"), "{outcome}");
}

#[test]
fn a_dash_writes_folded_stacks_to_standard_output_and_nothing_else() {
    let Some(_live) = live() else { return };
    let target = split();
    let outcome = run_nodespy(&["record", "-p", &target.pid_text(), "-d", "1", "-o", "-"]);
    outcome.expect_code(0).expect_stderr(&["seventyPercent"]);
    assert!(!outcome.stdout.is_empty());
    for line in outcome.stdout.lines() {
        let (stack, weight) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        assert!(!stack.is_empty());
        assert!(weight.parse::<u64>().is_ok(), "{line:?}");
    }
}

#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let Some(_live) = live() else { return };
    let target = split();
    let mut command = nodespy(&["record", "-p", &target.pid_text(), "-d", "1", "-o", "-"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_recording_that_does_not_fit_is_kept_elsewhere() {
    let Some(_live) = live() else { return };
    let target = split();
    let scratch = Scratch::new();
    let pid = target.pid_text();
    let mut command = nodespy(&[
        "record",
        "-p",
        &pid,
        "-d",
        "1",
        "--format",
        "nspy",
        "-o",
        "/dev/full",
    ]);
    command.current_dir(scratch.path());
    let outcome = run(command);
    outcome.expect_code(1).expect_stderr(&["/dev/full", "kept"]);
    let names = scratch.names();
    assert_eq!(names.len(), 1, "{names:?}\n{outcome}");
    assert!(outcome.stderr.contains(&names[0]), "{outcome}");
    assert!(!read(&scratch.path().join(&names[0])).samples.is_empty());
}

#[test]
fn a_file_that_is_there_survives_a_recording_that_fails() {
    let Some(_live) = live() else { return };
    let target = Workload::new("idle.js").start();
    let scratch = Scratch::new();
    let output = scratch.file("out.folded");
    fs::write(&output, "precious\n").unwrap();
    let outcome = run_nodespy(&["record", "-p", &target.pid_text(), "-d", "1", "-o", &output]);
    outcome.expect_code(5);
    assert_eq!(fs::read_to_string(&output).unwrap(), "precious\n");
}

#[test]
fn names_of_outputs_are_filled_in() {
    let Some(_live) = live() else { return };
    let target = split();
    let scratch = Scratch::new();
    let output = scratch.file("{app}-{pid}.folded");
    let outcome = run_nodespy(&["record", "-p", &target.pid_text(), "-d", "1", "-o", &output]);
    outcome.expect_code(0);
    let names = scratch.names();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(
        names[0].contains("split") && names[0].ends_with(&format!("-{}.folded", target.pid())),
        "{names:?}"
    );
}

#[test]
fn an_attach_without_an_output_writes_one_page_here() {
    let Some(_live) = live() else { return };
    let target = split();
    let scratch = Scratch::new();
    let mut command = nodespy(&["record", "-p", &target.pid_text(), "-d", "1"]);
    command.current_dir(scratch.path());
    let outcome = run(command);
    outcome.expect_code(0);
    let names = scratch.names();
    assert_eq!(names.len(), 1, "{names:?}\n{outcome}");
    assert!(names[0].ends_with(".html"), "{names:?}");
    assert!(
        format!("{}{}", outcome.stdout, outcome.stderr).contains(&names[0]),
        "{outcome}"
    );
    assert_eq!(read(&scratch.path().join(&names[0])).event().rate_hz(), 99);
}

#[test]
fn a_quiet_recording_says_nothing_on_standard_error() {
    let Some(_live) = live() else { return };
    let target = split();
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let outcome = run_nodespy(&[
        "record",
        "-q",
        "-p",
        &target.pid_text(),
        "-d",
        "1",
        "-o",
        &output,
    ]);
    outcome.expect_code(0);
    assert_eq!(outcome.stderr, "", "{outcome}");
}

#[test]
fn node_processes_are_listed_with_what_tells_them_apart() {
    let Some(_live) = live() else { return };
    let target = split();
    let outcome = run_nodespy(&[]);
    outcome.expect_code(0);
    let line = outcome
        .stdout
        .lines()
        .find(|line| {
            line.split_whitespace()
                .any(|word| word == target.pid_text())
        })
        .unwrap_or_else(|| panic!("pid {} is not listed\n{outcome}", target.pid()));
    for part in ["split", "20.20"] {
        assert!(line.contains(part), "no {part:?} in {line:?}");
    }
    assert!(outcome.stdout.contains("nodespy record") || outcome.stderr.contains("nodespy record"));

    let json = run_nodespy(&["--json"]);
    json.expect_code(0);
    assert!(
        json.stdout.trim_start().starts_with(['{', '['])
            && json.stdout.contains(&target.pid_text()),
        "{json}"
    );
}

#[test]
fn check_says_what_works_for_a_process() {
    let Some(_live) = live() else { return };
    let target = split();
    let outcome = run_nodespy(&["check", "-p", &target.pid_text()]);
    outcome.expect_code(0);
    let line_of = |topic: &str| {
        let found = outcome.stdout.lines().find(|line| line.contains(topic));
        found.unwrap_or_else(|| panic!("no {topic:?} in {outcome}"))
    };
    for (topic, said) in [
        ("program  ", "Node.js v20."),
        ("sampling  ", "perf events can be opened"),
        ("memory  ", "V8's heap and deep stacks can be read"),
        ("JavaScript names", "from V8's heap"),
        ("V8 inspector", "SIGUSR1 is caught"),
        ("engine  ", "perf events will be used"),
    ] {
        let line = line_of(topic);
        assert!(line.starts_with("ok ") && line.contains(said), "{line}");
    }
    let hint = format!("nodespy record -p {} -d 30", target.pid_text());
    assert!(outcome.stdout.contains(&hint), "{outcome}");
}
