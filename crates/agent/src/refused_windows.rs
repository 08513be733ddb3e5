//! What becomes of the other windows of a batch when one in it is refused: nothing.

use nodespy_capture::unix_now;
use nodespy_model::WeightUnit;
use nodespy_store::{
    Batch, OpenMode, Retention, Selection, Series, SqliteStore, Store, batch_from_bytes,
};

use crate::bad_days::batch;
use crate::destination::Destination;
use crate::spool::Spool;
use crate::test_receiver::{LONG, Received, client, receiver, wait_for, writers};

/// Seven requests of each of these services.
fn batch_of(services: &[&str], start: u64) -> Batch {
    let series = |service: &&str| Series {
        service: (*service).to_owned(),
        ..batch(0).series[0].clone()
    };
    let windows: Vec<_> = (0..services.len()).map(|it| (it, start, 7)).collect();
    Batch::counted(services.iter().map(series).collect(), &windows)
}

/// A name that is too long, and an event that has another unit than before.
#[test]
fn a_window_that_a_store_refuses_costs_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profiles.sqlite");
    let store = SqliteStore::open(&path, OpenMode::Write).unwrap();
    let store = Destination::store("here", Box::new(store), Retention::default());
    let (writers, counters, lines) = writers(store);
    let now = unix_now() / 1_000_000_000 / 10 * 10;
    writers.write(batch_of(&["mail"], now));
    let long = format!("x\u{1b}{}", "x".repeat(300));
    let mut mixed = batch_of(&["shop", &long, "mail", "web", "cart"], now + 10);
    mixed.series[2].unit = WeightUnit::Bytes;
    writers.write(mixed);
    writers.finish();
    let written = counters.written();
    assert_eq!((written.windows, written.dropped), (4, 2));
    let store = SqliteStore::open(&path, OpenMode::Read).unwrap();
    for service in ["shop", "web", "cart"] {
        let selection = Selection::new(service, "cpu", now..now + 20);
        let series = store.series(&selection, 10, &[]).unwrap();
        assert_eq!(series.series[0].weights, [0, 7], "{service}");
    }
    let mut lines = lines.lock().unwrap();
    lines.retain(|line| line.contains("windows dropped"));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].contains("windows=1 service=x\u{fffd}xxx"),
        "{lines:?}"
    );
    assert!(lines[1].contains("windows=1 service=mail"), "{lines:?}");
}

/// The services and what was answered, in the order of the requests.
fn services(received: &std::sync::mpsc::Receiver<Received>, requests: usize) -> Vec<String> {
    let next = |_| {
        let body = received.recv_timeout(LONG).unwrap().body;
        let series = batch_from_bytes(&body).unwrap().series;
        let services: Vec<String> = series.into_iter().map(|it| it.service).collect();
        services.join(" ")
    };
    (0..requests).map(next).collect()
}

#[test]
fn a_window_that_a_server_refuses_costs_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let refused = "422 Unprocessable Content";
    let answers = [
        refused,
        refused,
        "200 OK",
        // What is there by now is not sent again.
        "503 Service Unavailable",
        refused,
        "200 OK",
    ];
    let (url, received) = receiver(answers.map(|it| (it, b"too long".to_vec())).into());
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    let (writers, counters, lines) = writers(Destination::server(client(&url), spool));
    writers.write(batch_of(&["a", "b", "c", "d"], 10));
    writers.write(batch_of(&["a", "b"], 20));
    let sent = services(&received, 8);
    assert_eq!(sent, ["a b c d", "a b", "a", "b", "b", "c d", "a", "b"]);
    wait_for("what was counted", || {
        let written = counters.written();
        (written.windows, written.dropped, written.retries) == (5, 1, 1)
    });
    writers.finish();
    let lines = lines.lock().unwrap().join("\n");
    let said = "msg=\"windows refused\" windows=1 service=b why=\"422 too long\"";
    assert!(lines.contains(said), "{lines}");
}

/// Then its address may be that of something else: it is asked no more often than for some windows that are at fault.
#[test]
fn a_server_that_refuses_everything_is_not_asked_about_each_window() {
    let folder = tempfile::tempdir().unwrap();
    let (url, received) = receiver(vec![("400 Bad Request", Vec::new())]);
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    let (writers, counters, lines) = writers(Destination::server(client(&url), spool));
    let names: Vec<String> = (0..1000).map(|it| format!("service-{it}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    writers.write(batch_of(&names, 10));
    writers.write(batch_of(&names, 20));
    wait_for("what was counted", || counters.written().dropped == 2000);
    writers.finish();
    for _ in 0..257 {
        received.recv_timeout(LONG).unwrap();
    }
    // The next one is tried as a whole.
    assert_eq!(services(&received, 1), [names.join(" ")]);
    assert_eq!(received.try_iter().count(), 0);
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("windows=1000") && lines[0].contains("service-4 and others"));
}

/// As where a server has as many series as it takes, and then fewer.
#[test]
fn series_that_were_refused_lately_are_tried_apart_from_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let refused = "422 Unprocessable Content";
    let ok = "200 OK";
    let answers = [
        refused, ok, refused, refused, ok, refused, ok, refused, ok, ok, ok,
    ];
    let (url, received) = receiver(answers.map(|it| (it, Vec::new())).into());
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    let (writers, counters, _) = writers(Destination::server(client(&url), spool));
    for start in [10, 20, 30, 40, 50] {
        let services = match start {
            10 => ["a", "b"].as_slice(),
            20 => &["a", "c"],
            _ => &["a", "b", "c"],
        };
        writers.write(batch_of(services, start));
    }
    let sent = services(&received, 11);
    let expected = [
        "a b", "a", "b", "a c", "a", "c", "a", "b c", "a", "b c", "a b c",
    ];
    assert_eq!(sent, expected);
    wait_for("what was counted", || {
        let written = counters.written();
        (written.windows, written.dropped) == (9, 4)
    });
    writers.finish();
}
