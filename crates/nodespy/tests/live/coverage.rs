//! Every supported Node, started without any flag: are its frames named?
//!
//! All versions of `tools/node-versions` and an older minor of three majors are recorded, so that a
//! table which fits only the newest release does not pass. Each test prints a report at the end and
//! fails if any row is below the promise. `NODESPY_MATRIX=20.20.2,24.0.2` records those only.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use nodespy_model::NameSource;

use super::live;
use super::recorded::{Recorded, read, share};
use super::truth::start;
use super::workload::{Running, Workload, root};
use crate::run::{Started, nodespy};
use crate::scratch::Scratch;

/// The promise: at least this part of the JavaScript frames has a name.
const NAMED: f64 = 0.999;
/// So many frames tell whether it is kept, and so many recordings are made for them at most.
const ENOUGH_FRAMES: u64 = 3000;
const ATTEMPTS: u32 = 5;
/// Older minors, each with another V8 patch level and other Node internals than the newest.
const OLDER: [&str; 3] = ["20.9.0", "22.4.0", "24.0.2"];

/// What is recorded.
const WORKLOADS: [&str; 5] = [
    "mix.js",
    "express/app.js",
    "gc.js",
    "workers.js",
    "async.js",
];
/// How many milliseconds samples are left lying before they are looked at, at least: the process runs on, and
/// the garbage collector moves what the stacks lead to. Once without the program that reads what names them
/// when they are taken.
const DELAYS_MS: [(u32, &[&str]); 3] = [(0, &[]), (20, &["--no-ebpf"]), (1000, &[])];

/// One line of the report.
struct Row {
    version: String,
    workload: &'static str,
    delay_ms: u32,
    options: &'static [&'static str],
    samples: usize,
    frames: u64,
    named: u64,
    lost: u64,
    incomplete: u64,
    unwound: u64,
}

impl Row {
    fn new(
        version: &str,
        workload: &'static str,
        (delay_ms, options): (u32, &'static [&'static str]),
    ) -> Self {
        Self {
            options,
            version: version.to_owned(),
            workload,
            delay_ms,
            samples: 0,
            frames: 0,
            named: 0,
            lost: 0,
            incomplete: 0,
            unwound: 0,
        }
    }

    /// Adds what one recording says.
    fn add(&mut self, recorded: &Recorded) {
        let notes = &recorded.profile.notes;
        self.samples += recorded.profile.samples.len();
        self.frames += notes.jit_frames;
        self.named += notes.jit_named[NameSource::HeapWalk.at()];
        self.lost += notes.lost_samples;
        self.incomplete += notes.incomplete_stacks;
        self.unwound += notes.unwound_stacks;
    }

    fn named_share(&self) -> f64 {
        share(self.named, self.frames)
    }

    /// What is wrong with it, if anything is.
    fn complaint(&self) -> Option<String> {
        let what = format!(
            "node {}, {}, {} ms late {:?}",
            self.version, self.workload, self.delay_ms, self.options
        );
        if self.frames < 1000 {
            return Some(format!("{what}: only {} frames", self.frames));
        }
        (self.named_share() < NAMED).then(|| {
            format!(
                "{what}: {} of {} frames have no name",
                self.frames - self.named,
                self.frames
            )
        })
    }
}

/// A workload that is busy, and its load if it needs one.
fn start_case(version: &str, name: &str) -> (Running, Option<Running>) {
    if name.starts_with("express/") {
        let mut installer = Command::new(root().join("tools/packages.sh"));
        assert!(installer.arg("express").status().unwrap().success());
    }
    let target = start(version, &[], name, &[]);
    let load = (name == "express/app.js").then(|| {
        Workload::new("load.js")
            .argument(&target.ready)
            .argument(120)
            .start()
    });
    (target, load)
}

/// Starts a recording that looks at each sample late.
fn start_late(target: &Running, row: &Row, output: &str) -> Started {
    let pid = target.pid_text();
    let mut command = nodespy(&[
        "record", "-p", &pid, "-d", "1500ms", "-F", "999", "-o", output,
    ]);
    command.args(row.options);
    command.env("NODESPY_DELAY_MS", row.delay_ms.to_string());
    Started::new(command, "")
}

/// Records a workload with every delay at once, which are three recordings that know nothing of one
/// another; again where a busy machine gave too few frames to judge by, and where a row is below the promise: it is kept
/// by all recordings together, or not. Adds a row for each delay.
fn look_at(version: &str, workload: &'static str, rows: &mut Vec<Row>) {
    let (target, _load) = start_case(version, workload);
    let mut own = DELAYS_MS.map(|late| Row::new(version, workload, late));
    for _ in 0..ATTEMPTS {
        record_once(&target, &mut own);
        // A stack without names has several frames: of a few thousand they are more than the promise allows.
        let is_judged = |row: &Row| row.frames >= ENOUGH_FRAMES && row.named_share() >= NAMED;
        if own.iter().all(is_judged) {
            break;
        }
    }
    rows.extend(own);
}

fn record_once(target: &Running, rows: &mut [Row; 3]) {
    let scratch = Scratch::new();
    let started: Vec<(Started, String)> = rows
        .iter()
        .map(|row| {
            let output = scratch.file(&format!("late-{}.nspy", row.delay_ms));
            (start_late(target, row, &output), output)
        })
        .collect();
    for ((started, output), row) in started.into_iter().zip(rows) {
        let outcome = started.finish();
        outcome.expect_code(0);
        let profile = read(Path::new(&output));
        let recorded = Recorded { profile, outcome };
        row.add(&recorded);
        if row.named_share() < NAMED
            && let Some(complaint) = row.complaint()
        {
            eprintln!("{complaint}\n{}", recorded.describe());
        }
    }
}

fn report(rows: &[Row]) -> String {
    let mut text = format!(
        "{:8}  {:14} {:>6}  {:>7}  {:>9}  {:>9}  {:>10}  {:>4}\n",
        "node", "workload", "late", "samples", "JS frames", "named", "incomplete", "lost"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:8}  {:14} {:>3} ms  {:>7}  {:>9}  {:>7.3} %  {:>8.2} %  {:>4}",
            row.version,
            row.workload,
            row.delay_ms,
            row.samples,
            row.frames,
            100.0 * row.named_share(),
            100.0 * share(row.incomplete, row.unwound),
            row.lost
        );
    }
    text
}

/// Records every workload on these versions and fails if any row is below the promise.
fn expect_named<'a>(versions: impl IntoIterator<Item = &'a str>) {
    let Some(_live) = live() else { return };
    let mut rows = Vec::new();
    for version in versions {
        for workload in WORKLOADS {
            look_at(version, workload, &mut rows);
        }
    }
    let report = report(&rows);
    eprintln!("{report}");
    let complaints: Vec<String> = rows.iter().filter_map(Row::complaint).collect();
    assert!(complaints.is_empty(), "{}\n{report}", complaints.join("\n"));
}

#[test]
fn frames_are_named_without_a_flag() {
    expect_named(["16", "20", "26"]);
}

mod matrix {
    use super::*;

    #[test]
    fn frames_of_the_versions_between_are_named_without_a_flag() {
        let chosen = std::env::var("NODESPY_MATRIX").ok();
        match &chosen {
            Some(versions) => expect_named(versions.split(',')),
            None => expect_named(["18", "22", "24", "25"].into_iter().chain(OLDER)),
        }
    }
}
