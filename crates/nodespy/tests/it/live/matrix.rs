//! Every supported Node, started without any flag: are its frames named?
//!
//! One test walks the versions of `tools/node-versions` and an older minor of three majors, so that a
//! table which fits only the newest release does not pass. It prints a report at the end and fails if
//! any row is below the promise. `NODESPY_MATRIX=20.20.2,24.0.2` looks at those versions only.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use nodespy_model::NameSource;

use super::live;
use super::recorded::{Recorded, read, share};
use super::truth::start;
use super::workload::{Running, Workload, root};
use crate::run::{nodespy, run};
use crate::scratch::Scratch;

/// The promise: at least this part of the JavaScript frames has a name.
const NAMED: f64 = 0.999;
/// Older minors, each with another V8 patch level and other Node internals than the newest.
const OLDER: [&str; 3] = ["20.9.0", "22.4.0", "24.0.2"];

/// What is recorded, and how many milliseconds samples are left lying before they are looked at.
type Case = (&'static str, &'static [u32]);

const CASES: [Case; 5] = [
    ("mix.js", &[0, 200]),
    ("express/app.js", &[0]),
    ("gc.js", &[0, 20, 200]),
    ("workers.js", &[0]),
    ("async.js", &[0]),
];
const OLDER_CASES: [Case; 3] = [("mix.js", &[0]), ("gc.js", &[200]), ("async.js", &[20])];

/// One line of the report.
struct Row {
    version: String,
    workload: &'static str,
    delay_ms: u32,
    samples: usize,
    frames: u64,
    named: u64,
    lost: u64,
    incomplete: f64,
}

impl Row {
    fn named_share(&self) -> f64 {
        share(self.named, self.frames)
    }

    /// What is wrong with it, if anything is.
    fn complaint(&self) -> Option<String> {
        let what = format!(
            "node {}, {}, {} ms late",
            self.version, self.workload, self.delay_ms
        );
        if self.frames < 100 {
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

/// The versions to look at and what to record on each.
fn plan() -> Vec<(String, &'static [Case])> {
    let listed = fs::read_to_string(root().join("tools/node-versions")).unwrap();
    let newest = listed
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        .map(|line| (line.trim().to_owned(), CASES.as_slice()));
    let older = OLDER.map(|version| (version.to_owned(), OLDER_CASES.as_slice()));
    let wanted = std::env::var("NODESPY_MATRIX").ok();
    newest
        .chain(older)
        .filter(|(version, _)| {
            wanted
                .as_ref()
                .is_none_or(|list| list.split(',').any(|wanted| wanted == version))
        })
        .collect()
}

/// A workload that is busy, and its load if it needs one.
fn start_case(version: &str, name: &str) -> (Running, Option<Running>) {
    if name.starts_with("express/") {
        let installer = root().join("tools/express.sh");
        assert!(Command::new(installer).status().unwrap().success());
    }
    let target = start(version, &[], name, &[]);
    let load = (name == "express/app.js").then(|| {
        Workload::new("load.js")
            .argument(&target.ready)
            .argument(30)
            .start()
    });
    (target, load)
}

fn record_late(target: &Running, delay_ms: u32) -> Recorded {
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let pid = target.pid_text();
    let mut command = nodespy(&["record", "-p", &pid, "-d", "2", "-F", "999", "-o", &output]);
    command.env("NODESPY_DELAY_MS", delay_ms.to_string());
    let outcome = run(command);
    outcome.expect_code(0);
    let profile = read(std::path::Path::new(&output));
    Recorded { profile, outcome }
}

fn look_at(version: &str, (workload, delays): Case, rows: &mut Vec<Row>) {
    let (target, _load) = start_case(version, workload);
    for &delay_ms in delays {
        let recorded = record_late(&target, delay_ms);
        let notes = &recorded.profile.notes;
        let row = Row {
            version: version.to_owned(),
            workload,
            delay_ms,
            samples: recorded.profile.samples.len(),
            frames: notes.jit_frames,
            named: notes.jit_named[NameSource::HeapWalk.at()],
            lost: notes.lost_samples,
            incomplete: share(notes.incomplete_stacks, notes.unwound_stacks),
        };
        if let Some(complaint) = row.complaint() {
            eprintln!("{complaint}\n{}", recorded.describe());
        }
        rows.push(row);
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
            100.0 * row.incomplete,
            row.lost
        );
    }
    text
}

#[test]
fn every_node_shows_its_functions_without_a_flag() {
    let Some(_live) = live() else { return };
    let mut rows = Vec::new();
    for (version, cases) in plan() {
        for &case in cases {
            look_at(&version, case, &mut rows);
        }
    }
    let report = report(&rows);
    eprintln!("{report}");
    let complaints: Vec<String> = rows.iter().filter_map(Row::complaint).collect();
    assert!(complaints.is_empty(), "{}\n{report}", complaints.join("\n"));
}
