//! Reports of recordings: for people, for scripts, and the same from every command.

use crate::run::{Started, nodespy, run_nodespy};

const SMALL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/nspy/v1-small.nspy"
);

#[test]
fn the_json_report_is_json_of_a_stated_version() {
    let outcome = run_nodespy(&["report", SMALL, "--format", "json"]);
    outcome.expect_code(0);
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(report["schema"], "nodespy.report");
    assert_eq!(report["version"], 1);
    let heaviest = &report["functions_by_self"][0];
    for field in ["self", "total"] {
        assert!(heaviest[field].as_u64().unwrap() <= report["total"].as_u64().unwrap());
    }
    let shares = report["shares_percent"].as_object().unwrap();
    let sum: f64 = shares.values().map(|share| share.as_f64().unwrap()).sum();
    assert!((sum - 100.0).abs() < 0.1, "{sum}");
    let converted = run_nodespy(&["convert", SMALL, "-", "--to", "json"]);
    assert_eq!(converted.stdout, outcome.stdout);
}

#[test]
fn every_field_of_the_json_report_is_documented() {
    let documented =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md"))
            .unwrap();
    let outcome = run_nodespy(&["report", SMALL, "--format", "json"]);
    let keys = outcome.stdout.lines().filter_map(|line| {
        let (key, _) = line.trim().strip_prefix('"')?.split_once("\": ")?;
        Some(key)
    });
    for key in keys {
        assert!(documented.contains(&format!("`{key}`")), "{key}");
    }
}

#[test]
fn names_in_a_report_are_only_names() {
    let stacks = "main;<script>alert(1)</script> | `x` \"q\" 3\n";
    for format in ["md", "json", "text"] {
        let command = nodespy(&["report", "-", "--format", format]);
        let outcome = Started::new(command, stacks).finish();
        outcome.expect_code(0);
        match format {
            "json" => {
                let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
                let name = report["functions_by_self"][0]["name"].as_str().unwrap();
                assert!(name.contains("| `x` \"q\""), "{name}");
            }
            "md" => {
                let is_row = |line: &&str| line.starts_with("| 100.0 %") && line.contains("script");
                let row = outcome.stdout.lines().find(is_row).unwrap();
                let row = row.replace("\\|", "");
                assert_eq!(row.matches('|').count(), 6, "{row}");
            }
            _ => {}
        }
    }
}

#[test]
fn reports_are_of_what_is_shown() {
    let stacks = "a;b 3\na;c 1\n";
    let command = nodespy(&["report", "-", "--format", "md", "--focus", "c"]);
    let outcome = Started::new(command, stacks).finish();
    outcome.expect_code(0);
    assert!(
        outcome
            .stdout
            .contains("filtered: --focus c (25.0 % of the weight is left)")
    );
    assert!(!outcome.stdout.contains("`b`"), "{outcome}");
}

#[test]
fn piped_text_is_as_wide_as_it_needs_unless_columns_says_how_wide() {
    let stacks = format!("main;{} 3\n", "a_rather_long_name_".repeat(8));
    let widest = |columns: Option<&str>| {
        let mut command = nodespy(&["report", "-"]);
        match columns {
            Some(columns) => command.env("COLUMNS", columns),
            None => command.env_remove("COLUMNS"),
        };
        let outcome = Started::new(command, &stacks).finish();
        outcome.expect_code(0);
        let widths = outcome.stdout.lines().map(|line| line.chars().count());
        widths.max().unwrap()
    };
    assert!(widest(None) > 150);
    assert!(widest(Some("100")) <= 100);
}
