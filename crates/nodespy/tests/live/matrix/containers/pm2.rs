//! Seed 001: pm2 in a container, in fork and cluster mode. One command in place of docker top, docker
//! exec, docker cp, perf record, perf script and two Perl programs.

use nodespy_model::{NameSource, label_key};

use super::engine::{Docker, wait_until};
use crate::recorded::Recorded;

/// Starts two apps as the user of the image: `forked` once, `clustered` three times, of which the one
/// with the number 1 does something else.
fn apps(node_arguments: &str) -> String {
    let pm2 = "node /home/node/node_modules/pm2/bin/pm2";
    format!(
        "{pm2} start /app/server.js --name forked {node_arguments} && \
         ODD=1 PORT=3055 {pm2} start /app/server.js --name clustered -i 3 {node_arguments} && \
         echo ready && exec sleep 600"
    )
}

fn start(engine: &Docker, name: &str, node_arguments: &str) {
    engine.run(
        name,
        &["-u", "1000", "-e", "HOME=/home/node"],
        &["sh", "-c", &apps(node_arguments)],
    );
    wait_until("all four apps", || listed(engine, name).len() == 4);
}

/// The apps of a container in nodespy's own list, pm2 itself left out.
fn listed(engine: &Docker, container: &str) -> Vec<serde_json::Value> {
    let outcome = engine.run_nodespy(&["--json"]);
    let list: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let rows = list["processes"].as_array().unwrap().iter();
    rows.filter(|row| row["container"]["name"] == container && row["is_pm2_itself"] == false)
        .filter(|row| row["pm2"].is_object())
        .cloned()
        .collect()
}

fn busy_pids(recorded: &Recorded) -> Vec<u32> {
    let processes = recorded.profile.processes.iter();
    processes.map(|process| process.pid).collect()
}

#[test]
fn every_app_of_pm2_in_a_container_is_recorded_and_named_without_a_flag() {
    let Some(engine) = Docker::start() else {
        return;
    };
    start(&engine, "a3115", "");
    let recorded = engine.record(&["-c", "a3115", "-d", "5"]);
    let apps = listed(&engine, "a3115");
    let mut pids: Vec<u32> = apps
        .iter()
        .map(|row| row["pid"].as_u64().unwrap() as u32)
        .collect();
    let mut found = busy_pids(&recorded);
    pids.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, pids, "{}", recorded.describe());
    for process in &recorded.profile.processes {
        let label = |key| process.labels.get(key).unwrap_or_default();
        let app = label(label_key::PM2);
        assert!(["forked", "clustered"].contains(&app), "{process:?}");
        assert_eq!(label(label_key::CONTAINER), "a3115");
        assert_eq!(label(label_key::WORKER).is_empty(), app == "forked");
        assert!(process.name.starts_with(app), "{process:?}");
        let here = |sample: &nodespy_model::Sample| recorded.process_of(sample).pid == process.pid;
        let busy = recorded.total_share_in("keepSelling", here);
        // pm2 has only just started it.
        assert!(busy > 0.5, "{busy}\n{}", recorded.describe());
    }
    let notes = &recorded.profile.notes;
    let walked = notes.jit_named[NameSource::HeapWalk.at()];
    assert!(
        walked * 100 >= notes.jit_frames * 98,
        "{}",
        recorded.describe()
    );
    expect_odd_worker(&recorded);
    expect_narrowed(&engine);
}

/// The worker that recounts its stock is pointed out.
#[track_caller]
fn expect_odd_worker(recorded: &Recorded) {
    let summary = recorded.outcome.stdout.replace('\n', " ");
    // What it alone does and what it alone does not do weigh about the same.
    let is_pointed_out = ["recountStock", "priceCart (/app/server.js:9) is 0 %"]
        .iter()
        .any(|what| summary.contains(&format!("differs most from its 2 siblings: {what}")));
    assert!(is_pointed_out, "{summary}");
}

#[track_caller]
fn expect_narrowed(engine: &Docker) {
    let names = |words: &[&str]| {
        let mut all = words.to_vec();
        all.extend(["-d", "1"]);
        let recorded = engine.record(&all);
        let mut names: Vec<String> = recorded
            .profile
            .processes
            .iter()
            .map(|process| process.name.clone())
            .collect();
        names.sort();
        names
    };
    let workers = [1, 2, 3].map(|worker| format!("clustered worker {worker} in a3115"));
    assert_eq!(names(&["--pm2", "clustered"]), workers);
    assert_eq!(names(&["clustered"]), workers);
    // pm2's daemon listens for them.
    assert_eq!(names(&["--port", "3055"]), workers);
    assert_eq!(names(&["--pm2", "0"]), ["forked in a3115"]);
    let merged = engine.record(&["--pm2", "clustered", "-d", "1", "--merge"]);
    assert_eq!(merged.profile.processes.len(), 1);
    assert_eq!(merged.profile.processes[0].name, "3 processes");
}

#[test]
fn apps_of_pm2_with_perf_maps_are_named_by_them_too() {
    let Some(engine) = Docker::start() else {
        return;
    };
    start(
        &engine,
        "a3115",
        "--node-args=\"--perf-basic-prof --interpreted-frames-native-stack\"",
    );
    let recorded = engine.record(&["-c", "a3115", "-d", "4", "--names", "map"]);
    assert_eq!(busy_pids(&recorded).len(), 4, "{}", recorded.describe());
    for process in &recorded.profile.processes {
        let here = |sample: &nodespy_model::Sample| recorded.process_of(sample).pid == process.pid;
        let busy = recorded.total_share_in("keepSelling", here);
        // pm2 has only just started it.
        assert!(busy > 0.5, "{busy}\n{}", recorded.describe());
    }
    let notes = &recorded.profile.notes;
    let mapped = notes.jit_named[NameSource::PerfMap.at()];
    assert!(
        mapped * 10 >= notes.jit_frames * 9,
        "{}",
        recorded.describe()
    );
}
