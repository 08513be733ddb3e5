//! Reports in the form of `node --prof-process`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::run::run_nodespy;

/// Ticks by section and name, and the blocks of the heavy profile by their first name.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) first_line: String,
    sections: BTreeMap<String, BTreeMap<String, u64>>,
    pub(crate) heavy: BTreeMap<String, String>,
}

impl Report {
    pub(crate) fn of(text: &str) -> Self {
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

    pub(crate) fn section(&self, title: &str) -> BTreeMap<String, u64> {
        self.sections.get(title).cloned().unwrap_or_default()
    }

    pub(crate) fn summary(&self, name: &str) -> u64 {
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

/// Our report of a log, and what is remarked.
pub(crate) fn report(log: &Path, options: &[&str]) -> (Report, String) {
    let arguments = [&["report", log.to_str().unwrap()], options].concat();
    let outcome = run_nodespy(&arguments);
    outcome.expect_code(0);
    (Report::of(&outcome.stdout), outcome.stderr)
}

/// Every function has the ticks that node's own tool gives it.
pub(crate) fn javascript_agrees(version: u32, expected: &Report, ours: &Report) {
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

/// JavaScript is the same to the letter, callers included; how many blocks were compared.
pub(crate) fn javascript_is_the_same(expected: &Report, ours: &Report) -> usize {
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
    compared
}

/// What is more in JavaScript here is less elsewhere.
pub(crate) fn no_tick_is_lost(version: u32, expected: &Report, ours: &Report) {
    let rest = |report: &Report| {
        ["C++", "Shared libraries", "Unaccounted"]
            .map(|name| report.summary(name))
            .iter()
            .sum::<u64>()
    };
    let won = ours.summary("JavaScript") - expected.summary("JavaScript");
    assert_eq!(rest(expected), rest(ours) + won, "node {version}");
}
