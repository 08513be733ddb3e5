//! libuv's thread pool: are busy threads and waiting jobs those that a program is known to have?

use nodespy_model::Pool;

use super::live;
use super::recorded::{Recorded, record, record_with};
use super::versions::on_every_node;
use super::workload::{USUAL_NODE, Workload, node, script};
use crate::run::run_nodespy;

#[track_caller]
fn pool(recorded: &Recorded) -> &Pool {
    let mut processes = recorded.profile.processes.iter();
    let pool = processes.find_map(|process| process.pool.as_ref());
    pool.unwrap_or_else(|| panic!("no pool\n{}", recorded.describe()))
}

fn expect_files(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("jobs.js").on(major).start();
    let recorded = record(&target, &["-d", "3", "-e", "wall"]);
    let pool = pool(&recorded);
    assert!(pool.looks > 10, "{pool:?}");
    assert_eq!(pool.threads, 4, "{pool:?}");
    assert_eq!(pool.full, pool.looks, "{pool:?}");
    assert_eq!(pool.busy, 4 * pool.looks, "{pool:?}");
    assert_eq!(pool.waiting, 12 * pool.looks, "{pool:?}");
    assert_eq!(pool.slow_waiting, 0, "{pool:?}");
    let [jobs] = &pool.jobs[..] else {
        panic!("{pool:?}");
    };
    assert_eq!(jobs.kind, "fs.open");
    assert!(jobs.about.ends_with(".fifo"), "{pool:?}");
    let said = &recorded.outcome.stdout;
    assert!(said.contains("12.0 jobs wait for libuv's pool"), "{said}");
    assert!(said.contains("UV_THREADPOOL_SIZE"), "{said}");
}

fn expect_hashes(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("jobs.js")
        .on(major)
        .env("WHAT", "pbkdf2")
        .start();
    let recorded = record(&target, &["-d", "4"]);
    let pool = pool(&recorded);
    let waiting = pool.average(pool.waiting);
    // Twelve when they are started, then fewer and fewer.
    assert!((3.0..12.0).contains(&waiting), "{waiting} {pool:?}");
    assert!(pool.average(pool.busy) > 3.0, "{pool:?}");
    let kind = if major == "16" {
        "native work"
    } else {
        "crypto"
    };
    assert_eq!(pool.jobs[0].kind, kind, "{pool:?}");
}

fn expect_moment(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("jobs.js").on(major).start();
    let pid = target.pid_text();
    let outcome = run_nodespy(&["dump", "--json", "-p", &pid]);
    outcome.expect_code(0);
    let dump: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let pool = &dump["processes"][0]["pool"];
    assert_eq!((&pool["busy"], &pool["threads"]), (&4.into(), &4.into()));
    assert_eq!(pool["waiting"], 12);
    assert_eq!(pool["waiting_jobs"][0]["kind"], "fs.open");
    let outcome = run_nodespy(&["dump", "-p", &pid]);
    let line = "libuv pool: 4 of 4 threads busy, 12 jobs wait: 12 fs.open ";
    assert!(outcome.stdout.contains(line), "{outcome}");
}

#[test]
fn the_pool_of_a_command_that_nodespy_starts_is_read() {
    let Some(_live) = live() else { return };
    let (node, jobs) = (node(USUAL_NODE).unwrap(), script("jobs.js"));
    let recorded = record_with(&["record", "-d", "3", "--", &node, &jobs]);
    let pool = pool(&recorded);
    assert_eq!(pool.threads, 4, "{pool:?}");
    assert!(pool.average(pool.waiting) > 6.0, "{pool:?}");
}

on_every_node! {{
    the_pool_of_a_moment_is_in_a_dump(expect_moment);
    files_that_wait_are_counted_with_their_path(expect_files);
    hashes_that_wait_are_counted(expect_hashes);
}}
