use nodespy_model::Tier;

use super::*;
use crate::testing::{profile_of, random_profile, random_stacks};
use crate::weights::{function_weights, package_weights};
use proptest::prelude::*;

const LODASH: &str = "d:map@/app/node_modules/lodash/map.js";

/// The rows of an answer in words.
fn rows(lines: &str, query: &str) -> Vec<String> {
    let profile = profile_of(lines);
    let answer = Query::parse(query).unwrap().answer(&profile);
    let name = |key: &RowKey| match key {
        RowKey::Function(function) => profile.name_of(*function).to_owned(),
        RowKey::Line(function, line) => format!("{}:{line}", profile.name_of(*function)),
        RowKey::File(file) => profile.strings.get(*file).to_owned(),
        RowKey::Package(package) => package.name.clone(),
        RowKey::Subsystem(subsystem) => subsystem.label().to_owned(),
        RowKey::Category(category) => category.label().to_owned(),
        RowKey::Tier(tier) => tier.label().to_owned(),
        RowKey::Label(label) => label.clone(),
        RowKey::None => "(none)".to_owned(),
        key => format!("{key:?}"),
    };
    let rows = answer.rows.iter();
    rows.map(|row| format!("{} {}", name(&row.key), row.weight))
        .collect()
}

#[test]
fn self_and_total_are_those_of_the_report() {
    let lines = format!("a;{LODASH};b 3\na;{LODASH} 2\na 1\nb;gc:Scavenge 4");
    assert_eq!(rows(&lines, "self"), ["Scavenge 4", "b 3", "map 2", "a 1"]);
    assert_eq!(rows(&lines, "top 3 total"), ["b 7", "a 6", "map 5"]);
    assert_eq!(
        rows(&lines, "self by package"),
        ["app 4", "v8 4", "lodash 2"]
    );
    assert_eq!(
        rows(&lines, "samples by subsystem"),
        ["app 2", "dependencies 1", "GC 1"]
    );
}

#[test]
fn conditions_are_asked_at_the_frame_that_is_counted() {
    let lines = format!("a;{LODASH};b 3\na;{LODASH} 2\na 1");
    assert_eq!(rows(&lines, "self where package = lodash"), ["map 2"]);
    assert_eq!(rows(&lines, "total where package = lodash"), ["map 5"]);
    assert_eq!(
        rows(&lines, "total where package = deps by caller"),
        ["a 5"]
    );
    assert_eq!(rows(&lines, "self under map"), ["b 3", "map 2"]);
    assert_eq!(
        rows(&lines, "total under ~ '^map$' where not function = map"),
        ["b 3"]
    );
    assert_eq!(rows(&lines, "self where caller = map"), ["b 3"]);
    assert_eq!(rows(&lines, "self by caller"), ["map 3", "a 2", "(none) 1"]);
    assert_eq!(
        rows(&lines, "self where file = lodash/map.js or function ~ ^b"),
        ["b 3", "map 2"]
    );
    assert_eq!(rows(&lines, "self where share >= 40%"), ["b 3"]);
}

#[test]
fn recursion_counts_once() {
    let lines = "a;f;f;f 3\na;g;f 2";
    assert_eq!(rows(lines, "total where function = f"), ["f 5"]);
    assert_eq!(
        rows(lines, "total by caller where function = f"),
        ["a 3", "f 3", "g 2"]
    );
    assert_eq!(rows(lines, "total by category"), ["app 5"]);
}

#[test]
fn and_binds_stronger_than_or_and_not_strongest() {
    let lines = "a 1\nb 2\nc 4";
    let matched = |condition: &str| {
        let query = Query::parse(&format!("self where {condition}")).unwrap();
        query.answer(&profile_of(lines)).matched
    };
    assert_eq!(matched("function = a or function = b and function = c"), 1);
    assert_eq!(
        matched("(function = a or function = b) and function != b"),
        1
    );
    assert_eq!(matched("not function = a and not (function = b)"), 4);
    assert_eq!(matched("function !~ '[ab]'"), 4);
    assert_eq!(matched("category = app and tier != optimized"), 7);
}

#[test]
fn tiers_are_groups_and_conditions() {
    let profile = profile_of("*f 3\n~f 2\nn:g 1");
    let answer = Query::parse("self by tier").unwrap().answer(&profile);
    let keys: Vec<(RowKey, u64)> = answer
        .rows
        .into_iter()
        .map(|row| (row.key, row.weight))
        .collect();
    assert_eq!(
        keys,
        [
            (RowKey::Tier(Tier::Optimized), 3),
            (RowKey::Tier(Tier::Interpreted), 2),
            (RowKey::None, 1)
        ]
    );
}

