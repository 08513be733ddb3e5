//! `nodespy report` of V8 logs, against what `node --prof-process` printed of the same logs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::run::run_nodespy;

/// Ticks by section and name, and the blocks of the heavy profile by their first name.
#[derive(Debug, Default)]
struct Report {
    first_line: String,
    sections: BTreeMap<String, BTreeMap<String, u64>>,
    heavy: BTreeMap<String, String>,
}

impl Report {
    fn of(text: &str) -> Self {
        let (sections, heavy) = text.split_once(" [Bottom up (heavy) profile]:").unwrap();
        let (_, heavy) = heavy.split_once("name\n").unwrap();
        let mut report = Self {
            first_line: text.lines().next().unwrap().to_owned(),
            ..Self::default()
        };
        let mut section = String::new();
        for line in sections.lines() {
            if let Some(title) = line.strip_prefix(" [") {
                section = title.trim_end_matches("]:").to_owned();
            } else if let Some((ticks, name)) = ticks_and_name(line) {
                let names = report.sections.entry(section.clone()).or_default();
                *names.entry(name).or_default() += ticks;
            }
        }
        for block in heavy.split("\n\n").map(|block| block.trim_matches('\n')) {
            if let Some((_, name)) = block.lines().next().and_then(ticks_and_name) {
                report.heavy.insert(name, in_new_words(block));
            }
        }
        report
    }

    fn section(&self, title: &str) -> BTreeMap<String, u64> {
        self.sections.get(title).cloned().unwrap_or_default()
    }

    fn summary(&self, name: &str) -> u64 {
        self.section("Summary").get(name).copied().unwrap_or(0)
    }
}

/// `  112    8.0%    8.2%  NAME`, the second share left out at times.
fn ticks_and_name(line: &str) -> Option<(u64, String)> {
    let (ticks, rest) = line.trim_start().split_once(' ')?;
    let (_, rest) = rest.split_once('%')?;
    let rest = rest.trim_start();
    let name = match rest.split_once("%  ") {
        Some((share, name)) if share.parse::<f64>().is_ok() => name,
        _ => rest,
    };
    // A second piece of code of the same name has a number.
    let name = match name.rsplit_once(" {") {
        Some((name, number)) if number.ends_with('}') => name,
        _ => name,
    };
    Some((ticks.parse().ok()?, in_new_words(name)))
}

/// Before node 20 JavaScript had names by how it came to be compiled.
fn in_new_words(text: &str) -> String {
    ["LazyCompile: ", "Function: ", "Eval: ", "Script: "]
        .iter()
        .fold(text.to_owned(), |text, old| text.replace(old, "JS: "))
}

fn corpus(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/corpus/v8-log")
        .join(name)
}

/// The expected report and ours.
fn both(version: u32) -> (Report, Report) {
    let log = corpus(&format!("node{version}-v8.log"));
    let outcome = run_nodespy(&["report", log.to_str().unwrap()]);
    outcome.expect_code(0);
    let expected = corpus(&format!("expected/node{version}-v8.prof-process.txt"));
    let expected = std::fs::read_to_string(expected).unwrap();
    (Report::of(&expected), Report::of(&outcome.stdout))
}

#[test]
fn ticks_of_javascript_agree_with_prof_process_per_function() {
    for version in [18, 20, 24] {
        let (expected, ours) = both(version);
        let javascript = ours.section("JavaScript");
        for (name, ticks) in expected.section("JavaScript") {
            assert_eq!(
                javascript.get(&name),
                Some(&ticks),
                "node {version}: {name}"
            );
        }
        assert_eq!(expected.summary("GC"), ours.summary("GC"), "node {version}");
        assert!(ours.summary("Unaccounted") <= expected.summary("Unaccounted"));
    }
}

/// Node 24 logs its builtins where they run, so that both sides see the same JavaScript.
#[test]
fn javascript_of_node_24_is_the_same_to_the_letter() {
    let (expected, ours) = both(24);
    assert_eq!(expected.section("JavaScript"), ours.section("JavaScript"));
    let is_javascript = |name: &str| ["JS: ", "Builtin: "].iter().any(|it| name.starts_with(it));
    let heavy = expected
        .heavy
        .iter()
        .filter(|(name, _)| is_javascript(name));
    let mut compared = 0;
    for (name, block) in heavy {
        assert_eq!(Some(block), ours.heavy.get(name));
        compared += 1;
    }
    assert_eq!(compared, 8);
}

/// Node 18 and 20 run builtins that their logs place inside of the program; node's own tool counts
/// these as the program, or cannot tell at all.
#[test]
fn what_prof_process_cannot_attribute_has_a_name() {
    for (version, builtin) in [(18, 146), (20, 210)] {
        let (expected, ours) = both(version);
        let javascript = ours.section("JavaScript");
        assert_eq!(javascript["Builtin: ArrayTimSort"], builtin);
        let rest = |report: &Report| {
            ["C++", "Shared libraries", "Unaccounted"]
                .map(|name| report.summary(name))
                .iter()
                .sum::<u64>()
        };
        let won = ours.summary("JavaScript") - expected.summary("JavaScript");
        assert_eq!(rest(&expected), rest(&ours) + won, "node {version}");
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

/// The program of a Node version, where `tools/setup.sh` has installed it.
fn node(version: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(format!("target/nodes/{version}/bin/node"));
    path.exists().then_some(path)
}

/// The report of a log with a program for names, and the remarks.
fn with_symbols(log: u32, node: &Path) -> (Report, String) {
    let log = corpus(&format!("node{log}-v8.log"));
    let arguments = ["report", log.to_str().unwrap(), "--symbols"];
    let outcome = run_nodespy(&[&arguments[..], &[node.to_str().unwrap()]].concat());
    outcome.expect_code(0);
    (Report::of(&outcome.stdout), outcome.stderr)
}

#[test]
fn cpp_has_the_names_of_the_program_that_was_recorded() {
    let name = "v8::internal::JsonParser<unsigned char>::ScanJsonString";
    for (log, version, ticks) in [
        (18, "18.20.8", 25),
        (20, "20.20.2", 55),
        (24, "24.21.0", 76),
    ] {
        let Some(node) = node(version) else { continue };
        let (report, remarks) = with_symbols(log, &node);
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
        let Some(node) = node(version) else { continue };
        let (report, remarks) = with_symbols(20, &node);
        let libraries = report.section("Shared libraries");
        assert_eq!(libraries["/opt/node20/bin/node"], 544);
        assert!(remarks.contains("/opt/node20/bin/node is not used for names"));
        assert!(remarks.contains("--symbols FILE"));
    }
}
