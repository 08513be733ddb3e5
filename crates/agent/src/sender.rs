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
use crate::refused_series::RefusedSeries;
use crate::spool::{Entry, READ_AGAIN, Spool, Unreadable};

/// How long to wait after the first failure, and at most.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);
/// How long windows of a time to come wait at least and at most: the clock that is wrong may be the receiver's, and be set.
const SHORTEST_ASIDE: Duration = Duration::from_secs(1);
const LONGEST_ASIDE: Duration = Duration::from_secs(3600);
/// How many files that were sent in part are remembered while others go first.
const MAX_BEGUN: usize = 4;
/// How often a receiver may fail with a file, with pauses up to [`LONGEST_BACK_OFF`], before its parts are tried.
const MAX_FAILURES: u32 = 10;
/// How long others go before a file then, if the receiver fails with all of it.
const FAILED_ASIDE: Duration = Duration::from_secs(1800);
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
            begun: Vec::new(),
            refused: RefusedSeries::default(),
            failures: (0, 0),
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
    /// Of files some of whose parts are there, and others have to wait.
    begun: Vec<Progress>,
    refused: RefusedSeries,
    /// The file that the receiver failed with, and how often.
    failures: (u64, u32),
    /// When it was said that a file can't be read.
    unreadable_said: Option<Instant>,
}

/// What became of the windows of a file so far.
struct Progress {
    number: u64,
    parts: Parts,
    taken: Appended,
    /// What the receiver said of a part that it failed with, if it is not waited for.
    failed: Option<String>,
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
    /// The receiver failed with it, as in [`Verdict::Failed`].
    Failed {
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
                Sent::Failed { why, .. } if self.has_failed_too_often(entry) => {
                    self.set_aside_failed(entry, &why);
                    back_off = FIRST_BACK_OFF;
                }
                Sent::Later { why, after } | Sent::Failed { why, after } => {
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
        self.receiver.begin(entry.number);
        let mut progress = match self.begin(entry, bytes) {
            Ok(progress) => progress,
            Err(refusal) => {
                return Sent::Settled {
                    taken: Appended::default(),
                    refusals: vec![refusal],
                };
            }
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
                Verdict::Failed { why, .. } if self.is_at_fault(entry, &progress) => {
                    progress.failed = Some(why.clone());
                    progress.parts.refuse(why);
                }
                Verdict::Failed { why, after } => {
                    self.keep(progress);
                    return Sent::Failed { why, after };
                }
                Verdict::Later { why, after } => {
                    self.keep(progress);
                    return Sent::Later { why, after };
                }
                // Others go first.
                Verdict::TooEarly { why, after } => {
                    self.keep(progress);
                    return Sent::TooEarly { why, after };
                }
            }
        }
        self.sent(progress)
    }

    /// What is left of a file that was begun, or all of it.
    fn begin(&mut self, entry: Entry, bytes: &[u8]) -> Result<Progress, Refusal> {
        let is_of_file = |it: &Progress| it.number == entry.number;
        let at = self.begun.iter().position(is_of_file);
        if let Some(at) = at {
            return Ok(self.begun.remove(at));
        }
        let batch = batch_from_bytes(bytes);
        let batch = batch.map_err(|error| Refusal::of_unknown(entry.windows, error.to_string()))?;
        let (batch, doubtful) = self.refused.split_off(batch, Instant::now());
        Ok(Progress {
            number: entry.number,
            parts: Parts::and_doubtful(batch, doubtful),
            taken: Appended::default(),
            failed: None,
        })
    }

    /// What the receiver has of parts is not sent again: not every one would know it.
    fn keep(&mut self, progress: Progress) {
        if progress.parts.is_split() {
            self.begun.truncate(MAX_BEGUN - 1);
            self.begun.insert(0, progress);
        }
    }

    /// Whether the part that the receiver failed with is taken to be the reason: of series that were refused lately, or after
    /// many tries of the whole.
    fn is_at_fault(&self, entry: Entry, progress: &Progress) -> bool {
        let is_tried = self.failures == (entry.number, MAX_FAILURES);
        !self.receiver.finds_refused() && (is_tried || progress.parts.is_next_doubtful())
    }

