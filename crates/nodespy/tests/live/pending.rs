//! `nodespy dump --pending`: is every suspended async function listed, where it awaits, and nothing else?

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::errors::{NOBODY, run_as_nobody};
use super::versions::on_every_node;
use super::workload::{Running, Workload, script};
use super::{is_root, live};
use crate::run::run_nodespy;
use crate::scratch::Scratch;
use crate::skip::skip;

const CIRCLE: [&str; 2] = ["first", "second"];

/// The line of a workload whose comment names a function.
#[track_caller]
fn line_of(function: &str) -> u64 {
    let text = fs::read_to_string(script("pending.js")).unwrap();
    let mark = format!("// {function}");
    let line = text.lines().position(|line| line.ends_with(&mark));
    line.unwrap() as u64 + 1
}

#[track_caller]
fn dump_of(pid: &str) -> Value {
    let outcome = run_nodespy(&["dump", "--pending", "--json", "-p", pid]);
    outcome.expect_code(0);
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// How often each stack is pending, with its functions. Each frame has to be where its function awaits.
#[track_caller]
fn stacks(dump: &Value) -> Vec<(u64, Vec<&str>)> {
    let pending = dump["processes"][0]["pending"].as_array().unwrap();
    let stacks = pending.iter().map(|stack| {
        let frames = stack["frames"].as_array().unwrap().iter();
        let functions = frames.map(|frame| {
            let function = frame["function"].as_str().unwrap();
            assert_eq!(frame["line"], line_of(function), "{frame:#}");
            assert_eq!(frame["file"], script("pending.js"));
            assert_eq!(frame["async"], true, "{frame:#}");
            function
        });
        (stack["count"].as_u64().unwrap(), functions.collect())
    });
    stacks.collect()
}

#[track_caller]
fn expect_those_of_the_workload(dump: &Value) {
    let mut found = stacks(dump);
    // Either of the two that await one another may stand for both.
    let is_circle = |(_, functions): &(u64, Vec<&str>)| CIRCLE.contains(&functions[0]);
    let circles = found.iter().filter(|it| is_circle(it));
    let circles: Vec<(u64, Vec<&str>)> = circles.cloned().collect();
    found.retain(|it| !is_circle(it));
    assert_eq!(
        found,
        [
            (3, vec!["queryDatabase", "handler"]),
            (2, vec!["part", "both"]),
            (1, vec!["produce", "consume"]),
        ],
        "{dump:#}"
    );
    let [(1, circle)] = &circles[..] else {
        panic!("{circles:?}");
    };
    assert!(
        CIRCLE.iter().all(|name| circle.contains(name)),
        "{circle:?}"
    );
}

fn expect_pending(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("pending.js").on(major).start();
    expect_those_of_the_workload(&dump_of(&target.pid_text()));
}

fn expect_none(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("pending.js").on(major).argument("none");
    let target = target.start();
    let dump = dump_of(&target.pid_text());
    assert_eq!(stacks(&dump), [], "{dump:#}");
    let outcome = run_nodespy(&["dump", "--pending", "-p", &target.pid_text()]);
    outcome.expect_code(0);
    let says_so = outcome.stdout.contains("\npending async functions  none\n");
    assert!(says_so, "{outcome}");
}

on_every_node! {{
    pending_functions_are_listed_with_their_callers(expect_pending);
} three {
    what_has_ended_is_not_pending(expect_none);
}}

#[test]
fn those_of_a_worker_are_listed_too() {
    let Some(_live) = live() else { return };
    for major in ["16", "26"] {
        let target = Workload::new("pending.js").on(major).argument("worker");
        let target = target.start();
        expect_those_of_the_workload(&dump_of(&target.pid_text()));
    }
}

#[test]
fn the_text_has_them_after_the_threads() {
    let Some(_live) = live() else { return };
    let target = Workload::new("pending.js").start();
    let outcome = run_nodespy(&["dump", "--pending", "-p", &target.pid_text()]);
    outcome.expect_code(0);
    let (threads, pending) = outcome
        .stdout
        .split_once("\npending async functions")
        .unwrap_or_else(|| panic!("{outcome}"));
    assert!(threads.contains("the event loop is idle"), "{outcome}");
    assert!(
        pending.contains("\n  3 ×\n    queryDatabase  "),
        "{outcome}"
    );
    let place = format!("pending.js:{}  await\n", line_of("handler"));
    assert!(pending.contains(&place), "{outcome}");
}

#[test]
fn it_is_not_read_unless_asked_for() {
    let Some(_live) = live() else { return };
    let target = Workload::new("pending.js").start();
    let outcome = run_nodespy(&["dump", "--json", "-p", &target.pid_text()]);
    outcome.expect_code(0);
    let dump: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert!(dump["processes"][0]["pending"].is_null(), "{dump:#}");
}

#[test]
fn an_own_process_needs_no_rights() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can become another user");
        return;
    }
    let scratch = Scratch::for_other_users();
    let copy = scratch.file("pending.js");
    fs::copy(script("pending.js"), &copy).unwrap();
    // The checkout's own Node may lie in a folder that only its owner can enter.
    let mut command = Command::new("setpriv");
    command.args(NOBODY).args(["node", &copy]);
    let target = Running::in_folder(command, Scratch::for_other_users());
    let outcome = run_as_nobody(&scratch, &["dump", "--pending", "-p", &target.pid_text()]);
    outcome.expect_code(0);
    assert!(
        outcome.stdout.contains("\n  3 ×\n    queryDatabase  "),
        "{outcome}"
    );
}
