//! What a sender may send within all limits, and what a store must not hold in memory at once.

use nodespy_model::{Labels, ThreadRole};
use nodespy_store::{
    Batch, Count, HOUR_SECONDS, OpenMode, Selection, Series, SqliteStore, Store, StoreError,
    WINDOW_SECONDS, Window,
};

use crate::fleet::{START, series, stacks};

/// As many counts as a window can have: each of so many stacks on every role.
fn full_window(symbols: &nodespy_store::Symbols, place: u64) -> Window {
    let roles = ThreadRole::ALL;
    let hashes = symbols.hashes();
    let counts = (0..1 << 16).map(|number: usize| {
        let role = roles[number % roles.len()];
        Count::new(hashes[number / roles.len()], role, 1)
    });
    Window {
        series: 0,
        start: START + place * WINDOW_SECONDS,
        counts: counts.collect(),
    }
}

/// All windows of all series of an hour were held at once, 24 bytes a count: 20 series could have 11 GB of them.
#[test]
fn an_hour_of_very_many_counts_becomes_several_blocks() {
    const WINDOWS: u64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut store = SqliteStore::open(&path, OpenMode::Write).unwrap();
    let stacks = stacks((1 << 16) / ThreadRole::ALL.len() as u64 + 1, 1);
    let sent = Batch {
        series: vec![series("shop", "1", 1, 10)],
        windows: (0..WINDOWS)
            .map(|place| full_window(&stacks, place))
            .collect(),
        symbols: stacks,
    };
    store.append(&sent).unwrap();
    let all = Selection::new("shop", "cpu-clock", START..START + HOUR_SECONDS);
    // The first block ends after 16 windows.
    let part = Selection {
        time: START + 150..START + 180,
        ..all.clone()
    };
    let answers = |store: &SqliteStore| {
        (
            store.merge(&all, &["version"]).unwrap(),
            store.merge(&all, &["pid"]).unwrap(),
            store.merge(&part, &["pid"]).unwrap(),
            store.series(&all, 10, &[]).unwrap(),
            store
                .series(&all.clone().on(ThreadRole::Main), 10, &[])
                .unwrap(),
        )
    };
    let before = answers(&store);
    store.compact(START + HOUR_SECONDS).unwrap();
    let blocks: i64 = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM hour", [], |row| row.get(0))
        .unwrap();
    assert_eq!(blocks, 2);
    assert!(answers(&store) == before);
    let again = store.append(&sent).unwrap();
    assert_eq!((again.windows, again.repeated), (0, WINDOWS));
    store.check().unwrap();
}

/// Windows of so many processes, whose labels have so many bytes.
fn processes(count: u64, label_bytes: usize, windows: u64) -> Batch {
    let stacks = stacks(2, 1);
    let hash = stacks.hashes()[1];
    let series = (0..count).map(|number| {
        let mut labels = Labels::default();
        labels.set("pid", number.to_string());
        labels.set("note", "x".repeat(label_bytes));
        Series {
            labels,
            ..series("shop", "1", 1, 10)
        }
    });
    let windows = (0..count as usize).flat_map(|series| {
        (0..windows).map(move |place| Window {
            series,
            start: START + place * WINDOW_SECONDS,
            counts: vec![Count::new(hash, ThreadRole::Main, 1)],
        })
    });
    Batch {
        series: series.collect(),
        windows: windows.collect(),
        symbols: stacks,
    }
}

#[test]
fn lines_are_refused_before_they_take_gigabytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
    store.append(&processes(200, 10, 1)).unwrap();
    let all = Selection::new("shop", "cpu-clock", START..START + 10 * 99_000);
    let refused = store.series(&all, 10, &["pid"]);
    assert!(
        matches!(refused, Err(StoreError::Refused(_))),
        "{refused:?}"
    );
    // One line, or fewer steps.
    assert_eq!(store.series(&all, 10, &[]).unwrap().series.len(), 1);
    assert_eq!(
        store.series(&all, 3600, &["pid"]).unwrap().series.len(),
        200
    );
    store.compact(START + HOUR_SECONDS).unwrap();
    assert!(store.series(&all, 10, &["pid"]).is_err());
    assert_eq!(
        store.series(&all, 3600, &["pid"]).unwrap().series.len(),
        200
    );
}
