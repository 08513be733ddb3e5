//! The thread that writes: windows into the store, in the order they come, each until it is there or can't be.
//!
//! The queue is bounded: when the disk is full or gone for minutes, the newest windows are dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nodespy_capture::unix_now;
use nodespy_store::{Batch, Retention, Store, StoreError, UnixSeconds};

use crate::log_line::{Level, Log, LogLine};

/// Batches that wait: five minutes of them.
const QUEUE: usize = 30;
/// How often what is there is compacted, and what is too old dropped.
const UPKEEP_SECONDS: u64 = 300;
/// An hour is compacted when it has been over for so long.
const SETTLED_SECONDS: u64 = 120;
/// How long to wait after the first failure, and at most.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);
/// How often a write is tried again once the agent is to end.
const LAST_TRIES: u32 = 2;

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Windows that are in the store.
    pub windows: u64,
    /// Windows that were there before: an agent that ended in the middle of one had written its beginning.
    pub repeated: u64,
    /// Windows that could not be written.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct Counters {
    windows: AtomicU64,
    repeated: AtomicU64,
    dropped: AtomicU64,
    is_ending: AtomicBool,
}

impl Counters {
    fn written(&self) -> Written {
        Written {
            windows: self.windows.load(Ordering::Relaxed),
            repeated: self.repeated.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}

/// The way to the thread that writes.
pub(crate) struct Writer {
    sender: SyncSender<Batch>,
    thread: JoinHandle<()>,
    counters: Arc<Counters>,
    log: Log,
}

impl Writer {
    pub(crate) fn start(store: Box<dyn Store + Send>, retention: Retention, log: Log) -> Self {
        let (sender, receiver) = sync_channel(QUEUE);
        let counters = Arc::new(Counters::default());
        let mut writing = Writing {
            store,
            retention,
            counters: Arc::clone(&counters),
            log: Arc::clone(&log),
            next_upkeep: 0,
        };
        Self {
            sender,
            thread: std::thread::spawn(move || writing.run(&receiver)),
            counters,
            log,
        }
    }

    /// Queues a batch, or drops it where too many wait.
    pub(crate) fn write(&self, batch: Batch) {
        let windows = batch.windows.len() as u64;
        if windows == 0 {
            return;
        }
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.sender.try_send(batch)
        {
            self.counters.dropped.fetch_add(windows, Ordering::Relaxed);
            let line = LogLine::new(Level::Error, "windows dropped").with("windows", windows);
            (self.log)(&line.with("why", "the store takes none"));
        }
    }

    /// Waits until everything is written.
    pub(crate) fn finish(self) -> Written {
        let counters = self.counters;
        counters.is_ending.store(true, Ordering::Relaxed);
        drop(self.sender);
        if self.thread.join().is_err() {
            (self.log)(&LogLine::new(Level::Error, "writing failed"));
        }
        counters.written()
    }
}

/// What the thread works with.
struct Writing {
    store: Box<dyn Store + Send>,
    retention: Retention,
    counters: Arc<Counters>,
    log: Log,
    next_upkeep: UnixSeconds,
}

impl Writing {
    fn run(&mut self, batches: &Receiver<Batch>) {
        loop {
            match batches.recv_timeout(Duration::from_secs(UPKEEP_SECONDS)) {
                Ok(batch) => self.append(&batch),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if !self.counters.is_ending() {
                self.upkeep(unix_seconds());
            }
        }
    }

    /// Appends a batch, however often it takes. One that the store refuses is dropped.
    fn append(&mut self, batch: &Batch) {
        let mut back_off = FIRST_BACK_OFF;
        let mut last_tries = 0;
        let why = loop {
            let error = match self.store.append(batch) {
                Ok(appended) => {
                    let counters = &self.counters;
                    counters
                        .windows
                        .fetch_add(appended.windows, Ordering::Relaxed);
                    let not_new = appended.repeated + appended.too_old;
                    counters.repeated.fetch_add(not_new, Ordering::Relaxed);
                    if not_new > 0 {
                        let line = LogLine::new(Level::Warn, "windows were there already");
                        (self.log)(&line.with("windows", not_new));
                    }
                    return;
                }
                Err(error) => error,
            };
            if is_refusal(&error) {
                break error;
            }
            if self.counters.is_ending() {
                last_tries += 1;
                if last_tries > LAST_TRIES {
                    break error;
                }
                back_off = FIRST_BACK_OFF;
            }
            let line = LogLine::new(Level::Warn, "store not written, trying again");
            let line = line.with("after_s", back_off.as_secs());
            (self.log)(&line.with("why", with_causes(&error)));
            std::thread::sleep(back_off);
            back_off = (2 * back_off).min(LONGEST_BACK_OFF);
        };
        let windows = batch.windows.len() as u64;
        self.counters.dropped.fetch_add(windows, Ordering::Relaxed);
        let line = LogLine::new(Level::Error, "windows dropped").with("windows", windows);
        (self.log)(&line.with("why", with_causes(&why)));
    }

    /// Compacts hours that are over and drops what is too old, now and then.
    fn upkeep(&mut self, now: UnixSeconds) {
        if now < self.next_upkeep {
            return;
        }
        self.next_upkeep = now + UPKEEP_SECONDS;
        let store = &mut *self.store;
        let compacted = store.compact(now.saturating_sub(SETTLED_SECONDS));
        let kept = compacted.and_then(|()| self.retention.apply(store, now));
        match kept {
            Ok(kept) => (self.log)(&LogLine::info("store").with("bytes", kept.bytes)),
            Err(error) => {
                let line = LogLine::new(Level::Warn, "store not compacted");
                (self.log)(&line.with("why", with_causes(&error)));
            }
        }
    }
}

/// Whether trying again can't help.
fn is_refusal(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Refused(_)
            | StoreError::UnknownStacks(_)
            | StoreError::OtherUnit { .. }
            | StoreError::ReadOnly
            | StoreError::Damaged(_)
    )
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn unix_seconds() -> UnixSeconds {
    unix_now() / 1_000_000_000
}
