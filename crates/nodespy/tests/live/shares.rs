//! Is the profile true: programs whose shares are known, recorded for real.

use std::collections::BTreeMap;

use nodespy_analysis::shares;
use nodespy_model::{Category, ThreadRole};

use super::certainty::margin;
use super::live;
use super::recorded::{Recorded, expect_share, record_enough, share};
use super::versions::on_every_node;
use super::workload::Workload;

/// Checks a recording of `split.js`: of the time in the two functions, 70 % is in one.
#[track_caller]
pub(super) fn expect_split(recorded: &Recorded) {
    let (seventy, thirty) = (
        recorded.self_share("seventyPercent"),
        recorded.self_share("thirtyPercent"),
    );
    assert!(seventy + thirty > 0.9, "{}", recorded.describe());
    expect_share(
        "seventyPercent",
        seventy / (seventy + thirty),
        0.7,
        recorded,
    );
}

/// Records `split.js` on a version of Node: of the time in the two functions, 70 % is in one.
fn expect_70_30(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").on(major).with_perf_map().start();
    let recorded = record_enough(&target, 2, &["-F", "999"], 600);
    expect_split(&recorded);
    let hottest = recorded.weights()[0].function;
    assert_eq!(recorded.profile.name_of(hottest), "seventyPercent");
    let location = recorded.profile.location_of(hottest);
    assert!(location.contains("split.js:9"), "at {location}");
    assert_eq!(
        recorded.profile.function(hottest).category,
        Category::App,
        "{}",
        recorded.describe()
    );
}

on_every_node! {{
    a_regular_expression_is_told_from_other_code(expect_regexp);
} three {
    a_70_30_program_shows_70_30(expect_70_30);
}}

#[test]
fn a_mix_of_native_work_shows_its_50_30_20() {
    let Some(_live) = live() else { return };
    let target = Workload::new("native.js").with_perf_map().start();
    let recorded = record_enough(&target, 4, &["-F", "499"], 800);
    let functions = ["jsonWork", "regexpWork", "hashWork"];
    let totals = functions.map(|name| recorded.total_share(name));
    let all: f64 = totals.iter().sum();
    assert!(all > 0.85, "{}", recorded.describe());
    let samples = recorded.effective_samples(|_| true);
    for ((name, found), expected) in functions.iter().zip(totals).zip([0.5, 0.3, 0.2]) {
        // Garbage that one function makes is sometimes collected under another.
        let found = found / all;
        assert!(
            (found - expected).abs() < 0.03 + margin(expected, samples),
            "{name}: {found:.3}, expected {expected}\n{}",
            recorded.describe()
        );
    }
    let by_kind = shares(&recorded.profile, |sample| {
        recorded.thread_of(sample).role == ThreadRole::Main
    });
    let of_main = |part| share(part, by_kind.total());
    // JSON and SHA-256 are C++ and assembly, the regular expression is V8's.
    assert!(of_main(by_kind.native) > 0.35, "{by_kind:?}");
    assert!(of_main(by_kind.javascript) > 0.15, "{by_kind:?}");
    assert!(
        of_main(by_kind.unknown) < 0.02,
        "{by_kind:?}\n{}",
        recorded.describe()
    );
}

/// Records `native.js`: three tenths of it are in a compiled regular expression.
fn expect_regexp(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("native.js").on(major).with_perf_map().start();
    let recorded = record_enough(&target, 2, &["-F", "499"], 400);
    let in_regexp: u64 = recorded
        .weights()
        .iter()
        .filter(|entry| recorded.profile.function(entry.function).category == Category::RegExp)
        .map(|entry| entry.self_weight)
        .sum();
    let found = share(in_regexp, recorded.profile.total_weight());
    // Some of it is on the way into the compiled expression and out of it, and the rest of V8 is in the whole.
    let expected = 0.27;
    let samples = recorded.effective_samples(|_| true);
    assert!(
        (found - expected).abs() < 0.08 + margin(expected, samples),
        "{:.1} % in compiled regular expressions\n{}",
        100.0 * found,
        recorded.describe()
    );
}

#[test]
fn nothing_is_lost_at_99_hz() {
    expect_nothing_lost("99");
}

#[test]
fn nothing_is_lost_at_999_hz() {
    expect_nothing_lost("999");
}

/// Records at a rate: no sample is lost, and there are as many as the CPU time asks for.
fn expect_nothing_lost(rate_hz: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let asked: f64 = rate_hz.parse().unwrap();
    // A second of CPU time: what a few milliseconds more or less at its ends are is nothing then.
    let recorded = record_enough(&target, 3, &["-F", rate_hz], asked as usize);
    recorded.expect_nothing_lost();
    let found = samples_per_cpu_second(&recorded, target.pid());
    assert!(
        (0.9..1.1).contains(&(found / asked)),
        "{found:.0} samples per second of CPU time, asked for {asked}\n{}",
        recorded.describe()
    );
}

#[test]
fn nothing_is_lost_at_999_hz_on_four_busy_threads() {
    let Some(_live) = live() else { return };
    let target = Workload::new("four.js").start();
    let recorded = record_enough(&target, 4, &["-F", "999"], 2000);
    recorded.expect_nothing_lost();
    let mut by_thread: BTreeMap<u32, usize> = BTreeMap::new();
    for sample in &recorded.profile.samples {
        *by_thread.entry(recorded.thread_of(sample).tid).or_default() += 1;
    }
    // Four threads on two CPUs have half a CPU each, 2,000 samples; on a machine that has more to do a part of that.
    let busy = by_thread.values().filter(|&&samples| samples > 100).count();
    assert_eq!(busy, 4, "{by_thread:?}\n{}", recorded.describe());
    let found = samples_per_cpu_second(&recorded, target.pid());
    assert!(
        (0.9..1.1).contains(&(found / 999.0)),
        "{found:.0} samples per second of CPU time\n{}",
        recorded.describe()
    );
}

fn samples_per_cpu_second(recorded: &Recorded, pid: u32) -> f64 {
    let cpu_time = recorded
        .process(pid)
        .cpu_time
        .expect("the kernel accounts for the process");
    let samples = recorded
        .profile
        .samples
        .iter()
        .filter(|sample| recorded.process_of(sample).pid == pid)
        .count();
    samples as f64 / (cpu_time as f64 / 1e9)
}
