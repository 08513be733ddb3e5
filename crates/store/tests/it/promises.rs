//! What every engine promises. A new engine is a few lines at the end.

use std::collections::BTreeMap;

use nodespy_model::{ThreadRole, WeightUnit};
use nodespy_store::{
    Batch, Count, Detail, HOUR_SECONDS, Retention, Selection, StackHash, StackId, Store,
    StoreError, UnixSeconds, Upkeep, WINDOW_SECONDS, Window,
};

use crate::fleet::{START, batch, series, stacks, window};

/// An engine to test, empty; none where it can't be had.
pub(crate) type Make = fn(&std::path::Path) -> Option<Box<dyn Store>>;

/// Counts and weights of each group by the text of stacks: what has to be the same on every engine.
pub(crate) type Answer = BTreeMap<Vec<String>, BTreeMap<String, (u64, u64)>>;

pub(crate) fn answer(store: &dyn Store, selection: &Selection, by: &[&str]) -> Answer {
    let merged = store.merge(selection, by).unwrap();
    let groups = merged.groups.into_iter();
    groups
        .map(|group| {
            let ids: Vec<StackId> = group.stacks.iter().map(|stack| stack.stack).collect();
            let texts = texts(store, &ids);
            let sums = group.stacks.iter().map(|stack| (stack.count, stack.weight));
            (group.values, texts.into_iter().zip(sums).collect())
        })
        .collect()
}

fn texts(store: &dyn Store, ids: &[StackId]) -> Vec<String> {
    let symbols = store.stacks(ids).unwrap();
    assert_eq!(symbols.stacks.len(), ids.len());
    let text = |frame: &u32| {
        let frame = &symbols.frames[*frame as usize];
        let function = &symbols.functions[frame.function as usize];
        format!(
            "{function:?} {} {} {:?} {:?}",
            frame.line, frame.column, frame.tier, frame.kind
        )
    };
    let stacks = symbols.stacks.iter();
    stacks
        .map(|stack| stack.iter().map(text).collect::<Vec<_>>().join(";"))
        .collect()
}

fn all(service: &str) -> Selection {
    Selection::new(service, "cpu-clock", 0..UnixSeconds::MAX)
}

fn total(store: &dyn Store, selection: &Selection) -> u64 {
    let groups = answer(store, selection, &[]);
    groups.values().flatten().map(|(_, sums)| sums.0).sum()
}

fn counted(batch: &Batch, is_meant: impl Fn(&Window) -> bool) -> u64 {
    let windows = batch.windows.iter().filter(|window| is_meant(window));
    windows
        .flat_map(|window| &window.counts)
        .map(|count| count.count)
        .sum()
}

fn what_is_appended_is_merged_by_stack(store: &mut dyn Store) {
    let symbols = stacks(50, 1);
    let sent = batch(&symbols, 0..30);
    assert_eq!(store.append(&sent).unwrap().windows, 150);
    let in_shop = |window: &Window| window.series < 4;
    assert_eq!(total(store, &all("shop")), counted(&sent, in_shop));
    let of_13 = all("shop").with("pid", "13");
    assert_eq!(
        total(store, &of_13),
        counted(&sent, |window| window.series == 2)
    );
    let early = Selection::new("shop", "cpu-clock", START..START + 100);
    let is_early = |window: &Window| in_shop(window) && window.start < START + 100;
    assert_eq!(total(store, &early), counted(&sent, is_early));
    assert_eq!(total(store, &all("nothing")), 0);
    let merged = store.merge(&all("shop"), &[]).unwrap();
    assert_eq!(merged.unit, Some(WeightUnit::Nanoseconds));
}

fn weights_of_other_rates_are_comparable(store: &mut dyn Store) {
    let symbols = stacks(2, 1);
    let hash = symbols.hashes()[1];
    let counts = vec![Count::new(hash, ThreadRole::Main, 5)];
    let window = |series| Window {
        series,
        start: START,
        counts: counts.clone(),
    };
    let sent = Batch {
        series: vec![series("shop", "1", 1, 10), series("shop", "1", 2, 1000)],
        windows: vec![window(0), window(1)],
        symbols,
    };
    store.append(&sent).unwrap();
    let merged = store.merge(&all("shop"), &["pid"]).unwrap();
    let weights: Vec<(u64, u64)> = merged
        .groups
        .iter()
        .map(|group| (group.stacks[0].count, group.stacks[0].weight))
        .collect();
    assert_eq!(weights, [(5, 50), (5, 5000)]);
}

