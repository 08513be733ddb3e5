//! `nodespy mcp` with the client of the Model Context Protocol's own SDK, as coding assistants have it.

use std::process::Command;

use serde_json::Value;

use crate::live;
use crate::run::run;
use crate::workload::{USUAL_NODE, Workload, node, root, script};

/// Lets the client go through its session, `workloads/mcp/client.mjs`.
fn session(pid: u32, options: &[&str]) -> Value {
    let mut installer = Command::new(root().join("tools/packages.sh"));
    assert!(installer.arg("mcp").status().unwrap().success());
    let mut client = Command::new(node(USUAL_NODE).unwrap());
    client
        .arg(script("mcp/client.mjs"))
        .arg(env!("CARGO_BIN_EXE_nodespy"))
        .args([&pid.to_string(), "seventyPercent"])
        .args(options);
    let outcome = run(client);
    outcome.expect_code(0);
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[track_caller]
fn text<'a>(answers: &'a Value, name: &str) -> &'a str {
    let answer = &answers[name];
    assert_ne!(answer["isError"], true, "{name}: {answer}");
    answer["text"].as_str().unwrap()
}

/// The words that are absolute paths.
fn paths(text: &str) -> Vec<&str> {
    let words = text.split([' ', '\n', '"', '\'', '(', ')', '`', '|', ',', '=', '\\']);
    words
        .filter(|word| word.starts_with('/') && word[1..].contains('/'))
        .collect()
}

#[test]
fn an_assistant_records_and_asks_and_sees_no_path() {
    let Some(_live) = live() else { return };
    let workload = Workload::new("split.js").start();
    let said = session(workload.pid(), &[]);

    let tools = serde_json::to_string(&said["tools"]).unwrap();
    for tool in [
        "list_processes",
        "record",
        "report",
        "query",
        "hot_lines",
        "compare",
    ] {
        assert!(tools.contains(&format!("\"{tool}\"")), "{tools}");
    }
    let answers = &said["answers"];
    let list: Value = serde_json::from_str(text(answers, "list")).unwrap();
    let listed = list["processes"].as_array().unwrap();
    let listed = listed.iter().find(|row| row["pid"] == workload.pid());
    let listed = listed.unwrap_or_else(|| panic!("{list:#}"));
    assert_eq!(listed["script"], "split.js");
    assert!(listed["user"].is_null(), "{listed}");
    assert!(text(answers, "record").starts_with("recording: r1\n"));
    for name in ["record", "report", "lines", "compare"] {
        assert!(
            text(answers, name).contains("seventyPercent"),
            "{name}: {answers:#}"
        );
    }

    let progress = said["progress"].as_array().unwrap();
    let done: Vec<f64> = progress
        .iter()
        .filter_map(|it| it["progress"].as_f64())
        .collect();
    assert!(done.len() > 1 && done.is_sorted(), "{progress:?}");
    assert_eq!(done.last(), Some(&3.0), "{progress:?}");
    assert!(said["pongsWhileRecording"].as_u64() > Some(0), "{said:#}");
    assert_eq!(said["cancelled"], true);

    for (name, failure) in said["failures"].as_object().unwrap() {
        assert_eq!(failure["isError"], true, "{name}: {failure}");
    }
    for kind in ["answers", "failures"] {
        for (name, answer) in said[kind].as_object().unwrap() {
            let text = answer["text"].as_str().unwrap();
            assert_eq!(paths(text), [""; 0], "{name}: {text}");
        }
    }
}

#[test]
fn with_no_redact_hot_lines_have_their_source_text() {
    let Some(_live) = live() else { return };
    let workload = Workload::new("split.js").start();
    let said = session(workload.pid(), &["--no-redact"]);
    let lines = text(&said["answers"], "lines");
    assert!(lines.contains("Math."), "{lines}");
    assert!(!paths(lines).is_empty(), "{lines}");
}
