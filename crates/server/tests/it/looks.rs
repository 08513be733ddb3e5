//! What a webhook is told, which looks every few minutes for hours: as often as chance has a try.

use nodespy_server::query::{RegressionOptions, keep_lasting, regressions};
use nodespy_store::{OpenMode, SqliteStore, Store};

use crate::fleet::{DEPLOYED, END, Fleet, START};
use crate::regressions::{fleet, replaced_slowly};

const EVERY: u64 = 300;

/// What looks at a fleet have found.
#[derive(Debug, Default)]
struct Seen {
    looks: u64,
    /// Looks that found anything.
    found: u64,
    /// After how many seconds the first of them found what was there ten minutes before.
    after: Option<u64>,
}

/// Looks at a fleet from its deployment on, each time at what has been stored until then.
fn seen(fleet: &Fleet) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
    let mut batch = fleet.batch();
    let mut left = std::mem::take(&mut batch.windows);
    let options = RegressionOptions::default();
    let mut seen = Seen::default();
    let mut now = DEPLOYED;
    while now < fleet.end {
        now += EVERY;
        let (come, later) = left
            .into_iter()
            .partition(|window| window.start + 60 <= now);
        left = later;
        batch.windows = come;
        store.append(&batch).unwrap();
        seen.looks += 1;
        let mut found = regressions(&store, None, START..now, &options).unwrap();
        if found.iter().all(|it| it.slower.is_empty()) {
            continue;
        }
        seen.found += 1;
        let before = RegressionOptions {
            until: now - options.min_length,
            ..options.clone()
        };
        let earlier = regressions(&store, None, START..now, &before).unwrap();
        keep_lasting(&mut found, &earlier);
        if found.iter().any(|it| !it.slower.is_empty()) {
            seen.after.get_or_insert(now - DEPLOYED);
        }
    }
    seen
}

/// A fleet whose versions run beside one another for an hour and a half, as canaries do. Of each instance the mix is another by a
/// tenth every half hour, so that a look is not the one before once more.
fn beside(instances: usize, effect: f64, seed: u64) -> Fleet {
    Fleet {
        wander: 0.1,
        ..fleet(instances, effect, seed)
    }
}

#[test]
fn quiet_fleets_that_are_looked_at_for_long_raise_at_most_one_in_twenty() {
    let (mut found, mut raised, mut fleets) = (0, 0, 0);
    for (instances, count) in [(3, 20), (5, 20), (12, 10)] {
        for seed in 0..count {
            let seen = seen(&beside(instances, 1.0, 3000 + seed));
            assert_eq!(seen.looks, (END - DEPLOYED) / EVERY);
            found += u64::from(seen.found > 0);
            raised += u64::from(seen.after.is_some());
            fleets += 1;
        }
    }
    eprintln!(
        "of {fleets} quiet fleets a look found something in {found}, and two looks in {raised}"
    );
    assert!(raised * 20 <= fleets, "{raised} of {fleets}");
}

/// What is there stays, and is raised ten minutes after it was first found.
#[test]
fn a_quarter_more_is_raised_soon() {
    let after: Vec<Option<u64>> = (0..5)
        .map(|seed| seen(&beside(12, 1.25, 5000 + seed)).after)
        .collect();
    eprintln!("a quarter more is raised after so many seconds: {after:?}");
    assert!(after.iter().flatten().count() >= 4, "{after:?}");
}

/// What drifts is in every look, so that it lasts, and two looks are no help.
#[test]
fn a_slow_replacement_that_is_looked_at_for_long_raises_at_most_one_in_twenty() {
    const FLEETS: u64 = 20;
    let raised = (0..FLEETS)
        .filter(|seed| seen(&replaced_slowly(4000 + seed)).after.is_some())
        .count() as u64;
    eprintln!(
        "replaced one by one and looked at for long: of {FLEETS} quiet fleets {raised} raise something"
    );
    assert!(raised * 20 <= FLEETS, "{raised} of {FLEETS}");
}
