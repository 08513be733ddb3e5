//! The program that runs at each sample: does it change anything but when memory is read?

use std::path::Path;
use std::process::Command;

use nodespy_model::{NameSource, Sample};

use super::certainty::{margin, margin_between};
use super::errors::{node_as_nobody, run_as_nobody};
use super::recorded::{Recorded, read, share};
use super::versions::{on_every_node, on_three_nodes};
use super::workload::{Running, Workload, node, root, script};
use super::{is_root, live};
use crate::run::{Outcome, Started, nodespy, run, run_nodespy};
use crate::scratch::Scratch;
use crate::skip::skip;

const SAID: &str = " with eBPF ";
/// How far two recordings of one process may be apart on a function, in parts of one, or as far as their samples can't tell.
pub(super) const MARGIN: f64 = 0.06;

/// Whether the program can run here. In CI it must.
pub(super) fn can_run() -> bool {
    if !is_root() {
        skip("eBPF programs need root");
    }
    is_root()
}

/// Records a process with and without the program at the same time.
fn record_both(target: &Running) -> [Recorded; 2] {
    let scratch = Scratch::new();
    let pid = target.pid_text();
    let started = [&[][..], &["--no-ebpf"]].map(|options| {
        let output = scratch.file(&format!("{}.nspy", options.len()));
        let mut command = nodespy(&["record", "-p", &pid, "-d", "4", "-F", "999", "-o", &output]);
        command.args(options);
        (Started::new(command, ""), output)
    });
    started.map(|(started, output)| {
        let outcome = started.finish();
        outcome.expect_code(0);
        let profile = read(Path::new(&output));
        Recorded { profile, outcome }
    })
}

fn expect_agreement(major: &str) {
    let Some(_live) = live() else { return };
    if !can_run() {
        return;
    }
    let target = Workload::new("mix.js").on(major).start();
    let [with, without] = record_both(&target);
    assert!(with.outcome.stderr.contains(SAID), "{}", with.outcome);
    assert!(
        !without.outcome.stderr.contains(SAID),
        "{}",
        without.outcome
    );
    for recorded in [&with, &without] {
        let notes = &recorded.profile.notes;
        let unnamed = notes.jit_frames - notes.jit_named[NameSource::HeapWalk.at()];
        expect_rare(recorded, "without a name", unnamed, notes.jit_frames, 0.001);
        expect_rare(
            recorded,
            "incomplete",
            notes.incomplete_stacks,
            notes.unwound_stacks,
            0.01,
        );
    }
    expect_same_shares(&without, &with);
}

/// Something is so in no more than a part of all, and what chance adds where they are few.
#[track_caller]
pub(super) fn expect_rare(recorded: &Recorded, what: &str, found: u64, all: u64, part: f64) {
    let most = part + margin(part, all as f64);
    assert!(
        all > 0 && share(found, all) <= most,
        "{found} of {all} {what}\n{}",
        recorded.describe()
    );
}

/// Two recordings that were made at the same time have the same shares in the time that both have.
#[track_caller]
pub(super) fn expect_same_shares(one: &Recorded, other: &Recorded) {
    let both = [one, other];
    let starts = both.map(|it| it.profile.about.started_unix);
    let ends = both.map(|it| it.profile.about.started_unix + it.profile.about.duration);
    let window = starts[0].max(starts[1])..ends[0].min(ends[1]);
    let is_common = |recorded: &Recorded| {
        let start = recorded.profile.about.started_unix;
        let window = window.clone();
        move |sample: &Sample| window.contains(&(start + sample.time))
    };
    let samples = both.map(|it| it.effective_samples(is_common(it)));
    assert!(samples.iter().all(|count| *count > 100.0), "{samples:?}");
    for entry in one.weights().iter().take(10) {
        let name = one.profile.name_of(entry.function);
        for [here, there] in [
            both.map(|it| it.self_share_in(name, is_common(it))),
            both.map(|it| it.total_share_in(name, is_common(it))),
        ] {
            let most = MARGIN.max(margin_between(f64::midpoint(here, there), samples));
            assert!(
                (here - there).abs() < most,
                "{name}: {here} in one, {there} in the other, of {samples:?} samples\n{}{}",
                one.describe(),
                other.describe()
            );
        }
    }
}

