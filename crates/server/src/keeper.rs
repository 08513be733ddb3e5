//! The thread that looks after one store: hours are made of windows, what is too old is dropped, while agents send and people ask.
//!
//! It writes through a connection of its own. SQLite has one writer at a time, so that a batch waits for the transaction that goes
//! on, an hour of one service at most, and never for all of them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nodespy_store::{
    Kept, OpenMode, OpenStore, Retention, StoreError, StoreLocation, UnixSeconds, Upkeep,
};

use crate::bell::{Bell, Woken};

/// How often it looks whether there is something to do.
const INTERVAL: Duration = Duration::from_secs(60);
/// How long it leaves a store alone that is too large and does not get smaller: the last day always stays.
const REST: Duration = Duration::from_secs(30);

/// What looks after a store.
#[derive(Debug)]
pub(crate) struct Keeper {
    keeping: Mutex<Keeping>,
    bell: Bell,
    counts: Mutex<KeeperCounts>,
}

#[derive(Debug)]
struct Keeping {
    store: OpenStore,
    upkeep: Upkeep,
}

/// What it has done.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct KeeperCounts {
    /// How often it compacted and dropped.
    pub(crate) turns: u64,
    /// How often that failed.
    pub(crate) failed: u64,
    /// How long the last turn took.
    pub(crate) last: Duration,
}

impl Keeper {
    /// Opens a store that is there.
    pub(crate) fn open(location: &StoreLocation, retention: Retention) -> Result<Self, StoreError> {
        Ok(Self {
            keeping: Mutex::new(Keeping {
                store: OpenStore::open(location, OpenMode::Write)?,
                upkeep: Upkeep::new(retention),
            }),
            bell: Bell::default(),
            counts: Mutex::default(),
        })
    }

    /// Looks after the store until [`Keeper::end`], and finishes what it is at then.
    pub(crate) fn run(&self, now: fn() -> UnixSeconds) {
        let mut hurried: Option<Instant> = None;
        loop {
            self.turn(now());
            match self.bell.wait(INTERVAL) {
                Woken::ToEnd => return,
                Woken::TimedOut => {}
                Woken::ToHurry => {
                    let rested = hurried.is_none_or(|last| last.elapsed() >= REST);
                    if rested {
                        hurried = Some(Instant::now());
                        lock(&self.keeping).upkeep.hurry();
                    }
                }
            }
        }
    }

    /// Compacts and drops at once: the store is too large.
    pub(crate) fn hurry(&self) {
        self.bell.hurry();
    }

    /// Ends the thread that runs it.
    pub(crate) fn end(&self) {
        self.bell.end();
    }

    pub(crate) fn counts(&self) -> KeeperCounts {
        *lock(&self.counts)
    }

