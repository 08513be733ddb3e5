//! What is said, and with which exit code, when a recording is not possible.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::certainty::margin;
use super::recorded::{Recorded, read};
use super::workload::{Running, Workload, compiled, node, script};
use super::{is_root, live};
use crate::run::{Outcome, run, run_nodespy};
use crate::scratch::Scratch;
use crate::skip::skip;

/// Debian's user and group with no rights.
pub(super) const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// A Node of this version with a program of `workloads/`, to be started as nobody.
pub(super) fn node_as_nobody(major: &str, program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(NOBODY)
        .args([node(major).unwrap(), script(program)]);
    command
}

/// A shell that only turns in a circle.
pub(super) fn busy_shell() -> Running {
    let mut command = Command::new("sh");
    command.args(["-c", "echo ready; while :; do :; done"]);
    Running::new(command)
}

#[test]
fn a_process_that_is_not_node_is_refused_by_name() {
    let Some(_live) = live() else { return };
    let shell = busy_shell();
    let scratch = Scratch::new();
    let outcome = run_nodespy(&[
        "record",
        "-p",
        &shell.pid_text(),
        "-d",
        "1",
        "-o",
        &scratch.file("out.html"),
    ]);
    outcome
        .expect_code(1)
        .expect_stderr(&[&shell.pid_text(), "(sh)", "--any"]);
    assert!(scratch.names().is_empty(), "{:?}", scratch.names());
}

#[test]
fn any_process_can_be_recorded_when_asked() {
    let Some(_live) = live() else { return };
    let shell = busy_shell();
    let recorded = super::recorded::record(&shell, &["-d", "1", "-F", "199", "--any"]);
    assert!(
        recorded.profile.samples.len() > 10,
        "{}",
        recorded.describe()
    );
    assert_eq!(recorded.profile.notes.jit_frames, 0);
}

#[test]
fn deep_stacks_of_another_program_are_whole() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let Some(program) = compiled(&scratch, "deep") else {
        return;
    };
    let target = Running::new(Command::new(program));
    let recorded = super::recorded::record(&target, &["-d", "2", "-F", "199", "--any"]);
    let notes = &recorded.profile.notes;
    let (incomplete, all) = (notes.incomplete_stacks, notes.unwound_stacks);
    assert!(all > 10, "{}", recorded.describe());
    super::ebpf::expect_rare(&recorded, "incomplete", incomplete, all, 0.02);
    let share = recorded.total_share("main");
    let least = 0.98 - margin(0.98, all as f64);
    assert!(share > least, "{share}\n{}", recorded.describe());
}

/// A server's children are sampled with the program that follows frame pointers, of which they have none.
#[test]
fn deep_stacks_of_a_program_that_node_starts_are_whole() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let Some(program) = compiled(&scratch, "deep") else {
        return;
    };
    let mut command = Command::new(node("24").unwrap());
    let start = "require('child_process').spawn(process.argv[1], { stdio: 'inherit' })";
    command.args(["-e", start, &program]);
    let target = Running::new(command);
    let recorded = super::recorded::record(&target, &["-d", "2", "-F", "199"]);
    let profile = &recorded.profile;
    let (incomplete, all) = (
        profile.notes.incomplete_stacks,
        profile.notes.unwound_stacks,
    );
    assert!(all > 10, "{}", recorded.describe());
    super::ebpf::expect_rare(&recorded, "incomplete", incomplete, all, 0.02);
    let share = recorded.total_share("main");
    let least = 0.95 - margin(0.95, all as f64);
    assert!(share > least, "{share}\n{}", recorded.describe());
}

#[test]
fn an_output_that_cannot_be_written_is_found_before_recording() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    for (output, code) in [
        ("/no-such-folder/out.html", 1),
        ("/proc/out.html", 1),
        ("/", 2),
    ] {
        let outcome = run_nodespy(&["record", "-p", &target.pid_text(), "-d", "60", "-o", output]);
        outcome.expect_code(code).expect_stderr(&[output]);
        assert!(outcome.took.as_secs() < 50, "{output}: {outcome}");
    }
}