fn windows_that_are_sent_again_change_nothing(store: &mut dyn Store) {
    let symbols = stacks(50, 1);
    let sent = batch(&symbols, 0..400);
    store.append(&sent).unwrap();
    let before = answer(store, &all("shop"), &["pid"]);
    let again = store.append(&sent).unwrap();
    assert_eq!((again.windows, again.repeated), (0, 2000));
    assert_eq!(answer(store, &all("shop"), &["pid"]), before);
    // Also when their hour has become a block; a window without counts leaves no trace there.
    store.compact(START + HOUR_SECONDS).unwrap();
    let again = store.append(&sent).unwrap();
    let empty = sent
        .windows
        .iter()
        .filter(|window| window.counts.is_empty());
    assert!(again.windows <= empty.count() as u64, "{again:?}");
    assert_eq!(answer(store, &all("shop"), &["pid"]), before);
    store.compact(START + 2 * HOUR_SECONDS).unwrap();
    assert_eq!(answer(store, &all("shop"), &["pid"]), before);
}

fn what_is_added_is_in_the_window_that_is_there(store: &mut dyn Store) {
    let symbols = stacks(20, 1);
    let sent = batch(&symbols, 0..3);
    store.append(&sent).unwrap();
    let before = total(store, &all("shop"));
    let added = store.add(&sent).unwrap();
    assert_eq!(
        (added.windows, added.repeated),
        (sent.windows.len() as u64, 0)
    );
    assert_eq!(total(store, &all("shop")), 2 * before);
    // The first of its windows is there, the second is new.
    let more = batch(&symbols, 2..4);
    assert_eq!(store.add(&more).unwrap().windows, more.windows.len() as u64);
    let of_more = counted(&more, |window| more.series[window.series].service == "shop");
    assert_eq!(total(store, &all("shop")), 2 * before + of_more);
}

fn late_windows_join_their_hour(store: &mut dyn Store) {
    let symbols = stacks(50, 1);
    let mut early = batch(&symbols, 0..360);
    let late = early.windows.split_off(900);
    store.append(&early).unwrap();
    store.compact(START + HOUR_SECONDS).unwrap();
    let late = Batch {
        windows: late,
        ..early.clone()
    };
    assert_eq!(store.append(&late).unwrap().windows, 900);
    let in_shop = |window: &Window| window.series < 4;
    let expected = counted(&early, in_shop) + counted(&late, in_shop);
    for _ in 0..2 {
        assert_eq!(total(store, &all("shop")), expected);
        assert_eq!(total(store, &all("shop").with("host", "host-0")), {
            let is_there = |window: &Window| window.series == 1;
            counted(&early, is_there) + counted(&late, is_there)
        });
        store.compact(START + HOUR_SECONDS).unwrap();
    }
}

fn stacks_are_named_once(store: &mut dyn Store) {
    let symbols = stacks(50, 1);
    let hashes = symbols.hashes();
    assert_eq!(store.unknown_stacks(&hashes).unwrap(), hashes);
    let series = vec![series("shop", "1", 1, 1)];
    let sent = |symbols| Batch {
        series: series.clone(),
        windows: vec![window(0, 1, START, &hashes[..10])],
        symbols,
    };
    let refused = store.append(&sent(nodespy_store::Symbols::default()));
    assert!(
        matches!(refused, Err(StoreError::UnknownStacks(_))),
        "{refused:?}"
    );
    store.append(&sent(symbols.clone())).unwrap();
    // What no window counts is not stored, whoever names it.
    assert!(store.unknown_stacks(&hashes).unwrap().len() >= 40);
    let later = Batch {
        windows: vec![window(0, 1, START + WINDOW_SECONDS, &hashes[..1])],
        ..sent(nodespy_store::Symbols::default())
    };
    let is_known = store.unknown_stacks(&hashes[..1]).unwrap().is_empty();
    assert_eq!(
        store.append(&later).is_ok(),
        is_known || later.windows[0].counts.is_empty()
    );
}

fn a_batch_is_appended_whole_or_not_at_all(store: &mut dyn Store) {
    let symbols = stacks(50, 1);
    let mut sent = batch(&symbols, 0..5);
    let unknown = Count::new(StackHash([7; 16]), ThreadRole::Main, 1);
    sent.windows.last_mut().unwrap().counts.push(unknown);
    assert!(store.append(&sent).is_err());
    assert_eq!(total(store, &all("shop")), 0);
    sent.windows.last_mut().unwrap().counts.pop();
    assert_eq!(store.append(&sent).unwrap().windows, 25);
    assert_eq!(
        total(store, &all("shop")),
        counted(&sent, |window| window.series < 4)
    );
}

