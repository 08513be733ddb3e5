//! `nodespy mcp`: the Model Context Protocol on standard input and output, so that a coding assistant can profile a process.
//!
//! Messages are JSON-RPC 2.0, one a line (<https://modelcontextprotocol.io>, revision 2025-06-18). Every tool is a command of nodespy,
//! started as a process of its own with a deadline; what it prints is the answer, cut where it is long.

use std::io::{BufRead, Read};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::McpArgs;
use crate::output;

mod session;
mod tools;

use session::Session;

/// Revisions of the protocol that differ in nothing that is used here, newest first.
const REVISIONS: [&str; 3] = ["2025-06-18", "2025-03-26", "2024-11-05"];
/// A longer message is none that a client would send.
const MAX_MESSAGE_BYTES: u64 = 1 << 20;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

pub(crate) fn run(arguments: &McpArgs) -> anyhow::Result<ExitCode> {
    let mut session = Session::new(!arguments.no_redact)?;
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = Read::by_ref(&mut input)
            .take(MAX_MESSAGE_BYTES)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        if line.last() != Some(&b'\n') && read as u64 == MAX_MESSAGE_BYTES {
            // Where the next message starts is not known any more.
            let text = format!("a message of more than {MAX_MESSAGE_BYTES} bytes");
            output::stream(&message(&failure(&Value::Null, INVALID_REQUEST, &text)));
            return Ok(ExitCode::FAILURE);
        }
        if let Some(answer) = answer(&mut session, &line)
            && !output::stream(&message(&answer))
        {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn message(answer: &Value) -> String {
    format!("{answer}\n")
}

/// The answer to a message; none to a notification.
fn answer(session: &mut Session, line: &[u8]) -> Option<Value> {
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
    let result = match method {
        "initialize" => Ok(initialized(parameters)),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": tools::list() })),
        "tools/call" => tools::call(session, parameters).map_err(|why| (INVALID_PARAMS, why)),
        other => Err((METHOD_NOT_FOUND, format!("there is no method {other:?}"))),
    };
    Some(match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err((code, why)) => failure(id, code, &why),
    })
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
        "instructions": "Profiles running Node.js processes of this machine from outside, without a restart. Start with \
            list_processes, then record one and read its report; ask for details with query and hot_lines.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(line: &str) -> Option<Value> {
        answer(&mut Session::new(true).unwrap(), line.as_bytes())
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
    fn what_is_no_request_is_told_so() {
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
