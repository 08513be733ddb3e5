//! An inspector that opens when nodespy is gone, or is in use when it goes, is closed all the same.

use std::process::Command;
use std::time::{Duration, Instant};

use super::bad_days::wait_until_delivered;
use super::live;
use super::workload::{Running, USUAL_NODE, children_of, node};
use crate::run::{DEADLINE, Started, nodespy, run_nodespy, signal};
use crate::scratch::Scratch;

/// A main thread that is in one native call for SECONDS of its own CPU time, and free afterwards.
pub(super) const NATIVE: &str = "const { pbkdf2Sync } = require('crypto');
    const hash = (turns) => pbkdf2Sync('a', 'b', turns, 64, 'sha512');
    const cpu = () => process.cpuUsage().user / 1e6;
    const before = cpu();
    hash(200000);
    const turns = Math.ceil(200000 * SECONDS / (cpu() - before));
    setInterval(() => {}, 50);
    setTimeout(() => { console.log('ready'); hash(turns); console.log('free'); }, 10);";

fn start_native(seconds: u32) -> Running {
    let code = NATIVE.replace("SECONDS", &seconds.to_string());
    let mut command = Command::new(node(USUAL_NODE).unwrap());
    command.args(["-e", &code]);
    Running::new(command)
}

/// How many sockets of a process listen.
pub(super) fn listeners(pid: u32) -> usize {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let own: Vec<String> = links
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .map(|link| link.to_string_lossy().into_owned())
        .collect();
    let rows = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    rows.lines()
        .map(|row| row.split_whitespace().collect::<Vec<_>>())
        .filter(|row| row.len() > 9 && row[3] == "0A")
        .filter(|row| own.contains(&format!("socket:[{}]", row[9])))
        .count()
}

#[track_caller]
pub(super) fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !happened() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the native call is over, the inspector opens, and closes.
#[track_caller]
pub(super) fn expect_opened_and_closed(target: &mut Running) {
    let pid = target.pid();
    // Of all the CPU time that the call takes, the machine may give it a tenth at a time.
    target.line_within("free", 3 * DEADLINE);
    wait_until("its inspector opens", || listeners(pid) > 0);
    wait_until("its inspector closes", || listeners(pid) == 0);
    assert!(target.is_alive());
}

#[test]
fn an_inspector_that_opens_after_nodespy_gave_up_is_closed() {
    let Some(_live) = live() else { return };
    let mut target = start_native(20);
    let pid = target.pid_text();
    let outcome = run_nodespy(&["record", "--engine", "inspector", "-d", "1", "-p", &pid]);
    outcome.expect_code(1).expect_stderr(&[
        "did not open its inspector",
        "If it opens later",
        "closes it",
    ]);
    expect_opened_and_closed(&mut target);
}

#[test]
fn an_inspector_that_opens_after_nodespy_was_killed_is_closed() {
    let Some(_live) = live() else { return };
    let mut target = start_native(10);
    let pid = target.pid_text();
    let arguments = ["record", "--engine", "inspector", "-d", "1", "-p", &pid];
    let started = Started::new(nodespy(&arguments), "");
    let own = started.pid();
    // The companion is there before the signal is sent.
    wait_until("the companion runs", || {
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        children.is_ok_and(|text| !text.trim().is_empty())
    });
    // Long enough for the signal, much shorter than the native call.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(
        listeners(target.pid()),
        0,
        "it opened too early for this test"
    );
    signal(own, "KILL");
    started.finish();
    expect_opened_and_closed(&mut target);
}

/// The companion of a process that was sent the signal, which goes to work at once: its input has ended.
fn companion_of(pid: u32) -> Started {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    // The twenty-second field, of which two are before the end of the name.
    let start_time = after_name.split_whitespace().nth(19).unwrap();
    Started::new(
        nodespy(&["close-abandoned", &pid.to_string(), start_time]),
        "sent",
    )
}

/// A program that opens its inspector, and does something with it when it gets SIGUSR2.
fn start_with_inspector(then: &str) -> Running {
    let code = format!(
        "const i = require('inspector'); i.open(0, '127.0.0.1'); setInterval(() => {{}}, 20);
         process.on('SIGUSR2', () => {{ {then} }}); console.log('ready')"
    );
    let mut command = Command::new(node(USUAL_NODE).unwrap());
    command.args(["-e", &code]);
    Running::new(command)
}

#[test]
fn an_inspector_that_moves_when_nodespy_was_killed_is_closed() {
    let Some(_live) = live() else { return };
    let then = "setTimeout(() => { i.close(); i.open(0, '127.0.0.1'); console.log('moved') }, 300)";
    let mut target = start_with_inspector(then);
    let pid = target.pid();
    signal(pid, "USR2");
    let companion = companion_of(pid);
    target.line_within("moved", DEADLINE);
    wait_until("its inspector closes", || listeners(pid) == 0);
    companion.finish().expect_code(0);
    assert_eq!(listeners(pid), 0);
    assert!(target.is_alive());
}

#[test]
fn an_inspector_of_a_stopped_process_is_closed_when_that_goes_on() {
    let Some(_live) = live() else { return };
    let mut target = start_with_inspector("");
    let pid = target.pid();
    signal(pid, "STOP");
    let companion = companion_of(pid);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(listeners(pid), 1);
    signal(pid, "CONT");
    wait_until("its inspector closes", || listeners(pid) == 0);
    companion.finish().expect_code(0);
    assert!(target.is_alive());
}

const IDLE: &str = "console.log('ready'); setInterval(() => {}, 20);";

