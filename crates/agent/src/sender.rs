//! The thread that sends: files of a spool, the oldest first, each until its receiver has it or refuses it for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nodespy_store::{Appended, batch_from_bytes};

use crate::counters::Counters;
use crate::log_line::{Level, Log, LogLine};
use crate::parts::{Parts, Refusal};
use crate::receiver::{Receiver, Verdict};
use crate::spool::{Entry, READ_AGAIN, Spool, Unreadable};

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
            progress: None,
            unreadable_said: None,
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
    /// Of the file that is sent, where some of its parts are there and others have to wait.
    progress: Option<Progress>,
    /// When it was said that a file can't be read.
    unreadable_said: Option<Instant>,
}

/// What became of the windows of a file so far.
struct Progress {
    number: u64,
    parts: Parts,
    taken: Appended,
}

/// What became of a file.
enum Sent {
    /// Each of its windows is there, or never will be.
    Settled {
        taken: Appended,
        refusals: Vec<Refusal>,
    },
    /// It has to be tried again, as in [`Verdict::Later`].
    Later {
        why: String,
        after: Option<Duration>,
    },
    /// It is of a time to come there, as in [`Verdict::TooEarly`].
    TooEarly { why: String, after: Duration },
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
            let oldest = match self.spool.oldest() {
                Ok(oldest) => oldest,
                Err(unreadable) => {
                    self.say_unreadable(&unreadable);
                    continue;
                }
            };
            let Some((entry, bytes)) = oldest else {
                if self.is_ending() {
                    return;
                }
                self.spool.wait(POLL_INTERVAL);
                continue;
            };
            match self.send(entry, &bytes) {
                Sent::Settled { taken, refusals } => {
                    self.settle(entry, &taken, &refusals);
                    back_off = FIRST_BACK_OFF;
                }
                Sent::TooEarly { why, after } => {
                    let wait = after.clamp(SHORTEST_ASIDE, LONGEST_ASIDE);
                    if !self.spool.set_aside(entry, wait) {
                        self.say_too_early(&why);
                    }
                    self.counters.retries.fetch_add(1, Ordering::Relaxed);
                    back_off = FIRST_BACK_OFF;
                }
                Sent::Later { why, after } => {
                    let wait = after.map_or(back_off, |it| it.clamp(back_off, LONGEST_BACK_OFF));
                    self.say_later(&why, wait);
                    self.rest(wait);
                    back_off = (2 * back_off).min(LONGEST_BACK_OFF);
                }
            }
        }
    }

    /// Sends a file, in parts if it is refused as a whole.
    fn send(&mut self, entry: Entry, bytes: &[u8]) -> Sent {
        let begun = self.progress.take();
        let mut progress = match begun.filter(|it| it.number == entry.number) {
            Some(progress) => progress,
            None => match batch_from_bytes(bytes) {
                Ok(batch) => Progress {
                    number: entry.number,
                    parts: Parts::of(batch),
                    taken: Appended::default(),
                },
                Err(error) => {
                    let refusal = Refusal::of_unknown(entry.windows, error.to_string());
                    return Sent::Settled {
                        taken: Appended::default(),
                        refusals: vec![refusal],
                    };
                }
            },
        };
        while let Some(part) = progress.parts.next() {
            let windows = part.windows.len() as u64;
            match self.receiver.send(part) {
                Verdict::Taken(appended) => progress.take(&appended),
                Verdict::TakenInPart {
                    windows,
                    refused,
                    why,
                } => {
                    progress.taken.windows += windows;
                    progress.parts.drop_windows(refused, why);
                }
                Verdict::Refused(why) => match self.receiver.finds_refused() {
                    true => progress.parts.drop_windows(windows, why),
                    false => progress.parts.refuse(why),
                },
                // What it has of parts is not sent again: not every receiver would know it.
                Verdict::Later { why, after } => {
                    self.progress = Some(progress).filter(|it| it.parts.is_split());
                    return Sent::Later { why, after };
                }
                // Others go first, and this one from its beginning then.
                Verdict::TooEarly { why, after } => return Sent::TooEarly { why, after },
            }
        }
        Sent::Settled {
            taken: progress.taken,
            refusals: progress.parts.into_refusals(),
        }
    }

    fn settle(&mut self, entry: Entry, taken: &Appended, refusals: &[Refusal]) {
        self.counters.count(taken);
        for refusal in refusals {
            self.counters.drop_windows(refusal.windows);
            refusal.say("windows refused", &self.log);
        }
        self.spool.remove(entry);
        if refusals.is_empty() || *taken != Appended::default() {
            self.say_taken();
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

    /// Said once in the time after which it is tried again: where nothing can be read, that is so for each file.
    fn say_unreadable(&mut self, unreadable: &Unreadable) {
        let said = self.unreadable_said;
        if said.is_some_and(|said| said.elapsed() < READ_AGAIN) {
            return;
        }
        self.unreadable_said = Some(Instant::now());
        let line = LogLine::new(Level::Error, "waiting windows not read, trying again")
            .with("after_s", READ_AGAIN.as_secs())
            .with("path", unreadable.path.display())
            .with("why", &unreadable.error);
        (self.log)(&line);
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

impl Progress {
    /// The part that was sent is there.
    fn take(&mut self, appended: &Appended) {
        self.taken.windows += appended.windows;
        self.taken.repeated += appended.repeated;
        self.taken.too_old += appended.too_old;
        self.parts.take();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use nodespy_store::{Batch, Series, Window, batch_to_bytes};

    use super::*;
    use crate::spool::tests::make_unreadable;

    /// Answers as it is told to, and remembers when the windows that it was sent start.
    struct Scripted {
        verdicts: Vec<Verdict>,
        sent: Arc<Mutex<Vec<u64>>>,
    }

    impl Receiver for Scripted {
        fn send(&mut self, batch: &Batch) -> Verdict {
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
    fn a_file_that_can_not_be_read_is_said_once_and_holds_up_none() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Arc::new(Spool::open(folder.path(), 1 << 20).unwrap());
        (0..3).for_each(|number| push(&spool, number * 10));
        make_unreadable(folder.path(), 0);
        make_unreadable(folder.path(), 1);
        let sent = Arc::new(Mutex::new(Vec::new()));
        let receiver = Scripted {
            verdicts: Vec::new(),
            sent: Arc::clone(&sent),
        };
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        let log: Log = Arc::new(move |line: &LogLine| seen.lock().unwrap().push(line.to_string()));
        let counters = Arc::new(Counters::default());
        let sender = Sender::start(Arc::clone(&spool), Box::new(receiver), counters, log, || {});
        let since = Instant::now();
        while spool.backlog().windows > 2 && since.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(POLL_INTERVAL);
        }
        sender.finish();
        assert_eq!(*sent.lock().unwrap(), [20]);
        assert_eq!(spool.backlog().windows, 2);
        let lines = lines.lock().unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("waiting windows not read"), "{lines:?}");
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
