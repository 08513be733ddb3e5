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
    assert!((3..=7).contains(&lines.len()), "{lines:#?}");
    let named = lines.iter().filter(|line| line.contains("blockLoop"));
    // A busy machine makes stalls of its own.
    assert!(named.count() >= 3, "{lines:#?}");
    assert!(told(&target, &["-d", "3", "--over", "20s"]).is_empty());
}

fn expect_waits(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("stalls.js")
        .on(major)
        .env("WHAT", "exec")
        .start();
    let lines = told(&target, &["-d", "4"]);
    let is_told = |line: &&String| line.contains("blockLoop") && line.contains("child process");
    assert!(lines.iter().filter(is_told).count() >= 2, "{lines:#?}");
}

on_every_node! {{
    a_blocked_loop_is_told_with_who_blocks_it(expect_stalls);
    a_loop_that_waits_for_a_child_is_told(expect_waits);
}}
