//! `nodespy ci`: a function that does three times as much is a regression, with a saved base and in turns.

use super::live;
use super::workload::{USUAL_NODE, node, script};
use crate::run::{Outcome, nodespy, run};
use crate::scratch::Scratch;

/// Runs `nodespy ci` on the workload, of which one function does `factor` times as much.
fn ci(options: &[&str], factor: &str) -> Outcome {
    let (node, script) = (node(USUAL_NODE).unwrap(), script("regression.js"));
    let mut arguments = vec!["ci", "--rounds", "3"];
    arguments.extend(options);
    arguments.extend(["--", &node, &script]);
    let mut command = nodespy(&arguments);
    command.env("FACTOR", factor).env("TURNS", "10");
    run(command)
}

#[test]
fn a_regression_against_a_saved_base_fails_and_is_named() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let (base, markdown) = (scratch.file("base"), scratch.file("diff.md"));
    let outcome = ci(&["--base", &base], "1");
    outcome.expect_code(1).expect_stderr(&["base"]);
    ci(&["--save", &base], "1")
        .expect_code(0)
        .expect_stderr(&["Saved 3 runs"]);
    let outcome = ci(&["--base", &base, "-o", &markdown], "3");
    outcome.expect_code(10);
    let line = outcome
        .stdout
        .lines()
        .find(|line| line.contains("hashInts"))
        .unwrap();
    assert!(line.ends_with("regression"), "{outcome}");
    let markdown = std::fs::read_to_string(markdown).unwrap();
    assert!(markdown.contains("`hashInts`"), "{markdown}");
    // The same again is no change; a limit this wide no noise of the machine reaches.
    let limits = ["--base", &base, "--fail-on", "function +100%"];
    ci(&limits, "1").expect_code(0);
}

#[test]
fn two_commands_take_turns() {
    let Some(_live) = live() else { return };
    let (node, script) = (node(USUAL_NODE).unwrap(), script("regression.js"));
    let base = format!("FACTOR=1 exec '{node}' '{script}'");
    let outcome = ci(&["--base-cmd", &base], "3");
    outcome.expect_code(10);
    let rounds: Vec<&str> = outcome
        .stderr
        .lines()
        .filter(|line| line.ends_with("of 3"))
        .collect();
    let order = [
        "warm-up 0",
        "warm-up 0",
        "base 1",
        "run 1",
        "run 2",
        "base 2",
        "base 3",
        "run 3",
    ];
    assert_eq!(rounds, order.map(|round| format!("{round} of 3")));
}
