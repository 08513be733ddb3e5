//! What the owner of a process is told of it without any right: the pool, the event loop, stalls, page faults and garbage
//! collection, and what is refused. Waits are in `waits`.

use nodespy_model::{Category, ThreadRole};

use super::errors::{node_as_nobody, record_as_nobody, run_as_nobody};
use super::recorded::Recorded;
use super::versions::{on_every_node, on_three_nodes};
use super::workload::Running;
use super::{is_root, live};
use crate::scratch::Scratch;
use crate::skip::skip;

/// A folder that nobody may write to; none where nobody can't be had.
fn scratch_of_nobody() -> Option<Scratch> {
    if is_root() {
        return Some(Scratch::for_other_users());
    }
    skip("only root can become another user");
    None
}

fn start(major: &str, program: &str, environment: &[(&str, &str)]) -> Running {
    let mut command = node_as_nobody(major, program);
    command.envs(environment.iter().copied());
    Running::in_folder(command, Scratch::for_other_users())
}

/// Four jobs run, twelve wait, and each is known by its file.
fn expect_pool(major: &str) {
    let Some(_live) = live() else { return };
    let Some(scratch) = scratch_of_nobody() else {
        return;
    };
    let target = start(major, "jobs.js", &[]);
    let recorded = record_as_nobody(&scratch, &target, &["-d", "2", "-e", "wall"]);
    let mut processes = recorded.profile.processes.iter();
    let pool = processes.find_map(|process| process.pool.as_ref()).unwrap();
    assert_eq!(
        (pool.busy, pool.waiting),
        (4 * pool.readings, 12 * pool.readings),
        "{pool:?}"
    );
    assert_eq!(pool.jobs[0].kind, "fs.open", "{pool:?}");
    assert!(pool.jobs[0].about.ends_with(".fifo"), "{pool:?}");
}

fn expect_loop_and_stalls(major: &str) {
    let Some(_live) = live() else { return };
    let Some(scratch) = scratch_of_nobody() else {
        return;
    };
    let target = start(major, "stalls.js", &[]);
    let recorded = record_as_nobody(&scratch, &target, &["-d", "3"]);
    let mut threads = recorded.profile.threads.iter();
    let main = threads.find(|thread| thread.role == ThreadRole::Main);
    let event_loop = main.and_then(|main| main.event_loop).unwrap();
    // 400 ms of each second, and 2 of every 50.
    let found = event_loop.utilization();
    assert!((0.25..0.95).contains(&found), "{event_loop:?}");
    let stalls = run_as_nobody(&scratch, &["stalls", "-d", "5", "-p", &target.pid_text()]);
    stalls.expect_code(0);
    let lines = stalls.stdout.lines();
    let named = lines.filter(|line| line.contains("blockLoop")).count();
    assert!((2..=7).contains(&named), "{stalls}");
}

/// Kinds of collections and their shares are known by samples; how many there were is not.
fn expect_collections(major: &str) {
    let Some(_live) = live() else { return };
    let Some(scratch) = scratch_of_nobody() else {
        return;
    };
    let target = start(major, "gc.js", &[]);
    let recorded = record_as_nobody(&scratch, &target, &["-d", "3", "-F", "499"]);
    let share = share_of_gc(&recorded);
    assert!(share > 0.02, "{share}\n{}", recorded.describe());
    let said = &recorded.outcome.stdout;
    assert!(!said.contains("GC pauses:"), "{said}");
}

fn share_of_gc(recorded: &Recorded) -> f64 {
    let profile = &recorded.profile;
    let is_gc = |stack| {
        let mut frames = profile.frames_of(stack);
        frames.any(|it| profile.function(profile.frame(it).function).category == Category::Gc)
    };
    let in_gc = recorded.weight_of(|sample| sample.stack.is_some_and(is_gc));
    in_gc as f64 / profile.total_weight() as f64
}

fn expect_faults_and_refusals(major: &str) {
    let Some(_live) = live() else { return };
    let Some(scratch) = scratch_of_nobody() else {
        return;
    };
    let target = start(major, "faults.js", &[]);
    let recorded = record_as_nobody(&scratch, &target, &["-d", "2", "-e", "page-faults"]);
    let share = recorded.total_share("growBuffers");
    assert!(share > 0.9, "{share}\n{}", recorded.describe());
    let refused = [
        "record",
        "-d",
        "1",
        "-e",
        "context-switches",
        "-p",
        &target.pid_text(),
    ];
    let refused = run_as_nobody(&scratch, &refused);
    refused
        .expect_code(3)
        .expect_stderr(&["perf_event_paranoid"]);
}

on_three_nodes! {{
    the_pool_is_told(expect_pool);
    the_loop_and_its_stalls_are_told(expect_loop_and_stalls);
    collections_are_told_by_share(expect_collections);
    page_faults_are_told_and_switches_refused(expect_faults_and_refusals);
}}
