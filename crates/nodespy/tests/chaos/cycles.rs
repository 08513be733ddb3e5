//! Attaching again and again: nothing adds up in the target.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::health::{Health, comes_true, companions_of, latency};
use crate::run::run_nodespy;
use crate::scene::ANY_PORT;
use crate::scratch::Scratch;
use crate::workload::{Running, node, script};
use crate::{is_root, lock, setting, skip};

const ENGINES: [&str; 3] = ["perf", "inspector", "dump"];

/// So many cycles are a long run.
const LONG: u64 = 10;
/// How many cycles are between two checks of the target.
const STRIDE: u64 = 20;

#[test]
fn attaching_many_times_leaves_a_target_as_it_was() {
    if !is_root() {
        return skip::skip("chaos needs root");
    }
    let cycles = setting("NODESPY_CHAOS_CYCLES", 2);
    // Long runs of several versions may go on side by side.
    let _lock = (cycles < LONG).then(lock);
    let versions = std::env::var("NODESPY_CHAOS_VERSIONS").ok();
    let versions = versions.filter(|versions| !versions.is_empty());
    let versions = versions.unwrap_or_else(|| match cycles {
        ..LONG => "20".to_owned(),
        _ => "16,20,26".to_owned(),
    });
    for version in versions.split(',') {
        for engine in ENGINES {
            eprintln!("{}", attach(version, engine, cycles));
        }
    }
}

/// Attaches so many times, and says what the target was like before and after.
fn attach(version: &str, engine: &str, cycles: u64) -> String {
    let scratch = Scratch::new();
    let socket = scratch.path().join("socket");
    let mut command = Command::new(node(version).unwrap());
    command
        .args([ANY_PORT, &script("chaos.js")])
        .env("SOCKET", &socket)
        .env("MS", "3600000");
    let mut target = Running::new(command);
    let pid = target.pid();
    let output = scratch.file("out.nspy");
    let cycle = || {
        let pid = pid.to_string();
        let words: Vec<&str> = match engine {
            "dump" => vec!["dump", "-p", &pid],
            _ => vec![
                "record", "-q", "--engine", engine, "-d", "200ms", "-F", "999", "-o", &output,
                "-p", &pid,
            ],
        };
        let outcome = run_nodespy(&words);
        // On a busy machine it may not have run in so short a time.
        assert!(matches!(outcome.status.code(), Some(0 | 5)), "{outcome}");
    };
    // The first inspector of a process makes things that stay, such as V8's own tables.
    let before = Health::of(pid);
    let before_latency = latency(&socket).unwrap();
    cycle();
    let after_first = resident(pid);
    let since = Instant::now();
    for count in 1..=cycles {
        cycle();
        if count % STRIDE == 0 || count == cycles {
            before
                .expect_again(pid, true)
                .unwrap_or_else(|what| panic!("node {version}, {engine}, cycle {count}: {what}"));
        }
    }
    let took = since.elapsed();
    assert!(target.is_alive());
    assert!(
        comes_true(|| companions_of(pid) == 0),
        "a companion is left"
    );
    let after_latency = latency(&socket).unwrap();
    assert!(
        after_latency < before_latency * 4 + Duration::from_millis(250),
        "answers took {before_latency:?} before and {after_latency:?} after"
    );
    format!(
        "node {version}, {engine}: {cycles} cycles, {:.2} s each; resident memory of the target {} KiB after the first, \
         {} KiB after the last; fastest answer {:.2} ms before, {:.2} ms after; descriptors, threads, listeners as before",
        took.as_secs_f64() / cycles as f64,
        after_first,
        resident(pid),
        before_latency.as_secs_f64() * 1e3,
        after_latency.as_secs_f64() * 1e3,
    )
}

fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = text.lines();
    lines
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap()
}
