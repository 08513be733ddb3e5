//! The tools: what each takes, and which command answers it.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::client::Call;
use super::session::{GRACE, Said, Session};

/// The longest recording; a client waits for it.
const MAX_SECONDS: u64 = 60;
const MAX_RATE_HZ: u64 = 999;
/// A longer text is no name, pattern or question.
const MAX_TEXT_BYTES: usize = 4096;

/// Why a call is refused.
type Refusal = String;
/// What comes of a call: a refusal, or what a command has said, if it could be started.
type Outcome = Result<anyhow::Result<Said>, Refusal>;

struct Tool {
    name: &'static str,
    description: &'static str,
    /// The arguments as JSON Schema, and those that have to be there.
    arguments: fn() -> Value,
    required: &'static [&'static str],
    call: fn(&mut Session, &mut Call, &Map<String, Value>) -> Outcome,
}

/// Every tool.
const TOOLS: &[Tool] = &[
    Tool {
        name: "list_processes",
        description: "List the Node.js processes of this machine: pid, name, version, CPU, container.",
        arguments: || json!({}),
        required: &[],
        call: |session, call, _| Ok(session.processes(call)),
    },
    Tool {
        name: "record",
        description: "Record a running process and report where its time goes: findings, hot functions, HTTP routes, how sure it is. \
            The recording gets a name (r1, r2, …) for the other tools.",
        arguments: || {
            json!({
                "pid": { "type": "integer", "minimum": 1 },
                "seconds": { "type": "integer", "minimum": 1, "maximum": MAX_SECONDS, "default": 10 },
                "rate_hz": { "type": "integer", "minimum": 1, "maximum": MAX_RATE_HZ, "default": 99 },
                "event": { "enum": ["cpu", "wall", "off-cpu", "alloc"], "default": "cpu",
                    "description": "cpu: computing; wall: all time; off-cpu: waiting; alloc: bytes allocated" },
            })
        },
        required: &["pid"],
        call: record,
    },
    Tool {
        name: "report",
        description: "Report on a recording, of all its functions or by HTTP route.",
        arguments: || {
            json!({
                "recording": recording_schema(),
                "by": { "enum": ["function", "route"], "default": "function" },
                "focus": { "type": "string", "description": "only samples with a function that matches this regular expression" },
            })
        },
        required: &["recording"],
        call: report,
    },
    Tool {
        name: "query",
        description: "Ask a recording a question, such as: top 10 self where package = deps by function; total under parse by caller; \
            samples by label.route.",
        arguments: || json!({ "recording": recording_schema(), "query": { "type": "string" } }),
        required: &["recording", "query"],
        call: |session, call, arguments| {
            let query = text(arguments, "query")?;
            ask(session, call, arguments, &query)
        },
    },
    Tool {
        name: "hot_lines",
        description: "Show which lines of a function take the time, with what they call; with their source text where nodespy mcp was \
            started with --no-redact.",
        arguments: || json!({ "recording": recording_schema(), "function": { "type": "string" } }),
        required: &["recording", "function"],
        call: |session, call, arguments| {
            let function = text(arguments, "function")?;
            if function.contains(['"', '\\']) {
                return Err("a function's name has no quotes".to_owned());
            }
            ask(
                session,
                call,
                arguments,
                &format!("top 30 total where function = \"{function}\" by line"),
            )
        },
    },
    Tool {
        name: "compare",
        description: "Compare two recordings: what got slower or faster, and how sure that is.",
        arguments: || json!({ "before": recording_schema(), "after": recording_schema() }),
        required: &["before", "after"],
        call: compare,
    },
];

fn recording_schema() -> Value {
    json!({ "type": "string", "description": "r1, r2, … of this session, or a file: .nspy, perf.data, .cpuprofile, pprof and others" })
}

/// What a client is told of the tools.
pub(super) fn list() -> Vec<Value> {
    let one = |tool: &Tool| {
        json!({
            "name": tool.name,
            "description": tool.description,
            "inputSchema": { "type": "object", "properties": (tool.arguments)(), "required": tool.required },
        })
    };
    TOOLS.iter().map(one).collect()
}

/// Calls a tool; an error where there is none of that name, or its arguments are wrong.
pub(super) fn call(
    session: &mut Session,
    call: &mut Call,
    parameters: &Value,
) -> Result<Value, Refusal> {
    let name = parameters.get("name").and_then(Value::as_str);
    let name = name.ok_or("the tool has no name")?;
    let tool = TOOLS
        .iter()
        .find(|tool| tool.name == name)
        .ok_or_else(|| format!("there is no tool {name:?}"))?;
    let none = Map::new();
    let arguments = parameters.get("arguments").and_then(Value::as_object);
    let said = (tool.call)(session, call, arguments.unwrap_or(&none))?;
    let said = said.unwrap_or_else(|error| Said {
        text: format!("{error:#}"),
        is_error: true,
    });
    Ok(json!({ "content": [{ "type": "text", "text": said.text }], "isError": said.is_error }))
}

