//! Events beside the CPU clock: is each booked to the function that made it happen, and is what
//! can't be had refused?

use std::path::Path;

use nodespy_model::{EventType, Sample, Sampling, WeightUnit};

use super::errors::{node_as_nobody, run_as_nobody};
use super::recorded::{Recorded, read, record};
use super::versions::{on_every_node, on_three_nodes};
use super::workload::{Running, Workload, node, script};
use super::{is_root, live};
use crate::run::{nodespy, run, run_nodespy};
use crate::scratch::Scratch;
use crate::skip::skip;

/// What was recorded of one of several events.
#[track_caller]
fn of_event(recorded: &Recorded, name: &str) -> Recorded {
    let event = EventType::find(&recorded.profile.events, name);
    let event = event.unwrap_or_else(|| panic!("no {name}\n{}", recorded.describe()));
    Recorded {
        profile: recorded.profile.clone().select(event),
        outcome: recorded.outcome.clone(),
    }
}

/// Page faults and CPU time in one recording: each has its own functions, weights and unit.
fn expect_faults(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("faults.js").on(major).start();
    let recorded = record(&target, &["-d", "3", "-e", "page-faults,cpu", "-F", "499"]);
    let faults = of_event(&recorded, "page-faults");
    let event = faults.profile.event();
    assert_eq!(event.unit, WeightUnit::Events);
    assert_eq!(event.sampling, Sampling::Period(100));
    let share = faults.total_share("growBuffers");
    assert!(share > 0.9, "{share}\n{}", faults.describe());
    let cpu = of_event(&recorded, "cpu-clock");
    assert_eq!(cpu.profile.unit(), WeightUnit::Samples);
    let share = cpu.total_share("quiet");
    assert!(share > 0.0, "{share}\n{}", cpu.describe());
}

/// As many faults are counted under the function as the kernel has counted around its calls.
fn expect_count_of_faults(major: &str) {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let (output, seen) = (scratch.file("out.nspy"), scratch.file("seen.json"));
    let (node, script) = (node(major).unwrap(), script("faults.js"));
    let mut command = nodespy(&["record", "-e", "page-faults", "-o", &output, "--"]);
    command.args([&node, &script]);
    command.env("CALLS", "60").env("OUT", &seen);
    let outcome = run(command);
    outcome.expect_code(0);
    let seen = std::fs::read_to_string(&seen).unwrap();
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    let profile = read(Path::new(&output));
    let recorded = Recorded { profile, outcome };
    let share = recorded.total_share("growBuffers");
    let found = share * recorded.profile.total_weight() as f64;
    let ratio = found / seen["faults"].as_f64().unwrap();
    assert!(
        (0.9..1.1).contains(&ratio),
        "{ratio} {seen}\n{}",
        recorded.describe()
    );
}

on_three_nodes! {{
    page_faults_are_as_many_as_the_kernel_counts(expect_count_of_faults);
    page_faults_are_booked_to_who_touches_memory(expect_faults);
    a_tracepoint_keeps_its_arguments(expect_arguments);
}}

#[test]
fn a_breakpoint_and_a_tracepoint_are_booked_to_who_calls() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("breakpoints and tracepoints need root");
        return;
    }
    let target = Workload::new("calls.js").start();
    let events = "uprobe:node:uv_fs_stat,syscalls:sys_enter_openat";
    let recorded = record(&target, &["-d", "3", "-e", events]);
    for (event, function) in [
        ("uprobe:node:uv_fs_stat", "statIt"),
        ("syscalls:sys_enter_openat", "openIt"),
    ] {
        let of_event = of_event(&recorded, event);
        let share = of_event.total_share(function);
        assert!(share > 0.95, "{event}: {share}\n{}", of_event.describe());
        assert_eq!(of_event.profile.event().sampling, Sampling::Period(1));
    }
}

