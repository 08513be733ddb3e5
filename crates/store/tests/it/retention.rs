//! What is old goes, gives its space back, and its names with it.

use nodespy_store::{
    Batch, Detail, HOUR_SECONDS, OpenMode, Retention, Selection, SqliteStore, Store, WINDOW_SECONDS,
};

use crate::fleet::{START, batch, series, stacks, window};

const HOURS: u64 = 12;

/// Half a day of two services, whose stacks are others each hour.
fn filled(store: &mut SqliteStore) {
    for hour in 0..HOURS {
        let symbols = stacks(500, hour);
        store
            .append(&batch(&symbols, hour * 360..(hour + 1) * 360))
            .unwrap();
        store.compact(START + (hour + 1) * HOUR_SECONDS).unwrap();
    }
}

fn asked() -> Selection {
    Selection::new("shop", "cpu-clock", START..START + HOURS * HOUR_SECONDS)
}

fn weight(store: &SqliteStore, by: &[&str]) -> u64 {
    let merged = store.merge(&asked(), by).unwrap();
    let stacks = merged.groups.iter().flat_map(|group| &group.stacks);
    stacks.map(|stack| stack.weight).sum()
}

#[test]
fn each_detail_goes_by_itself_and_gives_its_space_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
    filled(&mut store);
    // Nothing is that old; the WAL is folded into the file.
    store.drop_before(Detail::Rollups, START).unwrap();
    let (everything, bytes) = (weight(&store, &[]), store.bytes().unwrap());
    let half = START + HOURS / 2 * HOUR_SECONDS;
    store.drop_before(Detail::Windows, half).unwrap();
    let without_windows = store.bytes().unwrap();
    assert!(
        without_windows < bytes * 85 / 100,
        "{bytes} → {without_windows}"
    );
    assert_eq!(weight(&store, &["pid"]), everything);
    store.drop_before(Detail::Hours, half).unwrap();
    let without_hours = store.bytes().unwrap();
    assert!(
        without_hours < without_windows,
        "{without_windows} → {without_hours}"
    );
    assert_eq!(weight(&store, &["version"]), everything);
    let by_pid = store.merge(&asked(), &["pid"]).unwrap();
    assert_eq!(by_pid.missing_hours, HOURS / 2);
    store.drop_before(Detail::Rollups, half).unwrap();
    let rest = store.bytes().unwrap();
    assert!(rest < bytes * 75 / 100, "{bytes} → {rest}");
    assert_eq!(weight(&store, &[]), weight(&store, &["pid"]));
    assert!(weight(&store, &[]) < everything * 6 / 10);
    store.check().unwrap();
}

#[test]
fn names_go_with_the_last_count() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
    filled(&mut store);
    store
        .drop_before(Detail::Rollups, START + 11 * HOUR_SECONDS)
        .unwrap();
    let gone = stacks(500, 3).hashes();
    let kept = stacks(500, 11).hashes();
    // Few of them are alike by chance: those of one or two frames.
    assert!(store.unknown_stacks(&gone).unwrap().len() > 400);
    assert!(store.unknown_stacks(&kept).unwrap().len() < 100);
    // And come back with the next one.
    let again = Batch {
        series: vec![series("shop", "2", 1, 1)],
        windows: vec![window(0, 1, START + HOURS * HOUR_SECONDS, &gone)],
        symbols: stacks(500, 3),
    };
    store.append(&again).unwrap();
    let merged = store
        .merge(&Selection::new("shop", "cpu-clock", 0..u64::MAX), &[])
        .unwrap();
    let ids: Vec<_> = merged.groups[0]
        .stacks
        .iter()
        .map(|stack| stack.stack)
        .collect();
    store.stacks(&ids).unwrap();
    store.check().unwrap();
}

#[test]
fn windows_from_before_what_was_dropped_are_not_counted_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
    filled(&mut store);
    let everything = weight(&store, &["version"]);
    store
        .drop_before(Detail::Hours, START + 2 * HOUR_SECONDS)
        .unwrap();
    let again = store.append(&batch(&stacks(500, 0), 0..360)).unwrap();
    assert_eq!((again.windows, again.too_old), (0, 1800));
    assert_eq!(weight(&store, &["version"]), everything);
}

