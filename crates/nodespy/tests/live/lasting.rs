//! Recordings that start late, are divided into files, or end with their size.

use std::path::Path;
use std::time::Duration;

use nodespy_model::Profile;

use super::live;
use super::recorded::{Recorded, expect_share, read, record, record_with};
use super::workload::{USUAL_NODE, Workload, node, script};
use crate::run::{Started, nodespy, run_nodespy};
use crate::scratch::Scratch;

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_file_a_period_and_nothing_is_lost_between_them() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let folder = Scratch::new();
    let (pid, output) = (target.pid_text(), folder.file("out.nspy"));
    let outcome = run_nodespy(&[
        "record", "-p", &pid, "-o", &output, "--every", "3s", "-d", "9.5", "-F", "499",
    ]);
    outcome.expect_code(0).expect_stderr(&["files written"]);
    // Neither a journal nor half a file is left.
    let names = folder.names();
    // The last is of half a second, in which the program may not have run.
    assert!((3..=4).contains(&names.len()), "{names:?} {outcome}");
    let files: Vec<Profile> = names
        .iter()
        .map(|name| read(Path::new(&folder.path().join(name))))
        .collect();
    let lengths = files.iter().map(|file| file.about.duration);
    let length: u64 = lengths.sum();
    assert!((9 * SECOND..12 * SECOND).contains(&length), "{outcome}");
    // What the kernel says that the process used is what the samples of all files have, up to those that
    // a busy machine takes away.
    let used: u64 = files
        .iter()
        .filter_map(|file| file.processes[0].cpu_time)
        .sum();
    let weight: u64 = files.iter().map(Profile::total_weight).sum();
    let (used, sampled) = (used as f64 / 1e9, weight as f64 / 499.0);
    assert!(
        (0.9..1.1).contains(&(sampled / used)),
        "{sampled} s of {used} s"
    );
    for profile in files {
        assert_eq!(profile.notes.lost_samples, 0, "{outcome}");
        assert!(
            profile
                .samples
                .iter()
                .all(|sample| sample.time <= profile.about.duration)
        );
        let thread = profile
            .threads
            .iter()
            .find(|thread| thread.tid == target.pid());
        let watched = thread
            .and_then(|thread| thread.scheduling)
            .map_or(0, |it| it.watched);
        assert!(
            watched <= profile.about.duration + SECOND,
            "{watched} in {outcome}"
        );
        if profile.about.duration < 2 * SECOND {
            continue;
        }
        let recorded = Recorded {
            profile,
            outcome: outcome.clone(),
        };
        let seventy = recorded.total_share("seventyPercent");
        let both = seventy + recorded.total_share("thirtyPercent");
        expect_share("seventyPercent", seventy / both, 0.7, &recorded);
    }
}

