//! Stalls: is each told, with the function that made it, and none where there is none?

use super::live;
use super::versions::on_every_node;
use super::workload::{Running, Workload};
use crate::run::run_nodespy;

/// What is told of a workload in so many seconds.
#[track_caller]
fn told(target: &Running, arguments: &[&str]) -> Vec<String> {
    let pid = target.pid_text();
    let mut all = vec!["stalls", "-p", &pid];
    all.extend(arguments);
    let outcome = run_nodespy(&all);
    outcome.expect_code(0);
    outcome.stdout.lines().map(str::to_owned).collect()
}

fn expect_stalls(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("stalls.js").on(major).start();
    let lines = told(&target, &["-d", "6"]);
    // A busy machine makes stalls of its own.
    let named = lines.iter().filter(|line| line.contains("blockLoop"));
    assert!((3..=8).contains(&named.count()), "{lines:#?}");
    assert!(told(&target, &["-d", "3", "--over", "20s"]).is_empty());
}

fn expect_waits(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("stalls.js")
        .on(major)
        .env("WHAT", "exec")
        .start();
    let lines = told(&target, &["-d", "5"]);
    let is_told = |line: &&String| line.contains("blockLoop") && line.contains("child process");
    assert!(lines.iter().filter(is_told).count() >= 2, "{lines:#?}");
}

/// Timers that are armed move the time of the loop, which stands all the same. Before Node 20 libuv does not count how
/// often a loop goes round, so that one that arms timers looks like one that does.
fn expect_armed_timers(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("stalls.js")
        .on(major)
        .env("WHAT", "timers")
        .start();
    let lines = told(&target, &["-d", "5"]);
    let named = lines.iter().filter(|line| line.contains("armTimers"));
    let named = named.count();
    match major {
        // A busy machine makes stalls of its own.
        "16" | "18" => assert!(named <= 3, "{lines:#?}"),
        _ => assert!((3..=7).contains(&named), "{lines:#?}"),
    }
}

/// A loop that is used for 30 of 100 ms, and one that goes round without a pause: neither stalls. A second is more than
/// other programs on the machine keep a thread from its CPU.
fn expect_none(major: &str) {
    let Some(_live) = live() else { return };
    let used = Workload::new("loop.js").on(major).start();
    let lines = told(&used, &["-d", "3", "--over", "1s"]);
    assert!(lines.is_empty(), "{lines:#?}");
    let round = Workload::new("stalls.js")
        .on(major)
        .env("WHAT", "immediates")
        .start();
    let lines = told(&round, &["-d", "3", "--over", "1s"]);
    assert!(lines.is_empty(), "{lines:#?}");
}

on_every_node! {{
    a_blocked_loop_is_told_with_who_blocks_it(expect_stalls);
} three {
    timers_that_are_armed_hide_no_stall(expect_armed_timers);
    a_loop_that_is_only_used_does_not_stall(expect_none);
    a_loop_that_waits_for_a_child_is_told(expect_waits);
}}
