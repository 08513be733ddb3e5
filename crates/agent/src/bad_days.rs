//! What becomes of windows on bad days: receivers over real HTTP that are out of order, and a disk that is full.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use nodespy_capture::unix_now;
use nodespy_model::{Labels, ThreadRole, WeightUnit};
use nodespy_store::{
    Batch, Count, OpenMode, Retention, Selection, Series, SqliteStore, Store, StoredFrame,
    StoredFunction, Symbols, Window, batch_from_bytes, batch_to_bytes,
};

use crate::destination::Destination;
use crate::spool::Spool;
use crate::spool::tests::open_again;
use crate::test_receiver::{LONG, Received, client, receiver, wait_for, writers};

const CHILD: &str = "NODESPY_AGENT_FULL_DISK";

/// A batch with one window.
pub(crate) fn batch(start: u64) -> Batch {
    Batch {
        series: vec![Series {
            service: "shop".to_owned(),
            event: "cpu".to_owned(),
            unit: WeightUnit::Samples,
            period: 1,
            labels: Labels::default(),
        }],
        windows: vec![Window {
            series: 0,
            start,
            counts: Vec::new(),
        }],
        ..Batch::default()
    }
}

/// A receiver that answers with these heads, the last one for good.
fn server(answers: &[&'static str]) -> (String, Receiver<Received>) {
    receiver(answers.iter().map(|head| (*head, Vec::new())).collect())
}

#[test]
fn receivers_that_are_busy_or_broken_get_everything_in_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let (url, received) = server(&[
        "429 Too Many Requests\r\nRetry-After: 3",
        "500 Internal Server Error",
        "",
        "200 OK",
        "422 Unprocessable Content",
        "200 OK",
    ]);
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    let (writers, counters, lines) = writers(Destination::server(client(&url), spool));
    (0..4).for_each(|number| writers.write(batch(number * 10)));
    let next = || {
        let Received { at, body, .. } = received.recv_timeout(LONG).unwrap();
        (at, batch_from_bytes(&body).unwrap().windows[0].start)
    };
    let (asked, first) = next();
    let (again, second) = next();
    // It is left alone for as long as it says.
    assert!(again - asked >= Duration::from_millis(2900));
    let starts: Vec<u64> = (0..5).map(|_| next().1).collect();
    assert_eq!((first, second), (0, 0));
    assert_eq!(starts, [0, 0, 10, 20, 30]);
    wait_for("what was counted", || {
        let written = counters.written();
        (written.windows, written.dropped, written.retries) == (3, 1, 3)
    });
    writers.finish();
    let lines = lines.lock().unwrap().join("\n");
    assert!(lines.contains("429"), "{lines}");
    assert!(lines.contains("windows refused"), "{lines}");
}

/// Ten seconds of a machine so large that no server takes them in one request.
#[test]
fn a_batch_that_is_too_large_is_sent_in_parts_and_nothing_twice() {
    const STACKS: usize = (1 << 17) + 1;
    let symbols = Symbols {
        functions: vec![StoredFunction::default()],
        frames: (0..STACKS as u32)
            .map(|line| StoredFrame {
                line,
                ..StoredFrame::default()
            })
            .collect(),
        stacks: (0..STACKS as u32).map(|frame| vec![frame]).collect(),
    };
    let counts = symbols.hashes().into_iter();
    let counts: Vec<Count> = counts
        .map(|hash| Count::new(hash, ThreadRole::Main, 1))
        .collect();
    let windows = counts
        .chunks(1 << 16)
        .zip(0..)
        .map(|(counts, number)| Window {
            series: 0,
            start: number * 10,
            counts: counts.to_vec(),
        });
    let large = Batch {
        windows: windows.collect(),
        symbols,
        ..batch(0)
    };
    let windows = large.windows.len() as u64;
    let folder = tempfile::tempdir().unwrap();
    let (url, received) = server(&["200 OK"]);
    let spool = Spool::open(folder.path(), 1 << 30).unwrap();
    let (writers, counters, lines) = writers(Destination::server(client(&url), spool));
    writers.write(large);
    wait_for("what was counted", || counters.written().windows == windows);
    writers.finish();
    let bodies = received.try_iter();
    let batches = bodies.map(|it| batch_from_bytes(&it.body).unwrap());
    let sent: Vec<(u64, usize)> = batches
        .flat_map(|batch| batch.windows)
        .map(|window| (window.start, window.counts.len()))
        .collect();
    assert_eq!(sent, [(0, 1 << 16), (10, 1 << 16), (20, 1)]);
    assert_eq!(counters.written().dropped, 0);
    assert_eq!(*lines.lock().unwrap(), [""; 0]);
}