    /// What became of a file all of whose parts were tried.
    fn sent(&mut self, mut progress: Progress) -> Sent {
        let is_none_taken = progress.taken == Appended::default();
        if let Some(why) = progress.failed.filter(|_| is_none_taken) {
            // It fails with everything: none of it is at fault.
            return Sent::Failed { why, after: None };
        }
        let now = Instant::now();
        for (series, is_alone) in progress.parts.take_refused_series() {
            // Of several it is not known which; they are searched next time, but where the receiver takes nothing at all.
            if is_alone || is_none_taken {
                self.refused.remember(&series, now);
            }
        }
        for series in progress.parts.series_taken_again() {
            self.refused.forget(series);
        }
        Sent::Settled {
            taken: progress.taken,
            refusals: progress.parts.into_refusals(),
        }
    }

    /// Counts that the receiver failed with a file, and with its parts at last.
    fn has_failed_too_often(&mut self, entry: Entry) -> bool {
        let (number, failures) = self.failures;
        let failures = match number == entry.number {
            true => failures + 1,
            false => 1,
        };
        self.failures = (entry.number, failures);
        failures > MAX_FAILURES
    }

    fn set_aside_failed(&mut self, entry: Entry, why: &str) {
        self.failures = (entry.number, 0);
        self.spool.set_aside(entry, FAILED_ASIDE);
        self.counters.retries.fetch_add(1, Ordering::Relaxed);
        let line = LogLine::new(Level::Warn, "windows set aside, trying others")
            .with("windows", entry.windows)
            .with("after_s", FAILED_ASIDE.as_secs());
        (self.log)(&line.with("why", why));
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
    use crate::bad_days::batch;
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

    /// What became of a file of these windows after the receiver has failed with it so often.
    fn sent_after(failures: u32, verdicts: Vec<Verdict>) -> (Sent, Vec<u64>) {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), 1 << 20).unwrap();
        let series = |number: u32| Series {
            service: format!("service-{number}"),
            ..batch(0).series[0].clone()
        };
        let windows = [(0, 0, 7), (1, 10, 7), (2, 20, 7), (3, 30, 7)];
        let four = Batch::counted((0..4).map(series).collect(), &windows);
        spool.push(&batch_to_bytes(&four), 4).unwrap();
        let (entry, bytes) = spool.oldest().unwrap().unwrap();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let mut sending = Sending {
            spool: Arc::new(spool),
            receiver: Box::new(Scripted {
                verdicts,
                sent: Arc::clone(&sent),
            }),
            counters: Arc::default(),
            log: Arc::new(|_: &LogLine| {}),
            is_ending: Arc::default(),
            is_failing: false,
            begun: Vec::new(),
            refused: RefusedSeries::default(),
            failures: (0, failures),
            unreadable_said: None,
        };
        let became = sending.send(entry, &bytes);
        let is_failed = matches!(became, Sent::Failed { .. });
        let is_too_often = is_failed && sending.has_failed_too_often(entry);
        assert_eq!(is_too_often, is_failed && failures >= MAX_FAILURES);
        let starts = sent.lock().unwrap().clone();
        (became, starts)
    }

    /// As where what the server has of one process is damaged.
    #[test]
    fn a_window_that_a_receiver_always_fails_with_costs_no_other() {
        let failed = || Verdict::Failed {
            why: "500".to_owned(),
            after: None,
        };
        let (became, sent) = sent_after(MAX_FAILURES - 1, vec![failed()]);
        assert!(matches!(became, Sent::Failed { .. }));
        assert_eq!(sent, [0]);
        let taken = || {
            Verdict::Taken(Appended {
                windows: 1,
                ..Appended::default()
            })
        };
        // All four, two, the first, the second, the other two.
        let verdicts = vec![failed(), failed(), taken(), failed()];
        let (became, sent) = sent_after(MAX_FAILURES, verdicts);
        let Sent::Settled { taken, refusals } = became else {
            panic!("three are there")
        };
        assert_eq!((taken.windows, &sent[..]), (3, &[0, 0, 0, 10, 20][..]));
        assert!(refusals.len() == 1 && refusals[0].windows == 1 && refusals[0].why == "500");
        // It fails with each: nothing is given up.
        let (became, sent) = sent_after(MAX_FAILURES, (0..7).map(|_| failed()).collect());
        assert!(matches!(became, Sent::Failed { .. }));
        assert_eq!(sent.len(), 7);
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
