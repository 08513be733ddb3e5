//! `nodespy report` of V8 logs, against what `node --prof-process` printed of the same logs.

use std::path::PathBuf;

use crate::installed_node::node;
use crate::prof_report::{
    Report, javascript_agrees, javascript_is_the_same, no_tick_is_lost, report,
};

fn log(version: u32) -> PathBuf {
    crate::corpus(&format!("v8-log/node{version}-v8.log"))
}

/// The expected report and ours.
fn both(version: u32) -> (Report, Report) {
    let expected = format!("v8-log/expected/node{version}-v8.prof-process.txt");
    let expected = std::fs::read_to_string(crate::corpus(&expected)).unwrap();
    (Report::of(&expected), report(&log(version), &[]).0)
}

#[test]
fn ticks_of_javascript_agree_with_prof_process_per_function() {
    for version in [18, 20, 24] {
        let (expected, ours) = both(version);
        javascript_agrees(version, &expected, &ours);
    }
}

/// Node 24 logs its builtins where they run, so that both sides see the same JavaScript.
#[test]
fn javascript_of_node_24_is_the_same_to_the_letter() {
    let (expected, ours) = both(24);
    assert_eq!(javascript_is_the_same(&expected, &ours), 8);
}

/// Node 18 and 20 run builtins that their logs place inside of the program; node's own tool counts
/// these as the program, or cannot tell at all.
#[test]
fn what_prof_process_cannot_attribute_has_a_name() {
    for (version, builtin) in [(18, 146), (20, 210)] {
        let (expected, ours) = both(version);
        let javascript = ours.section("JavaScript");
        assert_eq!(javascript["Builtin: ArrayTimSort"], builtin);
        no_tick_is_lost(version, &expected, &ours);
    }
}

#[test]
fn the_first_line_counts_ticks() {
    let (_, ours) = both(24);
    assert!(
        ours.first_line
            .starts_with("Statistical profiling result from ")
    );
    assert!(ours.first_line.ends_with(" unaccounted, 0 excluded)."));
    assert!(ours.first_line.contains("(1418 ticks, "));
}

#[test]
fn cpp_has_the_names_of_the_program_that_was_recorded() {
    let name = "v8::internal::JsonParser<unsigned char>::ScanJsonString";
    for (log, version, ticks) in [
        (18, "18.20.8", 25),
        (20, "20.20.2", 55),
        (24, "24.21.0", 76),
    ] {
        let Some(node) = node(version) else {
            return;
        };
        let (report, remarks) = report(&self::log(log), &["--symbols", node.to_str().unwrap()]);
        assert_eq!(report.section("C++")[name], ticks, "node {version}");
        let program = format!("/opt/node{log}/bin/node");
        assert_eq!(report.section("Shared libraries").get(&program), None);
        assert!(!remarks.contains(&program), "{remarks}");
    }
}

#[test]
fn another_version_of_the_program_gives_no_names_and_is_told() {
    // The nearest to node 20.20.2 there is, with its last piece of code at the same address.
    for version in ["20.9.0", "24.21.0"] {
        let Some(node) = node(version) else {
            return;
        };
        let (report, remarks) = report(&log(20), &["--symbols", node.to_str().unwrap()]);
        let libraries = report.section("Shared libraries");
        assert_eq!(libraries["/opt/node20/bin/node"], 544);
        assert!(remarks.contains("/opt/node20/bin/node is not used for names"));
        assert!(remarks.contains("--symbols FILE"));
    }
}
