//! Attaching changes nothing in the target: no signal, no stop, no file, no connection.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use super::dump::expect_it_runs_on;
use super::live;
use super::recorded::{read, record};
use super::workload::{Running, Workload};
use crate::run::{Started, nodespy};
use crate::scratch::Scratch;

/// CPU time a process has used, in the kernel's ticks.
pub(crate) fn cpu_ticks(pid: u32) -> u64 {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return 0;
    };
    // The name, in parentheses, may hold anything.
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<u64> = after_name
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    fields.get(11).unwrap_or(&0) + fields.get(12).unwrap_or(&0)
}

/// What can be seen of a process from outside and must not change.
#[derive(Debug, PartialEq)]
struct Trace {
    signals: Vec<String>,
    threads: usize,
    descriptors: Vec<String>,
    files: Vec<String>,
}

impl Trace {
    fn of(target: &Running) -> Self {
        let pid = target.pid();
        let keys = [
            "SigCgt",
            "SigIgn",
            "SigBlk",
            "SigPnd",
            "ShdPnd",
            "TracerPid",
            "Seccomp",
        ];
        let mut descriptors: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
            .map(|link| link.to_string_lossy().into_owned())
            .collect();
        descriptors.sort();
        Self {
            signals: keys
                .iter()
                .map(|key| format!("{key} {}", target.status(key)))
                .collect(),
            threads: thread_count(pid),
            descriptors,
            files: target.folder.names(),
        }
    }
}

fn thread_count(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

/// The first line of the answer to a request.
fn ask(port: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer).into_owned();
    text.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_recorded_server_is_left_as_it_was() {
    let Some(_live) = live() else { return };
    let mut server = Workload::new("server.js").start();
    let load = Workload::new("load.js")
        .argument(&server.ready)
        .argument(8)
        .start();
    // The pool has been started by now; nothing else of the server's starts threads.
    let before = thread_count(server.pid());
    record(&server, &["-d", "2"]);
    let answered = load.line_after("");
    assert!(answered.ends_with("0 failed"), "{answered}");
    assert_eq!(ask(&server.ready, "/json"), "HTTP/1.1 200 OK");
    assert!(server.is_alive());
    assert_eq!(before, thread_count(server.pid()));
    assert!(server.folder.names().is_empty());
}

#[test]
fn attaching_leaves_no_trace_in_a_busy_process() {
    let Some(_live) = live() else { return };
    let mut target = Workload::new("split.js").start();
    let before = Trace::of(&target);
    record(&target, &["-d", "2", "-F", "999"]);
    assert_eq!(before, Trace::of(&target));
    assert_eq!(before.files, Vec::<String>::new());
    assert!(target.is_alive());
    expect_it_runs_on(&target);
}

#[test]
fn an_interrupted_recording_is_written_and_the_target_goes_on() {
    let Some(_live) = live() else { return };
    let mut target = Workload::new("split.js").start();
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let before = Trace::of(&target);
    let started = Started::new(
        nodespy(&["record", "-p", &target.pid_text(), "-o", &output]),
        "",
    );
    started.wait_until_it_says("Recording ");
    std::thread::sleep(std::time::Duration::from_secs(2));
    started.signal("INT");
    let outcome = started.finish();
    outcome.expect_code(0);
    let profile = read(Path::new(&output));
    assert!(!profile.samples.is_empty(), "{outcome}");
    assert_eq!(before, Trace::of(&target));
    assert!(target.is_alive());
}

#[test]
fn a_killed_recorder_leaves_the_target_as_it_was() {
    let Some(_live) = live() else { return };
    let mut target = Workload::new("split.js").start();
    let scratch = Scratch::new();
    let before = Trace::of(&target);
    let started = Started::new(
        nodespy(&[
            "record",
            "-p",
            &target.pid_text(),
            "-o",
            &scratch.file("out.nspy"),
        ]),
        "",
    );
    started.wait_until_it_says("Recording ");
    std::thread::sleep(std::time::Duration::from_secs(1));
    started.signal("KILL");
    let outcome = started.finish();
    assert!(crate::run::ended_by_signal(&outcome), "{outcome}");
    assert_eq!(before, Trace::of(&target));
    assert!(target.is_alive());
}
