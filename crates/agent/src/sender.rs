//! The thread that sends: files of a spool, the oldest first, each until its receiver has it or refuses it for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nodespy_store::{Appended, batch_from_bytes};

use crate::counters::Counters;
use crate::log_line::{Level, Log, LogLine};
use crate::receiver::{Receiver, Verdict};
use crate::spool::Spool;

/// How long to wait after the first failure, and at most.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);
/// How long windows of a time to come wait at least and at most: the clock that is wrong may be the receiver's, and be set.
const SHORTEST_ASIDE: Duration = Duration::from_secs(1);
const LONGEST_ASIDE: Duration = Duration::from_secs(3600);
/// How long what waits is still sent once the agent is to end; the rest is sent by the next one.
const LAST_SECONDS: Duration = Duration::from_secs(5);
/// How often a thread that waits looks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The thread that sends.
pub(crate) struct Sender {
    thread: JoinHandle<()>,
    is_ending: Arc<AtomicBool>,
}

impl Sender {
    pub(crate) fn start(
        spool: Arc<Spool>,
        receiver: Box<dyn Receiver>,
        counters: Arc<Counters>,
        log: Log,
        enter: fn(),
    ) -> Self {
        let is_ending = Arc::new(AtomicBool::new(false));
        let mut sending = Sending {
            spool,
            receiver,
            counters,
            log,
            is_ending: Arc::clone(&is_ending),
            is_failing: false,
        };
        Self {
            thread: std::thread::spawn(move || {
                enter();
                sending.run();
            }),
            is_ending,
        }
    }

    /// Sends what can be sent within a few seconds. A receiver that does not answer is not waited for.
    pub(crate) fn finish(self) {
        self.is_ending.store(true, Ordering::Relaxed);
        let end = Instant::now() + LAST_SECONDS + POLL_INTERVAL;
        while !self.thread.is_finished() && Instant::now() < end {
            std::thread::sleep(POLL_INTERVAL / 10);
        }
    }
}

struct Sending {
    spool: Arc<Spool>,
    receiver: Box<dyn Receiver>,
    counters: Arc<Counters>,
    log: Log,
    is_ending: Arc<AtomicBool>,
    is_failing: bool,
}

impl Sending {
    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    fn run(&mut self) {
        let mut back_off = FIRST_BACK_OFF;
        let mut end = None;
        loop {
            if self.is_ending() {
                let end = *end.get_or_insert_with(|| Instant::now() + LAST_SECONDS);
                if Instant::now() >= end {
                    return;
                }
            }
            let Some((entry, bytes)) = self.spool.oldest() else {
                if self.is_ending() {
                    return;
                }
                self.spool.wait(POLL_INTERVAL);
                continue;
            };
            let verdict = match batch_from_bytes(&bytes) {
                Ok(batch) => self.receiver.send(batch),
                Err(error) => Verdict::Refused(error.to_string()),
            };
            match verdict {
                Verdict::Taken(appended) => {
                    self.counters.count(&appended);
                    self.spool.remove(entry);
                    self.say_taken();
                    back_off = FIRST_BACK_OFF;
                }
                Verdict::TakenInPart {
                    windows,
                    refused,
                    why,
                } => {
                    self.counters.count(&Appended {
                        windows,
                        ..Appended::default()
                    });
                    self.spool.remove(entry);
                    self.say_refused(refused, why);
                    back_off = FIRST_BACK_OFF;
                }
                Verdict::Refused(why) => {
                    self.spool.remove(entry);
                    self.say_refused(entry.windows, why);
                }
                Verdict::TooEarly { why, after } => {
                    let wait = after.clamp(SHORTEST_ASIDE, LONGEST_ASIDE);
                    if !self.spool.set_aside(entry, wait) {
                        self.say_too_early(&why);
                    }
                    self.counters.retries.fetch_add(1, Ordering::Relaxed);
                    back_off = FIRST_BACK_OFF;
                }
                Verdict::Later { why, after } => {
                    let wait = after.map_or(back_off, |it| it.clamp(back_off, LONGEST_BACK_OFF));
                    self.say_later(&why, wait);
                    self.rest(wait);
                    back_off = (2 * back_off).min(LONGEST_BACK_OFF);
                }
            }
        }
    }