fn record(session: &mut Session, call: &mut Call, arguments: &Map<String, Value>) -> Outcome {
    let pid = number(arguments, "pid", None, u32::MAX.into())?.to_string();
    let seconds = number(arguments, "seconds", Some(10), MAX_SECONDS)?;
    let rate = number(arguments, "rate_hz", Some(99), MAX_RATE_HZ)?.to_string();
    let event = choice(arguments, "event", &["cpu", "wall", "off-cpu", "alloc"])?;
    let (name, file) = session.next_recording();
    let file = file.to_string_lossy().into_owned();
    let duration = format!("{seconds}s");
    let mut command: Vec<&str> = vec![
        "record", "-q", "-p", &pid, "-d", &duration, "-F", &rate, "-e", event, "-o", &file,
    ];
    // For hot_lines: without it source text is not kept at all.
    command.extend((!session.is_redacted).then_some("--embed-source"));
    let timeout = Duration::from_secs(seconds) + GRACE;
    call.record_for(seconds);
    Ok(session.run(call, &command, timeout).and_then(|said| {
        if said.is_error {
            return Ok(said);
        }
        call.has_recorded();
        let mut report = session.run(call, &reporting(session, &file, &[]), GRACE)?;
        report.text = format!("recording: {name}\n\n{}", report.text);
        Ok(report)
    }))
}

fn report(session: &mut Session, call: &mut Call, arguments: &Map<String, Value>) -> Outcome {
    let file = recording(session, arguments, "recording")?;
    let file = file.to_string_lossy();
    let by = choice(arguments, "by", &["function", "route"])?;
    let focus = arguments
        .contains_key("focus")
        .then(|| text(arguments, "focus"));
    let focus = focus.transpose()?.map(|focus| format!("--focus={focus}"));
    let mut more = vec!["--by", by];
    more.extend(focus.as_deref());
    Ok(session.run(call, &reporting(session, &file, &more), GRACE))
}

fn reporting<'a>(session: &Session, file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut command = vec!["report", "--format", "md", file];
    command.extend(session.is_redacted.then_some("--redact"));
    command.extend(more);
    command
}

/// Asks a recording a question.
fn ask(session: &Session, call: &mut Call, arguments: &Map<String, Value>, query: &str) -> Outcome {
    let file = recording(session, arguments, "recording")?;
    let file = file.to_string_lossy();
    let mut command = vec!["query"];
    command.extend(session.is_redacted.then_some("--redact"));
    command.extend(["--", &file, query]);
    Ok(session.run(call, &command, GRACE))
}

fn compare(session: &mut Session, call: &mut Call, arguments: &Map<String, Value>) -> Outcome {
    let before = recording(session, arguments, "before")?;
    let after = recording(session, arguments, "after")?;
    let (before, after) = (before.to_string_lossy(), after.to_string_lossy());
    let mut command: Vec<&str> = vec!["diff", "--format", "md", &before, &after];
    command.extend(session.is_redacted.then_some("--redact"));
    Ok(session.run(call, &command, GRACE))
}

fn recording(
    session: &Session,
    arguments: &Map<String, Value>,
    key: &str,
) -> Result<PathBuf, Refusal> {
    let name = text(arguments, key)?;
    session
        .file(&name)
        .ok_or_else(|| format!("there is no recording {name:?}: it is r1, r2, … or a file"))
}

fn text(arguments: &Map<String, Value>, key: &str) -> Result<String, Refusal> {
    let text = arguments.get(key).and_then(Value::as_str);
    match text {
        Some(text) if text.len() <= MAX_TEXT_BYTES && !text.contains('\0') => Ok(text.to_owned()),
        Some(_) => Err(format!("{key} is too long")),
        None => Err(format!("{key} has to be a text")),
    }
}

fn number(
    arguments: &Map<String, Value>,
    key: &str,
    default: Option<u64>,
    max: u64,
) -> Result<u64, Refusal> {
    let value = match (arguments.get(key), default) {
        (None, Some(default)) => Some(default),
        (value, _) => value.and_then(Value::as_u64),
    };
    value
        .filter(|value| (1..=max).contains(value))
        .ok_or_else(|| format!("{key} has to be a number from 1 to {max}"))
}

/// One of these, the first where nothing is said.
fn choice<'a>(
    arguments: &Map<String, Value>,
    key: &str,
    choices: &[&'a str],
) -> Result<&'a str, Refusal> {
    let Some(value) = arguments.get(key) else {
        return Ok(choices[0]);
    };
    let known = choices.iter().find(|known| value == **known);
    known
        .copied()
        .ok_or_else(|| format!("{key} is one of {}", choices.join(", ")))
}
