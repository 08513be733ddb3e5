//! Events beside the CPU clock: is each booked to the function that made it happen, and is what
//! can't be had refused?

use nodespy_model::{EventType, Sampling, WeightUnit};

use super::errors::{node_as_nobody, run_as_nobody};
use super::recorded::{Recorded, record};
use super::versions::on_every_node;
use super::workload::{Running, Workload};
use super::{is_root, live};
use crate::run::run_nodespy;
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
    assert!(share > 0.01, "{share}\n{}", cpu.describe());
}

on_every_node! {{
    page_faults_are_booked_to_who_touches_memory(expect_faults);
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