#[test]
fn age_and_size_bound_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
    let day = 24 * HOUR_SECONDS;
    for number in 0..20 {
        let symbols = stacks(300, number);
        let hashes = symbols.hashes();
        let sent = Batch {
            series: vec![series("shop", "1", 1, 10)],
            windows: (0..100)
                .map(|place| {
                    window(
                        0,
                        place,
                        START + number * day + place * WINDOW_SECONDS,
                        &hashes,
                    )
                })
                .collect(),
            symbols,
        };
        store.append(&sent).unwrap();
    }
    let now = START + 20 * day;
    let by_age = Retention {
        windows: 2 * day,
        hours: 5 * day,
        rollups: 15 * day,
        ..Retention::default()
    };
    let kept = by_age.apply(&mut store, now).unwrap();
    assert_eq!(kept.since, START + 5 * day);
    let weights = |store: &SqliteStore| {
        let asked = Selection::new("shop", "cpu-clock", START..now);
        let days = store.series(&asked, day, &[]).unwrap();
        // Days of UTC; each has its windows in one of them.
        let days = days.series[0].weights.iter();
        days.map(|weight| *weight > 0).collect::<Vec<bool>>()
    };
    let days = weights(&store);
    assert_eq!(
        days.iter().filter(|has_weight| **has_weight).count(),
        15,
        "{days:?}"
    );
    let by_size = Retention {
        max_bytes: kept.bytes / 2,
        ..by_age
    };
    let smaller = by_size.apply(&mut store, now).unwrap();
    assert!(smaller.bytes <= kept.bytes / 2, "{kept:?} → {smaller:?}");
    assert!(smaller.since > kept.since && smaller.since <= now - day);
}

/// Stacks that nothing counts any more come back while they are being swept.
#[test]
fn names_stay_with_what_is_appended_beside_a_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let open = || SqliteStore::open(&path, OpenMode::Write).unwrap();
    let day = 24 * HOUR_SECONDS;
    let sets: Vec<_> = (0..3).map(|seed| stacks(400, seed)).collect();
    let sent = |number: u64, place: u64| {
        let symbols = sets[(number % 3) as usize].clone();
        let start = START + number * day + place * WINDOW_SECONDS;
        Batch {
            series: vec![series("shop", "1", 1, 10)],
            windows: vec![window(0, place, start, &symbols.hashes())],
            symbols,
        }
    };
    let days = 20;
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut writer = open();
            for number in 0..days {
                for place in 0..40 {
                    writer.append(&sent(number, place)).unwrap();
                }
            }
        });
        let mut keeper = open();
        let mut cut = START;
        while cut < START + (days - 2) * day {
            let is_written = writing.is_finished();
            let newest = keeper.newest_hours(u64::MAX, 1).unwrap();
            let until = newest.first().map_or(START, |hour| hour - HOUR_SECONDS);
            keeper.compact(until).unwrap();
            if until > cut + day {
                cut += day;
                keeper.drop_before(Detail::Rollups, cut).unwrap();
                continue;
            }
            assert!(!is_written, "the writer ended too early, at {until}");
        }
    });
    let store = open();
    let everything = Selection::new("shop", "cpu-clock", 0..u64::MAX);
    let merged = store.merge(&everything, &[]).unwrap();
    let stacks = merged.groups[0].stacks.iter();
    let ids: Vec<_> = stacks.map(|stack| stack.stack).collect();
    assert_eq!(store.stacks(&ids).unwrap().stacks.len(), ids.len());
    store.check().unwrap();
}

/// Also where windows come when the times of their hour have been dropped.
#[test]
fn times_that_were_dropped_do_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
    let sent = batch(&stacks(50, 1), 0..720);
    store.append(&sent).unwrap();
    let part = |hour| {
        let start = START + hour * HOUR_SECONDS + 600;
        Selection::new("shop", "cpu-clock", start..start + 600)
    };
    let is_widened =
        |store: &SqliteStore, hour| store.merge(&part(hour), &["pid"]).unwrap().is_widened;
    store
        .drop_before(Detail::Windows, START + HOUR_SECONDS)
        .unwrap();
    store.compact(START + 2 * HOUR_SECONDS).unwrap();
    assert!(is_widened(&store, 0) && !is_widened(&store, 1));
    let late = Batch {
        series: vec![series("late", "1", 1, 10)],
        ..sent
    };
    let late = Batch {
        windows: late
            .windows
            .into_iter()
            .filter(|it| it.series == 0)
            .collect(),
        ..late
    };
    store.append(&late).unwrap();
    store.compact(START + 2 * HOUR_SECONDS).unwrap();
    let start = START + 600;
    let of_late = Selection::new("late", "cpu-clock", start..start + 600);
    assert!(store.merge(&of_late, &["pid"]).unwrap().is_widened);
    store
        .drop_before(Detail::Windows, START + 2 * HOUR_SECONDS)
        .unwrap();
    assert!(is_widened(&store, 0) && is_widened(&store, 1));
}
