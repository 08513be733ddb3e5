//! `--max-overhead`: do samples get fewer where they cost too much, and do sums stay what they are?

use std::path::Path;

use nodespy_model::{ThreadRole, WeightUnit};

use super::certainty::margin;
use super::recorded::{Recorded, expect_share, read, record};
use super::shares::expect_split;
use super::workload::Workload;
use super::{is_root, live};
use crate::run::{nodespy, run};
use crate::scratch::Scratch;
use crate::skip::skip;

/// Less than any recording costs.
const TINY: &str = "0.1%";

/// Records a busy process at 999 Hz with next to no budget.
fn record_tiny(arguments: &[&str], environment: &[(&str, &str)]) -> Recorded {
    let target = Workload::new("split.js").start();
    let (scratch, pid) = (Scratch::new(), target.pid_text());
    let output = scratch.file("out.nspy");
    let mut command = nodespy(&["record", "-d", "11", "-F", "999", "-p", &pid]);
    command.args(["--max-overhead", TINY, "-o", &output]);
    command.args(arguments).envs(environment.iter().copied());
    let outcome = run(command);
    outcome.expect_code(0);
    let profile = read(Path::new(&output));
    Recorded { profile, outcome }
}

/// What the main thread's samples add up to, of the time that the kernel says it ran.
fn counted(recorded: &Recorded) -> f64 {
    let is_main = |role| role == ThreadRole::Main;
    let weight = recorded.weight_of(|sample| is_main(recorded.thread_of(sample).role));
    let mut threads = recorded.profile.threads.iter();
    let main = threads.find(|thread| is_main(thread.role)).unwrap();
    let on_cpu = main.scheduling.unwrap().on_cpu as f64 / 1e9;
    match recorded.profile.unit() {
        WeightUnit::Samples => weight as f64 / 999.0 / on_cpu,
        _ => weight as f64 / 1e9 / (recorded.profile.about.duration as f64 / 1e9),
    }
}

#[track_caller]
fn expect_fewer_and_true(recorded: &Recorded) {
    let remarks = &recorded.profile.notes.remarks;
    let steps = remarks.iter().filter(|said| said.starts_with("from "));
    assert!(steps.count() >= 2, "{remarks:?}");
    let sentence = remarks
        .iter()
        .find(|said| said.starts_with("recording cost"));
    let sentence = sentence.unwrap_or_else(|| panic!("{remarks:?}"));
    assert!(sentence.contains("by estimate"), "{sentence}");
    assert!(
        recorded.outcome.stderr.contains("From "),
        "{}",
        recorded.outcome
    );
    let counted = counted(recorded);
    // Whether a sample of a whole CPU meets the program is chance; the fewer they are, the more.
    let chance = match recorded.outcome.stderr.contains("CPU-wide") {
        true => 4.5 / recorded.effective_samples(|_| true).max(1.0).sqrt(),
        false => 0.0,
    };
    assert!(
        (counted - 1.0).abs() < 0.1 + chance,
        "{counted}\n{}",
        recorded.describe()
    );
}

#[track_caller]
fn expect_heavier(recorded: &Recorded) {
    let weights = recorded.profile.samples.iter().map(|sample| sample.weight);
    let heaviest = weights.clone().max();
    assert!(heaviest >= Some(5), "{heaviest:?}");
    let seldom = recorded.profile.samples.len() as f64;
    let all = weights.sum::<u64>() as f64;
    assert!(seldom < 0.85 * all, "{seldom} samples count for {all}");
}

#[test]
fn fewer_samples_count_for_more() {
    let Some(_live) = live() else { return };
    for arguments in [&[][..], &["--no-ebpf"]] {
        let recorded = record_tiny(arguments, &[]);
        expect_fewer_and_true(&recorded);
        expect_heavier(&recorded);
        expect_split(&recorded);
    }
}

#[test]
fn fewer_samples_of_whole_cpus_count_for_more() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("events of whole CPUs need root");
        return;
    }
    let recorded = record_tiny(&[], &[("NODESPY_EVENTS", "cpus")]);
    expect_fewer_and_true(&recorded);
    expect_heavier(&recorded);
    expect_split(&recorded);
}

/// Polls get fewer first, and the time of each thread still adds up.
#[test]
fn wall_time_adds_up_at_any_rate() {
    let Some(_live) = live() else { return };
    let recorded = record_tiny(&["-e", "wall"], &[]);
    let remarks = &recorded.profile.notes.remarks;
    let first = remarks.iter().find(|said| said.starts_with("from "));
    let first = first.unwrap_or_else(|| panic!("{remarks:?}"));
    let are_polls_first = first.contains("polled 50/s, CPU time sampled 999/s");
    assert!(are_polls_first, "{remarks:?}");
    expect_fewer_and_true(&recorded);
    let (seventy, thirty) = (
        recorded.self_share("seventyPercent"),
        recorded.self_share("thirtyPercent"),
    );
    let share = seventy / (seventy + thirty);
    expect_share("seventyPercent", share, 0.7, &recorded);
}

/// `top` says that it takes fewer samples, and shares stay what they are.
#[test]
fn top_takes_fewer_samples_and_says_so() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let pid = target.pid_text();
    let arguments = ["top", "-p", &pid, "-F", "999", "-d", "12", "--lines"];
    let mut command = nodespy(&arguments);
    command.args(["--max-overhead", TINY]);
    let outcome = run(command);
    outcome.expect_code(0);
    outcome.expect_stderr(&["From ", "(--max-overhead)"]);
    let last = outcome.stdout.rsplit("split.js, node").next().unwrap();
    assert!(last.contains(" samples, which count for "), "{outcome}");
    let share = |name: &str| -> f64 {
        let mut rows = last.lines().filter(|row| row.contains(name));
        let row = rows.next().unwrap_or_else(|| panic!("{outcome}"));
        let own = row.split_whitespace().next().unwrap();
        own.trim_end_matches('%').parse().unwrap()
    };
    let (seventy, thirty) = (share("seventyPercent"), share("thirtyPercent"));
    let share = seventy / (seventy + thirty);
    let (before, _) = last.split_once(" samples, which count for ").unwrap();
    let samples = before.rsplit([' ', '\n']).next().unwrap();
    let samples: f64 = samples.replace(',', "").parse().unwrap();
    // Some count for more than others.
    let most = 0.05 + margin(0.7, samples / 2.0);
    assert!((share - 0.7).abs() < most, "{share} {outcome}");
}

#[test]
fn a_recording_within_its_budget_goes_on_as_it_is() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let recorded = record(&target, &["-d", "5", "-F", "99", "--max-overhead", "90%"]);
    let remarks = &recorded.profile.notes.remarks;
    assert!(
        !remarks.iter().any(|said| said.starts_with("from ")),
        "{remarks:?}"
    );
    assert!(
        recorded
            .profile
            .samples
            .iter()
            .all(|sample| sample.weight == 1)
    );
    expect_split(&recorded);
}