/// The clock here is ahead of the server's, or the server's is behind: others go first, and nothing is dropped.
#[test]
fn windows_of_a_time_to_come_are_kept_until_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let early = "422 Unprocessable Content\r\nRetry-After: 2";
    let (url, received) = server(&[early, early, "200 OK"]);
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    // All wait from the start: a disk that is slow to sync takes no part.
    for start in [5000, 5010, 20] {
        spool.push(&batch_to_bytes(&batch(start)), 1).unwrap();
    }
    let (writers, counters, lines) = writers(Destination::server(client(&url), spool));
    let requests: Vec<Received> = (0..5)
        .map(|_| received.recv_timeout(LONG).unwrap())
        .collect();
    let start = |it: &Received| batch_from_bytes(&it.body).unwrap().windows[0].start;
    let starts: Vec<u64> = requests.iter().map(start).collect();
    assert_eq!(starts, [5000, 5010, 20, 5000, 5010]);
    let waited = requests[3].at - requests[0].at;
    assert!(waited >= Duration::from_millis(1900), "{waited:?}");
    wait_for("what was counted", || counters.written().windows == 3);
    writers.finish();
    assert_eq!(counters.written().dropped, 0);
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
}

/// Times that come again have windows already.
#[test]
fn a_clock_that_is_set_back_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profiles.sqlite");
    let store = SqliteStore::open(&path, OpenMode::Write).unwrap();
    let store = Destination::store("here", Box::new(store), Retention::default());
    let (writers, counters, _) = writers(store);
    let now = unix_now() / 1_000_000_000 / 10 * 10;
    let seen = |start| Batch::counted(batch(0).series, &[(0, start, 7)]);
    (0..3).for_each(|number| writers.write(seen(now + number * 10)));
    // The window that goes on is cut, and goes on below its name.
    writers.write_before_step(seen(now + 30));
    for start in [now - 10, now, now + 10, now + 20, now + 30, now + 40] {
        writers.write(seen(start));
    }
    writers.finish();
    let written = counters.written();
    assert_eq!((written.windows, written.repeated), (10, 0));
    let store = SqliteStore::open(&path, OpenMode::Read).unwrap();
    let selection = Selection::new("shop", "cpu", now - 10..now + 50);
    let series = store.series(&selection, 10, &[]).unwrap();
    assert_eq!(series.series[0].weights, [7, 14, 14, 14, 14, 7]);
}

#[test]
fn otlp_receivers_get_what_waited_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    // An earlier agent has left it: there is no process to sample now.
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    spool.push(&batch_to_bytes(&batch(70)), 1).unwrap();
    drop(spool);
    let (url, received) = server(&["503 Service Unavailable", "200 OK"]);
    let spool = open_again(folder.path(), 1 << 20);
    let (writers, counters, _) = writers(Destination::otlp(client(&url), spool));
    let first = received.recv_timeout(LONG).unwrap().body;
    let second = received.recv_timeout(LONG).unwrap().body;
    assert_eq!(first, second);
    let decoded = nodespy_otlp::decode(&second, Some("gzip")).unwrap().batch;
    assert_eq!(
        decoded.windows.len(),
        0,
        "a window without counts is no sample"
    );
    wait_for("what was counted", || counters.written().windows == 1);
    writers.finish();
}

/// A disk of 256 KiB that is full for a while: the window waits in memory and is sent once there is room.
#[test]
fn a_full_disk_loses_nothing_while_it_is_short() {
    if let Ok(folder) = std::env::var(CHILD) {
        return write_to_full_disk(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let test = std::env::current_exe().unwrap();
    // A file system of its own, which only the child sees.
    let script = format!(
        "mount -t tmpfs -o size=256k tmpfs '{path}' || exit 77; \
         exec '{}' bad_days::a_full_disk_loses_nothing_while_it_is_short --exact --nocapture",
        test.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", &script]);
    let Ok(output) = command.env(CHILD, path).output() else {
        return eprintln!("skipped: there is no unshare");
    };
    let text = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {}
        _ if !text.contains("panicked") => eprintln!("skipped: no file system of our own: {text}"),
        code => panic!("{code:?}: {text}"),
    }
}

fn write_to_full_disk(folder: &Path) {
    let (url, received) = server(&["200 OK"]);
    let spool = Spool::open(folder, 1 << 20).unwrap();
    let (writers, counters, lines) = writers(Destination::server(client(&url), spool));
    let filler = folder.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[7; 4096]).is_ok() {}
    drop(file);
    writers.write(batch(10));
    wait_for("a write that fails", || counters.written().retries > 0);
    writers.write(batch(20));
    std::fs::remove_file(&filler).unwrap();
    for start in [10, 20] {
        let body = received.recv_timeout(LONG).unwrap().body;
        assert_eq!(batch_from_bytes(&body).unwrap().windows[0].start, start);
    }
    wait_for("what was counted", || counters.written().windows == 2);
    writers.finish();
    assert_eq!(counters.written().dropped, 0);
    let lines = lines.lock().unwrap().join("\n");
    assert!(
        lines.contains("windows not written, trying again"),
        "{lines}"
    );
    let left = std::fs::read_dir(folder).unwrap().count();
    assert_eq!(left, 1, "nothing but the lock is left");
}