#[test]
fn errors_point_at_the_column_and_say_what_was_expected() {
    for (text, column, words) in [
        ("", 1, "expected self, total or samples, found the end"),
        ("top self", 5, "how many rows"),
        ("top 0 self", 5, "from 1 to 100000"),
        (
            "top 10 sellf",
            8,
            "expected self, total or samples, found \"sellf\"",
        ),
        ("self wher x", 6, "expected where, under, by or the end"),
        (
            "self where pakage = x",
            12,
            "found \"pakage\"; did you mean package?",
        ),
        (
            "self where package lodash",
            20,
            "expected =, !=, ~ or !~ after package",
        ),
        ("self where package > 3", 20, "=, !=, ~ or !~"),
        ("self where line ~ 3", 17, "=, !=, <, <=, > or >="),
        ("self where line > x", 19, "the number of a line"),
        (
            "self where package =",
            21,
            "a value for package, found the end",
        ),
        ("self where package = \"x", 22, "has no other one"),
        ("self where function ~ '('", 23, "not a regular expression"),
        (
            "self where (package = x",
            24,
            "expected and, or, or ), found the end",
        ),
        (
            "self where subsystem = x",
            24,
            "a subsystem (app, eval, dependencies",
        ),
        ("self where share > 3", 20, "write a share as 0.5%"),
        ("self where not share > 3%", 24, "join it with `and`"),
        ("self where time = 3s", 19, "3s..10s"),
        ("self by time", 9, "expected function, caller, line"),
        ("self by line by file", 14, "once"),
        (
            "self where package = x y",
            24,
            "expected and, or, under, by or the end",
        ),
        ("é where", 1, "found \"é\""),
    ] {
        let error = Query::parse(text).unwrap_err();
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.message.contains(words), "{text}: {error}");
    }
    let text = "self where pakage = x";
    let marked = Query::parse(text).unwrap_err().marked(text);
    assert_eq!(marked, "  self where pakage = x\n             ^");
}

#[test]
fn what_nests_too_deep_or_is_too_long_is_refused() {
    let deep = format!(
        "self where {}function = a{}",
        "(".repeat(9999),
        ")".repeat(9999)
    );
    assert!(
        Query::parse(&deep)
            .unwrap_err()
            .message
            .contains("bytes are more")
    );
    let deep = format!("self where {}function = a", "not ".repeat(33));
    assert!(
        Query::parse(&deep)
            .unwrap_err()
            .message
            .contains("deeper than 32")
    );
    let wide = format!("self where {}line = 1", "line = 1 or ".repeat(64));
    assert!(
        Query::parse(&wide)
            .unwrap_err()
            .message
            .contains("more than 64 tests")
    );
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_a_place(text in ".{0,60}") {
        if let Err(error) = Query::parse(&text) {
            prop_assert!(error.column >= 1 && error.column <= text.chars().count() + 1);
        }
    }

    #[test]
    fn without_conditions_a_query_counts_as_the_report_does(stacks in random_stacks()) {
        let profile = random_profile(&stacks);
        let ask = |text: &str| -> Vec<(RowKey, u64)> {
            let answer = Query::parse(text).unwrap().answer(&profile);
            answer.rows.into_iter().filter(|row| row.key != RowKey::None).map(|row| (row.key, row.weight)).collect()
        };
        for entry in function_weights(&profile, |_| true) {
            let key = RowKey::Function(entry.function);
            prop_assert!(ask("top 999 total").contains(&(key.clone(), entry.total_weight)));
            prop_assert!(entry.self_weight == 0 || ask("top 999 self").contains(&(key, entry.self_weight)));
        }
        for entry in package_weights(&profile) {
            prop_assert!(ask("top 999 total by package").contains(&(RowKey::Package(entry.package), entry.total_weight)));
        }
    }

    #[test]
    fn a_condition_and_its_contrary_share_the_weight(stacks in random_stacks()) {
        let profile = random_profile(&stacks);
        for condition in ["package = dep", "under b", "tier = optimized or function = e"] {
            let matched = |text: String| Query::parse(&text).unwrap().answer(&profile).matched;
            let both = matched(format!("self where {condition}")) + matched(format!("self where not ({condition})"));
            prop_assert_eq!(both, profile.total_weight());
        }
    }
}
