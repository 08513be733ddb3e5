//! libuv's thread pool: are busy threads and waiting jobs those that a program is known to have?

use std::process::Command;

use nodespy_model::{EventType, Pool};

use super::certainty::margin;
use super::recorded::{Recorded, record, record_with};
use super::versions::on_every_node;
use super::workload::{Running, USUAL_NODE, Workload, node, script};
use super::{is_root, live};
use crate::run::run_nodespy;
use crate::scratch::Scratch;
use crate::skip::skip;

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
    assert!(pool.readings > 10, "{pool:?}");
    assert_eq!(pool.threads, 4, "{pool:?}");
    assert_eq!(pool.full, pool.readings, "{pool:?}");
    assert_eq!(pool.busy, 4 * pool.readings, "{pool:?}");
    assert_eq!(pool.waiting, 12 * pool.readings, "{pool:?}");
    assert_eq!(pool.slow_waiting, 0, "{pool:?}");
    let mut processes = recorded.profile.processes.iter();
    let timeline = processes.find_map(|process| process.pool_timeline.as_ref());
    let rows = timeline.unwrap().rows();
    let sums = rows.iter().fold([0; 3], |sums, part| {
        [
            sums[0] + part.readings,
            sums[1] + part.busy,
            sums[2] + part.waiting,
        ]
    });
    assert_eq!(sums, [pool.readings, pool.busy, pool.waiting]);
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

/// Half of the threads look names up, which is all that may; the others are idle although jobs wait.
fn expect_lookups(major: &str) {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can have a resolv.conf of its own");
        return;
    }
    let scratch = Scratch::new();
    let servers = scratch.file("resolv.conf");
    std::fs::write(
        &servers,
        "nameserver 127.7.7.7\noptions timeout:30 attempts:1\n",
    )
    .unwrap();
    let mut command = Command::new("unshare");
    let in_namespace = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
    command
        .args(["--mount", "sh", "-c", in_namespace, &servers])
        .args([node(major).unwrap(), script("jobs.js")])
        .env("WHAT", "dns");
    let target = Running::new(command);
    let recorded = record(&target, &["-d", "3", "-e", "wall"]);
    let pool = pool(&recorded);
    assert_eq!(pool.threads, 4, "{pool:?}");
    assert_eq!(pool.busy, 2 * pool.readings, "{pool:?}");
    assert_eq!(pool.slow_waiting, 14 * pool.readings, "{pool:?}");
    assert_eq!(pool.slow_full, pool.readings, "{pool:?}");
    assert_eq!(pool.jobs[0].kind, "dns.lookup", "{pool:?}");
    assert_eq!(pool.jobs[0].about, "nobody.example", "{pool:?}");
    let said = &recorded.outcome.stdout;
    assert!(said.contains("14.0 lookups wait"), "{said}");
    assert!(said.contains("DNS may use 2 of its 4 threads"), "{said}");
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

/// Five lines submit jobs, 1 : 3 : 2 : 1 : 1, through both of libuv's ways in.
fn expect_submitters(major: &str) {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root may set breakpoints");
        return;
    }
    let target = Workload::new("submit.js").on(major).start();
    let recorded = record(&target, &["-d", "4", "--pool-submitters"]);
    let mut lines = Submitted::default();
    lines.add(&recorded);
    // Each job is counted: only of the first and the last round some are not.
    let round = 8.0 / lines.samples;
    lines.expect_shares(0.005, |_| round);
    let said = &recorded.outcome.stdout;
    assert!(said.contains("submitted by"), "{said}");
    assert!(
        recorded.outcome.stderr.contains("Breakpoints are set"),
        "{}",
        recorded.outcome
    );
}

