//! Processes that join a control group while it is recorded or watched.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nodespy_model::Sample;

use super::control_group::ControlGroup;
use super::errors::{NOBODY, as_nobody, run_as_nobody};
use super::recorded::{Recorded, read};
use super::workload::{Running, USUAL_NODE, Workload, node, script};
use super::{is_root, live};
use crate::run::{Started, nodespy, run_nodespy};
use crate::scratch::Scratch;
use crate::skip::skip;

/// Longer than a search for new processes takes, even on a machine that is busy with something else.
const SEARCHED: Duration = Duration::from_secs(4);

/// A group of this test's own with a process in it, and the path by which nodespy is told of it.
fn group_of(target: &Running) -> Option<(ControlGroup, String)> {
    if !is_root() {
        skip("only root can make control groups");
        return None;
    }
    let path = format!("/nodespy-it-{}", target.pid());
    let group = ControlGroup::holding(&path, target.pid());
    if group.is_none() {
        skip("no control groups of the second version can be made here");
    }
    Some((group?, path))
}

/// Runs one child of `child.js` after another in the group; no recorded process is its parent.
/// Each uses some 300 ms of CPU, mostly in `shortLived`. Returns their numbers.
fn run_briefly_in(group: &ControlGroup, times: usize) -> Vec<u32> {
    let once = |_| {
        let mut command = group.entering();
        command
            .arg(node(USUAL_NODE).unwrap())
            .args([&script("child.js"), "child"]);
        let started = Started::new(command, "");
        let pid = started.pid();
        let _status = started.finish();
        pid
    };
    (0..times).map(once).collect()
}

fn finished(started: Started, output: &str) -> Recorded {
    let outcome = started.finish();
    outcome.expect_code(0);
    let profile = read(Path::new(output));
    Recorded { profile, outcome }
}

#[test]
fn a_process_that_joins_for_a_moment_is_recorded_from_its_start() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let Some((group, path)) = group_of(&target) else {
        return;
    };
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let arguments = [
        "record", "--cgroup", &path, "-F", "499", "-d", "60", "-o", &output,
    ];
    let recording = Started::new(nodespy(&arguments), "");
    recording.wait_until_it_says("Recording ");
    let mut shell = group.entering();
    shell.args([
        "sh",
        "-c",
        "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done",
    ]);
    Started::new(shell, "").finish().expect_code(0);
    let brief = run_briefly_in(&group, 3);
    recording.signal("INT");
    let recorded = finished(recording, &output);
    // The shell was in the group too, but is not Node.
    let mut expected = vec![target.pid()];
    expected.extend(&brief);
    let mut pids: Vec<u32> = recorded
        .profile
        .processes
        .iter()
        .map(|each| each.pid)
        .collect();
    expected.sort_unstable();
    pids.sort_unstable();
    assert_eq!(pids, expected, "{}", recorded.describe());
    for pid in brief {
        let here = |sample: &Sample| recorded.process_of(sample).pid == pid;
        let named = recorded.total_share_in("shortLived", here);
        assert!(named > 0.4, "{pid}: {named}\n{}", recorded.describe());
        // From its first millisecond on: before there is any JavaScript, node gets ready.
        let readying = recorded.total_share_in("node::InitializeOncePerProcess", here)
            + recorded.total_share_in("node::NodeMainInstance::Run", here);
        assert!(readying > 0.0, "{pid}\n{}", recorded.describe());
    }
    // Nobody is sampled twice.
    let process = recorded.process(target.pid());
    let here = |sample: &Sample| recorded.process_of(sample).pid == target.pid();
    let expected = process.cpu_time.unwrap() as f64 / 1e9 * 499.0;
    let ratio = recorded.weight_of(here) as f64 / expected;
    assert!(
        (0.6..1.3).contains(&ratio),
        "{ratio}\n{}",
        recorded.describe()
    );
}

#[test]
fn top_shows_a_process_that_joins_for_a_moment() {
    let Some(_live) = live() else { return };
    let target = Workload::new("idle.js").start();
    let Some((group, path)) = group_of(&target) else {
        return;
    };
    let checked = run_nodespy(&["check", "--cgroup", &path]);
    assert!(checked.stdout.contains("from their start"), "{checked}");
    let arguments = ["top", "--cgroup", &path, "--lines", "-d", "60"];
    let watching = Started::new(nodespy(&arguments), "");
    // Its first table is there when it has attached, and what it saw is in a later one.
    watching.wait_for_lines(1);
    run_briefly_in(&group, 3);
    watching.wait_until_it_prints("shortLived");
    watching.signal("INT");
    watching.finish().expect_code(0);
}

#[test]
fn without_the_right_to_a_whole_group_new_processes_are_searched_for() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can become another user");
        return;
    }
    let scratch = Scratch::for_other_users();
    scratch.copy_program(node(USUAL_NODE).unwrap(), "node");
    fs::copy(script("split.js"), scratch.file("split.js")).unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(NOBODY)
        .args([scratch.file("node"), scratch.file("split.js")]);
    let target = Running::new(command);
    let Some((group, path)) = group_of(&target) else {
        return;
    };
    let checked = run_as_nobody(&scratch, &["check", "--cgroup", &path]);
    assert!(
        checked.stdout.contains("a few tenths of a second late"),
        "{checked}"
    );
    let arguments = ["record", "--cgroup", &path, "-d", "60", "-o", "out.nspy"];
    let recording = Started::new(as_nobody(&scratch, &arguments), "");
    recording.wait_until_it_says("Recording ");
    let mut command = group.entering();
    command
        .arg("setpriv")
        .args(NOBODY)
        .args([scratch.file("node"), scratch.file("split.js")]);
    let joining = Running::new(command);
    std::thread::sleep(SEARCHED);
    recording.signal("INT");
    let recorded = finished(recording, &scratch.file("out.nspy"));
    let here = |sample: &Sample| recorded.process_of(sample).pid == joining.pid();
    let share = recorded.total_share_in("seventyPercent", here);
    assert!(share > 0.4, "{share}\n{}", recorded.describe());
}
