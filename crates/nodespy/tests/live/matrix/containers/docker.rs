//! Docker's containers, by name and id: the thirteen cases that go wrong with perf and copied maps.

use std::path::Path;

use nodespy_model::{FunctionIndex, NameSource, label_key};

use super::engine::{Docker, PLAIN, WITH_MAP, expect_callers, expect_shop, wait_until};
use crate::recorded::read;
use crate::scratch::Scratch;

#[test]
fn a_container_is_recorded_by_name_whoever_runs_in_it() {
    let Some(engine) = Docker::start() else {
        return;
    };
    // Three first processes with the number 1, each with a perf map of the same name.
    let web = engine.run("web", &[], &WITH_MAP);
    let user = engine.run("user", &["-u", "1000"], &WITH_MAP);
    let private = engine.run("private", &["--cgroupns", "private"], &PLAIN);
    for container in [&web, &user, &private] {
        let recorded = engine.record(&["-c", &container.name, "-d", "1"]);
        expect_shop(&recorded);
        assert_eq!(recorded.profile.processes.len(), 1);
        let process = &recorded.profile.processes[0];
        assert_eq!(process.pid, container.pid);
        let label = |key| process.labels.get(key);
        assert_eq!(label(label_key::CONTAINER), Some(&*container.name));
        assert_eq!(label(label_key::CONTAINER_ID), Some(&*container.id));
        assert_eq!(label(label_key::IMAGE), Some("nodespy-test"));
        assert_eq!(label(label_key::INNER_PID), Some("1"));
        assert_eq!(label(label_key::APP), Some("nodespy-shop"));
        assert_eq!(label(label_key::VERSION), Some("1.2.3"));
        let commit = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(label(label_key::COMMIT), Some(commit));
        assert!(label(label_key::NODE).is_some_and(|node| node.starts_with("v22.")));
        assert!(label(label_key::STARTED).is_some());
        assert!(label(label_key::CPU_QUOTA).is_none());
    }
    for container in [&web, &user] {
        let recorded = engine.record(&["-c", &container.id[..8], "-d", "1", "--names", "map"]);
        expect_named_by_map(&recorded);
    }
}

#[track_caller]
fn expect_named_by_map(recorded: &crate::recorded::Recorded) {
    expect_callers(recorded);
    let notes = &recorded.profile.notes;
    let mapped = notes.jit_named[NameSource::PerfMap.at()];
    assert!(
        mapped * 10 > notes.jit_frames * 9,
        "{}",
        recorded.describe()
    );
}

#[test]
fn maps_are_found_on_a_tmpfs_with_host_pids_and_after_they_were_deleted() {
    let Some(engine) = Docker::start() else {
        return;
    };
    engine.run("readonly", &["--read-only", "--tmpfs", "/tmp"], &WITH_MAP);
    let hostpid = engine.run("hostpid", &["--pid", "host"], &WITH_MAP);
    let deleted = engine.run("deleted", &[], &WITH_MAP);
    deleted.shell("rm /usr/bin/node /tmp/perf-1.map");
    for name in ["readonly", "hostpid", "deleted"] {
        let recorded = engine.record(&["-c", name, "-d", "1", "--names", "map"]);
        expect_named_by_map(&recorded);
    }
    let recorded = engine.record(&["-c", "hostpid", "-d", "1"]);
    let process = recorded.process(hostpid.pid);
    assert_eq!(process.labels.get(label_key::INNER_PID), None);
}

#[test]
fn a_container_removed_in_the_middle_keeps_its_names() {
    let Some(engine) = Docker::start() else {
        return;
    };
    for (name, options, more) in [
        ("plain", &[][..], &[][..]),
        ("mapped", &["--tmpfs", "/tmp"], &["--names", "map"]),
    ] {
        let container = engine.run(name, options, &WITH_MAP);
        let mut arguments = vec!["-c", name, "-d", "60"];
        arguments.extend(more);
        let recording = engine.start_recording(&arguments);
        std::thread::sleep(std::time::Duration::from_secs(3));
        engine.docker(&["rm", "-f", name]).expect_code(0);
        let recorded = recording.finish();
        expect_callers(&recorded);
        assert!(recorded.outcome.took.as_secs() < 50, "{}", recorded.outcome);
        let process = recorded.process(container.pid);
        assert_eq!(process.labels.get(label_key::CONTAINER), Some(name));
        let remarks = recorded.profile.notes.remarks.join("\n");
        assert!(remarks.contains("ended after"), "{remarks}");
    }
}