fn time_and_labels_are_listed(store: &mut dyn Store) {
    let symbols = stacks(50, 1);
    let sent = batch(&symbols, 0..720);
    store.append(&sent).unwrap();
    let selection = Selection::new("shop", "cpu-clock", START..START + 2 * HOUR_SECONDS);
    let before = store.series(&selection, 600, &["version"]).unwrap();
    let spans = store.labels(0..UnixSeconds::MAX).unwrap();
    store.compact(START + HOUR_SECONDS).unwrap();
    assert_eq!(store.series(&selection, 600, &["version"]).unwrap(), before);
    assert_eq!(
        store.labels(0..UnixSeconds::MAX).unwrap().len(),
        spans.len()
    );
    let values: Vec<&str> = before
        .series
        .iter()
        .map(|series| &*series.values[0])
        .collect();
    assert_eq!(values, ["1.0", "1.1"]);
    assert_eq!(before.series[0].weights.len(), 12);
    let weight: u64 = before.series[0].weights.iter().sum();
    assert_eq!(
        weight,
        counted(&sent, |window| window.series < 2) * 10_000_000
    );
    let shop = spans.iter().filter(|span| span.service == "shop");
    assert_eq!(shop.count(), 4);
    assert!(spans.iter().all(|span| span.first == START));
    assert!(
        spans
            .iter()
            .all(|span| span.last == START + 719 * WINDOW_SECONDS)
    );
    assert!(store.labels(0..START).unwrap().is_empty());
}

fn the_latest_hours_are_listed(store: &mut dyn Store) {
    assert!(store.newest_hours(UnixSeconds::MAX, 5).unwrap().is_empty());
    let mut sent = batch(&stacks(50, 1), 0..720);
    sent.windows
        .retain(|window| (window.start - START).is_multiple_of(600));
    store.append(&sent).unwrap();
    let later = batch(&stacks(50, 1), 9 * 360..9 * 360 + 5);
    store.append(&later).unwrap();
    let hour = |number| START + number * HOUR_SECONDS;
    for _ in 0..2 {
        let newest = |before, max| store.newest_hours(before, max).unwrap();
        assert_eq!(newest(UnixSeconds::MAX, 5), [hour(9), hour(1), hour(0)]);
        assert_eq!(newest(UnixSeconds::MAX, 2), [hour(9), hour(1)]);
        assert_eq!(newest(hour(9), 5), [hour(1), hour(0)]);
        assert!(newest(hour(0), 5).is_empty());
        store.compact(hour(5)).unwrap();
    }
}

fn the_oldest_windows_are_known(store: &mut dyn Store) {
    assert_eq!(store.oldest().unwrap(), None);
    let symbols = stacks(50, 1);
    store.append(&batch(&symbols, 6..720)).unwrap();
    assert_eq!(store.oldest().unwrap(), Some(START + 60));
    // Late, and of a series that is known.
    store.append(&batch(&symbols, 0..6)).unwrap();
    for _ in 0..2 {
        assert_eq!(store.oldest().unwrap(), Some(START));
        store.compact(START + 2 * HOUR_SECONDS).unwrap();
    }
    let next = START + HOUR_SECONDS;
    store.drop_before(Detail::Rollups, next).unwrap();
    assert_eq!(store.oldest().unwrap(), Some(next));
}

const DAY: u64 = 24 * HOUR_SECONDS;
/// How far ahead a clock is in these tests.
const AHEAD: u64 = 200 * DAY;
const KEPT: Retention = Retention {
    windows: 7 * DAY,
    hours: 30 * DAY,
    rollups: 100 * DAY,
    max_bytes: u64::MAX,
};

/// Windows of a minute in each of these hours since the start.
fn minutes(hours: std::ops::Range<u64>) -> Batch {
    let symbols = stacks(50, 1);
    let mut sent = batch(&symbols, 0..0);
    for hour in hours {
        sent.windows
            .extend(batch(&symbols, hour * 360..hour * 360 + 6).windows);
    }
    sent
}

