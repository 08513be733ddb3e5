//! nodespy inside a container: without rights, beside the application, and as its user.

use super::engine::{Docker, PLAIN};
use crate::workload::root;

/// Where the binary is inside.
const MOUNT: &str = concat!(env!("CARGO_BIN_EXE_nodespy"), ":/nodespy:ro");

#[test]
fn without_rights_the_inspector_is_used_and_that_is_said() {
    let Some(engine) = Docker::start() else {
        return;
    };
    engine.run("web", &["-v", MOUNT, "-u", "1000"], &PLAIN);
    let outcome = engine.docker(&[
        "exec", "-u", "1000", "web", "/nodespy", "record", "-p", "1", "-d", "1", "-o", "-",
    ]);
    outcome
        .expect_code(0)
        .expect_stderr(&["seccomp", "inspector"]);
    assert!(outcome.stdout.contains("priceCart"), "{outcome}");
    let checked = engine.docker(&["exec", "-u", "1000", "web", "/nodespy", "check", "-p", "1"]);
    assert!(checked.stdout.contains("seccomp"), "{checked}");
    assert!(checked.stdout.contains("--engine inspector"), "{checked}");
    let listed = engine.docker(&["exec", "-u", "1000", "web", "/nodespy", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(list["processes"][0]["engine"], "inspector", "{listed}");
}

/// Threads of nodespy read them then, without any right.
#[test]
fn a_plain_user_finds_async_callers_in_their_own_container() {
    let Some(engine) = Docker::start() else {
        return;
    };
    let folder = format!("{}:/workloads:ro", root().join("workloads").display());
    let options = [
        "-v",
        MOUNT,
        "-v",
        &folder,
        "-u",
        "1000",
        "--cap-drop",
        "ALL",
        "--security-opt",
        "seccomp=unconfined",
    ];
    engine.run("web", &options, &["/usr/bin/node", "/workloads/async.js"]);
    let record = "exec -u 1000 web /nodespy record --async --engine perf -F 199 -d 4 -o - -p 1";
    let outcome = engine.docker(&record.split(' ').collect::<Vec<_>>());
    outcome
        .expect_code(0)
        .expect_stderr(&[" with reader threads "]);
    // `main` awaits everything, and is on no stack of its own. A busy machine reads fewer in time.
    let weight = |wanted: fn(&str) -> bool| -> f64 {
        let lines = outcome.stdout.lines().filter(|line| wanted(line));
        let weights = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        weights.sum()
    };
    let share = weight(|line| line.contains(";main") && line.contains("compute"))
        / weight(|line| line.contains("compute"));
    assert!(share > 0.4, "{share}\n{outcome}");
}

#[test]
fn a_sidecar_in_the_same_pid_namespace_records_as_the_user_of_the_app() {
    let Some(engine) = Docker::start() else {
        return;
    };
    engine.run("web", &["-u", "1000"], &PLAIN);
    // What shareProcessNamespace does. Without any capability: the user is the application's.
    let outcome = engine.docker(&[
        "run",
        "--rm",
        "--name",
        "sidecar",
        "--network",
        "none",
        "--pid",
        "container:web",
        "-u",
        "1000",
        "--cap-drop",
        "ALL",
        "--security-opt",
        "seccomp=unconfined",
        "-v",
        MOUNT,
        "nodespy-test",
        "/nodespy",
        "record",
        "--engine",
        "perf",
        "server.js",
        "-d",
        "1",
        "-o",
        "-",
    ]);
    outcome.expect_code(0);
    assert!(outcome.stdout.contains("priceCart"), "{outcome}");
    assert!(!outcome.stdout.contains("_[k]"), "{outcome}");
}