on_three_nodes! {{
    both_ways_to_read_stacks_agree(expect_agreement);
}}

/// Stacks that are far deeper than what is copied of them.
#[test]
fn a_deep_recursion_has_all_its_frames() {
    let Some(_live) = live() else { return };
    if !can_run() {
        return;
    }
    let target = Workload::new("recursion.js").start();
    let [with, without] = record_both(&target);
    let deepest = |recorded: &Recorded| {
        let stacks = recorded.profile.samples.iter();
        let depths =
            stacks.filter_map(|sample| Some(recorded.profile.frames_of(sample.stack?).count()));
        depths.max().unwrap_or(0)
    };
    let (there, here) = (deepest(&with), deepest(&without));
    assert!(there * 10 > here * 9, "{there} frames with, {here} without");
}

#[test]
fn without_rights_whole_stacks_are_copied() {
    let Some(_live) = live() else { return };
    if !can_run() {
        return;
    }
    let scratch = Scratch::for_other_users();
    let target = Running::new(node_as_nobody("20", "split.js"));
    let pid = target.pid_text();
    let outcome = run_as_nobody(
        &scratch,
        &["record", "-p", &pid, "-d", "1", "-o", "out.nspy"],
    );
    outcome.expect_code(0);
    assert!(!outcome.stderr.contains(SAID), "{outcome}");
    let outcome = run_as_nobody(&scratch, &["check", "-p", &pid]);
    expect_no_program(&outcome, "nodespy lacks CAP_BPF and CAP_PERFMON", "setcap");
    let outcome = run_nodespy(&["check", "-p", &pid]);
    assert!(
        outcome.stdout.contains("at the sampled instruction"),
        "{outcome}"
    );
}

/// `check` says why no program runs, and what would change it.
#[track_caller]
fn expect_no_program(outcome: &Outcome, why: &str, remedy: &str) {
    let mut lines = outcome.stdout.lines();
    let why = format!("no program can run at samples: {why}");
    assert!(lines.any(|line| line.contains(&why)), "{why}: {outcome}");
    let next = lines.next().unwrap_or_default();
    assert!(next.contains("try: "), "{outcome}");
    assert!(next.contains(remedy), "{remedy}: {outcome}");
}

#[test]
fn root_is_told_what_took_its_rights_away() {
    let Some(_live) = live() else { return };
    if !can_run() {
        return;
    }
    let check = [env!("CARGO_BIN_EXE_nodespy"), "check"];
    let mut without_bpf = Command::new("setpriv");
    // CAP_SYS_ADMIN and CAP_BPF, of which not every setpriv knows the name.
    without_bpf
        .arg("--bounding-set=-cap_21,-cap_39")
        .args(check);
    let outcome = run(without_bpf);
    expect_no_program(&outcome, "nodespy lacks CAP_BPF.", "--cap-add BPF");

    let scratch = Scratch::new();
    let refuse = scratch.file("refuse_bpf");
    let source = root().join("crates/nodespy/tests/live/refuse_perf.c");
    let mut compile = Command::new("cc");
    compile.args(["-DREFUSED=__NR_bpf", "-o", &refuse]);
    compile.arg(source);
    run(compile).expect_code(0);
    let mut filtered = Command::new(refuse);
    filtered.args(check);
    let outcome = run(filtered);
    expect_no_program(&outcome, "the seccomp filter", "seccomp=unconfined");
}

#[test]
fn a_launched_command_and_its_children_run_the_program() {
    let Some(_live) = live() else { return };
    if !can_run() {
        return;
    }
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let (node, script) = (node("24").unwrap(), script("regression.js"));
    let mut command = nodespy(&["record", "-F", "999", "-o", &output, "--", &node, &script]);
    command.env("TURNS", "20");
    let outcome = run(command);
    outcome.expect_code(0);
    assert!(outcome.stderr.contains(SAID), "{outcome}");
    let profile = read(Path::new(&output));
    let recorded = Recorded { profile, outcome };
    let share = recorded.total_share("hashInts");
    assert!(share > 0.05, "{share}\n{}", recorded.describe());
}
