//! A load that starts when the recorded program listens: is it that what is recorded, and is nothing left?

use super::recorded::record_with;
use super::workload::{USUAL_NODE, node};
use super::{is_root, live};
use crate::run::run_nodespy;
use crate::scratch::Scratch;

/// Listens after a while, and does not end when it is asked to.
const SERVER: &str = "
function handleRequest() { const end = Date.now() + 4; while (Date.now() < end); }
const serve = () => require('http')
  .createServer((request, response) => { handleRequest(); response.end('ok'); })
  .listen(0);
setTimeout(serve, 300);
process.on('SIGTERM', () => {});
";

/// Requests for two seconds, one after the other; ends with a status of its own.
const LOAD: &str = "
const http = require('http');
const end = Date.now() + 2000;
(function next() {
  if (Date.now() > end) process.exit(7);
  http.get({ port: process.env.PORT }, (response) => response.resume().on('end', next));
})();
";

/// Whether a process has not ended; one whose parent is gone may wait for long to be reaped.
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn what_the_load_makes_is_recorded_and_both_end() {
    let Some(_live) = live() else { return };
    let node = node(USUAL_NODE).unwrap();
    let folder = Scratch::new();
    let load = folder.file("load.js");
    std::fs::write(&load, LOAD).unwrap();
    let command = format!("{node} {load}");
    let recorded = record_with(&["record", "--on-port", &command, "--", &node, "-e", SERVER]);
    let share = recorded.total_share("handleRequest");
    // The rest is how Node starts, which on a busy machine is as much.
    assert!(share > 0.2, "{}", recorded.describe());
    let remarks = recorded.profile.notes.remarks.join("\n");
    assert!(remarks.contains("ended with status 7"), "{remarks}");
    recorded.outcome.expect_stderr(&["until its load ends"]);
    // It does not end by itself, nor when it is asked to.
    for process in &recorded.profile.processes {
        assert!(!is_running(process.pid));
    }
}

#[test]
fn a_port_of_a_child_is_found_and_the_child_ends_too() {
    let Some(_live) = live() else { return };
    let node = node(USUAL_NODE).unwrap();
    let folder = Scratch::new();
    let server = folder.file("server.js");
    std::fs::write(&server, format!("{SERVER} console.log(process.pid);")).unwrap();
    let shell = format!("{node} {server}; true");
    let recorded = record_with(&["record", "--on-port", "sleep 1", "--", "sh", "-c", &shell]);
    let remarks = recorded.profile.notes.remarks.join("\n");
    assert!(remarks.contains("ended with status 0"), "{remarks}");
    let pids = recorded.outcome.stdout.lines().next().unwrap_or_default();
    let pid: u32 = pids.trim().parse().unwrap();
    assert!(!is_running(pid));
}

#[test]
fn a_load_that_can_not_be_is_said() {
    let Some(_live) = live() else { return };
    let node = node(USUAL_NODE).unwrap();
    let folder = Scratch::new();
    let output = folder.file("out.nspy");
    let run = |load: &str, program: &str| {
        let on_port = [
            "record",
            "-o",
            &output,
            "--on-port",
            load,
            "--",
            &node,
            "-e",
            program,
        ];
        run_nodespy(&on_port)
    };
    let busy = "const end = Date.now() + 300; while (Date.now() < end);";
    run("true", busy)
        .expect_code(1)
        .expect_stderr(&["before the command listened"]);
    run("no-such-command-here", SERVER)
        .expect_code(1)
        .expect_stderr(&["status 127"]);
    let alone = run_nodespy(&["record", "-p", "1", "--on-port", "true"]);
    alone
        .expect_code(2)
        .expect_stderr(&["--on-port 'autocannon"]);
}

#[test]
fn the_load_runs_as_who_called_sudo() {
    let Some(_live) = live() else { return };
    if !is_root() {
        return;
    }
    let node = node(USUAL_NODE).unwrap();
    let folder = Scratch::for_other_users();
    let output = folder.file("out.nspy");
    let said = folder.file("who");
    let load = format!("id -u > {said}");
    let on_port = [
        "record",
        "-o",
        &output,
        "--on-port",
        &load,
        "--",
        &node,
        "-e",
        SERVER,
    ];
    let mut command = crate::run::nodespy(&on_port);
    command.env("SUDO_UID", "54321").env("SUDO_GID", "54321");
    let outcome = crate::run::run(command);
    outcome.expect_code(0);
    let who = std::fs::read_to_string(&said).unwrap_or_default();
    assert_eq!(who.trim(), "54321", "{outcome}");
}
