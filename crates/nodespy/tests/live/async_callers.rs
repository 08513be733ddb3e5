//! Async callers: are they found, and only the right ones?

use std::process::Command;
use std::time::{Duration, Instant};

use nodespy_model::{FrameKind, Sample};
use serde_json::Value;

use super::certainty::margin;
use super::recorded::{Recorded, record, record_with, share};
use super::versions::on_every_node;
use super::workload::{Running, Workload, node, script};
use super::{is_root, live};
use crate::run::{DEADLINE, Started, nodespy, run_nodespy};
use crate::scratch::Scratch;
use crate::skip::skip;

/// So many of the samples in a continuation have all their callers.
const WHOLE: f64 = 0.95;
/// On Node 16 the job of a rejection keeps its promise where no other version does.
const NOT_FOUND: (&str, &str) = ("16", "catch");

/// How long a program that blocks has to stay where it is.
const BLOCKED: Duration = Duration::from_millis(100);

fn kinds(major: &str) -> Vec<String> {
    let mut command = Command::new(node(major).unwrap());
    let output = command.arg(script("await_kinds.js")).arg("list").output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Waits until a program that has said it will block does: what runs is not looked at. It may wait for a moment before, for one of
/// V8's own threads, so it is to stay where it is for a while.
#[track_caller]
fn wait_until_blocked(target: &Running) {
    let until = Instant::now() + DEADLINE;
    // In `futex`, as the system call of the main thread says, with its arguments and its stack pointer.
    let call = format!("/proc/{0}/task/{0}/syscall", target.pid());
    let blocked_at = || {
        let text = std::fs::read_to_string(&call).unwrap_or_default();
        text.starts_with("202 ").then_some(text)
    };
    let mut last = None;
    let mut since = Instant::now();
    while last.is_none() || since.elapsed() < BLOCKED {
        assert!(Instant::now() < until, "{} does not block", target.pid());
        std::thread::sleep(Duration::from_millis(10));
        let now = blocked_at();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

/// The frames of the main thread of a process, innermost first.
fn frames_of_main(dump: &Value) -> &[Value] {
    let threads = dump["processes"][0]["threads"].as_array().unwrap();
    let main = threads.iter().find(|thread| thread["role"] == "main");
    main.unwrap()["frames"].as_array().unwrap()
}

fn names<'a>(frames: impl Iterator<Item = &'a Value>) -> Vec<&'a str> {
    let names = frames.map(|frame| frame["function"].as_str().unwrap());
    names.collect()
}

/// Those of its suspended functions.
fn suspended(dump: &Value) -> Vec<&str> {
    let frames = frames_of_main(dump).iter();
    names(frames.filter(|frame| frame["async"] == true))
}

fn expect_every_kind(major: &str) {
    let Some(_live) = live() else { return };
    let kinds = kinds(major);
    assert!(kinds.len() > 20, "{kinds:?}");
    let mut complaints = Vec::new();
    for kind in &kinds {
        let target = Workload::new("await_kinds.js")
            .on(major)
            .argument(kind)
            .start();
        wait_until_blocked(&target);
        let outcome = run_nodespy(&["dump", "--json", "-p", &target.pid_text()]);
        outcome.expect_code(0);
        let dump: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let expected: Vec<&str> = match (major, kind.as_str()) == NOT_FOUND {
            true => Vec::new(),
            false => target.ready.split_whitespace().collect(),
        };
        let found = suspended(&dump);
        if found != expected {
            let frames = names(frames_of_main(&dump).iter());
            let wrong = format!("{kind}: {found:?} instead of {expected:?} of {frames:?}");
            complaints.push(wrong);
        }
    }
    assert!(
        complaints.is_empty(),
        "node {major}\n{}",
        complaints.join("\n")
    );
}

/// Records workloads/async.js, in which `main` awaits `turn` and that one everything else; again, and for longer, where a
/// busy machine let it run too little.
fn record_async(major: &str, variables: &[(&str, &str)]) -> Recorded {
    let target = Workload::new("async.js").on(major).start();
    let recorded = record_async_for("4", &target, variables);
    if recorded.profile.notes.async_callers.continuations() > 400 {
        return recorded;
    }
    record_async_for("20", &target, variables)
}

fn record_async_for(seconds: &str, target: &Running, variables: &[(&str, &str)]) -> Recorded {
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let pid = target.pid_text();
    let mut command = nodespy(&["record", "-p", &pid, "-d", seconds, "-F", "499"]);
    command.args(["-o", &output]);
    command.envs(variables.iter().copied());
    let outcome = Started::new(command, "").finish();
    outcome.expect_code(0);
    let profile = super::recorded::read(std::path::Path::new(&output));
    Recorded { profile, outcome }
}

/// The names of the suspended functions of a sample, outermost first.
fn callers<'a>(recorded: &'a Recorded, sample: &Sample) -> Vec<&'a str> {
    let profile = &recorded.profile;
    let frames = sample
        .stack
        .into_iter()
        .flat_map(|stack| profile.frames_of(stack));
    let mut names: Vec<&str> = frames
        .map(|frame| profile.frame(frame))
        .filter(|frame| frame.kind == FrameKind::Async)
        .map(|frame| profile.name_of(frame.function))
        .collect();
    names.reverse();
    names
}

