//! What is sent to a store: windows of agents, one batch at a time, within limits that have clear answers.
//!
//! A batch is in the store when this answers with success; sent again, it changes nothing. Stacks that are counted but neither
//! known nor named are answered with their hashes, and the sender sends the same windows with those names. Compacting is not part
//! of a request: a [`Keeper`] does it meanwhile.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nodespy_http::Answer;
use nodespy_model::{FastMap, FastSet};
use nodespy_store::{
    Appended, Batch, HOUR_SECONDS, MAX_LABEL_BYTES, OpenMode, OpenStore, Retention, Series,
    StackHash, Store, StoreError, StoreLocation, UnixSeconds, batch_from_bytes, hashes_to_bytes,
    label_bytes,
};
use sha2::{Digest, Sha256};

use crate::keeper::{Keeper, KeeperCounts};
use crate::turns::Turns;

/// The largest body of a request.
pub(crate) const MAX_BODY_BYTES: u64 = 8 << 20;
/// How far the clock of a sender may be ahead.
const MAX_AHEAD_SECONDS: u64 = HOUR_SECONDS;

/// How many bodies are unpacked at once: each takes memory, and none waits for a single slow one.
const UNPACKED_AT_ONCE: usize = 4;

/// How many profiles are remembered, so that one that is sent again is not stored again.
const MAX_RECENT: usize = 4096;

/// What limits senders.
#[derive(Debug, Clone, Copy)]
pub struct IngestLimits {
    /// How long what is kept, and how large the store may become.
    pub retention: Retention,
    /// How many series (processes and events) there may be in an hour.
    pub max_series: usize,
}

/// A store that takes what is sent.
#[derive(Debug)]
pub struct Ingest {
    taking: Mutex<Taking>,
    /// Apart: who stores does not wait for what is still being unpacked.
    unpacking: Turns,
    keeper: Keeper,
    /// Apart: who asks for figures does not wait for a batch that is being stored.
    counts: Mutex<IngestCounts>,
}

#[derive(Debug)]
struct Taking {
    store: OpenStore,
    max_bytes: u64,
    max_series: usize,
    /// When each series was last seen.
    series: FastMap<SeriesHash, UnixSeconds>,
    /// Profiles that were taken lately, the oldest first.
    recent: VecDeque<u64>,
}

/// What became of what was sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IngestCounts {
    pub(crate) appended: Appended,
    pub(crate) refused: u64,
    /// Labels that processes had too many of.
    pub(crate) labels_left_out: u64,
    pub(crate) keeper: KeeperCounts,
}