/// What a system call was called with: numbers, and text where it is on the stack.
fn expect_arguments(major: &str) {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("tracepoints need root");
        return;
    }
    let target = Workload::new("calls.js").on(major).start();
    let scratch = Scratch::new();
    let output = scratch.file("calls.nspy");
    let pid = target.pid_text();
    let event = "syscalls:sys_enter_openat";
    run_nodespy(&["record", "-d", "3", "-e", event, "-p", &pid, "-o", &output]).expect_code(0);
    let profile = read(Path::new(&output));
    let labels = |sample: &Sample, key: &str| {
        let labels = profile.contexts.get(sample.context);
        labels.get(key).map(str::to_owned)
    };
    let under = |name: &str| {
        let name = name.to_owned();
        let profile = &profile;
        move |sample: &&Sample| {
            let frames = sample
                .stack
                .into_iter()
                .flat_map(|it| profile.frames_of(it));
            let mut functions = frames.map(|frame| profile.frame(frame).function);
            functions.any(|function| profile.name_of(function) == name)
        }
    };
    let opened: Vec<&Sample> = profile.samples.iter().filter(under("openIt")).collect();
    assert!(opened.len() > 20, "{} samples", opened.len());
    for sample in opened {
        let file = labels(sample, "filename").unwrap_or_default();
        assert!(file.ends_with("calls.js"), "{file:?}");
        // AT_FDCWD, and O_CLOEXEC | O_RDONLY.
        assert_eq!(labels(sample, "dfd").as_deref(), Some("-100"));
        assert_eq!(labels(sample, "flags").as_deref(), Some("0x80000"));
    }
    let asked = run_nodespy(&["query", &output, "top 1 total by label.filename"]);
    asked.expect_code(0);
    assert!(asked.stdout.contains("calls.js"), "{asked}");
    let redacted = run_nodespy(&["convert", &output, "--redact", "--to", "perf-script"]);
    assert!(
        !redacted.stdout.contains("/workloads/calls.js"),
        "{redacted}"
    );
}

#[test]
fn what_the_owner_may_not_see_is_refused_and_never_an_empty_profile() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can become another user");
        return;
    }
    let target = Running::new(node_as_nobody("20", "faults.js"));
    let scratch = Scratch::for_other_users();
    let pid = target.pid_text();
    for (event, word) in [
        ("context-switches", "perf_event_paranoid"),
        ("sched:sched_switch", "tracefs"),
        ("uprobe:node:uv_fs_stat", "CAP_PERFMON"),
    ] {
        let outcome = run_as_nobody(&scratch, &["record", "-d", "1", "-e", event, "-p", &pid]);
        outcome.expect_code(3);
        assert!(outcome.stderr.contains(word), "{outcome}");
    }
    for option in ["--pool-submitters", "--gc-pauses"] {
        let outcome = run_as_nobody(&scratch, &["record", "-d", "1", option, "-p", &pid]);
        outcome.expect_code(3);
        let refusal = "sets breakpoints in the program, which needs CAP_PERFMON: run as root";
        let refusal = format!("{option} {refusal}");
        assert!(outcome.stderr.contains(&refusal), "{outcome}");
    }
    let outcome = run_as_nobody(
        &scratch,
        &[
            "record",
            "-d",
            "2",
            "-e",
            "page-faults",
            "-p",
            &pid,
            "-o",
            "faults.nspy",
        ],
    );
    outcome.expect_code(0);
    assert!(outcome.stdout.contains("growBuffers"), "{outcome}");
}

#[test]
fn what_is_no_event_is_said_before_anything_is_recorded() {
    let Some(_live) = live() else { return };
    let target = Workload::new("calls.js").start();
    let pid = target.pid_text();
    for (event, code, words) in [
        ("pagefaults", 2, "nodespy events"),
        ("uprobe:node:no_such_function", 2, "has no function"),
        ("uprobe:libnothing:f", 2, "has no code of"),
        ("alloc,cpu", 2, "record twice"),
    ] {
        let outcome = run_nodespy(&["record", "-d", "1", "-e", event, "-p", &pid]);
        outcome.expect_code(code);
        assert!(outcome.stderr.contains(words), "{outcome}");
    }
}
