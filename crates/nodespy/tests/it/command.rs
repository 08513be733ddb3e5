//! Misuse and missing things: messages and exit codes that need no process to record.

use crate::run::run_nodespy;
use crate::scratch::Scratch;

/// What `nodespy` completes and has pages for, among others.
const SOME_COMMANDS: [&str; 3] = ["record", "dump", "diff"];

/// A pid that no process of this machine can have.
const NO_SUCH_PID: &str = "4194305";

#[test]
fn help_shows_every_command() {
    let outcome = run_nodespy(&["--help"]);
    outcome.expect_code(0);
    let (_, rest) = outcome.stdout.split_once("Commands:\n").unwrap();
    let (commands, _) = rest.split_once("\n\n").unwrap();
    let named: Vec<&str> = (commands.lines())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        named,
        [
            "list",
            "record",
            "dump",
            "top",
            "stalls",
            "agent",
            "serve",
            "regressions",
            "deploy",
            "store",
            "recover",
            "view",
            "convert",
            "report",
            "query",
            "diff",
            "ci",
            "collapse",
            "flamegraph",
            "difffolded",
            "check",
            "events",
            "completions",
            "man",
            "mcp",
            "help"
        ]
    );
    for command in named.iter().filter(|command| **command != "help") {
        let outcome = run_nodespy(&[command, "--help"]);
        outcome.expect_code(0);
        let usage = format!("Usage: nodespy {command}");
        assert!(outcome.stdout.contains(&usage), "{outcome}");
    }
}

#[test]
fn the_version_is_printed() {
    let outcome = run_nodespy(&["--version"]);
    outcome.expect_code(0);
    assert!(
        outcome.stdout.contains(env!("CARGO_PKG_VERSION")),
        "{outcome}"
    );
}

#[test]
fn misuse_ends_with_2() {
    for arguments in [
        &["no-such-command"][..],
        &["record", "--no-such-flag"],
        &["record"],
        &["record", "-p", "not-a-number"],
        &["record", "-p", "1", "-d", "soon"],
        &["record", "-p", "1", "-F", "0"],
        &["record", "-p", "1", "--", "node", "app.js"],
        &["convert", "only-one-file"],
        &["top", "-p", "1", "--no-routes", "--by", "route"],
        &["top", "-p", "1", "--no-routes", "--route", "GET"],
    ] {
        let outcome = run_nodespy(arguments);
        assert_eq!(outcome.status.code(), Some(2), "{arguments:?}: {outcome}");
        assert!(outcome.stdout.is_empty(), "{arguments:?}: {outcome}");
        assert!(!outcome.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_pid_that_does_not_exist_ends_with_4_and_is_named() {
    let scratch = Scratch::new();
    let output = scratch.file("out.html");
    let outcome = run_nodespy(&["record", "-p", NO_SUCH_PID, "-d", "1", "-o", &output]);
    outcome.expect_code(4).expect_stderr(&[NO_SUCH_PID]);
    assert!(
        scratch.names().is_empty(),
        "left behind: {:?}",
        scratch.names()
    );
}

#[test]
fn a_missing_input_is_named() {
    for command in ["convert", "view"] {
        let mut arguments = vec![command, "no-such-file.nspy"];
        let output = if command == "convert" { "-" } else { "" };
        arguments.extend((!output.is_empty()).then_some(output));
        let outcome = run_nodespy(&arguments);
        outcome.expect_code(1).expect_stderr(&["no-such-file.nspy"]);
    }
}

#[test]
fn an_input_of_no_known_format_is_refused_in_a_sentence() {
    let scratch = Scratch::new();
    let input = scratch.file("noise.nspy");
    std::fs::write(&input, [0xffu8, 0, 1, 2, 3, 0xfe, 0xfd]).unwrap();
    let outcome = run_nodespy(&["convert", &input, &scratch.file("out.folded")]);
    outcome.expect_code(1).expect_stderr(&["noise.nspy"]);
    assert!(!outcome.stderr.contains("panicked"), "{outcome}");
}

#[test]
fn a_command_that_cannot_be_started_is_named() {
    let scratch = Scratch::new();
    let outcome = run_nodespy(&[
        "record",
        "-o",
        &scratch.file("out.html"),
        "--",
        "no-such-command-here",
    ]);
    assert_eq!(outcome.status.code(), Some(1), "{outcome}");
    outcome.expect_stderr(&["no-such-command-here"]);
}

#[test]
fn shells_complete_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let outcome = run_nodespy(&["completions", shell]);
        outcome.expect_code(0);
        let is_there = |name: &&str| outcome.stdout.contains(*name);
        assert!(SOME_COMMANDS.iter().all(is_there), "{shell}");
    }
    run_nodespy(&["completions", "none"]).expect_code(2);
}

#[test]
fn every_command_has_a_man_page() {
    let scratch = Scratch::new();
    let folder = scratch.file("share/man1");
    run_nodespy(&["man", &folder]).expect_code(0);
    for name in SOME_COMMANDS {
        let page = std::fs::read_to_string(format!("{folder}/nodespy-{name}.1")).unwrap();
        assert!(page.contains(".SH OPTIONS"), "{name}");
    }
    let file = scratch.file("file");
    std::fs::write(&file, "").unwrap();
    run_nodespy(&["man", &file]).expect_code(1);
}

#[test]
fn the_long_version_says_what_is_known_of_v8() {
    let outcome = run_nodespy(&["--version"]);
    outcome.expect_code(0);
    for part in [
        "commit: ",
        "target: x86_64-unknown-linux-",
        "V8: 9.4 (Node.js 16), ",
    ] {
        assert!(outcome.stdout.contains(part), "{}", outcome.stdout);
    }
    assert_eq!(run_nodespy(&["-V"]).stdout.lines().count(), 1);
}