#[track_caller]
fn expect_callers(recorded: &Recorded) {
    let notes = &recorded.profile.notes.async_callers;
    let (whole, all) = (notes.whole, notes.continuations());
    assert!(all > 100, "{notes:?}");
    let least = WHOLE - margin(WHOLE, all as f64);
    let text = recorded.describe();
    assert!(share(whole, all) > least, "{notes:?}\n{text}");
    for name in ["main", "turn", "level"] {
        let total = recorded.total_share(name);
        assert!(total > 0.75, "{name} {total}\n{}", recorded.describe());
    }
    // Whoever is known is right: what is outermost is `main`, and below it `turn`.
    for sample in &recorded.profile.samples {
        let callers = callers(recorded, sample);
        let is_known = !callers.contains(&"[caller not known]");
        if is_known && let [outermost, rest @ ..] = &callers[..] {
            assert_eq!(*outermost, "main", "{callers:?}");
            let is_right = rest.first().is_none_or(|next| *next == "turn");
            assert!(is_right, "{callers:?}");
        }
    }
}

fn expect_callers_of_samples(major: &str) {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("async callers are read by an eBPF program, which needs root");
    }
    expect_callers(&record_async(major, &[]));
}

on_every_node! {{
    every_kind_of_await_is_followed(expect_every_kind);
} three {
    samples_have_those_who_await_them(expect_callers_of_samples);
}}

#[test]
fn the_programs_for_older_kernels_find_them_too() {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("eBPF programs need root");
    }
    for linux in ["5.15", "5.8"] {
        expect_callers(&record_async("24", &[("NODESPY_OLD_EBPF", linux)]));
    }
}

#[test]
fn nobody_is_guessed_where_no_program_reads_the_chain() {
    let Some(_live) = live() else { return };
    let target = Workload::new("async.js").start();
    let recorded = record(&target, &["-d", "1", "-F", "499", "--no-ebpf"]);
    let is_async = |sample: &Sample| !callers(&recorded, sample).is_empty();
    assert!(!recorded.profile.samples.iter().any(is_async));
    assert_eq!(recorded.profile.notes.async_callers.continuations(), 0);
}

#[test]
fn they_can_be_left_out() {
    let Some(_live) = live() else { return };
    let target = Workload::new("async.js").start();
    let pid = target.pid_text();
    let recorded = record_with(&["record", "-p", &pid, "-d", "1", "-F", "499", "--no-async"]);
    let is_async = |sample: &Sample| !callers(&recorded, sample).is_empty();
    assert!(!recorded.profile.samples.iter().any(is_async));
}

#[test]
fn a_dump_leaves_them_out_when_asked_to() {
    let Some(_live) = live() else { return };
    let kinds = kinds("24");
    let target = Workload::new("await_kinds.js")
        .on("24")
        .argument(&kinds[0])
        .start();
    wait_until_blocked(&target);
    for (option, expected) in [("--no-subprocesses", true), ("--no-async", false)] {
        let outcome = run_nodespy(&["dump", "--json", "-p", &target.pid_text(), option]);
        outcome.expect_code(0);
        let dump: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(!suspended(&dump).is_empty(), expected, "{option}");
    }
}
