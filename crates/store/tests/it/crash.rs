//! Killed at any moment, nothing that was acknowledged is lost and nothing is counted twice.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nodespy_store::{HOUR_SECONDS, OpenMode, Selection, SqliteStore, Store, WINDOW_SECONDS};

use crate::fleet::{Random, START, batch, stacks};
use crate::plain::PlainStore;
use crate::promises::answer;

const KILLS: u64 = 12;
/// Windows of each series in a batch: an hour is over after 18, so that blocks are made all the time.
const BATCH: u64 = 20;
const CHILD: &str = "NODESPY_STORE_CRASH_CHILD";

/// Appends batches and compacts until it is killed, and prints the number of each batch that is in the store.
#[test]
fn a_writer_that_is_killed() {
    let Ok(path) = std::env::var(CHILD) else {
        // Only the test below starts it.
        return;
    };
    let mut store = SqliteStore::open(Path::new(&path), OpenMode::Write).unwrap();
    let symbols = stacks(400, 5);
    // As an agent does, the last batch is sent again: it can't know that it arrived.
    let last = store.labels(0..u64::MAX).unwrap();
    let last = last.iter().map(|span| span.last).max().unwrap_or(START);
    let mut number = (last - START) / WINDOW_SECONDS / BATCH;
    let mut output = std::io::stdout();
    loop {
        store
            .append(&batch(&symbols, number * BATCH..(number + 1) * BATCH))
            .unwrap();
        writeln!(output, "appended {number}").unwrap();
        number += 1;
        store
            .compact(START + number * BATCH * WINDOW_SECONDS)
            .unwrap();
    }
}

/// Lets a writer work for a while, kills it, and returns the last batch it said was in the store.
fn run_and_kill(path: &Path, moment: Duration) -> Option<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crash::a_writer_that_is_killed", "--exact", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let number = |line: String| Some(line.strip_prefix("appended ")?.parse().unwrap());
    // On a busy machine it takes a while until it works at all.
    let mut last = lines.by_ref().map_while(Result::ok).find_map(number);
    let reader = std::thread::spawn(move || lines.map_while(Result::ok).filter_map(number).last());
    let since = Instant::now();
    while since.elapsed() < moment {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    last = reader.join().unwrap().or(last);
    last
}

#[test]
fn killed_at_any_moment_nothing_is_lost_or_doubled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let symbols = stacks(400, 5);
    let mut random = Random(9);
    let mut acknowledged = 0;
    for kill in 0..KILLS {
        let moment = Duration::from_millis(random.below(300));
        let last = run_and_kill(&path, moment).expect("the writer never appended");
        acknowledged = acknowledged.max(last);
        let store = SqliteStore::open(&path, OpenMode::Read).unwrap();
        store.check().unwrap();
        let spans = store.labels(0..u64::MAX).unwrap();
        let stored = spans.iter().map(|span| span.last).max().unwrap();
        let stored = (stored - START) / WINDOW_SECONDS / BATCH;
        // The last one may have been written and not been said.
        assert!(
            (acknowledged..=acknowledged + 1).contains(&stored),
            "kill {kill}: {stored}"
        );
        // All of the time around the kill, count by count; everything by its sum.
        let from = (stored + 1).saturating_sub(40);
        let mut plain = PlainStore::default();
        plain
            .append(&batch(&symbols, from * BATCH..(stored + 1) * BATCH))
            .unwrap();
        let start = (START + from * BATCH * WINDOW_SECONDS).next_multiple_of(HOUR_SECONDS);
        for service in ["shop", "mail"] {
            let asked = Selection::new(service, "cpu-clock", start..u64::from(u32::MAX));
            let (found, expected) = (
                answer(&store, &asked, &["pid"]),
                answer(&plain, &asked, &["pid"]),
            );
            assert_eq!(found, expected, "kill {kill}, {service}");
        }
        let everything = Selection::new("shop", "cpu-clock", 0..u64::MAX);
        let sum: u64 = (0..=stored)
            .flat_map(|number| batch(&symbols, number * BATCH..(number + 1) * BATCH).windows)
            .filter(|window| window.series < 4)
            .flat_map(|window| window.counts)
            .map(|count| count.count)
            .sum();
        for by in [&[][..], &["pid"]] {
            let merged = store.merge(&everything, by).unwrap();
            let stacks = merged.groups.iter().flat_map(|group| &group.stacks);
            assert_eq!(
                stacks.map(|stack| stack.count).sum::<u64>(),
                sum,
                "kill {kill}"
            );
        }
    }
}
