//! A recorder has given up what it does not need, and what it launches has not.

use std::time::{Duration, Instant};

use super::recorded::read;
use super::workload::Workload;
use super::{is_root, live};
use crate::own_status::{FOR_FILES, capabilities_of, status_of};
use crate::run::{DEADLINE, Started, nodespy, run};
use crate::scratch::Scratch;

/// CAP_KILL, CAP_IPC_LOCK, CAP_SYS_PTRACE, CAP_SYS_NICE, CAP_PERFMON and CAP_CHECKPOINT_RESTORE.
pub(crate) const FOR_PROCESSES: u64 = 1 << 5 | 1 << 14 | 1 << 19 | 1 << 23 | 1 << 38 | 1 << 40;
const PERFMON: u64 = 1 << 38;

#[test]
fn a_recorder_keeps_the_rights_that_recording_takes() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let started = Started::new(
        nodespy(&["record", "-p", &target.pid_text(), "-o", &output]),
        "",
    );
    let since = Instant::now();
    // The last of them go when perf events are attached.
    while capabilities_of(started.pid()) & !(FOR_FILES | FOR_PROCESSES) != 0 {
        let kept = capabilities_of(started.pid());
        assert!(since.elapsed() < DEADLINE, "{kept:#x} after {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(status_of(started.pid(), "NoNewPrivs"), "1");
    if is_root() {
        assert_ne!(capabilities_of(started.pid()) & PERFMON, 0);
    }
    started.wait_until_it_says("Recording ");
    std::thread::sleep(Duration::from_secs(2));
    started.signal("INT");
    started.finish().expect_code(0);
    assert!(!read(output.as_ref()).samples.is_empty());
}

#[test]
fn a_launched_command_has_the_rights_it_would_have_without_nodespy() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    // Long enough for a sample, and for the recorder to have dropped its own.
    let command = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; \
                   grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status";
    let mut launch = nodespy(&["record", "-o", &output, "--", "sh", "-c", command]);
    launch.env_remove("SUDO_UID").env_remove("SUDO_GID");
    let outcome = run(launch);
    outcome.expect_code(0);
    let own = std::process::id();
    for key in ["CapEff", "CapBnd", "NoNewPrivs"] {
        let line = format!("{key}:\t{}", status_of(own, key));
        assert!(outcome.stdout.contains(&line), "no {line} in {outcome}");
    }
}