#[test]
fn a_killed_recording_in_periods_leaves_the_journal_of_the_last() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let folder = Scratch::new();
    let (pid, output) = (target.pid_text(), folder.file("out.nspy"));
    // Long enough that it goes on for a while after its first block, also on a busy machine.
    let arguments = ["record", "-p", &pid, "-o", &output, "--every", "5s"];
    let started = Started::new(nodespy(&arguments), "");
    let wait_until = |is_so: &dyn Fn(&[String]) -> bool| {
        let until = std::time::Instant::now() + crate::run::DEADLINE;
        while !is_so(&folder.names()) {
            assert!(std::time::Instant::now() < until, "{:?}", folder.names());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let is_journal = |name: &&String| name.ends_with(".journal");
    wait_until(&|names| names.contains(&"out-2.nspy".to_owned()));
    // The journal of the second period goes when its file is whole, before that of the third comes.
    wait_until(&|names| !names.iter().any(|name| is_journal(&name)));
    let has_content = |name: &String| {
        let found = std::fs::metadata(folder.path().join(name));
        found.is_ok_and(|found| found.len() > 0)
    };
    wait_until(&|names| names.iter().filter(is_journal).any(has_content));
    started.signal("KILL");
    started.finish();
    let names = folder.names();
    let Some(journal) = names.iter().find(is_journal) else {
        panic!("{names:?}");
    };
    let recovered = folder.file("recovered.nspy");
    run_nodespy(&["recover", &folder.file(journal), "-o", &recovered]).expect_code(0);
    assert!(!read(Path::new(&recovered)).samples.is_empty());
    let first = read(&folder.path().join("out.nspy"));
    assert!(!first.samples.is_empty());
}

#[test]
fn periods_that_an_output_does_not_take_are_kept_by_another_or_elsewhere() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let folder = Scratch::new();
    let record_until_gone = |outputs: &[&str]| {
        let gone = folder.path().join("gone");
        std::fs::create_dir(&gone).unwrap();
        let mut command = nodespy(&["record", "-p", &target.pid_text(), "--every", "2s"]);
        command.args(outputs).current_dir(folder.path());
        let started = Started::new(command, "");
        started.wait_until_it_says("Wrote gone/out.nspy");
        std::fs::remove_dir_all(&gone).unwrap();
        let outcome = started.finish();
        outcome.expect_code(1).expect_stderr(&["gone/out"]);
        outcome
    };
    let outcome = record_until_gone(&["-o", "gone/out.nspy", "-o", "good.nspy"]);
    // The period that failed, and that which went on meanwhile.
    let names = folder.names();
    assert_eq!(
        names,
        ["good-2.nspy", "good-3.nspy", "good.nspy"],
        "{outcome}"
    );
    let outcome = record_until_gone(&["-o", "gone/out.nspy"]);
    let names = folder.names();
    let rescued: Vec<&String> = names
        .iter()
        .filter(|name| name.contains("rescued"))
        .collect();
    assert_eq!(rescued.len(), 2, "{names:?} {outcome}");
    for name in names {
        assert!(
            !read(&folder.path().join(&name)).samples.is_empty(),
            "{name}"
        );
    }
}

#[test]
fn a_program_is_let_to_warm_up() {
    let Some(_live) = live() else { return };
    let node = node(USUAL_NODE).unwrap();
    let program = "function early() { const end = Date.now() + 1500; while (Date.now() < end); }
        function late() { const end = Date.now() + 8; while (Date.now() < end); }
        early(); setInterval(late, 10);";
    let recorded = record_with(&[
        "record", "--delay", "4s", "-d", "2", "--", &node, "-e", program,
    ]);
    assert_eq!(
        recorded.total_share("early"),
        0.0,
        "{}",
        recorded.describe()
    );
    assert!(
        recorded.total_share("late") > 0.7,
        "{}",
        recorded.describe()
    );
    let pid = recorded.profile.processes[0].pid;
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_program_that_ends_while_it_warms_up_is_no_recording() {
    let Some(_live) = live() else { return };
    let node = node(USUAL_NODE).unwrap();
    let outcome = run_nodespy(&["record", "--delay", "60s", "--", &node, "-e", "1"]);
    outcome.expect_code(5).expect_stderr(&["--delay"]);
}

#[test]
fn a_recording_ends_when_it_is_large_enough() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let recorded = record(&target, &["--max-size", "3KB", "-F", "999", "-d", "80"]);
    let remarks = recorded.profile.notes.remarks.join("\n");
    assert!(remarks.contains("--max-size"), "{remarks}");
    assert!(recorded.outcome.took < Duration::from_secs(60));
    assert!(recorded.total_share("seventyPercent") > 0.3);
}

#[test]
fn what_can_not_be_divided_is_answered_with_an_example() {
    let refused = |arguments: &[&str], words: &[&str]| {
        let mut all = vec!["record", "-p", "1"];
        all.extend(arguments);
        run_nodespy(&all).expect_code(2).expect_stderr(words);
    };
    refused(
        &["--every", "60s", "--engine", "inspector"],
        &["--every 60s -p PID"],
    );
    refused(&["--every", "60s", "--trigger", "signal"], &["stall>200ms"]);
    refused(&["--every", "100ms"], &["--every 60s"]);
    refused(&["--max-size", "huge"], &["200MB"]);
    let script = script("exits.js");
    let by_inspector = [
        "record",
        "--engine",
        "inspector",
        "--delay",
        "1s",
        "--",
        "node",
        &script,
    ];
    run_nodespy(&by_inspector)
        .expect_code(2)
        .expect_stderr(&["--delay"]);
}
