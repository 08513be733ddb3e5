//! Are the stacks whole: deep ones, and those of a server whose pool runs OpenSSL's assembly.

use super::live;
use super::recorded::{Recorded, record, share};
use super::workload::Workload;

/// How many frames of `descend` each sample in `bottom` has, and how many samples there are.
fn depths(recorded: &Recorded) -> Vec<usize> {
    let profile = &recorded.profile;
    let name_at = |frame| profile.name_of(profile.frame(frame).function);
    let mut depths: Vec<usize> = profile
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
        .collect();
    depths.sort_unstable();
    depths
}

/// Records `recursion.js`: nearly all samples are under exactly `depth` frames.
fn expect_depth(major: &str, depth: usize) {
    let Some(_live) = live() else { return };
    let target = Workload::new("recursion.js")
        .on(major)
        .env("DEPTH", depth)
        .with_perf_map()
        .start();
    let recorded = record(&target, &["-d", "2", "-F", "499"]);
    let depths = depths(&recorded);
    assert!(depths.len() > 100, "{}", recorded.describe());
    let whole = depths.iter().filter(|found| **found == depth).count();
    assert!(
        share(whole as u64, depths.len() as u64) > 0.98,
        "{whole} of {} stacks have {depth} frames of descend; median {}, largest {}\n{}",
        depths.len(),
        depths[depths.len() / 2],
        depths[depths.len() - 1],
        recorded.describe()
    );
}

#[test]
fn a_recursion_of_200_frames_is_seen_whole() {
    expect_depth("20", 200);
}

#[test]
fn a_recursion_of_500_frames_is_seen_whole() {
    expect_depth("20", 500);
}

#[test]
fn a_recursion_of_500_frames_is_seen_whole_on_node_24() {
    expect_depth("24", 500);
}

/// Records the express server under load: nearly all stacks reach the root of their thread.
fn expect_whole_stacks(major: &str) {
    let Some(_live) = live() else { return };
    let server = Workload::new("express/app.js").on(major).start();
    let load = Workload::new("load.js")
        .argument(&server.ready)
        .argument(20)
        .start();
    let recorded = record(&server, &["-d", "4", "-F", "499"]);
    drop(load);
    let notes = &recorded.profile.notes;
    assert!(notes.unwound_stacks > 500, "{}", recorded.describe());
    let complete = notes.confidence().complete;
    assert!(
        complete >= 0.98,
        "{:.2} % of {} stacks reach the root\n{}",
        100.0 * complete,
        notes.unwound_stacks,
        recorded.describe()
    );
    assert_eq!(notes.cut_stacks, 0, "{}", recorded.describe());
}

#[test]
fn stacks_of_an_express_server_are_whole_on_node_16() {
    expect_whole_stacks("16");
}

#[test]
fn stacks_of_an_express_server_are_whole_on_node_20() {
    expect_whole_stacks("20");
}

#[test]
fn stacks_of_an_express_server_are_whole_on_node_22() {
    expect_whole_stacks("22");
}

#[test]
fn stacks_of_an_express_server_are_whole_on_node_24() {
    expect_whole_stacks("24");
}

#[test]
fn stacks_of_an_express_server_are_whole_on_node_26() {
    expect_whole_stacks("26");
}
