//! The JSON of `nodespy`, `check` and `dump`: what docs/json.md describes, and nothing else.

use std::collections::BTreeSet;

use serde_json::Value;

use super::live;
use super::workload::Workload;
use crate::run::run_nodespy;

const DOCUMENT: &str = include_str!("../../../../docs/json.md");

/// Every key of a value and of what it holds.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                found.insert(key.clone());
                keys(field, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

/// What a section of the document says.
fn section(schema: &str) -> &'static str {
    let heading = format!("## `{schema}`, version 1\n");
    let (_, rest) = DOCUMENT.split_once(&heading).unwrap();
    rest.split("\n## ").next().unwrap()
}

#[track_caller]
fn expect_documented(arguments: &[&str], schema: &str) {
    let outcome = run_nodespy(arguments);
    outcome.expect_code(0);
    let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(printed["schema"], schema, "{outcome}");
    assert_eq!(printed["version"], 1, "{outcome}");
    let mut found = BTreeSet::new();
    keys(&printed, &mut found);
    assert!(found.len() > 6, "{outcome}");
    for key in found {
        let is_general = key == "schema" || key == "version" || key == "processes";
        assert!(
            is_general || section(schema).contains(&format!("`{key}`")),
            "{key:?} of {schema} is not in docs/json.md"
        );
        let is_snake_case = key
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        assert!(is_snake_case, "{key:?}");
    }
}

#[test]
fn every_field_is_documented() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let pid = target.pid_text();
    expect_documented(&["--json"], "nodespy.list");
    expect_documented(&["check", "--json", "-p", &pid], "nodespy.check");
    expect_documented(&["dump", "--json", "-p", &pid], "nodespy.dump");
    let target = Workload::new("pending.js").start();
    let pid = target.pid_text();
    let arguments = ["dump", "--pending", "--json", "-p", &pid];
    expect_documented(&arguments, "nodespy.dump");
}
