//! The threads that write: windows to each destination, in the order they come, each until it is there or can't be.
//!
//! A queue is bounded: when a disk is full or gone for minutes, the newest windows are dropped and counted.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nodespy_store::Batch;

use crate::counters::{Counters, Written};
use crate::destination::{Destination, Failure, Sink};
use crate::log_line::{Level, Log, LogLine};
use crate::parts::Parts;
use crate::sender::Sender;
use crate::window_times::WindowTimes;

/// Batches that wait: five minutes of them, or half of that where requests are counted, which come in batches of their own.
const QUEUE: usize = 30;
/// How often a destination is looked after where nothing comes.
const UPKEEP: Duration = Duration::from_secs(300);
/// How long to wait after the first failure, and at most.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);
/// How often a write is tried again once the agent is to end.
const LAST_TRIES: u32 = 2;

/// The ways to all destinations.
pub(crate) struct Writers {
    writers: Vec<Writer>,
    times: Mutex<WindowTimes>,
}

impl Writers {
    /// Starts the threads; `enter` is the first that each does.
    pub(crate) fn start(
        destinations: Vec<(Destination, Arc<Counters>)>,
        log: &Log,
        enter: fn(),
    ) -> Self {
        let start = |(destination, counters)| Writer::start(destination, counters, log, enter);
        Self {
            writers: destinations.into_iter().map(start).collect(),
            times: Mutex::default(),
        }
    }

    /// Queues a batch for every destination.
    pub(crate) fn write(&self, mut batch: Batch) {
        if batch.windows.is_empty() {
            return;
        }
        self.times().tell_apart(&mut batch);
        for writer in &self.writers {
            writer.write(batch.clone());
        }
    }

    /// Queues what is of the time before the clock was set; what follows is by the new time.
    pub(crate) fn write_before_step(&self, batch: Batch) {
        self.write(batch);
        self.times().clock_was_set();
    }

    fn times(&self) -> MutexGuard<'_, WindowTimes> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything is written, and sent as far as that goes.
    pub(crate) fn finish(self) {
        // All are told before the first is waited for.
        let writers = self.writers.into_iter();
        let senders: Vec<Option<Sender>> = writers.map(Writer::finish).collect();
        senders.into_iter().flatten().for_each(Sender::finish);
    }
}

/// The way to one destination.
struct Writer {
    queue: SyncSender<Batch>,
    thread: JoinHandle<()>,
    sender: Option<Sender>,
    counters: Arc<Counters>,
    log: Log,
}

impl Writer {
    fn start(destination: Destination, counters: Arc<Counters>, log: &Log, enter: fn()) -> Self {
        let (sink, sender) = destination.open(&counters, log, enter);
        let (queue, batches) = sync_channel(QUEUE);
        let mut writing = Writing {
            sink,
            counters: Arc::clone(&counters),
            log: Arc::clone(log),
        };
        Self {
            queue,
            thread: std::thread::spawn(move || {
                enter();
                writing.run(&batches);
            }),
            sender,
            counters,
            log: Arc::clone(log),
        }
    }

    /// Queues a batch, or drops it where too many wait.
    fn write(&self, batch: Batch) {
        let windows = batch.windows.len() as u64;
        let why = match self.queue.try_send(batch) {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => "too many wait to be written: is the disk full or slow?",
            Err(TrySendError::Disconnected(_)) => "the thread that writes them has failed",
        };
        self.counters.drop_windows(windows);
        let line = LogLine::new(Level::Error, "windows dropped").with("windows", windows);
        (self.log)(&line.with("why", why));
    }

    fn finish(self) -> Option<Sender> {
        self.counters.is_ending.store(true, Ordering::Relaxed);
        drop(self.queue);
        if self.thread.join().is_err() {
            (self.log)(&LogLine::new(Level::Error, "writing failed"));
        }
        self.sender
    }
}

/// What a thread works with.
struct Writing {
    sink: Box<dyn Sink>,
    counters: Arc<Counters>,
    log: Log,
}

impl Writing {
    fn run(&mut self, batches: &Receiver<Batch>) {
        loop {
            match batches.recv_timeout(UPKEEP) {
                Ok(batch) => {
                    let parts = self.sink.parts(batch);
                    parts.into_iter().for_each(|part| self.append(part));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if !self.counters.is_ending() {
                self.sink.upkeep();
            }
        }
    }

    /// Appends a batch, however often it takes. The windows in it that are refused are dropped.
    fn append(&mut self, batch: Batch) {
        let mut parts = Parts::of(batch);
        while let Some(part) = parts.next() {
            let windows = part.windows.len() as u64;
            match self.append_part(part) {
                Ok(()) => parts.take(),
                Err(Failure::ForGood(why)) => parts.refuse(why),
                Err(Failure::Again(why)) => parts.drop_windows(windows, why),
            }
        }
        for refusal in parts.into_refusals() {
            self.counters.drop_windows(refusal.windows);
            refusal.say("windows dropped", &self.log);
        }
    }

    /// Appends a part until it is there or refused; at the end of the agent it is not tried for long.
    fn append_part(&mut self, part: &Batch) -> Result<(), Failure> {
        let mut back_off = FIRST_BACK_OFF;
        let mut last_tries = 0;
        loop {
            let why = match self.sink.append(part) {
                Err(Failure::Again(why)) => why,
                settled => return settled,
            };
            if self.counters.is_ending() {
                last_tries += 1;
                if last_tries > LAST_TRIES {
                    return Err(Failure::Again(why));
                }
                back_off = FIRST_BACK_OFF;
            }
            self.counters.retries.fetch_add(1, Ordering::Relaxed);
            let line = LogLine::new(Level::Warn, "windows not written, trying again");
            let line = line.with("after_s", back_off.as_secs());
            (self.log)(&line.with("why", why));
            std::thread::sleep(back_off);
            back_off = (2 * back_off).min(LONGEST_BACK_OFF);
        }
    }
}

/// What became of the windows of each destination, by its name.
pub(crate) fn written(counters: &[(String, Arc<Counters>)]) -> Vec<(String, Written)> {
    let counters = counters.iter();
    counters
        .map(|(name, counters)| (name.clone(), counters.written()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bad_days::batch;
    use crate::spool::Spool;
    use crate::test_receiver::{client, wait_for};

    /// A queue is full where the disk is slow, and has no reader any more where writing has panicked.
    #[test]
    fn what_is_dropped_says_why() {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&lines);
        let log: Log = Arc::new(move |line: &LogLine| seen.lock().unwrap().push(line.to_string()));
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), 1 << 20).unwrap();
        let destination = Destination::server(client("http://127.0.0.1:1"), spool);
        let mut writer = Writer::start(destination, Arc::default(), &log, || {});
        let (full, waiting) = sync_channel(1);
        full.try_send(batch(0)).unwrap();
        writer.queue = full;
        wait_for("a writer without a queue", || writer.thread.is_finished());
        writer.write(batch(10));
        drop(waiting);
        writer.write(batch(20));
        assert_eq!(writer.counters.written().dropped, 2);
        let lines = lines.lock().unwrap();
        let lines: Vec<&String> = lines.iter().filter(|it| it.contains("dropped")).collect();
        assert!(lines[0].contains("disk full or slow") && lines[1].contains("has failed"));
    }
}