#[test]
fn what_is_started_in_a_container_for_a_moment_is_recorded_by_name() {
    let Some(engine) = Docker::start() else {
        return;
    };
    let web = engine.run("web", &["-e", "IDLE=1"], &PLAIN);
    let recording = engine.start_recording(&["-c", "web", "-d", "60"]);
    // Some 200 ms of CPU, by a process whose parent is outside.
    let script = "function fewMoments() { let h = 1; for (let i = 0; i < 2e7; i++) \
                  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d) ^ i; return h; } \
                  for (let i = 0; i < 6; i++) fewMoments();";
    for _ in 0..3 {
        let outcome = engine.docker(&["exec", "web", "/usr/bin/node", "-e", script]);
        outcome.expect_code(0);
    }
    let recorded = recording.interrupt();
    let is_brief = |process: &&nodespy_model::Process| process.pid != web.pid;
    let brief: Vec<_> = recorded.profile.processes.iter().filter(is_brief).collect();
    assert_eq!(brief.len(), 3, "{}", recorded.describe());
    for process in brief {
        let here = |sample: &nodespy_model::Sample| recorded.process_of(sample).pid == process.pid;
        let share = recorded.total_share_in("fewMoments", here);
        assert!(share > 0.3, "{share}\n{}", recorded.describe());
        assert_eq!(process.labels.get(label_key::CONTAINER), Some("web"));
    }
}

