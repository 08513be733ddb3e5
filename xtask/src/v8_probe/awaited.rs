//! Whether nodespy still finds out who awaits what runs: V8 exports nothing of where promises and suspended functions have
//! their fields, so each way to await is tried.
//!
//! `workloads/await_kinds.js` blocks inside a continuation and prints who awaits it; `nodespy dump` is asked the same.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Failure, cargo, root};

/// How long a program takes at most until it blocks.
const PATIENCE: Duration = Duration::from_secs(30);
/// What its main thread waits in: `futex`.
const BLOCKED: &str = "202 ";

/// The ways to await whose callers are not found, each with what was found instead; and how many were tried.
pub(super) fn misses(binary: &Path) -> Result<(Vec<String>, usize), Failure> {
    let listed = program(binary, "list").output()?;
    let listed = String::from_utf8(listed.stdout)?;
    let mut misses = Vec::new();
    for kind in listed.split_whitespace() {
        let blocked = Blocked::start(binary, kind)?;
        let found = callers(blocked.child.id())?;
        if found != blocked.callers {
            let expected = blocked.callers.join(" ");
            misses.push(format!(
                "{kind}: {:?} instead of {expected:?}",
                found.join(" ")
            ));
        }
    }
    Ok((misses, listed.split_whitespace().count()))
}

fn program(binary: &Path, kind: &str) -> Command {
    let mut command = Command::new(binary);
    let script = root().join("workloads/await_kinds.js");
    command.arg(script).arg(kind).stderr(Stdio::inherit());
    command
}

/// A process that blocks inside a continuation. It ends with this.
struct Blocked {
    child: Child,
    /// Who awaits what blocks, innermost first.
    callers: Vec<String>,
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Blocked {
    fn start(binary: &Path, kind: &str) -> Result<Self, Failure> {
        let mut child = program(binary, kind).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().expect("its output is piped");
        let mut blocked = Self {
            child,
            callers: Vec::new(),
        };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let callers = line
            .strip_prefix("ready")
            .ok_or_else(|| format!("{kind} ended"))?;
        blocked.callers = callers.split_whitespace().map(str::to_owned).collect();
        blocked.wait(kind)?;
        Ok(blocked)
    }

    fn wait(&self, kind: &str) -> Result<(), Failure> {
        let call = format!("/proc/{0}/task/{0}/syscall", self.child.id());
        let until = Instant::now() + PATIENCE;
        while !std::fs::read_to_string(&call)?.starts_with(BLOCKED) {
            if Instant::now() > until {
                return Err(format!("{kind} does not block").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Who awaits what the main thread of a process runs, as nodespy says, innermost first.
fn callers(pid: u32) -> Result<Vec<String>, Failure> {
    let mut dump = cargo();
    dump.args(["run", "--quiet", "-p", "nodespy", "--"]);
    dump.args(["dump", "--json", "-p", &pid.to_string()]);
    let output = dump.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("nodespy dump failed".into());
    }
    callers_in(&serde_json::from_slice(&output.stdout)?)
        .ok_or_else(|| "nodespy dump has no main thread".into())
}

fn callers_in(dump: &Value) -> Option<Vec<String>> {
    let threads = dump["processes"][0]["threads"].as_array()?;
    let main = threads.iter().find(|thread| thread["role"] == "main")?;
    let frames = main["frames"].as_array()?.iter();
    let callers = frames.filter(|frame| frame["async"] == true);
    let names = callers.filter_map(|frame| frame["function"].as_str());
    Some(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn async_frames_of_the_main_thread_are_the_callers() {
        let dump = serde_json::json!({"processes": [{"threads": [
            {"role": "worker", "frames": [{"function": "other", "async": true}]},
            {"role": "main", "frames": [
                {"function": "block"},
                {"function": "middle", "async": true},
                {"function": "outer", "async": true},
            ]},
        ]}]});
        assert_eq!(callers_in(&dump).unwrap(), ["middle", "outer"]);
        assert_eq!(callers_in(&serde_json::json!({})), None);
    }
}