/// A nodespy that records a command by the inspector, and the command's process, which has just become Node.
fn record_command(scratch: &Scratch) -> (Started, u32) {
    let (app, output) = (scratch.file("app.js"), scratch.file("out.nspy"));
    std::fs::write(&app, IDLE).unwrap();
    let node = node(USUAL_NODE).unwrap();
    let arguments = ["record", "--engine", "inspector", "-o", &output, "--"];
    let arguments = [&arguments[..], &[&node, &app]].concat();
    let started = Started::new(nodespy(&arguments), "");
    let mut command = None;
    wait_until("the command starts", || {
        let is_command = |pid: &u32| command_line(*pid).contains("--inspect-brk");
        command = children_of(started.pid()).into_iter().find(is_command);
        command.is_some()
    });
    (started, command.unwrap())
}

/// Empty for what has ended.
fn command_line(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

#[test]
fn a_command_whose_recording_is_killed_goes_on_with_its_inspector_closed() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let (started, command) = record_command(&scratch);
    started.wait_until_it_prints("ready");
    assert_eq!(listeners(command), 1);
    started.signal("KILL");
    wait_until("its inspector closes", || listeners(command) == 0);
    assert!(!command_line(command).is_empty());
    signal(command, "KILL");
    started.finish();
}

#[test]
fn a_command_that_outlives_its_recording_has_its_inspector_closed() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let (started, command) = record_command(&scratch);
    started.wait_until_it_prints("ready");
    std::thread::sleep(Duration::from_secs(1));
    started.signal("TERM");
    started.wait_until_it_says("The command still runs");
    assert_eq!(listeners(command), 0);
    signal(command, "KILL");
    started.finish();
}

#[test]
fn a_command_whose_recording_is_killed_before_its_first_line_is_ended() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let (started, command) = record_command(&scratch);
    // Node takes much longer to get to its first line.
    started.signal("KILL");
    wait_until("the command ends", || command_line(command).is_empty());
    assert!(!started.finish().stdout.contains("ready"));
}

#[test]
fn a_recording_can_be_discarded_while_its_target_does_not_answer() {
    let Some(_live) = live() else { return };
    let mut command = Command::new(node(USUAL_NODE).unwrap());
    let code = "setInterval(() => {}, 20); console.log('ready')";
    command.args(["-e", code]);
    let mut target = Running::new(command);
    let (pid, scratch) = (target.pid_text(), Scratch::new());
    let output = scratch.file("out.nspy");
    let arguments = ["record", "--engine", "inspector", "-o", &output, "-p", &pid];
    let started = Started::new(nodespy(&arguments), "");
    started.wait_until_it_says("Recording ");
    std::thread::sleep(Duration::from_secs(1));
    signal(target.pid(), "STOP");
    started.signal("INT");
    wait_until_delivered(started.pid());
    started.signal("INT");
    let outcome = started.finish();
    signal(target.pid(), "CONT");
    outcome.expect_code(130).expect_stderr(&["discarded"]);
    assert!(scratch.names().is_empty(), "{outcome}");
    wait_until("its inspector closes", || listeners(target.pid()) == 0);
    assert!(target.is_alive());
}

#[test]
fn the_last_of_two_overlapping_recordings_closes_the_inspector() {
    let Some(_live) = live() else { return };
    let code = "setInterval(() => { const end = Date.now() + 20; while (Date.now() < end); }, 30);
        console.log('ready')";
    let mut command = Command::new(node(USUAL_NODE).unwrap());
    command.args(["-e", code]);
    let mut target = Running::new(command);
    let (pid, scratch) = (target.pid_text(), Scratch::new());
    let connections = |pid: u32| {
        let rows = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
        let is_open = |row: &&str| row.contains(":240D ") && row.contains(" 01 ");
        rows.lines().filter(is_open).count()
    };
    let start = |name: &str| {
        let output = scratch.file(name);
        let arguments = ["record", "--engine", "inspector", "-o", &output, "-p", &pid];
        Started::new(nodespy(&arguments), "")
    };
    let first = start("first.nspy");
    // Each connection has two rows, one for each side.
    wait_until("the first records", || connections(target.pid()) >= 2);
    let second = start("second.nspy");
    wait_until("both record", || connections(target.pid()) >= 4);
    std::thread::sleep(Duration::from_secs(1));
    signal(first.pid(), "INT");
    first.finish().expect_code(0);
    assert_eq!(
        listeners(target.pid()),
        1,
        "closed under the feet of the second"
    );
    signal(second.pid(), "INT");
    second.finish().expect_code(0);
    wait_until("its inspector closes", || listeners(target.pid()) == 0);
    assert!(target.is_alive());
}

#[test]
fn a_program_that_is_not_node_is_not_sent_the_signal() {
    let Some(_live) = live() else { return };
    let scripts = [
        "echo ready; while :; do sleep 0.1; done",
        "trap 'exit 9' USR1; echo ready; while :; do sleep 0.1; done",
    ];
    for script in scripts {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut target = Running::new(command);
        let pid = target.pid_text();
        let arguments = ["record", "--any", "--engine", "inspector", "-d", "1", "-p"];
        let outcome = run_nodespy(&[&arguments[..], &[&pid]].concat());
        outcome
            .expect_code(1)
            .expect_stderr(&["is not Node.js", "SIGUSR1", "--engine perf"]);
        std::thread::sleep(Duration::from_millis(300));
        assert!(target.is_alive(), "{script}");
    }
}