#[test]
fn processes_that_join_a_container_are_recorded_too() {
    let Some(engine) = Docker::start() else {
        return;
    };
    let web = engine.run("web", &[], &PLAIN);
    web.exec_detached(&PLAIN);
    let members = || {
        let top = engine.docker(&["top", "web", "-eo", "pid,comm"]);
        top.stdout
            .lines()
            .filter(|line| line.ends_with("node"))
            .count()
    };
    wait_until("a second node", || members() == 2);
    let recording = engine.start_recording(&["-c", "web", "-d", "6"]);
    web.exec_detached(&PLAIN);
    let recorded = recording.finish();
    assert_eq!(
        recorded.profile.processes.len(),
        3,
        "{}",
        recorded.describe()
    );
    for process in &recorded.profile.processes {
        let here = |sample: &nodespy_model::Sample| recorded.process_of(sample).pid == process.pid;
        let share = recorded.total_share_in("priceCart", here);
        // The last one was recorded from its start on.
        assert!(
            share > 0.4,
            "{}: {share}\n{}",
            process.pid,
            recorded.describe()
        );
        assert_eq!(process.labels.get(label_key::CONTAINER), Some("web"));
    }
    let outside = recorded.profile.processes.iter();
    let mut inner: Vec<u32> = outside
        .map(|process| {
            process
                .labels
                .get(label_key::INNER_PID)
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    inner.sort_unstable();
    assert_eq!(inner[0], 1);
    inner.dedup();
    assert_eq!(inner.len(), 3);
}

#[test]
fn targets_are_found_by_every_name_they_have() {
    let Some(engine) = Docker::start() else {
        return;
    };
    let web = engine.run("web", &["-e", "PORT=3123"], &PLAIN);
    let other = engine.run("web2", &["-e", "PORT=3124"], &PLAIN);
    let cgroup = format!("/docker/{}", web.id);
    let by = |words: &[&str]| {
        let mut all = words.to_vec();
        all.extend(["-d", "0.5"]);
        let recorded = engine.record(&all);
        let pids: Vec<u32> = recorded
            .profile
            .processes
            .iter()
            .map(|each| each.pid)
            .collect();
        pids
    };
    for words in [
        &["-c", "web"][..],
        &["-c", &web.id],
        &["-c", &web.id[..10]],
        &["--port", "3123"],
        &["--cgroup", &cgroup],
        &["nodespy-shop", "-c", "web"],
        &["server.js", "--port", "3123"],
    ] {
        assert_eq!(by(words), [web.pid], "{words:?}");
    }
    let both = by(&["--cgroup", "/docker"]);
    assert!(
        both.contains(&web.pid) && both.contains(&other.pid),
        "{both:?}"
    );

    let refused = |words: &[&str], code: i32, expected: &[&str]| {
        let mut all = vec!["record", "-d", "1", "-o", "/dev/null", "-f", "folded"];
        all.extend(words);
        let outcome = engine.run_nodespy(&all);
        outcome.expect_code(code).expect_stderr(expected);
    };
    refused(&["-c", "nope"], 4, &["nope", "web ("]);
    let pids = [web.pid, other.pid].map(|pid| format!("-p {pid}"));
    refused(&["nodespy-shop"], 2, &["several", &pids[0], &pids[1]]);
    refused(&["no-such-app"], 4, &["nodespy-shop"]);
    refused(&["--port", "9"], 4, &["port 9"]);
    refused(&["--pm2", "api"], 4, &["pm2"]);
    refused(&["--pod", "shop/api"], 4, &["pod"]);
    refused(&["--cgroup", "/no/such"], 4, &["/no/such"]);
    engine.docker(&["stop", "-t", "0", "web2"]).expect_code(0);
    refused(&["-c", "web2"], 4, &["does not run"]);
    expect_listed(&engine, web.pid);
}

#[track_caller]
fn expect_listed(engine: &Docker, pid: u32) {
    let outcome = engine.run_nodespy(&["--json"]);
    let list: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let rows = list["processes"].as_array().unwrap();
    let row = rows.iter().find(|row| row["pid"] == pid).unwrap();
    assert_eq!(row["container"]["name"], "web", "{row}");
    assert_eq!(row["engine"], "perf", "{row}");
    assert_eq!(row["inner_pid"], 1, "{row}");
    let table = engine.run_nodespy(&[]).stdout;
    assert!(table.contains("\nweb (docker "), "{table}");
    // Every other command takes the same words.
    let dumped = engine.run_nodespy(&["dump", "-c", "web"]);
    dumped.expect_code(0);
    assert!(dumped.stdout.contains("keepSelling"), "{dumped}");
    let checked = engine.run_nodespy(&["check", "-c", "web"]);
    checked.expect_code(0);
    let watched = engine.run_nodespy(&["top", "-c", "web", "--lines", "-d", "3"]);
    watched.expect_code(0);
    assert!(watched.stdout.contains("priceCart"), "{watched}");
}

#[test]
fn a_quota_that_throttles_is_told_and_a_profile_can_be_given_away() {
    let Some(engine) = Docker::start() else {
        return;
    };
    engine.run(
        "tight",
        &["--cpus", "0.25", "-e", "TOKEN=hush-hush"],
        &PLAIN,
    );
    let recorded = engine.record(&["-c", "tight", "-d", "3"]);
    let remarks = recorded.profile.notes.quotas.join("\n");
    assert!(
        remarks.contains("the CPU quota of container tight (0.25 CPUs) stopped it for"),
        "{remarks}"
    );
    let process = &recorded.profile.processes[0];
    assert_eq!(process.labels.get(label_key::CPU_QUOTA), Some("0.25"));
    assert!(!process.command.is_empty());
    let recorded = engine.record(&["-c", "tight", "-d", "2", "--redact"]);
    let process = &recorded.profile.processes[0];
    assert_eq!(process.command, "");
    let files: Vec<&str> = recorded.profile.strings.iter().collect();
    assert!(files.contains(&"server.js"), "{files:?}");
    assert!(
        !files.iter().any(|file| file.contains("/app/")),
        "{files:?}"
    );
    let everything = format!("{:?}", recorded.profile);
    assert!(!everything.contains("hush-hush"));
}

#[test]
fn the_inspector_of_a_container_is_opened_from_outside_and_closed_again() {
    let Some(engine) = Docker::start() else {
        return;
    };
    let web = engine.run("web", &[], &PLAIN);
    // State 0A is listening; connections that were just closed stay in the table for a minute.
    let listening = || {
        let table = web.shell("cat /proc/net/tcp").stdout;
        table.lines().filter(|line| line.contains(" 0A ")).count()
    };
    let before = listening();
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let outcome = engine.run_nodespy(&[
        "record",
        "--engine",
        "inspector",
        "-c",
        &web.name,
        "-d",
        "1",
        "-o",
        &output,
    ]);
    outcome.expect_code(0);
    let profile = read(Path::new(&output));
    assert!(profile.about.engine.contains("V8"), "{outcome}");
    let is_ours = |name: &str| ["sellCarts", "priceCart", "keepSelling"].contains(&name);
    let functions = (0..profile.functions.len()).map(|row| FunctionIndex(row as u32));
    assert!(
        functions.map(|row| profile.name_of(row)).any(is_ours),
        "{outcome}"
    );
    wait_until("the inspector is closed again", || listening() <= before);
}
