//! Probes that a program's authors have put there: are they found, watched, and booked to who reaches them?

use std::process::Command;

use super::is_root;
use super::live;
use super::recorded::record;
use super::workload::{Running, Workload, compiled};
use crate::run::run_nodespy;
use crate::scratch::Scratch;
use crate::skip::skip;

#[test]
fn a_probe_of_the_authors_is_watched() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("breakpoints need root");
        return;
    }
    let scratch = Scratch::new();
    let Some(program) = compiled(&scratch, "usdt") else {
        return;
    };
    let target = Running::new(Command::new(program));
    let recorded = record(&target, &["-d", "2", "--any", "-e", "usdt:shop:order"]);
    let samples = recorded.profile.samples.len();
    assert!(samples > 20, "{samples}\n{}", recorded.describe());
    let share = recorded.total_share("placeOrder");
    assert!(share > 0.95, "{share}\n{}", recorded.describe());
    let event = recorded.profile.event();
    assert_eq!(event.name, "usdt:shop:order");
    let pid = target.pid_text();
    let other = [
        "record",
        "-d",
        "1",
        "--any",
        "-e",
        "usdt:shop:pay",
        "-p",
        &pid,
    ];
    let outcome = run_nodespy(&other);
    outcome.expect_code(2).expect_stderr(&["usdt:shop:order"]);
}

#[test]
fn a_probe_that_node_does_not_have_is_said_so() {
    let Some(_live) = live() else { return };
    let target = Workload::new("calls.js").start();
    let pid = target.pid_text();
    let outcome = run_nodespy(&[
        "record",
        "-d",
        "1",
        "-e",
        "usdt:node:http__server",
        "-p",
        &pid,
    ]);
    outcome
        .expect_code(2)
        .expect_stderr(&["has no probe usdt:node:http__server"]);
}
