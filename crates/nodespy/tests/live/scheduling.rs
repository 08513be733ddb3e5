//! How threads share the CPUs: endless loops on one CPU have a known part of it each, and the kernel
//! counts the same.

use std::process::Command;

use nodespy_model::Scheduling;

use super::live;
use super::recorded::{Recorded, record};
use super::workload::{Running, USUAL_NODE, node, script};

/// Starts `split.js` on the first CPU and on no other.
fn start_pinned() -> Running {
    let mut command = Command::new("taskset");
    command.args(["-c", "0", &node(USUAL_NODE).unwrap(), &script("split.js")]);
    Running::new(command)
}

/// What the kernel has counted for the main thread of a process: on CPU, waiting for one.
fn schedstat(pid: u32) -> [u64; 2] {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).unwrap();
    let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap());
    [numbers.next().unwrap(), numbers.next().unwrap()]
}

/// Records for three seconds; what was found of the main thread lies within what the kernel counted
/// around the recording.
#[track_caller]
fn recorded(target: &Running) -> (Recorded, Scheduling) {
    let before = schedstat(target.pid());
    let recorded = record(target, &["-d", "3", "-F", "199"]);
    let after = schedstat(target.pid());
    let threads = recorded.profile.threads.iter();
    let main = threads.clone().find(|thread| thread.tid == target.pid());
    let found = main.and_then(|main| main.scheduling).unwrap();
    let text = recorded.describe();
    assert!(found.on_cpu <= after[0] - before[0], "{found:?}\n{text}");
    assert!(found.run_delay <= after[1] - before[1], "{found:?}\n{text}");
    // Two and a half of the three seconds at least.
    assert!(found.watched >= 2_500_000_000, "{found:?}\n{text}");
    (recorded, found)
}

#[test]
fn loops_that_share_a_cpu_wait_for_it() {
    let Some(_live) = live() else { return };
    let target = start_pinned();
    let mut others = Vec::new();
    for loops in [2, 3] {
        others.push(start_pinned());
        let (recorded, found) = recorded(&target);
        // Other work on that CPU makes the part smaller, never larger; half a part is the margin.
        let part = 1.0 / f64::from(loops);
        assert!(
            found.on_cpu_share() < part + 0.15 && found.run_delay_share() > 1.0 - part - 0.15,
            "{loops} loops: {found:?}\n{}",
            recorded.describe()
        );
        assert!(
            found.on_cpu_share() + found.run_delay_share() > 0.9,
            "an endless loop never sleeps: {found:?}"
        );
        let shown = &recorded.outcome.stdout;
        assert!(shown.contains(", waiting for a CPU "), "{shown}");
    }
}

#[test]
fn what_sleeps_does_not_wait_for_a_cpu() {
    let Some(_live) = live() else { return };
    // It works for a moment twice a second, however busy the machine is with other programs.
    let script = "function work() { const end = Date.now() + 10; while (Date.now() < end); }
        console.log('ready'); setInterval(work, 500); setTimeout(process.exit, 300000)";
    let mut command = Command::new(node(USUAL_NODE).unwrap());
    command.args(["-e", script]);
    let target = Running::new(command);
    let (recorded, found) = recorded(&target);
    let asleep = 1.0 - found.on_cpu_share() - found.run_delay_share();
    assert!(asleep > 0.6, "{found:?}\n{}", recorded.describe());
}