    /// Does what is due.
    pub(crate) fn turn(&self, now: UnixSeconds) -> Option<Kept> {
        let started = Instant::now();
        let keeping = &mut *lock(&self.keeping);
        let kept = keeping.upkeep.run(&mut keeping.store, now);
        let mut counts = lock(&self.counts);
        match kept {
            Ok(None) => return None,
            Ok(Some(_)) => counts.turns += 1,
            Err(ref error) => {
                counts.failed += 1;
                log::error!("the store was not compacted: {error}");
            }
        }
        counts.last = started.elapsed();
        kept.ok().flatten()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::{Ingest, IngestLimits};
    use nodespy_model::{Labels, ThreadRole, WeightUnit};
    use nodespy_store::{
        Batch, Count, HOUR_SECONDS, Series, SqliteStore, Store, StoredFrame, StoredFunction,
        Symbols, WINDOW_SECONDS, Window, batch_to_bytes,
    };

    /// The end of an hour.
    const NOW: UnixSeconds = 500_000 * HOUR_SECONDS;
    const SERVICES: usize = 20;

    /// Windows of every service in ten seconds, of as many processes each.
    fn windows(start: UnixSeconds, processes: usize) -> Batch {
        let functions = 0..40;
        let symbols = Symbols {
            functions: functions
                .clone()
                .map(|number| StoredFunction {
                    name: format!("function{number}"),
                    ..StoredFunction::default()
                })
                .collect(),
            frames: functions
                .map(|function| StoredFrame {
                    function,
                    ..StoredFrame::default()
                })
                .collect(),
            stacks: (0..40).map(|frame| vec![frame]).collect(),
        };
        let hashes = symbols.hashes();
        let counts: Vec<Count> = hashes
            .iter()
            .map(|hash| Count::new(*hash, ThreadRole::Main, 3))
            .collect();
        let series: Vec<Series> = (0..SERVICES * processes)
            .map(|number| {
                let mut labels = Labels::default();
                labels.set("instance", format!("web/{}", number / SERVICES));
                Series {
                    service: format!("service{}", number % SERVICES),
                    event: "cpu".to_owned(),
                    unit: WeightUnit::Nanoseconds,
                    period: 1,
                    labels,
                }
            })
            .collect();
        let windows = (0..series.len()).map(|series| Window {
            series,
            start,
            counts: counts.clone(),
        });
        Batch {
            windows: windows.collect(),
            series,
            symbols,
        }
    }

    fn limits(max_bytes: u64) -> IngestLimits {
        IngestLimits {
            retention: Retention {
                max_bytes,
                ..Retention::default()
            },
            max_series: 10_000,
        }
    }

    fn take(ingest: &Ingest, batch: &Batch) -> &'static str {
        ingest.take_windows(&batch_to_bytes(batch), NOW).status
    }

    #[test]
    fn a_request_does_not_compact_and_is_answered_while_the_keeper_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let ingest = Ingest::open(&path, &limits(1 << 40)).unwrap();
        let hour = NOW - HOUR_SECONDS;
        for start in (hour..NOW).step_by(60) {
            assert_eq!(take(&ingest, &windows(start, 4)), "200 OK");
        }
        let reader = SqliteStore::open(&path, OpenMode::Read).unwrap();
        let total = |store: &SqliteStore| {
            let spans = store.labels(0..u64::MAX).unwrap();
            let last = spans.iter().map(|span| span.last).max();
            (spans.len(), last)
        };
        assert_eq!(ingest.counts().keeper.turns, 0);
        std::thread::scope(|scope| {
            let keeper = ingest.keeper();
            scope.spawn(|| keeper.run(|| NOW + 200));
            // Until the first turn is over, batches are stored beside it.
            let mut start = NOW;
            while keeper.counts().turns == 0 && start < NOW + HOUR_SECONDS {
                assert_eq!(take(&ingest, &windows(start, 1)), "200 OK");
                start += WINDOW_SECONDS;
            }
            assert_eq!(total(&reader).0, 4 * SERVICES);
            keeper.end();
        });
        assert_eq!(ingest.counts().keeper.turns, 1);
        // What is in an hour is known there: sent again, it changes nothing.
        let before = ingest.counts().appended;
        assert_eq!(take(&ingest, &windows(hour, 4)), "200 OK");
        let after = ingest.counts().appended;
        assert_eq!(after.windows, before.windows);
        assert_eq!(after.repeated, before.repeated + 4 * SERVICES as u64);
    }

    #[test]
    fn a_store_that_is_too_large_refuses_until_the_keeper_has_dropped_something() {
        let folder = tempfile::tempdir().unwrap();
        let ingest = Ingest::open(&folder.path().join("store"), &limits(400_000)).unwrap();
        let days = 24 * HOUR_SECONDS;
        let mut start = NOW - 10 * days;
        while take(&ingest, &windows(start, 8)) == "200 OK" {
            start += WINDOW_SECONDS;
            assert!(start < NOW - 8 * days, "it never got full");
        }
        assert_eq!(take(&ingest, &windows(NOW, 1)), "507 Insufficient Storage");
        // It was told to hurry.
        assert_eq!(ingest.keeper().bell.wait(Duration::ZERO), Woken::ToHurry);
        let kept = ingest.keeper().turn(NOW).unwrap();
        assert!(kept.bytes < 400_000, "{kept:?}");
        assert_eq!(take(&ingest, &windows(NOW, 1)), "200 OK");
    }
}
