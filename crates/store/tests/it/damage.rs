//! Files that are not stores, or not any more.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use nodespy_store::{
    Batch, Count, OpenMode, Selection, SqliteStore, StackHash, Store, StoreError, Symbols, Window,
};

use crate::fleet::{Random, START, batch, series, stacks};

fn filled(path: &std::path::Path) -> Batch {
    let mut store = SqliteStore::open(path, OpenMode::Write).unwrap();
    let sent = batch(&stacks(300, 3), 0..720);
    store.append(&sent).unwrap();
    store.compact(START + 3600).unwrap();
    // Folds the WAL into the file.
    store
        .drop_before(nodespy_store::Detail::Rollups, START)
        .unwrap();
    sent
}

#[test]
fn other_files_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(
        &text,
        "not a database, but longer than the header of one would be. ".repeat(40),
    )
    .unwrap();
    for mode in [OpenMode::Write, OpenMode::Read] {
        let refused = SqliteStore::open(&text, mode).unwrap_err();
        assert!(matches!(refused, StoreError::NotAStore(_)), "{refused:?}");
        assert!(
            refused.to_string().contains("text is not a store"),
            "{refused}"
        );
    }
    let missing = SqliteStore::open(&folder.path().join("missing"), OpenMode::Read);
    assert!(missing.is_err());
    assert!(!folder.path().join("missing").exists());
    let nowhere = SqliteStore::open(&folder.path().join("no/folder"), OpenMode::Write);
    assert!(
        matches!(nowhere, Err(StoreError::Create { .. })),
        "{nowhere:?}"
    );
}

#[test]
fn only_its_owner_can_read_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = SqliteStore::open(&path, OpenMode::Write).unwrap();
    for name in ["store", "store-wal", "store-shm"] {
        let file = fs::metadata(folder.path().join(name)).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600, "{name}");
        assert_eq!(file.nlink(), 1);
    }
    drop(store);
}

#[test]
fn a_reader_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let sent = filled(&path);
    let mut reader = SqliteStore::open(&path, OpenMode::Read).unwrap();
    assert!(matches!(reader.append(&sent), Err(StoreError::ReadOnly)));
    assert!(matches!(
        reader.compact(u64::MAX),
        Err(StoreError::ReadOnly)
    ));
    let asked = Selection::new("shop", "cpu-clock", 0..u64::MAX);
    assert!(!reader.merge(&asked, &[]).unwrap().groups.is_empty());
}

#[test]
fn two_writers_do_not_disturb_one_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let symbols = stacks(300, 3);
    let open = || SqliteStore::open(&path, OpenMode::Write).unwrap();
    let (mut first, mut second) = (open(), open());
    for turn in 0..6 {
        let sent = batch(&symbols, turn * 100..turn * 100 + 150);
        first.append(&sent).unwrap();
        assert_eq!(second.append(&sent).unwrap().windows, 0, "turn {turn}");
        // What one drops and sweeps, the other must not believe to be there.
        first
            .drop_before(nodespy_store::Detail::Rollups, START + turn * 1000)
            .unwrap();
    }
    let asked = Selection::new("shop", "cpu-clock", 0..u64::MAX);
    let merged = second.merge(&asked, &[]).unwrap();
    let ids: Vec<_> = merged.groups[0]
        .stacks
        .iter()
        .map(|stack| stack.stack)
        .collect();
    assert_eq!(second.stacks(&ids).unwrap().stacks.len(), ids.len());
    second.check().unwrap();
}

#[test]
fn damaged_bytes_are_an_error_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    filled(&path);
    let whole = fs::read(&path).unwrap();
    let mut random = Random(4);
    for round in 0..150 {
        let damaged = folder.path().join(format!("damaged-{round}"));
        let mut bytes = whole.clone();
        // The header stays, or nothing but that would be tested.
        for _ in 0..=random.below(40) {
            let place = 100 + random.below(bytes.len() as u64 - 100) as usize;
            bytes[place] = random.next() as u8;
        }
        if random.below(4) == 0 {
            bytes.truncate(100 + random.below(whole.len() as u64 - 100) as usize);
        }
        fs::write(&damaged, bytes).unwrap();
        if let Ok(mut store) = SqliteStore::open(&damaged, OpenMode::Write) {
            let asked = Selection::new("shop", "cpu-clock", START + 10..START + 5000);
            for by in [&[][..], &["pid"]] {
                if let Ok(merged) = store.merge(&asked, by) {
                    for group in merged.groups {
                        let ids: Vec<_> = group.stacks.iter().map(|stack| stack.stack).collect();
                        let _ = store.stacks(&ids);
                    }
                }
                let _ = store.series(&asked, 10, by);
            }
            let _ = store.labels(0..u64::MAX);
            let _ = store.append(&batch(&stacks(20, 8), 0..10));
            let _ = store.compact(START + 8000);
            let _ = store.drop_before(nodespy_store::Detail::Rollups, START + 3600);
        }
        fs::remove_file(&damaged).unwrap();
    }
}

#[test]
fn batches_that_break_a_rule_are_refused_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
    let symbols = stacks(3, 1);
    let good = Batch {
        series: vec![series("shop", "1", 1, 10)],
        windows: vec![Window {
            series: 0,
            start: START,
            counts: vec![Count::new(
                symbols.hashes()[1],
                nodespy_model::ThreadRole::Main,
                1,
            )],
        }],
        symbols,
    };
    let broken: [fn(&mut Batch); 9] = [
        |batch| batch.series[0].service.clear(),
        |batch| batch.series[0].event = "e".repeat(300),
        |batch| batch.series[0].period = 0,
        |batch| batch.windows[0].series = 1,
        |batch| batch.windows[0].start += 1,
        |batch| batch.windows[0].start = 1 << 40,
        |batch| batch.symbols.stacks.push(vec![u32::MAX]),
        |batch| batch.symbols.stacks.push(vec![0; 5000]),
        |batch| batch.symbols.functions[0].name = "n".repeat(10_000),
    ];
    for (number, break_it) in broken.into_iter().enumerate() {
        let mut batch = good.clone();
        break_it(&mut batch);
        let refused = store.append(&batch);
        assert!(
            matches!(refused, Err(StoreError::Refused(_))),
            "{number}: {refused:?}"
        );
    }
    let mut other_unit = good.clone();
    store.append(&good).unwrap();
    other_unit.series[0].unit = nodespy_model::WeightUnit::Bytes;
    let refused = store.append(&other_unit).unwrap_err().to_string();
    assert_eq!(refused, "cpu-clock of shop is measured in ns, not in bytes");
    let huge = Count::new(
        StackHash::default(),
        nodespy_model::ThreadRole::Main,
        u64::MAX,
    );
    let mut endless = good.clone();
    endless.symbols = Symbols {
        stacks: vec![Vec::new()],
        ..Symbols::default()
    };
    endless.windows[0].start += 10;
    endless.windows[0].counts = vec![huge, huge];
    assert!(matches!(
        store.append(&endless),
        Err(StoreError::Refused(_))
    ));
}