/// Why a batch was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{0}")]
    Unreadable(String),
    #[error(
        "more than {0} series (processes and events) within an hour: nodespy serve --max-series allows more"
    )]
    TooManySeries(usize),
    #[error(
        "the labels of a process have {0} bytes, and {MAX_LABEL_BYTES} are taken: give it shorter or fewer ones"
    )]
    LongLabels(usize),
    #[error("a window is more than an hour ahead: is the clock of the sender right?")]
    Ahead {
        /// In how many seconds it is not.
        wait: UnixSeconds,
    },
    #[error("the store is full: nodespy serve --max-size allows more")]
    Full,
    #[error("names of stacks are missing")]
    Unnamed(Vec<StackHash>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Ingest {
    /// Opens a store for writing; makes a file where there is none.
    pub fn open(
        location: impl Into<StoreLocation>,
        limits: &IngestLimits,
    ) -> Result<Self, StoreError> {
        let location = location.into();
        let taking = Taking {
            store: OpenStore::open(&location, OpenMode::Write)?,
            max_bytes: limits.retention.max_bytes,
            max_series: limits.max_series,
            series: FastMap::default(),
            recent: VecDeque::new(),
        };
        Ok(Self {
            taking: Mutex::new(taking),
            unpacking: Turns::of(UNPACKED_AT_ONCE),
            keeper: Keeper::open(&location, limits.retention)?,
            counts: Mutex::default(),
        })
    }

    /// What looks after the store, for a thread that does nothing else.
    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Takes the windows of an agent, as they are sent.
    pub(crate) fn take_windows(&self, body: &[u8], now: UnixSeconds) -> Answer {
        self.take(now, || {
            batch_from_bytes(body).map_err(|error| Refusal::Unreadable(error.to_string()))
        })
    }

    /// Takes a profile whose sender does not care for windows: two of one process may begin within the same ten seconds.
    pub(crate) fn take_profile(
        &self,
        now: UnixSeconds,
        id: u64,
        batch: impl FnOnce() -> Result<Batch, Refusal>,
    ) -> Answer {
        let checked = || batch().and_then(Checked::of);
        self.answer(checked, |taking, batch| {
            taking.append_profile(batch, id, now)
        })
    }

    /// The same for many at once. They are read before any is stored; each that is stored is known if all are sent again.
    pub(crate) fn take_profiles(
        &self,
        now: UnixSeconds,
        batches: impl FnOnce() -> Result<Vec<(u64, Batch)>, Refusal>,
    ) -> Answer {
        let checked = || {
            let batches = batches()?.into_iter();
            batches
                .map(|(id, batch)| Ok((id, Checked::of(batch)?)))
                .collect::<Result<Vec<_>, Refusal>>()
        };
        self.answer(checked, |taking, batches| {
            let mut all = Appended::default();
            for (id, batch) in batches {
                let appended = taking.append_profile(batch, *id, now)?;
                all.windows += appended.windows;
                all.repeated += appended.repeated;
                all.too_old += appended.too_old;
            }
            Ok(all)
        })
    }

    /// Takes a batch.
    fn take(&self, now: UnixSeconds, batch: impl FnOnce() -> Result<Batch, Refusal>) -> Answer {
        let checked = || batch().and_then(Checked::of);
        self.answer(checked, |taking, batch| {
            taking.append(batch, now, OpenStore::append)
        })
    }

    /// Unpacks and checks what was sent when it is its turn, so that only some is in memory at once, and then stores it.
    fn answer<Unpacked>(
        &self,
        unpack: impl FnOnce() -> Result<Unpacked, Refusal>,
        append: impl FnOnce(&mut Taking, &Unpacked) -> Result<Appended, Refusal>,
    ) -> Answer {
        let turn = self.unpacking.wait();
        let appended = unpack().and_then(|unpacked| append(&mut lock(&self.taking), &unpacked));
        drop(turn);
        let counts = &mut *lock(&self.counts);
        match appended {
            Ok(appended) => {
                counts.appended.windows += appended.windows;
                counts.appended.repeated += appended.repeated;
                counts.appended.too_old += appended.too_old;
                let text = format!(
                    "windows={} repeated={} too_old={}",
                    appended.windows, appended.repeated, appended.too_old
                );
                Answer::text("200 OK", &text)
            }
            Err(Refusal::Unnamed(hashes)) => Answer {
                status: "409 Conflict",
                ..Answer::ok("application/x-nodespy-stacks", hashes_to_bytes(&hashes))
            },
            Err(refusal) => {
                if matches!(refusal, Refusal::Full) {
                    self.keeper.hurry();
                }
                counts.refused += 1;
                answer(&refusal)
            }
        }
    }

    /// So many labels were left out of what was sent.
    pub(crate) fn count_left_out(&self, labels: u64) {
        lock(&self.counts).labels_left_out += labels;
    }

    pub(crate) fn counts(&self) -> IngestCounts {
        let counts = *lock(&self.counts);
        IngestCounts {
            keeper: self.keeper.counts(),
            ..counts
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(refusal: &Refusal) -> Answer {
    let status = match refusal {
        Refusal::Unreadable(_) => "400 Bad Request",
        Refusal::TooManySeries(_)
        | Refusal::LongLabels(_)
        | Refusal::Ahead { .. }
        | Refusal::Unnamed(_) => "422 Unprocessable Content",
        Refusal::Full => "507 Insufficient Storage",
        Refusal::Store(StoreError::Refused(_) | StoreError::OtherUnit { .. }) => {
            "422 Unprocessable Content"
        }
        Refusal::Store(error) => {
            log::error!("windows were not stored: {error}");
            "500 Internal Server Error"
        }
    };
    let answer = Answer::text(status, &refusal.to_string());
    match refusal {
        // What tells it from what is never taken.
        Refusal::Ahead { wait } => answer.with_header(format!("Retry-After: {wait}")),
        _ => answer,
    }
}

/// A batch whose names and series were hashed, which takes time.
struct Checked {
    batch: Batch,
    named: FastSet<StackHash>,
    series: FastSet<SeriesHash>,
}

impl Checked {
    fn of(batch: Batch) -> Result<Self, Refusal> {
        for series in &batch.series {
            let bytes = label_bytes(&series.labels);
            if bytes > MAX_LABEL_BYTES {
                return Err(Refusal::LongLabels(bytes));
            }
        }
        Ok(Self {
            named: batch.symbols.checked_hashes()?.into_iter().collect(),
            series: batch.series.iter().map(SeriesHash::of).collect(),
            batch,
        })
    }
}

/// What a series is remembered by: with its labels it would take kilobytes. Who knows its labels could make up another one with the
/// same hash if it were not a cryptographic one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SeriesHash([u8; 16]);

impl SeriesHash {
    fn of(series: &Series) -> Self {
        let mut hasher = Sha256::new();
        let mut put = |text: &str| {
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        };
        put(&series.service);
        put(&series.event);
        put(series.unit.label());
        for (key, value) in series.labels.iter() {
            put(key);
            put(value);
        }
        hasher.update(series.period.to_le_bytes());
        let digest: [u8; 32] = hasher.finalize().into();
        let (half, _) = digest.split_first_chunk().expect("it has 32 bytes");
        Self(*half)
    }
}

impl Taking {
    fn append(
        &mut self,
        checked: &Checked,
        now: UnixSeconds,
        append: fn(&mut OpenStore, &Batch) -> Result<Appended, StoreError>,
    ) -> Result<Appended, Refusal> {
        let batch = &checked.batch;
        let starts = batch.windows.iter().map(|window| window.start);
        let wait = starts
            .max()
            .unwrap_or(0)
            .saturating_sub(now + MAX_AHEAD_SECONDS);
        if wait > 0 {
            return Err(Refusal::Ahead { wait });
        }
        self.check_series(&checked.series, now)?;
        self.check_size()?;
        self.check_names(checked)?;
        let appended = match append(&mut self.store, batch) {
            // The keeper has just forgotten names that nothing counted any more.
            Err(StoreError::UnknownStacks(_)) => {
                self.check_names(checked)?;
                append(&mut self.store, batch)?
            }
            appended => appended?,
        };
        let seen = checked.series.iter().map(|series| (*series, now));
        self.series.extend(seen);
        Ok(appended)
    }

    /// Adds a profile to the windows there are. One that was taken lately changes nothing.
    fn append_profile(
        &mut self,
        checked: &Checked,
        id: u64,
        now: UnixSeconds,
    ) -> Result<Appended, Refusal> {
        if self.recent.contains(&id) {
            return Ok(Appended {
                repeated: checked.batch.windows.len() as u64,
                ..Appended::default()
            });
        }
        let appended = self.append(checked, now, OpenStore::add)?;
        if self.recent.len() >= MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(id);
        Ok(appended)
    }

    fn check_series(
        &mut self,
        series: &FastSet<SeriesHash>,
        now: UnixSeconds,
    ) -> Result<(), Refusal> {
        let new = |known: &FastMap<SeriesHash, UnixSeconds>| {
            let new = series.iter().filter(|it| !known.contains_key(*it));
            new.count()
        };
        if self.series.len() + new(&self.series) > self.max_series {
            self.series.retain(|_, seen| *seen + HOUR_SECONDS > now);
            if self.series.len() + new(&self.series) > self.max_series {
                return Err(Refusal::TooManySeries(self.max_series));
            }
        }
        Ok(())
    }

    /// Refuses what would make the store much larger than it may be. What is refused is sent again, by when the keeper may have
    /// dropped something; the last day is never dropped, so that it may not help.
    fn check_size(&self) -> Result<(), Refusal> {
        // Asking ClickHouse takes a request.
        if self.max_bytes == u64::MAX {
            return Ok(());
        }
        match self.store.bytes()? > self.max_bytes.saturating_add(self.max_bytes / 4) {
            true => Err(Refusal::Full),
            false => Ok(()),
        }
    }

    fn check_names(&self, checked: &Checked) -> Result<(), Refusal> {
        let counted = checked
            .batch
            .windows
            .iter()
            .flat_map(|window| &window.counts);
        let counted: FastSet<StackHash> = counted.map(|count| count.stack).collect();
        let unnamed: Vec<StackHash> = counted.difference(&checked.named).copied().collect();
        let unknown = self.store.unknown_stacks(&unnamed)?;
        match unknown.is_empty() {
            true => Ok(()),
            false => Err(Refusal::Unnamed(unknown)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use nodespy_model::{Labels, WeightUnit};
    use nodespy_store::{CPU_EVENT, batch_to_bytes};

    use super::*;

    fn ingest(folder: &tempfile::TempDir, max_series: usize) -> Ingest {
        let limits = IngestLimits {
            retention: Retention::default(),
            max_series,
        };
        Ingest::open(&folder.path().join("store"), &limits).unwrap()
    }

    fn series(rows: &[(&str, &str)]) -> Series {
        let mut labels = Labels::default();
        rows.iter().for_each(|(key, value)| labels.set(key, value));
        Series {
            service: "shop".to_owned(),
            event: CPU_EVENT.to_owned(),
            unit: WeightUnit::Nanoseconds,
            period: 52_631_578,
            labels,
        }
    }

    fn take(ingest: &Ingest, series: Vec<Series>) -> (&'static str, String) {
        let batch = Batch::counted(series, &[(0, 1_700_000_000, 1)]);
        let answer = ingest.take_windows(&batch_to_bytes(&batch), 1_700_000_000);
        (
            answer.status,
            String::from_utf8_lossy(&answer.body).into_owned(),
        )
    }

    /// Keys and values of 64 labels, of each of so many series, filled the memory of the server.
    #[test]
    fn labels_of_a_series_are_limited_together() {
        let folder = tempfile::tempdir().unwrap();
        let ingest = ingest(&folder, 100);
        let keys: Vec<String> = (0..16).map(|number| format!("key{number:05}")).collect();
        let value = "x".repeat(MAX_LABEL_BYTES / 16 - 8);
        let mut rows: Vec<(&str, &str)> = keys.iter().map(|key| (&**key, &*value)).collect();
        assert_eq!(take(&ingest, vec![series(&rows)]).0, "200 OK");
        rows.push(("k", "v"));
        let (status, why) = take(&ingest, vec![series(&rows)]);
        assert_eq!(status, "422 Unprocessable Content");
        assert!(why.contains("4098 bytes, and 4096 are taken"), "{why}");
    }

    #[test]
    fn a_series_counts_once_whoever_sends_it_and_each_other_one_too() {
        let folder = tempfile::tempdir().unwrap();
        let ingest = ingest(&folder, 3);
        let one = || series(&[("instance", "web-1")]);
        let other_rate = Series { period: 1, ..one() };
        for _ in 0..5 {
            assert_eq!(take(&ingest, vec![one(), one()]).0, "200 OK");
        }
        // What one text ends with and the next begins with makes a difference.
        let others = vec![series(&[("instance", "web-"), ("1", "x")]), other_rate];
        assert_eq!(take(&ingest, others).0, "200 OK");
        let (status, why) = take(&ingest, vec![series(&[("instanceweb", "-1")])]);
        assert_eq!(status, "422 Unprocessable Content");
        assert!(why.starts_with("more than 3 series"), "{why}");
        assert_eq!(take(&ingest, vec![one()]).0, "200 OK");
    }

    /// One that takes long to decode stalled all others.
    #[test]
    fn who_is_slow_to_unpack_does_not_hold_up_others() {
        let folder = tempfile::tempdir().unwrap();
        let ingest = ingest(&folder, 100);
        let (started, is_started) = mpsc::channel();
        let (finish, is_finished) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let ingest = &ingest;
            let slow = scope.spawn(move || {
                ingest.take_profile(0, 1, || {
                    started.send(()).unwrap();
                    let waited = is_finished.recv_timeout(Duration::from_secs(60));
                    match waited {
                        Ok(()) => Ok(Batch::default()),
                        Err(_) => Err(Refusal::Full),
                    }
                })
            });
            is_started.recv().unwrap();
            let quick = ingest.take_windows(&batch_to_bytes(&Batch::default()), 0);
            assert_eq!(quick.status, "200 OK");
            finish.send(()).unwrap();
            assert_eq!(slow.join().unwrap().status, "200 OK");
        });
    }
}
