//! A process that nodespy starts with its inspector open, recorded from its first statement on.
//!
//! Node waits for us before it runs anything. The flag that makes it wait would be handed on to
//! whatever the application forks, which would wait for ever (seen on 12 to 26): so it is taken out
//! of `process.execArgv` on the first line of the application, before the application goes on.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use nodespy_inspector::{InspectorError, Recipient, Session};
use serde_json::json;

use super::InspectorOptions;
use super::companion::{Abandoned, Companion};
use super::open::{self, Opened};
use crate::error::CaptureError;
use crate::target::{Launched, Target, node_flags, ports};

/// Any free port, reachable from this machine only.
const FLAG: &str = "--inspect-brk=127.0.0.1:0";
/// Sent to the target when it stands on its first line.
const FORGET_FLAG: &str = "process.execArgv=process.execArgv.filter(function(a){return a!=='--inspect-brk=127.0.0.1:0'}),process.debugPort=9229,1";

/// Whether a command runs Node itself.
pub fn is_node_command(command: &[OsString]) -> bool {
    let name = command.first().map(Path::new).and_then(Path::file_name);
    name.is_some_and(|name| name == "node" || name == "nodejs")
}

/// The command that starts Node so that it waits for `InspectorSession::attach_launched`.
pub fn command_to_launch(command: &[OsString]) -> Vec<OsString> {
    let mut changed = command.to_vec();
    changed.insert(1.min(changed.len()), FLAG.into());
    changed
}

/// Starts a command that was prepared with the flag, and waits for its inspector. Its companion exists before: if nodespy is
/// killed, the command does not stand on its first line for ever, nor does its inspector stay open.
pub(super) fn start(
    launched: &mut Launched,
    target: &Target,
    options: &InspectorOptions,
) -> Result<Opened, CaptureError> {
    let abandoned = Abandoned {
        pid: target.pid(),
        start_time: target.start_time(),
        listeners: Vec::new(),
    };
    let companion = options
        .companion
        .map(|command| Companion::spawn(command, &abandoned));
    let mut companion = companion.transpose()?;
    if let Some(companion) = &mut companion {
        companion.command_waits();
    }
    launched.start()?;
    // An error drops the companion, which ends the command.
    let opened = wait_for_inspector(target, options.timeout)?;
    let is_asked_for = asks_for_inspector(&node_flags::of_process(target.pid()));
    Ok(opened.by_launch(!is_asked_for, companion))
}

/// Whether a command has flags of its own that open the inspector, which then stays open.
fn asks_for_inspector(flags: &[String]) -> bool {
    let names = flags.iter().filter(|flag| *flag != FLAG);
    let mut names = names.map(|flag| flag.split('=').next().unwrap_or_default());
    names.any(|name| ["--inspect", "--inspect-brk", "--inspect-wait"].contains(&name))
}

/// The inspector of a process that was started with the flag.
fn wait_for_inspector(target: &Target, timeout: Duration) -> Result<Opened, CaptureError> {
    let pid = target.pid();
    let started = Instant::now();
    while started.elapsed() < timeout {
        if target.has_ended() {
            return Err(CaptureError::Gone { pid });
        }
        let listeners = ports::listeners(pid);
        let found = listeners
            .into_iter()
            .find_map(|listener| open::found_open(pid, listener));
        if let Some(opened) = found {
            return Ok(opened);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(CaptureError::refused(format!(
        "process {pid} did not open its inspector within {} s (is the command Node itself?)",
        timeout.as_secs_f64()
    )))
}

/// Lets the process run, once its profiler does.
pub(super) fn let_go(
    session: &mut Session,
    opened: &mut Opened,
    timeout: Duration,
) -> Result<(), InspectorError> {
    let main = Recipient::Main;
    session.call(&main, "Debugger.enable", &json!({}), timeout)?;
    session.call(
        &main,
        "Runtime.runIfWaitingForDebugger",
        &json!({}),
        timeout,
    )?;
    let deadline = Instant::now() + timeout;
    // What has no first line, such as `node --version` or a script that does not parse, ends.
    while !session.is_paused() && !session.is_waiting_for_disconnect() {
        if Instant::now() > deadline {
            break;
        }
        session.poll()?;
    }
    if session.is_paused() {
        let evaluate = json!({ "expression": FORGET_FLAG, "returnByValue": true });
        session.call(&main, "Runtime.evaluate", &evaluate, timeout)?;
    }
    // From here on V8 lets it go also when we disconnect.
    opened.command_runs();
    if session.is_paused() {
        session.call(&main, "Debugger.resume", &json!({}), timeout)?;
    }
    session.call(&main, "Debugger.disable", &json!({}), timeout)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_comes_before_the_script() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let command = words("/usr/bin/node --max-old-space-size=99 app.js --inspect");
        assert!(is_node_command(&command));
        assert!(!is_node_command(&words("npm start")));
        assert!(!is_node_command(&[]));
        assert_eq!(command_to_launch(&command)[1], FLAG);
        assert_eq!(command_to_launch(&command)[2..], command[1..]);
    }

    #[test]
    fn an_inspector_that_the_command_asks_for_is_not_ours() {
        let asks = |text: &str| {
            let flags: Vec<String> = text.split(' ').map(str::to_owned).collect();
            asks_for_inspector(&flags)
        };
        assert!(asks(&format!("{FLAG} --inspect=9333")));
        assert!(!asks(&format!("{FLAG} --inspect-port=0")));
    }
}
