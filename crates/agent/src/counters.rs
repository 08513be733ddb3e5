//! What became of windows, counted where several threads see it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use nodespy_store::Appended;

use crate::spool::{Backlog, Spool};

/// What was written to one destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Windows that are there.
    pub windows: u64,
    /// Windows that were there before: an agent that ended in the middle of one had written its beginning, or a receiver had
    /// it and its answer was lost.
    pub repeated: u64,
    /// Windows that could not be written.
    pub dropped: u64,
    /// How often something was tried again.
    pub retries: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    windows: AtomicU64,
    repeated: AtomicU64,
    dropped: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) is_ending: AtomicBool,
    /// Where windows wait to be sent, if they do.
    pub(crate) spool: OnceLock<Arc<Spool>>,
}

impl Counters {
    pub(crate) fn written(&self) -> Written {
        Written {
            windows: self.windows.load(Ordering::Relaxed),
            repeated: self.repeated.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn count(&self, appended: &Appended) {
        self.windows.fetch_add(appended.windows, Ordering::Relaxed);
        let not_new = appended.repeated + appended.too_old;
        self.repeated.fetch_add(not_new, Ordering::Relaxed);
    }

    pub(crate) fn drop_windows(&self, windows: u64) {
        self.dropped.fetch_add(windows, Ordering::Relaxed);
    }

    pub(crate) fn backlog(&self) -> Option<Backlog> {
        self.spool.get().map(|spool| spool.backlog())
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}
