//! Families of processes, and processes that end or sleep.

use nodespy_model::{ExitReason, Sample};

use super::live;
use super::recorded::{record, record_enough, record_pids, share};
use super::workload::{Workload, children_of};
use crate::run::run_nodespy;
use crate::scratch::Scratch;

#[test]
fn a_cluster_of_three_is_followed_from_its_primary() {
    let Some(_live) = live() else { return };
    let target = Workload::new("cluster.js").with_perf_map().start();
    let workers = children_of(target.pid());
    assert_eq!(workers.len(), 3);
    let recorded = record_enough(&target, 3, &["-F", "499"], 600);
    let total = recorded.profile.total_weight();
    // A busy machine need not give them the same, but the kernel knows what it gave.
    let of_all = |pid: u32| recorded.process(pid).cpu_time.unwrap();
    let used: u64 = workers.iter().map(|worker| of_all(*worker)).sum();
    for worker in workers {
        let here = |sample: &Sample| recorded.process_of(sample).pid == worker;
        let part = share(recorded.weight_of(here), total);
        let expected = share(of_all(worker), used);
        assert!(
            (part - expected).abs() < 0.05 && part > 0.01,
            "worker {worker} has {:.1} %, by the kernel {:.1} %\n{}",
            100.0 * part,
            100.0 * expected,
            recorded.describe()
        );
        let busy = recorded.total_share_in("answerRequests", here);
        assert!(busy > 0.9, "worker {worker}\n{}", recorded.describe());
        assert_eq!(recorded.process(worker).parent_pid, target.pid());
    }
}

#[test]
fn top_and_dump_of_a_primary_show_its_cluster() {
    let Some(_live) = live() else { return };
    let target = Workload::new("cluster.js").start();
    let workers = children_of(target.pid());
    let pid = target.pid_text();
    let top = run_nodespy(&["top", "-p", &pid, "-d", "3"]);
    top.expect_code(0);
    assert!(top.stdout.contains("answerRequests"), "{top}");
    let alone = run_nodespy(&["top", "-p", &pid, "-d", "2", "--no-subprocesses"]);
    assert!(!alone.stdout.contains("answerRequests"), "{alone}");
    let pids_of = |arguments: &[&str]| -> Vec<u64> {
        let mut all = vec!["dump", "--json", "-p", &pid];
        all.extend(arguments);
        let dump = run_nodespy(&all);
        dump.expect_code(0);
        let dump: serde_json::Value = serde_json::from_str(&dump.stdout).unwrap();
        let processes = dump["processes"].as_array().unwrap().iter();
        processes
            .map(|process| process["pid"].as_u64().unwrap())
            .collect()
    };
    let mut expected: Vec<u64> = workers.into_iter().map(u64::from).collect();
    expected.push(target.pid().into());
    expected.sort_unstable();
    let mut found = pids_of(&[]);
    found.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(pids_of(&["--no-subprocesses"]), [u64::from(target.pid())]);
}

#[test]
fn subprocesses_are_left_out_when_asked() {
    let Some(_live) = live() else { return };
    let target = Workload::new("cluster.js").env("PRIMARY", "busy").start();
    let recorded = record(&target, &["-d", "1", "--no-subprocesses"]);
    let pids: Vec<u32> = recorded
        .profile
        .processes
        .iter()
        .map(|process| process.pid)
        .collect();
    assert_eq!(pids, [target.pid()], "{}", recorded.describe());
    let supervising = recorded.total_share("superviseWorkers");
    assert!(supervising > 0.9, "{}", recorded.describe());
}

#[test]
fn a_short_lived_child_is_seen_and_named() {
    let Some(_live) = live() else { return };
    let target = Workload::new("child.js").with_perf_map().start();
    // Two of them need about a second of a CPU.
    let recorded = record_enough(&target, 4, &["-F", "499"], 550);
    let children: Vec<u32> = recorded
        .profile
        .processes
        .iter()
        .filter(|process| process.parent_pid == target.pid())
        .map(|process| process.pid)
        .collect();
    assert!(children.len() >= 2, "{}", recorded.describe());
    let busy = children.iter().filter(|child| {
        let here = |sample: &Sample| recorded.process_of(sample).pid == **child;
        recorded.total_share_in("shortLived", here) > 0.4
    });
    // The last one may have been cut off by the end of the recording.
    assert!(
        busy.count() + 1 >= children.len(),
        "{}",
        recorded.describe()
    );
    let ended = recorded
        .profile
        .processes
        .iter()
        .filter(|process| process.parent_pid == target.pid() && process.ended.is_some())
        .count();
    assert!(ended >= 1, "{:?}", recorded.profile.processes);
}

#[test]
fn a_process_that_ends_during_the_recording_is_kept_and_said() {
    let Some(_live) = live() else { return };
    let target = Workload::new("exits.js")
        .env("MS", 6000)
        .with_perf_map()
        .start();
    // Recording for a minute would end at the test's deadline.
    let recorded = record(&target, &["-d", "60", "-F", "499"]);
    assert!(recorded.outcome.took.as_secs() < 50, "{}", recorded.outcome);
    let process = recorded.process(target.pid());
    assert!(process.ended.is_some(), "{process:?}");
    assert!(
        matches!(
            process.exit,
            Some(ExitReason::Ended | ExitReason::Status(0))
        ),
        "{process:?}"
    );
    let busy = recorded.total_share("lastWords");
    assert!(busy > 0.9, "{}", recorded.describe());
    let said = format!("{}{}", recorded.outcome.stdout, recorded.outcome.stderr);
    assert!(
        said.contains("ended") || said.contains("exited"),
        "{}",
        recorded.outcome
    );
}

#[test]
fn an_idle_process_ends_with_5_and_its_cpu_time() {
    let Some(_live) = live() else { return };
    let target = Workload::new("idle.js").start();
    let scratch = Scratch::new();
    let outcome = run_nodespy(&[
        "record",
        "-p",
        &target.pid_text(),
        "-d",
        "1",
        "-o",
        &scratch.file("out.html"),
    ]);
    outcome.expect_code(5).expect_stderr(&["of CPU", "idle"]);
}

#[test]
fn a_busy_process_without_samples_is_not_called_idle() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    // One sample a second, and too short for the first; hardware counters may give one all the same.
    let outcome = run_nodespy(&[
        "record",
        "-p",
        &target.pid_text(),
        "-d",
        "100ms",
        "-F",
        "1",
        "-o",
        &output,
    ]);
    if outcome.status.code() == Some(0) {
        let profile = super::recorded::read(std::path::Path::new(&output));
        assert!(!profile.samples.is_empty(), "{outcome}");
    } else {
        outcome.expect_code(5).expect_stderr(&["of CPU", "-F"]);
        assert!(!outcome.stderr.contains("idle"), "{outcome}");
    }
}

#[test]
fn two_processes_are_recorded_at_once() {
    let Some(_live) = live() else { return };
    let first = Workload::new("split.js").with_perf_map().start();
    let second = Workload::new("exits.js")
        .env("MS", 300_000)
        .with_perf_map()
        .start();
    let pids = format!("{},{}", first.pid(), second.pid());
    let recorded = record_pids(&pids, &["-d", "2", "-F", "199"]);
    let here = |pid: u32| {
        let recorded = &recorded;
        move |sample: &Sample| recorded.process_of(sample).pid == pid
    };
    assert!(
        recorded.total_share_in("turn", here(first.pid())) > 0.9,
        "{}",
        recorded.describe()
    );
    assert!(
        recorded.total_share_in("lastWords", here(second.pid())) > 0.9,
        "{}",
        recorded.describe()
    );
}
