//! Are the stacks whole: deep ones, and those of a server whose pool runs OpenSSL's assembly.

use std::collections::BTreeMap;

use super::ebpf::expect_rare;
use super::live;
use super::recorded::{Recorded, expect_share, record, record_enough};
use super::versions::on_every_node;
use super::workload::Workload;

/// How many frames of `descend` each sample in `bottom` has.
fn depths(recorded: &Recorded) -> Vec<usize> {
    let profile = &recorded.profile;
    let name_at = |frame| profile.name_of(profile.frame(frame).function);
    profile
        .samples
        .iter()
        .filter_map(|sample| sample.stack)
        .filter(|stack| {
            profile
                .frames_of(*stack)
                .any(|frame| name_at(frame) == "bottom")
        })
        .map(|stack| {
            profile
                .frames_of(stack)
                .filter(|frame| name_at(*frame) == "descend")
                .count()
        })
        .collect()
}

/// Records `recursion.js` and returns how often each number of frames of `descend` was seen.
fn record_recursion(major: &str, depth: usize) -> (BTreeMap<usize, usize>, Recorded) {
    let target = Workload::new("recursion.js")
        .on(major)
        .env("DEPTH", depth)
        .with_perf_map()
        .start();
    let recorded = record_enough(&target, 2, &["-F", "499"], 300);
    let mut found: BTreeMap<usize, usize> = BTreeMap::new();
    for depth in depths(&recorded) {
        *found.entry(depth).or_default() += 1;
    }
    let all: usize = found.values().sum();
    assert!(all > 100, "{}", recorded.describe());
    eprintln!("frames of descend, and how often: {found:?}");
    let with_any = (all - found.get(&0).copied().unwrap_or(0)) as f64 / all as f64;
    expect_share("stacks with descend", with_any, 0.9, &recorded);
    (found, recorded)
}

#[test]
fn a_recursion_of_200_frames_is_seen_whole() {
    let Some(_live) = live() else { return };
    let (found, recorded) = record_recursion("20", 200);
    let all: usize = found.values().sum();
    let whole = found.get(&200).copied().unwrap_or(0) + found.get(&0).copied().unwrap_or(0);
    assert!(
        whole as f64 > 0.98 * all as f64,
        "{found:?}\n{}",
        recorded.describe()
    );
}

/// Of a recursion deeper than what is copied the inner frames are shown, and nothing that stood beyond them later.
#[test]
fn a_recursion_of_3000_frames_is_cut_and_has_no_frames_of_another_moment() {
    let Some(_live) = live() else { return };
    let (mut found, recorded) = record_recursion("22", 3000);
    let told = format!("{found:?}\n{}", recorded.describe());
    let _none = found.remove(&0);
    let cut: usize = found.values().sum();
    assert!(
        found.keys().all(|depth| (300..3000).contains(depth)),
        "{told}"
    );
    assert!(
        cut as u64 <= recorded.profile.notes.incomplete_stacks,
        "{told}"
    );
    let profile = &recorded.profile;
    let names_of = |stack| -> Vec<&str> {
        let frames = profile.frames_of(stack);
        let names = frames.map(|frame| profile.name_of(profile.frame(frame).function));
        names.collect()
    };
    let stacks = profile.samples.iter().filter_map(|sample| sample.stack);
    for names in stacks.map(names_of) {
        let has = |name| names.contains(&name);
        let is_joined = has("bottom") && has("descend") && has("turn");
        assert!(!is_joined, "{names:?}");
    }
}

/// Records a recursion whose stack may be larger than the copy that is taken of it: a stack is whole, or it is counted as
/// incomplete; it never shows a frame too many.
fn expect_whole_or_counted(major: &str) {
    let Some(_live) = live() else { return };
    let (mut found, recorded) = record_recursion(major, 500);
    let told = format!("{found:?}\n{}", recorded.describe());
    let _none = found.remove(&0);
    let whole = found.remove(&500).unwrap_or(0);
    let not_whole: usize = found.values().sum();
    assert!(whole > not_whole, "{told}");
    assert!(
        found.keys().all(|depth| (300..500).contains(depth)),
        "{told}"
    );
    assert!(
        not_whole as u64 <= recorded.profile.notes.incomplete_stacks,
        "{told}"
    );
}