#[test]
fn an_output_of_unknown_kind_is_found_before_recording() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let scratch = Scratch::new();
    let outcome = run_nodespy(&[
        "record",
        "-p",
        &target.pid_text(),
        "-d",
        "60",
        "-o",
        &scratch.file("out.bmp"),
    ]);
    outcome.expect_code(2).expect_stderr(&["bmp"]);
    assert!(outcome.took.as_secs() < 50, "{outcome}");
    assert!(scratch.names().is_empty(), "{:?}", scratch.names());
}

/// Runs nodespy without any right, from a place where that user can reach it.
pub(super) fn run_as_nobody(scratch: &Scratch, arguments: &[&str]) -> Outcome {
    run(as_nobody(scratch, arguments))
}

/// Records a process of nobody's without any right, and reads the profile back.
#[track_caller]
pub(super) fn record_as_nobody(
    scratch: &Scratch,
    target: &Running,
    arguments: &[&str],
) -> Recorded {
    let (pid, output) = (target.pid_text(), scratch.file("out.nspy"));
    let mut all = vec!["record", "-p", &pid, "-o", &output];
    all.extend(arguments);
    let outcome = run_as_nobody(scratch, &all);
    outcome.expect_code(0);
    let profile = read(Path::new(&output));
    Recorded { profile, outcome }
}

/// nodespy without any right.
pub(super) fn as_nobody(scratch: &Scratch, arguments: &[&str]) -> Command {
    let copy = scratch.copy_program(env!("CARGO_BIN_EXE_nodespy"), "nodespy");
    let mut command = Command::new("setpriv");
    command
        .args(NOBODY)
        .arg(&copy)
        .args(arguments)
        .env("NO_COLOR", "1")
        .current_dir(scratch.path());
    command
}

#[test]
fn a_process_of_another_user_ends_with_3_and_what_to_type() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can become another user");
        return;
    }
    let target = Workload::new("split.js").start();
    let scratch = Scratch::for_other_users();
    let outcome = run_as_nobody(
        &scratch,
        &[
            "record",
            "-p",
            &target.pid_text(),
            "-d",
            "1",
            "-o",
            "out.html",
        ],
    );
    outcome.expect_code(3).expect_stderr(&[
        &format!("pid {} belongs to uid 0", target.pid()),
        "setcap cap_perfmon,cap_bpf,cap_sys_ptrace,cap_dac_read_search,cap_syslog,cap_ipc_lock+ep",
        "perf_event_paranoid does not help",
    ]);
}

#[test]
fn an_own_process_is_recorded_without_any_right() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can become another user");
        return;
    }
    let scratch = Scratch::for_other_users();
    let copy = scratch.file("split.js");
    fs::copy(script("split.js"), &copy).unwrap();
    // The checkout's own Node may lie in a folder that only its owner can enter.
    let mut command = Command::new("setpriv");
    command.args(NOBODY).args(["node", &copy]);
    let target = Running::in_folder(command, Scratch::for_other_users());
    let outcome = run_as_nobody(
        &scratch,
        &[
            "record",
            "-p",
            &target.pid_text(),
            "-d",
            "2",
            "-F",
            "199",
            "-o",
            "out.nspy",
        ],
    );
    outcome.expect_code(0);
    let profile = super::recorded::read(&scratch.path().join("out.nspy"));
    assert!(profile.samples.len() > 10, "{outcome}");
    assert!(
        profile.notes.confidence().complete > 0.95,
        "{:?}",
        profile.notes
    );
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if paranoid.trim().parse::<i32>().unwrap() >= 2 {
        let remarks = profile.notes.remarks.join("\n");
        assert!(remarks.contains("kernel"), "remarks: {remarks:?}");
    }
}