fn a_clock_that_is_ahead_drops_nothing(store: &mut dyn Store) {
    // An empty store first.
    Upkeep::new(KEPT).run(store, START + AHEAD).unwrap();
    let sent = minutes(0..30);
    assert_eq!(store.append(&sent).unwrap().too_old, 0);
    Upkeep::new(KEPT)
        .run(store, START + 30 * HOUR_SECONDS)
        .unwrap();
    let before = answer(store, &all("shop"), &["pid"]);
    let first = Selection::new("shop", "cpu-clock", START..START + 30);
    let of_first = answer(store, &first, &["pid"]);
    // Started while the clock was ahead.
    Upkeep::new(KEPT).run(store, START + AHEAD).unwrap();
    assert_eq!(answer(store, &all("shop"), &["pid"]), before);
    assert_eq!(answer(store, &first, &["pid"]), of_first);
    // It writes by that clock for a few hours.
    let ahead = AHEAD / HOUR_SECONDS;
    for hour in ahead..ahead + 11 {
        store.append(&minutes(hour..hour + 1)).unwrap();
        let now = START + (hour + 1) * HOUR_SECONDS;
        Upkeep::new(KEPT).run(store, now).unwrap();
    }
    assert_eq!(answer(store, &first, &["pid"]), of_first);
    // Then the clock is right again, and what it saw is no older than before.
    let next = store.append(&minutes(30..32)).unwrap();
    assert_eq!((next.windows, next.too_old), (60, 0));
    Upkeep::new(KEPT)
        .run(store, START + 32 * HOUR_SECONDS)
        .unwrap();
    let until_then = Selection::new("shop", "cpu-clock", START..START + 40 * HOUR_SECONDS);
    let is_in_shop = |window: &Window| window.series < 4;
    assert_eq!(
        total(store, &until_then),
        counted(&minutes(0..32), is_in_shop)
    );
}

fn after_a_long_pause_what_is_old_goes_when_enough_windows_say_so(store: &mut dyn Store) {
    store.append(&minutes(0..30)).unwrap();
    let before = total(store, &all("shop"));
    let later = AHEAD / HOUR_SECONDS;
    let sent = minutes(later..later + 12);
    let of_shop = counted(&sent, |window| window.series < 4);
    store.append(&sent).unwrap();
    Upkeep::new(KEPT)
        .run(store, START + AHEAD + 11 * HOUR_SECONDS)
        .unwrap();
    assert_eq!(total(store, &all("shop")), before + of_shop);
    Upkeep::new(KEPT)
        .run(store, START + AHEAD + 12 * HOUR_SECONDS)
        .unwrap();
    assert_eq!(total(store, &all("shop")), of_shop);
}

fn a_clock_that_is_set_back_does_not_end_the_upkeep(store: &mut dyn Store) {
    let mut upkeep = Upkeep::new(KEPT);
    store.append(&minutes(0..2)).unwrap();
    assert!(upkeep.run(store, START + AHEAD).unwrap().is_some());
    let now = START + 3 * HOUR_SECONDS;
    assert!(upkeep.run(store, now).unwrap().is_some());
    assert!(upkeep.run(store, now + 10).unwrap().is_none());
    assert!(upkeep.run(store, now + 300).unwrap().is_some());
}

/// A module for an engine, with a test for each promise.
macro_rules! engine {
    ($engine:ident: $make:expr) => {
        engine! {
            $engine: $make;
            what_is_appended_is_merged_by_stack,
            weights_of_other_rates_are_comparable,
            windows_that_are_sent_again_change_nothing,
            what_is_added_is_in_the_window_that_is_there,
            late_windows_join_their_hour,
            stacks_are_named_once,
            a_batch_is_appended_whole_or_not_at_all,
            time_and_labels_are_listed,
            the_latest_hours_are_listed,
            the_oldest_windows_are_known,
            a_clock_that_is_ahead_drops_nothing,
            after_a_long_pause_what_is_old_goes_when_enough_windows_say_so,
            a_clock_that_is_set_back_does_not_end_the_upkeep,
        }
    };
    ($engine:ident: $make:expr; $($promise:ident),+ $(,)?) => {
        mod $engine {
            $(#[test]
            fn $promise() {
                let folder = tempfile::tempdir().unwrap();
                let make: crate::promises::Make = $make;
                if let Some(mut store) = make(&folder.path().join("store")) {
                    crate::promises::$promise(&mut *store);
                }
            })+
        }
    };
}

engine!(sqlite: |path| {
    let mode = nodespy_store::OpenMode::Write;
    Some(Box::new(nodespy_store::SqliteStore::open(path, mode).unwrap()))
});
engine!(plain: |_| Some(Box::<crate::plain::PlainStore>::default()));

/// In the slow tier: the engine has to be installed.
mod matrix {
    engine!(clickhouse: |_| Some(Box::new(crate::clickhouse::fresh()?)));
}