/// Thousands of jobs a second are sampled in part, in whatever rounds they come.
#[test]
fn lines_have_their_shares_where_some_jobs_are_sampled() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root may set breakpoints");
        return;
    }
    let target = Workload::new("submit.js").env("PAUSE_MS", 1).start();
    let mut lines = Submitted::default();
    // On a busy machine there are far fewer jobs than were counted in the moment that decides how many are sampled.
    for _ in 0..ATTEMPTS {
        let recorded = record(&target, &["-d", "5", "--pool-submitters"]);
        lines.add(&recorded);
        let said = &recorded.outcome.stdout;
        assert!(!said.contains("needs eBPF"), "{said}");
        if lines.samples >= ENOUGH_SAMPLES {
            break;
        }
    }
    let samples = lines.samples;
    lines.expect_shares(0.01, |share| margin(share, samples));
}

/// So many samples tell a line that is left out, or counted twice, and so many recordings are made for them at most.
const ENOUGH_SAMPLES: f64 = 500.0;
const ATTEMPTS: u32 = 4;
/// The lines of submit.js, and of eight jobs how many they submit.
const LINES: [(&str, u32, f64); 5] = [
    ("statIt", 14, 1.0),
    ("hashPassword", 18, 3.0),
    ("pack", 22, 2.0),
    ("lookup", 26, 1.0),
    ("readConfig", 30, 1.0),
];

/// Jobs by line, of one recording or several, and how many samples they are known by.
#[derive(Debug, Default)]
struct Submitted {
    jobs: [f64; LINES.len()],
    samples: f64,
}

impl Submitted {
    #[track_caller]
    fn add(&mut self, recorded: &Recorded) {
        let pool = pool(recorded);
        let events = &recorded.profile.events;
        let event = EventType::find(events, "pool-jobs").expect("jobs are an event");
        let mut samples = recorded.profile.samples.iter();
        let sample = samples.find(|sample| sample.event == event);
        let weight = sample.map_or(1.0, |sample| sample.weight as f64);
        for ((function, line, _), jobs) in LINES.iter().zip(&mut self.jobs) {
            let place = format!("/submit.js:{line}");
            let mut submitters = pool.submitters.iter();
            let found =
                submitters.find(|it| it.function == *function && it.place.ends_with(&place));
            let found = found.unwrap_or_else(|| panic!("no {function} at {line}: {pool:?}"));
            *jobs += found.jobs as f64;
            self.samples += found.jobs as f64 / weight;
        }
    }

    /// Each line has its part of the jobs, give or take something for the rounds that were cut, and a margin for its share.
    #[track_caller]
    fn expect_shares(&self, cut: f64, margin: impl Fn(f64) -> f64) {
        assert!(self.samples > 80.0, "{self:?}");
        let all: f64 = self.jobs.iter().sum();
        for ((function, _, part), jobs) in LINES.iter().zip(&self.jobs) {
            let (found, expected) = (jobs / all, part / 8.0);
            let off = (found - expected).abs();
            assert!(off < cut + margin(expected), "{function} {found} {self:?}");
        }
    }
}

#[test]
fn the_pool_of_a_command_that_nodespy_starts_is_read() {
    let Some(_live) = live() else { return };
    let (node, jobs) = (node(USUAL_NODE).unwrap(), script("jobs.js"));
    let recorded = record_with(&["record", "-d", "3", "--", &node, &jobs]);
    let pool = pool(&recorded);
    assert_eq!(pool.threads, 4, "{pool:?}");
    // At the end: how long Node takes to start is not known.
    let mut processes = recorded.profile.processes.iter();
    let timeline = processes.find_map(|process| process.pool_timeline.as_ref());
    let rows = timeline.unwrap().rows();
    let last = rows.iter().rfind(|row| row.readings > 0).unwrap();
    assert_eq!(last.waiting, 12 * last.readings, "{rows:?}");
}

on_every_node! {{
    lookups_wait_although_threads_are_idle(expect_lookups);
    files_that_wait_are_counted_with_their_path(expect_files);
} three {
    the_pool_of_a_moment_is_in_a_dump(expect_moment);
    hashes_that_wait_are_counted(expect_hashes);
    lines_that_submit_jobs_are_counted(expect_submitters);
}}
