//! What a process leaves in nodespy when it has ended: not a descriptor, and little memory.

use std::process::Command;

use crate::live;
use crate::run::{Started, nodespy};
use crate::scratch::Scratch;
use crate::workload::Running;

/// A shell that starts 2,000 shells, each of which uses a few milliseconds of CPU, and reports how many
/// there were.
const MANY: &str = "echo ready; i=0; while [ $i -lt 2000 ]; do \
    sh -c 'j=0; while [ $j -lt 3000 ]; do j=$((j+1)); done'; \
    i=$((i+1)); [ $((i%500)) = 0 ] && echo started $i; done; sleep 60";

/// Open descriptors and resident KiB of a process.
fn held_by(pid: u32) -> (usize, u64) {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .expect("the kernel reports resident memory");
    (descriptors, resident)
}

#[test]
fn two_thousand_short_processes_leave_no_descriptor_and_little_memory() {
    let Some(_live) = live() else { return };
    let mut shell = Command::new("sh");
    shell.args(["-c", MANY]);
    let target = Running::new(shell);
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let pid = target.pid_text();
    let words = [
        "record", "-p", &pid, "--any", "-d", "85", "-F", "499", "-o", &output,
    ];
    let recording = Started::new(nodespy(&words), "");
    assert_eq!(target.line_after("started"), "500");
    let (descriptors, resident) = held_by(recording.pid());
    for count in ["1000", "1500", "2000"] {
        assert_eq!(target.line_after("started"), count);
    }
    let (descriptors_later, resident_later) = held_by(recording.pid());
    recording.signal("INT");
    let outcome = recording.finish();
    outcome.expect_code(0);
    assert!(
        descriptors_later < descriptors + 20,
        "{descriptors} descriptors after 500 processes, {descriptors_later} after 2,000"
    );
    // Samples take room too: some 3 KiB a process.
    assert!(
        resident_later < resident + 16 * 1024,
        "{resident} KiB after 500 processes, {resident_later} after 2,000"
    );
    let profile = crate::recorded::read(std::path::Path::new(&output));
    assert!(profile.processes.len() > 500, "{outcome}");
}
