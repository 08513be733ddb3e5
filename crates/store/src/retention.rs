//! How long what is kept, by age and by size.

use crate::engine::{Detail, Store};
use crate::error::StoreError;
use crate::window::{HOUR_SECONDS, UnixSeconds};

const DAY: u64 = 24 * HOUR_SECONDS;

/// How long each detail is kept, in seconds, and how large the store may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Windows of ten seconds.
    pub windows: u64,
    /// Hours of each process.
    pub hours: u64,
    /// Hours of each version.
    pub rollups: u64,
    /// The largest size in bytes: the oldest days go first.
    pub max_bytes: u64,
}

impl Default for Retention {
    /// Windows for a week, hours for a month, versions for 13 months, 10 GB.
    fn default() -> Self {
        Self {
            windows: 7 * DAY,
            hours: 30 * DAY,
            rollups: 396 * DAY,
            max_bytes: 10_000_000_000,
        }
    }
}

/// What a store keeps after [`Retention::apply`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Everything before was dropped for its age or for the size.
    pub since: UnixSeconds,
    /// How large the store is.
    pub bytes: u64,
}

impl Retention {
    /// Drops what is too old, then the oldest until the store is small enough; the last day always stays.
    pub fn apply(&self, store: &mut dyn Store, now: UnixSeconds) -> Result<Kept, StoreError> {
        let since = now.saturating_sub(self.rollups);
        store.drop_before(Detail::Windows, now.saturating_sub(self.windows))?;
        store.drop_before(Detail::Hours, now.saturating_sub(self.hours))?;
        store.drop_before(Detail::Rollups, since)?;
        let mut kept = Kept {
            since,
            bytes: store.bytes()?,
        };
        while kept.bytes > self.max_bytes && kept.since + DAY < now {
            let everything = store.labels(0..UnixSeconds::MAX)?;
            let Some(oldest) = everything.iter().map(|span| span.first).min() else {
                break;
            };
            // A day at a time, but at least a tenth of what there is: a year is not looked at 365 times.
            let oldest = oldest.max(kept.since);
            let step = (now.saturating_sub(oldest) / 10).max(DAY);
            kept.since = (oldest + step).min(now.saturating_sub(DAY));
            store.drop_before(Detail::Rollups, kept.since)?;
            kept.bytes = store.bytes()?;
        }
        Ok(kept)
    }
}

/// How often hours are made of windows, and what is too old dropped.
const UPKEEP_SECONDS: u64 = 300;
/// An hour is compacted when it has been over for so long.
const SETTLED_SECONDS: u64 = 120;

/// What whoever writes a store does beside that, now and then.
#[derive(Debug, Clone, Copy)]
pub struct Upkeep {
    /// How long what is kept.
    pub retention: Retention,
    next: UnixSeconds,
}

impl Upkeep {
    /// Upkeep that is due at once.
    pub fn new(retention: Retention) -> Self {
        Self { retention, next: 0 }
    }

    /// Makes hours of windows and drops what is too old, where that is due.
    pub fn run(
        &mut self,
        store: &mut dyn Store,
        now: UnixSeconds,
    ) -> Result<Option<Kept>, StoreError> {
        if now < self.next {
            return Ok(None);
        }
        self.next = now + UPKEEP_SECONDS;
        store.compact(now.saturating_sub(SETTLED_SECONDS))?;
        self.retention.apply(store, now).map(Some)
    }

    /// Makes it due at once.
    pub fn hurry(&mut self) {
        self.next = 0;
    }
}
