//! How long what is kept, by age and by size.
//!
//! A clock may be wrong by months, on a machine that has just been started for instance, and what is dropped is gone. So age is not
//! measured by the clock alone, but by the windows that are stored up to its time: see [`newest_hour`].

use crate::engine::{Detail, Store};
use crate::error::StoreError;
use crate::window::{HOUR_SECONDS, UnixSeconds};

const DAY: u64 = 24 * HOUR_SECONDS;
/// How long a pause of the windows is believed at once: a weekend. The clock is believed for as long after the last ones.
const MAX_PAUSE: u64 = 3 * DAY;
/// After a longer pause, time is believed once so many hours have windows: somebody may notice a wrong clock until then.
const CONFIRMING_HOURS: usize = 12;

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
    /// Drops what is too old, then the oldest until the store is small enough; the last day always stays. Nothing is too old by
    /// a clock that is far ahead of all windows.
    pub fn apply(&self, store: &mut dyn Store, now: UnixSeconds) -> Result<Kept, StoreError> {
        let Some(newest) = newest_hour(store, now)? else {
            let bytes = store.bytes()?;
            return Ok(Kept { since: 0, bytes });
        };
        let time = now.min(newest + MAX_PAUSE);
        // Not after the newest hour: the windows that come next must not be too old.
        let cut = |kept| time.saturating_sub(kept).min(newest);
        let since = cut(self.rollups);
        store.drop_before(Detail::Windows, cut(self.windows))?;
        store.drop_before(Detail::Hours, cut(self.hours))?;
        store.drop_before(Detail::Rollups, since)?;
        let mut kept = Kept {
            since,
            bytes: store.bytes()?,
        };
        while kept.bytes > self.max_bytes && kept.since + DAY < time {
            let Some(oldest) = store.oldest()? else {
                break;
            };
            // A day at a time, but at least a tenth of what there is: a year is not looked at 365 times.
            let oldest = oldest.max(kept.since);
            let step = (time.saturating_sub(oldest) / 10).max(DAY);
            // Not after the newest hour, for those to come; that one goes too where a full store has got nothing for a day.
            let last = time.saturating_sub(DAY).min(newest + HOUR_SECONDS);
            let since = (oldest + step).min(last);
            if since <= kept.since {
                break;
            }
            kept.since = since;
            store.drop_before(Detail::Rollups, kept.since)?;
            kept.bytes = store.bytes()?;
        }
        Ok(kept)
    }
}

/// The latest hour with windows that tells the time. One that comes after a long pause does not, unless enough other hours follow
/// that pause: a clock that was wrong for a while has left windows in the future, which must not make all others old.
fn newest_hour(store: &dyn Store, now: UnixSeconds) -> Result<Option<UnixSeconds>, StoreError> {
    let hours = store.newest_hours(now, CONFIRMING_HOURS)?;
    let is_pause = |pair: &[UnixSeconds]| pair[0].saturating_sub(pair[1]) > MAX_PAUSE;
    let before_pause = hours.windows(2).rposition(is_pause).map(|place| place + 1);
    Ok(hours.get(before_pause.unwrap_or(0)).copied())
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
        // Further away than that only where the clock was set back.
        let wait = self.next.saturating_sub(now);
        if (1..=UPKEEP_SECONDS).contains(&wait) {
            return Ok(None);
        }
        self.next = now + UPKEEP_SECONDS;
        if let Some(newest) = newest_hour(store, now)? {
            let settled = now.saturating_sub(SETTLED_SECONDS);
            store.compact(settled.min(newest + HOUR_SECONDS))?;
        }
        self.retention.apply(store, now).map(Some)
    }

    /// Makes it due at once.
    pub fn hurry(&mut self) {
        self.next = 0;
    }
}