/// Records the express server under load: nearly all stacks reach the root of their thread.
fn expect_whole_stacks(major: &str) {
    let Some(_live) = live() else { return };
    let server = Workload::new("express/app.js").on(major).start();
    let load = Workload::new("load.js")
        .argument(&server.ready)
        .argument(60)
        .start();
    let recorded = record_enough(&server, 4, &["-F", "499"], 500);
    drop(load);
    let notes = &recorded.profile.notes;
    let (incomplete, all) = (notes.incomplete_stacks, notes.unwound_stacks);
    assert!(all > 100, "{}", recorded.describe());
    expect_rare(&recorded, "do not reach the root", incomplete, all, 0.02);
}

/// Records native code on the main thread that keeps something else in the frame pointer: nearly all stacks reach the root.
fn expect_whole_stacks_of_leaves(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("leaves.js").on(major).start();
    let recorded = record_enough(&target, 3, &["-F", "499"], 500);
    let notes = &recorded.profile.notes;
    let (incomplete, all) = (notes.incomplete_stacks, notes.unwound_stacks);
    expect_rare(&recorded, "do not reach the root", incomplete, all, 0.02);
    let called = recorded.total_share("callLeaf");
    assert!(called > 0.5, "{called}\n{}", recorded.describe());
}

/// Records frames that are deoptimized all the time: each stack has its root, and the function that
/// everything is under, also while V8 has taken a frame down and not yet replaced it.
fn expect_whole_while_deoptimized(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("deopt.js").on(major).start();
    let recorded = record_enough(&target, 3, &["-F", "999"], 1000);
    let profile = &recorded.profile;
    let has = |stack, word: &str| {
        let mut frames = profile.frames_of(stack);
        frames.any(|frame| {
            profile
                .name_of(profile.frame(frame).function)
                .contains(word)
        })
    };
    let deoptimizing: Vec<_> = profile
        .samples
        .iter()
        .filter_map(|sample| sample.stack)
        // Not the compiler's `Deoptimizer::GetDeoptimizationEntry`, on V8's own threads.
        .filter(|stack| has(*stack, "Builtins_DeoptimizationEntry"))
        .collect();
    let known = deoptimizing.iter().filter(|stack| has(**stack, "round"));
    let (known, all) = (known.count(), deoptimizing.len());
    assert!(all >= 10, "{all} samples\n{}", recorded.describe());
    let unknown = (all - known) as u64;
    expect_rare(&recorded, "have no callers", unknown, all as u64, 0.02);
    let notes = &profile.notes;
    let (incomplete, all) = (notes.incomplete_stacks, notes.unwound_stacks);
    expect_rare(&recorded, "incomplete", incomplete, all, 0.01);
}

/// Records code that continues in builtins without being called by them: those frames have names too.
fn expect_names_where_code_continues(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("continue.js").on(major).start();
    let recorded = record(&target, &["-d", "2", "-F", "499"]);
    let profile = &recorded.profile;
    let names = profile
        .functions
        .iter()
        .map(|row| profile.strings.get(row.name));
    let unnamed: Vec<&str> = names.filter(|name| name.starts_with("[node+")).collect();
    assert!(unnamed.is_empty(), "{unnamed:?}\n{}", recorded.describe());
    let sum = recorded.total_share("sum");
    assert!(sum > 0.2, "{sum}\n{}", recorded.describe());
}

on_every_node! {{
    stacks_are_whole_while_frames_are_deoptimized(expect_whole_while_deoptimized);
    frames_of_builtins_nobody_called_have_names(expect_names_where_code_continues);
    stacks_of_an_express_server_are_whole(expect_whole_stacks);
} three {
    a_recursion_of_500_frames_is_seen_whole_or_counted(expect_whole_or_counted);
    stacks_of_leaves_without_frame_pointers_are_whole(expect_whole_stacks_of_leaves);
}}
