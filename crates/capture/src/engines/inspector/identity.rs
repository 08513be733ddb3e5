//! Who a process behind an address is, and what its workers are called.

use std::time::Duration;

use nodespy_inspector::{Recipient, Session, Worker};
use nodespy_model::Process;
use serde::Deserialize;
use serde_json::json;

use crate::target::app_of_command;

/// Sent to a target that is only known by its address.
const WHO: &str = "JSON.stringify({pid:process.pid,parent:process.ppid,command:process.argv})";

/// Asks a process that is only known by its address who it is; one that does not answer has no pid.
pub(super) fn ask_who(session: &mut Session, timeout: Duration) -> Process {
    #[derive(Deserialize)]
    struct Answer {
        result: Evaluated,
    }
    #[derive(Deserialize)]
    struct Evaluated {
        value: String,
    }
    #[derive(Deserialize)]
    struct Who {
        pid: u32,
        parent: u32,
        command: Vec<String>,
    }
    let evaluate = json!({ "expression": WHO, "returnByValue": true });
    let answer = session.call(&Recipient::Main, "Runtime.evaluate", &evaluate, timeout);
    let who = answer
        .ok()
        .and_then(|answer| serde_json::from_str::<Answer>(&answer).ok())
        .and_then(|answer| serde_json::from_str::<Who>(&answer.result.value).ok());
    who.map_or_else(Process::default, |who| Process {
        pid: who.pid,
        parent_pid: who.parent,
        name: app_of_command(&who.command),
        command: who.command.join(" "),
        ..Process::default()
    })
}

/// `[worker 1] name` (18 and later) or `Worker 1`, as a thread's name.
pub(super) fn name_of(worker: &Worker) -> String {
    let title = worker.title.trim();
    match title
        .strip_prefix("[worker ")
        .and_then(|rest| rest.split_once(']'))
    {
        Some((number, "")) => format!("worker {number}"),
        Some((_, name)) if !name.trim().is_empty() => name.trim().to_owned(),
        Some((number, _)) => format!("worker {number}"),
        None => title.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_go_by_the_name_they_were_given() {
        let named = |title: &str| {
            name_of(&Worker {
                session: String::new(),
                title: title.to_owned(),
                url: String::new(),
            })
        };
        assert_eq!(named("[worker 3] resize"), "resize");
        assert_eq!(named("[worker 3]"), "worker 3");
        assert_eq!(named("[worker 3] "), "worker 3");
        assert_eq!(named("Worker 3"), "worker 3");
    }
}
