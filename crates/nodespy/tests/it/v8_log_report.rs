//! `nodespy report` of V8 logs, against what `node --prof-process` printed of the same logs.

use std::path::PathBuf;

use crate::fixture::{fixture, fixture_text};
use crate::installed_node::node;
use crate::prof_report::{
    Report, javascript_agrees, javascript_is_the_same, no_tick_is_lost, report,
};

fn log(version: u32) -> PathBuf {
    fixture(&format!("v8_log/node{version}-v8.log.gz"))
}

/// The expected report and ours.
fn both(version: u32) -> (Report, Report) {
    let expected = fixture_text(&format!("v8_log/node{version}.prof-process.txt"));
    (Report::of(&expected), report(&log(version), &[]).0)
}

#[test]
fn ticks_of_javascript_agree_with_prof_process_per_function() {
    for version in [16, 20, 26] {
        let (expected, ours) = both(version);
        javascript_agrees(version, &expected, &ours);
    }
}

/// Node 26 logs its builtins where they run, so that both sides see the same JavaScript.
#[test]
fn javascript_of_node_26_is_the_same_to_the_letter() {
    let (expected, ours) = both(26);
    let compared = javascript_is_the_same(&expected, &ours);
    assert!(compared > 3, "{compared}");
}

/// Node 16 and 20 run builtins that their logs place inside of the program; node's own tool counts
/// these as the program, or cannot tell at all.
#[test]
fn what_prof_process_cannot_attribute_has_a_name() {
    for version in [16, 20] {
        let (expected, ours) = both(version);
        let sort = "Builtin: ArrayTimSort";
        let theirs = expected
            .section("JavaScript")
            .get(sort)
            .copied()
            .unwrap_or(0);
        assert!(ours.section("JavaScript")[sort] > theirs, "node {version}");
        no_tick_is_lost(version, &expected, &ours);
    }
}

#[test]
fn the_first_line_counts_the_ticks_that_prof_process_counts() {
    for version in [16, 20, 26] {
        let (expected, ours) = both(version);
        let ticks = |report: &Report| {
            let (_, rest) = report.first_line.split_once('(').unwrap();
            rest.split_once(", ").unwrap().0.to_owned()
        };
        assert!(
            ours.first_line
                .starts_with("Statistical profiling result from ")
        );
        assert!(ours.first_line.ends_with(" unaccounted, 0 excluded)."));
        assert_eq!(ticks(&ours), ticks(&expected), "node {version}");
    }
}

/// `workloads/mix.js` spends a third of its time in `JSON.parse`.
#[test]
fn cpp_has_the_names_of_the_program_that_was_recorded() {
    for (log, version) in [(16, "16.20.2"), (20, "20.20.2"), (26, "26.10.0")] {
        let Some(node) = node(version) else {
            return;
        };
        let (without, _) = report(&self::log(log), &[]);
        let (with, remarks) = report(&self::log(log), &["--symbols", node.to_str().unwrap()]);
        let program = format!("/tmp/nodespy-fixtures/node{log}/bin/node");
        let unnamed = without.section("Shared libraries")[&program];
        assert_eq!(with.section("Shared libraries").get(&program), None);
        let won = with.summary("C++") - without.summary("C++");
        assert_eq!(won, unnamed, "node {version}");
        let parser = "v8::internal::JsonParser<unsigned char>::";
        let ticks = |(name, ticks): (String, u64)| name.starts_with(parser).then_some(ticks);
        let parsing: u64 = with.section("C++").into_iter().filter_map(ticks).sum();
        assert!(parsing > 15, "node {version}: {parsing}");
        assert!(!remarks.contains(&program), "{remarks}");
    }
}

#[test]
fn another_version_of_the_program_gives_no_names_and_is_told() {
    let program = "/tmp/nodespy-fixtures/node20/bin/node";
    let (without, _) = report(&log(20), &[]);
    for version in ["20.9.0", "24.21.0"] {
        // The nearest to node 20.20.2 there is, with its last code at the same address.
        let Some(node) = node(version) else {
            return;
        };
        let (with, remarks) = report(&log(20), &["--symbols", node.to_str().unwrap()]);
        assert_eq!(
            with.section("Shared libraries")[program],
            without.section("Shared libraries")[program]
        );
        assert!(remarks.contains(&format!("{program} is not used for names")));
        assert!(remarks.contains("--symbols FILE"));
    }
}