    /// Waits, for a moment only when it is to end.
    fn rest(&self, wait: Duration) {
        let since = Instant::now();
        while since.elapsed() < wait {
            if self.is_ending() && since.elapsed() >= FIRST_BACK_OFF {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn say_refused(&self, windows: u64, why: String) {
        self.counters.drop_windows(windows);
        let line = LogLine::new(Level::Error, "windows refused");
        (self.log)(&line.with("windows", windows).with("why", why));
    }

    /// Said of the first only: as long as a clock is wrong, there is another every ten seconds.
    fn say_too_early(&self, why: &str) {
        let line = LogLine::new(Level::Warn, "windows of a time to come are kept");
        (self.log)(&line.with("why", why));
    }

    fn say_taken(&mut self) {
        if std::mem::take(&mut self.is_failing) {
            let waiting = self.spool.backlog().windows;
            (self.log)(&LogLine::info("sending again").with("windows_waiting", waiting));
        }
    }

    fn say_later(&mut self, why: &str, wait: Duration) {
        self.is_failing = true;
        self.counters.retries.fetch_add(1, Ordering::Relaxed);
        let backlog = self.spool.backlog();
        let line = LogLine::new(Level::Warn, "windows not sent, trying again")
            .with("after_s", wait.as_secs())
            .with("windows_waiting", backlog.windows)
            .with("spool_bytes", backlog.bytes)
            .with("why", why);
        (self.log)(&line);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use nodespy_store::{Batch, Series, Window, batch_to_bytes};

    use super::*;

    /// Answers as it is told to, and remembers when the windows that it was sent start.
    struct Scripted {
        verdicts: Vec<Verdict>,
        sent: Arc<Mutex<Vec<u64>>>,
    }

    impl Receiver for Scripted {
        fn send(&mut self, batch: Batch) -> Verdict {
            self.sent.lock().unwrap().push(batch.windows[0].start);
            match self.verdicts.is_empty() {
                true => Verdict::Taken(Appended {
                    windows: batch.windows.len() as u64,
                    ..Appended::default()
                }),
                false => self.verdicts.remove(0),
            }
        }
    }

    fn push(spool: &Spool, start: u64) {
        let batch = Batch {
            series: vec![Series {
                service: "shop".to_owned(),
                event: "cpu".to_owned(),
                unit: nodespy_model::WeightUnit::Samples,
                period: 1,
                labels: nodespy_model::Labels::default(),
            }],
            windows: vec![Window {
                series: 0,
                start,
                counts: Vec::new(),
            }],
            ..Batch::default()
        };
        spool.push(&batch_to_bytes(&batch), 1).unwrap();
    }

    #[test]
    fn the_order_is_kept_and_everything_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Arc::new(Spool::open(folder.path(), 1 << 20).unwrap());
        (0..4).for_each(|number| push(&spool, number * 10));
        // A file that a dying disk has changed does not hold up the others.
        spool.push(b"scrambled", 1).unwrap();
        push(&spool, 50);
        let later = Verdict::Later {
            why: "503 busy".to_owned(),
            after: Some(Duration::ZERO),
        };
        let sent = Arc::new(Mutex::new(Vec::new()));
        let receiver = Scripted {
            verdicts: vec![later, Verdict::Refused("422 no".to_owned())],
            sent: Arc::clone(&sent),
        };
        let counters = Arc::new(Counters::default());
        let log: Log = Arc::new(|_: &LogLine| {});
        let sender = Sender::start(
            Arc::clone(&spool),
            Box::new(receiver),
            Arc::clone(&counters),
            log,
            || {},
        );
        let since = Instant::now();
        while spool.backlog().windows > 0 && since.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(POLL_INTERVAL);
        }
        sender.finish();
        assert_eq!(*sent.lock().unwrap(), [0, 0, 10, 20, 30, 50]);
        let written = counters.written();
        assert_eq!(
            (written.windows, written.dropped, written.retries),
            (4, 2, 1)
        );
    }

    #[test]
    fn what_is_not_sent_in_time_waits_for_the_next_agent() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Arc::new(Spool::open(folder.path(), 1 << 20).unwrap());
        push(&spool, 0);
        let away = || Verdict::Later {
            why: "refused".to_owned(),
            after: None,
        };
        let receiver = Scripted {
            verdicts: (0..100).map(|_| away()).collect(),
            sent: Arc::default(),
        };
        let log: Log = Arc::new(|_: &LogLine| {});
        let counters = Arc::new(Counters::default());
        let sender = Sender::start(Arc::clone(&spool), Box::new(receiver), counters, log, || {});
        let since = Instant::now();
        sender.finish();
        assert!(since.elapsed() < Duration::from_secs(30));
        assert_eq!(spool.backlog().windows, 1);
    }
}
