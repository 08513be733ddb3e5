//! A recording that is killed is not lost: its journal holds all but the last moments.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nodespy_model::Profile;

use super::ebpf::can_run;
use super::live;
use super::recorded::{Recorded, read, share};
use super::shares::expect_split;
use super::workload::{Running, Workload};
use crate::run::{DEADLINE, Outcome, Started, ended_by_signal, nodespy, run_nodespy};
use crate::scratch::Scratch;

/// Records into `out.nspy` of a folder, and kills nodespy when the journal has had a few slices.
/// Returns how long it had recorded, in seconds.
#[track_caller]
fn record_and_kill(target: &Running, folder: &Scratch, arguments: &[&str]) -> f64 {
    let pid = target.pid_text();
    let output = folder.file("out.nspy");
    let mut all = vec!["record", "-p", &pid, "-o", &output];
    all.extend(arguments);
    let since = Instant::now();
    let started = Started::new(nodespy(&all), "");
    started.wait_until_it_says("Recording ");
    let recording_since = Instant::now();
    let journal = folder.path().join("out.nspy.journal");
    let mut sizes = Vec::new();
    while sizes.len() < 6 {
        let size = fs::metadata(&journal).map_or(0, |journal| journal.len());
        if size > sizes.last().copied().unwrap_or(0) {
            sizes.push(size);
        }
        assert!(
            since.elapsed() < DEADLINE,
            "the journal grows no more: {sizes:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(folder.names(), ["out.nspy.journal"]);
    assert_eq!(fs::metadata(&journal).unwrap().mode() & 0o777, 0o600);
    started.signal("KILL");
    let recorded = recording_since.elapsed().as_secs_f64();
    let outcome = started.finish();
    assert!(ended_by_signal(&outcome), "{outcome}");
    recorded
}

/// Makes the output of a journal.
#[track_caller]
fn recover(folder: &Scratch) -> (Profile, Outcome) {
    let outcome = run_nodespy(&["recover", &folder.file("out.nspy.journal")]);
    outcome.expect_code(0);
    (read(Path::new(&folder.file("out.nspy"))), outcome)
}

#[test]
fn what_was_recorded_outlives_nodespy() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let folder = Scratch::new();
    let recorded_for = record_and_kill(&target, &folder, &["-F", "499"]);
    let (profile, outcome) = recover(&folder);
    let recorded = Recorded { profile, outcome };
    expect_split(&recorded);
    // Of six slices the last may be missing.
    let duration = recorded.profile.about.duration as f64 / 1e9;
    assert!(
        duration > recorded_for * 0.5,
        "{duration} of {recorded_for} s"
    );
    // As many samples as the kernel says there was CPU time.
    let threads = recorded.profile.threads.iter();
    let on_cpu: u64 = threads
        .filter_map(|thread| Some(thread.scheduling?.on_cpu))
        .sum();
    let expected = on_cpu as f64 / 1e9 * 499.0;
    let ratio = recorded.profile.samples.len() as f64 / expected;
    assert!(
        (0.8..1.2).contains(&ratio),
        "{ratio}\n{}",
        recorded.describe()
    );
    let remarks = recorded.profile.notes.remarks.join("\n");
    assert!(
        remarks.contains("the recording was not finished"),
        "{remarks}"
    );
}

#[test]
fn a_recording_that_is_killed_in_its_fourth_second_is_not_lost() {
    let Some(_live) = live() else { return };
    // Without it the first slice takes five.
    if !can_run() {
        return;
    }
    let target = Workload::new("split.js").start();
    let folder = Scratch::new();
    let (pid, output) = (target.pid_text(), folder.file("out.nspy"));
    let started = Started::new(nodespy(&["record", "-p", &pid, "-o", &output]), "");
    started.wait_until_it_says("Recording ");
    // Nothing is there that has nothing in it.
    let journal = folder.path().join("out.nspy.journal");
    let is_empty = |journal: fs::Metadata| journal.len() == 0;
    assert!(!fs::metadata(&journal).is_ok_and(is_empty));
    // It comes after a second, or later on a busy machine.
    let until = Instant::now() + DEADLINE;
    while fs::metadata(&journal).map_or(true, is_empty) {
        assert!(Instant::now() < until, "{:?}", folder.names());
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(2500));
    started.signal("KILL");
    started.finish();
    assert_eq!(folder.names(), ["out.nspy.journal"]);
    let (profile, outcome) = recover(&folder);
    assert!(!profile.samples.is_empty(), "{outcome}");
}

#[test]
fn the_inspector_s_recording_outlives_nodespy_too() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let folder = Scratch::new();
    let arguments = ["--engine", "inspector", "--slice", "500ms"];
    record_and_kill(&target, &folder, &arguments);
    let (profile, outcome) = recover(&folder);
    let recorded = Recorded { profile, outcome };
    // V8's profiler gives what was inlined before it started to the caller.
    let turn = recorded.total_share("turn");
    assert!(turn > 0.8, "{}", recorded.describe());
    assert_eq!(recorded.profile.about.engine, "V8 inspector");
}

#[test]
fn a_recording_in_slices_is_as_true_as_one_in_one() {
    let Some(_live) = live() else { return };
    let target = Workload::new("workers.js").start();
    let folder = Scratch::new();
    let output = folder.file("out.nspy");
    let pid = target.pid_text();
    let outcome = run_nodespy(&["record", "-p", &pid, "-d", "9", "-F", "199", "-o", &output]);
    outcome.expect_code(0);
    // The journal is gone, and nothing else is left.
    assert_eq!(folder.names(), ["out.nspy"]);
    let profile = read(Path::new(&output));
    let recorded = Recorded { profile, outcome };
    let profile = &recorded.profile;
    assert_eq!(profile.processes.len(), 1);
    let mut tids: Vec<u32> = profile.threads.iter().map(|thread| thread.tid).collect();
    tids.sort_unstable();
    tids.dedup();
    assert_eq!(tids.len(), profile.threads.len(), "{}", recorded.describe());
    assert!(profile.samples.is_sorted_by_key(|sample| sample.time));
    // Every fifth of the time has its samples.
    let fifth = profile.about.duration / 5 + 1;
    for part in 0..5 {
        let here = profile
            .samples
            .iter()
            .filter(|sample| sample.time / fifth == part);
        let part_of_all = share(here.count() as u64, profile.samples.len() as u64);
        assert!(part_of_all > 0.01, "fifth {part}\n{}", recorded.describe());
    }
    let named = profile.notes.confidence().jit_named;
    assert!(named > 0.95, "{named}\n{}", recorded.describe());
}
