//! `nodespy mcp`: a conversation as a client has it.

use serde_json::{Value, json};

use crate::run::{Started, nodespy};

/// The answers to these requests, in their order.
fn converse(arguments: &[&str], requests: &[Value]) -> Vec<Value> {
    let lines: String = requests
        .iter()
        .map(|request| format!("{request}\n"))
        .collect();
    let outcome = Started::new(nodespy(arguments), &lines).finish();
    outcome.expect_code(0);
    let answers = outcome.stdout.lines().map(serde_json::from_str);
    answers.collect::<Result<_, _>>().unwrap()
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[test]
fn a_recording_is_reported_and_asked_about() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/nspy/v3-small.nspy"
    );
    let call = |id, name: &str, arguments: Value| {
        request(
            id,
            "tools/call",
            json!({ "name": name, "arguments": arguments }),
        )
    };
    let answers = converse(
        &["mcp"],
        &[
            request(1, "initialize", json!({ "protocolVersion": "2025-06-18" })),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            request(2, "tools/list", json!({})),
            call(3, "report", json!({ "recording": file })),
            call(
                4,
                "query",
                json!({ "recording": file, "query": "samples by thread" }),
            ),
            call(
                5,
                "query",
                json!({ "recording": file, "query": "nonsense" }),
            ),
        ],
    );
    assert_eq!(
        answers.len(),
        5,
        "a notification has no answer: {answers:?}"
    );
    let tools = answers[1]["result"]["tools"].as_array().unwrap();
    assert!(
        tools
            .iter()
            .all(|tool| tool["inputSchema"]["type"] == "object")
    );
    let said = |at: usize| {
        let result = &answers[at]["result"];
        let text = result["content"][0]["text"].as_str().unwrap();
        (result["isError"].as_bool().unwrap(), text)
    };
    assert!(
        !said(2).0 && said(2).1.starts_with("# CPU profile"),
        "{:?}",
        said(2)
    );
    assert!(!said(3).0 && said(3).1.contains("match"), "{:?}", said(3));
    assert!(
        said(4).0 && said(4).1.contains("exit status: 2"),
        "{:?}",
        said(4)
    );
}
