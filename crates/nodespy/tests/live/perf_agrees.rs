//! Linux's own `perf record -g` and nodespy, on the same process at the same time: they agree.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use super::certainty::margin_between;
use super::live;
use super::recorded::{Recorded, record, share};
use super::workload::Workload;
use crate::run::{Started, run};
use crate::scratch::Scratch;
use crate::skip::skip;

/// How far the two may be apart on a function, in parts of one, or as far as their samples can't tell.
const MARGIN: f64 = 0.05;

/// Parts of one by function.
type SelfShares = BTreeMap<String, f64>;

/// A name as both tools can be compared by: no tier, no file, no arguments, no template arguments.
fn plain_name(name: &str) -> String {
    let name = name.trim();
    for prefix in ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"] {
        if let Some(rest) = name.strip_prefix(prefix) {
            let rest = rest.trim_start_matches(['~', '^', '+', '*', '\'', 'o']);
            return rest.split(' ').next().unwrap_or_default().to_owned();
        }
    }
    // Patterns are quoted differently; one workload has one of them.
    if name.starts_with("RegExp:") || name.starts_with("RegExp.") {
        return "RegExp".to_owned();
    }
    let mut plain = String::new();
    let mut depth = 0usize;
    for character in name.replace("(anonymous namespace)", "anonymous").chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            other if depth == 0 => plain.push(other),
            _ => {}
        }
    }
    // Some demanglers print the type that a template function returns.
    plain
        .trim()
        .rsplit(' ')
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Self shares as perf counts them between two times, in nanoseconds since 1970, and how many samples they are of.
fn perf_shares(data: &str, from: u64, to: u64) -> (SelfShares, u64) {
    let seconds = |time: u64| format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
    let window = format!("{},{}", seconds(from), seconds(to));
    let mut command = Command::new("perf");
    command.args([
        "report",
        "--stdio",
        "--quiet",
        "--no-children",
        "--no-inline",
        "-g",
        "none",
        "-F",
        "sample,sym",
        "--time",
        &window,
        "-i",
        data,
    ]);
    let outcome = run(command);
    outcome.expect_code(0);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for line in outcome.stdout.lines() {
        let Some((count, symbol)) = line.trim().split_once(char::is_whitespace) else {
            continue;
        };
        let Ok(count) = count.parse::<u64>() else {
            continue;
        };
        let symbol = symbol.trim();
        let name = symbol
            .strip_prefix("[.]")
            .or_else(|| symbol.strip_prefix("[k]"))
            .unwrap_or(symbol);
        *counts.entry(plain_name(name)).or_default() += count;
    }
    let total = counts.values().sum();
    let shares = counts
        .into_iter()
        .map(|(name, count)| (name, share(count, total)));
    (shares.collect(), total)
}

/// Self shares as nodespy counts them.
fn nodespy_shares(recorded: &Recorded) -> SelfShares {
    let mut shares = SelfShares::new();
    for entry in recorded.weights() {
        let name = recorded.profile.name_of(entry.function);
        let name = match recorded.profile.function(entry.function).category {
            nodespy_model::Category::RegExp => "RegExp".to_owned(),
            _ => plain_name(name),
        };
        *shares.entry(name).or_default() +=
            share(entry.self_weight, recorded.profile.total_weight());
    }
    shares
}

/// The heaviest five, heaviest first.
fn top_five(shares: &SelfShares) -> Vec<(&str, f64)> {
    let mut all: Vec<(&str, f64)> = shares
        .iter()
        .map(|(name, share)| (name.as_str(), *share))
        .collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    all.truncate(5);
    all
}

/// Records a workload with both at once and compares the five heaviest functions of each.
fn expect_agreement(workload: Workload) {
    let Some(_live) = live() else { return };
    if Command::new("perf").arg("--version").output().is_err() {
        skip("there is no perf; tools/setup.sh installs it");
        return;
    }
    let target = workload.with_perf_map().start();
    let scratch = Scratch::new();
    let data = scratch.file("perf.data");
    let mut perf = Command::new("perf");
    // Around nodespy's recording and cut to it: beside other work the shares of a program change from
    // one second to the next.
    perf.args(["record", "-q", "-e", "cpu-clock", "-F", "999", "-g"])
        .args(["-k", "CLOCK_REALTIME", "-o", &data])
        .args(["-p", &target.pid_text(), "--", "sleep", "8"]);
    let perf = Started::new(perf, "");
    std::thread::sleep(Duration::from_secs(1));
    let recorded = record(&target, &["-d", "5", "-F", "999"]);
    perf.finish().expect_code(0);

    let about = &recorded.profile.about;
    let (from, to) = (about.started_unix, about.started_unix + about.duration);
    let ((theirs, counted), ours) = (perf_shares(&data, from, to), nodespy_shares(&recorded));
    let samples = [counted as f64, recorded.effective_samples(|_| true)];
    let told = format!(
        "{samples:?} samples\nperf: {:?}\nnodespy: {:?}\n{}",
        top_five(&theirs),
        top_five(&ours),
        recorded.describe()
    );
    eprintln!("{told}");
    for (one, other, whose) in [(&theirs, &ours, "perf"), (&ours, &theirs, "nodespy")] {
        let top = top_five(other);
        let fifth = top.last().map_or(0.0, |(_, share)| *share);
        for (name, expected) in top_five(one) {
            let found = other.get(name).copied().unwrap_or(0.0);
            assert!(
                (found - expected).abs() <= MARGIN.max(margin_between(expected, samples)),
                "{name}: {:.1} % in one, {:.1} % in the other\n{told}",
                100.0 * expected,
                100.0 * found
            );
            // Two functions of about the same weight may change places.
            assert!(
                found >= fifth - margin_between(fifth, samples).max(0.02),
                "{name} is among {whose}'s five, not among the other's\n{told}"
            );
        }
    }
}

#[test]
fn perf_agrees_on_plain_javascript() {
    expect_agreement(Workload::new("split.js"));
}

#[test]
fn perf_agrees_on_native_work_on_node_20() {
    expect_agreement(Workload::new("native.js"));
}

#[test]
fn perf_agrees_on_native_work_on_node_26() {
    expect_agreement(Workload::new("native.js").on("26"));
}

#[test]
fn perf_agrees_on_a_busy_pool() {
    expect_agreement(Workload::new("pool.js").on("16"));
}

#[test]
fn names_are_compared_without_what_the_tools_write_differently() {
    assert_eq!(plain_name("JS:*'turn /app/split.js:25:14"), "turn");
    assert_eq!(
        plain_name("LazyCompile:*sortWork /app/cpu.js:12"),
        "sortWork"
    );
    assert_eq!(
        plain_name("void v8::internal::Heap::Visit<(anonymous namespace)::X>(int, char const*)"),
        "v8::internal::Heap::Visit"
    );
    assert_eq!(
        plain_name("Builtins_CEntry_Return1"),
        "Builtins_CEntry_Return1"
    );
}
