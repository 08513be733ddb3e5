//! `nodespy mcp`: the Model Context Protocol on standard input and output, so that a coding assistant can profile a process.
//!
//! Messages are JSON-RPC 2.0, one a line (<https://modelcontextprotocol.io>, revision 2025-06-18). Every tool is a command of nodespy,
//! started as a process of its own with a deadline; what it prints is the answer, cut where it is long. Meanwhile pings are
//! answered, a recording reports its progress, and a cancelled request ends. Why not the SDK: decision 0033.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::McpArgs;

mod client;
mod processes;
mod session;
mod tools;

use client::{Call, Client, Incoming, MAX_MESSAGE_BYTES};
use session::Session;

/// Revisions of the protocol that differ in nothing that is used here, newest first.
const REVISIONS: [&str; 3] = ["2025-06-18", "2025-03-26", "2024-11-05"];

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

pub(crate) fn run(arguments: &McpArgs) -> anyhow::Result<ExitCode> {
    let mut session = Session::new(!arguments.no_redact)?;
    let mut client = Client::on_standard_input();
    while let Some(incoming) = client.next() {
        let Incoming::Message(line) = incoming else {
            let text = format!("a message of more than {MAX_MESSAGE_BYTES} bytes");
            client.send(&failure(&Value::Null, INVALID_REQUEST, &text));
            return Ok(ExitCode::FAILURE);
        };
        if let Some(answer) = answer(&mut session, &mut client, &line)
            && !client.send(&answer)
        {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The answer to a message; none to a notification or a cancelled request.
fn answer(session: &mut Session, client: &mut Client, line: &[u8]) -> Option<Value> {
    if line.trim_ascii().is_empty() {
        return None;
    }
    let request: Value = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => return Some(failure(&Value::Null, PARSE_ERROR, &error.to_string())),
    };
    let Some(method) = request.get("method").and_then(Value::as_str) else {
        let id = request.get("id").unwrap_or(&Value::Null);
        return Some(failure(id, INVALID_REQUEST, "there is no method"));
    };
    let id = request.get("id")?;
    let parameters = request.get("params").unwrap_or(&Value::Null);
    let mut call = Call::new(client, id, parameters);
    let result = match method {
        "initialize" => Ok(initialized(parameters)),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": tools::list() })),
        "tools/call" => {
            tools::call(session, &mut call, parameters).map_err(|why| (INVALID_PARAMS, why))
        }
        other => Err((METHOD_NOT_FOUND, format!("there is no method {other:?}"))),
    };
    match result {
        _ if call.is_cancelled => None,
        Ok(result) => Some(success(id, &result)),
        Err((code, why)) => Some(failure(id, code, &why)),
    }
}

fn success(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn failure(id: &Value, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

fn initialized(parameters: &Value) -> Value {
    let asked = parameters.get("protocolVersion").and_then(Value::as_str);
    let revision = asked
        .and_then(|asked| REVISIONS.iter().find(|known| **known == asked))
        .unwrap_or(&REVISIONS[0]);
    json!({
        "protocolVersion": revision,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "nodespy", "version": env!("CARGO_PKG_VERSION") },
        "instructions": "Profiles Node.js processes running on this machine, without restarting them. Start with \
            list_processes, record one, and read its report; then ask for details with query and hot_lines.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(line: &str) -> Option<Value> {
        let (_, nothing) = std::sync::mpsc::channel();
        let mut client = Client::sending(nothing);
        answer(
            &mut Session::new(true).unwrap(),
            &mut client,
            line.as_bytes(),
        )
    }

    #[test]
    fn a_client_is_answered_in_the_revision_it_knows() {
        for (asked, expected) in [("2024-11-05", "2024-11-05"), ("1999-01-01", REVISIONS[0])] {
            let line = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize",
                "params": { "protocolVersion": asked } });
            let answer = ask(&line.to_string()).unwrap();
            assert_eq!(answer["result"]["protocolVersion"], expected);
            assert_eq!(answer["id"], 1);
        }
        assert_eq!(
            ask(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            None
        );
        assert_eq!(ask(" \n"), None);
    }

    #[test]
    fn malformed_requests_get_the_error_code_of_json_rpc() {
        for (line, code) in [
            ("{", PARSE_ERROR),
            ("[]", INVALID_REQUEST),
            (r#"{"id":1}"#, INVALID_REQUEST),
            (r#"{"id":1,"method":"x"}"#, METHOD_NOT_FOUND),
            (r#"{"id":1,"method":"tools/call"}"#, INVALID_PARAMS),
            (
                r#"{"id":1,"method":"tools/call","params":{"name":"rm"}}"#,
                INVALID_PARAMS,
            ),
            (
                r#"{"id":1,"method":"tools/call","params":{"name":"record","arguments":{"pid":"1; rm"}}}"#,
                INVALID_PARAMS,
            ),
            (
                r#"{"id":1,"method":"tools/call","params":{"name":"report","arguments":{"recording":"r9"}}}"#,
                INVALID_PARAMS,
            ),
            (
                r#"{"id":1,"method":"tools/call","params":{"name":"report","arguments":{"recording":"--help"}}}"#,
                INVALID_PARAMS,
            ),
        ] {
            let answer = ask(line).unwrap();
            assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
        }
    }
}
