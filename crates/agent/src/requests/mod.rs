//! How many requests each sampled process answers, by a Prometheus counter that it serves itself.
//!
//! A thread asks every process for its page of metrics once in a window, on loopback, and only where the socket that listens there is that
//! process's own: no other process can answer for it. What the counter rose by becomes windows of [`REQUESTS_EVENT`], with the labels of the
//! process's CPU time. Pages are hostile bytes: bounded in length and time, and read by a thread that may look at sockets of others but
//! samples nothing.

mod exposition;
mod meter;
mod page;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nodespy_capture::target::{LocalListeners, Target};
use nodespy_capture::unix_now;
use nodespy_model::{FastMap, Nanoseconds, SmallSort, WeightUnit};
use nodespy_store::{Batch, CPU_EVENT, PID, REQUESTS_EVENT, Series, UnixSeconds, WINDOW_SECONDS};

use crate::log_line::{Level, Log, LogLine};
use crate::wall_clock::Moment;
use crate::writer::Writers;
use meter::Meter;

const WINDOW: Nanoseconds = WINDOW_SECONDS * 1_000_000_000;
/// How long a round of reads may take; those that were not read are the first of the next.
const MAX_ROUND: Duration = Duration::from_secs(8);
/// After so many failures in a row a process is logged: it may have been starting.
const FAILURES_LOGGED: u32 = 3;
/// How many rounds a process that can't be read is left alone at most: five minutes.
const MAX_ROUNDS_LEFT_OUT: u32 = 30;
/// A counter that fell so often, and in every fourth read, is more than one counter.
const MAX_FALLS: u32 = 3;

/// Which counter tells the requests of a process, and where it serves that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestOptions {
    /// Its name on the page: all of its label sets are added up.
    pub metric: String,
    /// The ports that are asked, where the process itself listens.
    pub ports: Vec<u16>,
    /// The path of the page.
    pub path: String,
}

/// The thread that reads counters, and which processes it is to read.
pub(crate) struct RequestReader {
    wanted: Arc<Wanted>,
    thread: JoinHandle<()>,
}

/// What the thread is told.
#[derive(Debug, Default)]
struct Wanted {
    /// The series of requests by pid.
    series: Mutex<FastMap<u32, Series>>,
    is_ending: AtomicBool,
}

impl Wanted {
    fn series(&self) -> MutexGuard<'_, FastMap<u32, Series>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}

impl RequestReader {
    /// Starts the thread; `enter` is the first that it does.
    pub(crate) fn start(
        options: RequestOptions,
        writers: Arc<Writers>,
        log: &Log,
        enter: fn(),
    ) -> Self {
        let wanted = Arc::new(Wanted::default());
        let mut reading = Reading {
            options,
            log: Arc::clone(log),
            wanted: Arc::clone(&wanted),
            processes: FastMap::default(),
        };
        let thread = std::thread::spawn(move || {
            enter();
            reading.run(&writers);
        });
        Self { wanted, thread }
    }

    /// From now on the processes of these series are read, those of CPU time that are still running.
    pub(crate) fn follow(&self, series: &[Series], is_running: impl Fn(u32) -> bool) {
        let mut wanted = self.wanted.series();
        for cpu in series.iter().filter(|series| series.event == CPU_EVENT) {
            let pid = cpu.labels.get(PID).and_then(|pid| pid.parse().ok());
            let Some(pid) = pid.filter(|pid| is_running(*pid)) else {
                continue;
            };
            wanted.insert(
                pid,
                Series {
                    event: REQUESTS_EVENT.to_owned(),
                    unit: WeightUnit::Events,
                    period: 1,
                    ..cpu.clone()
                },
            );
        }
    }

    /// A process has ended.
    pub(crate) fn forget(&self, pid: u32) {
        self.wanted.series().remove(&pid);
    }

    /// Ends the thread. A window that goes on is left out: it is not known whole.
    pub(crate) fn finish(self) {
        self.wanted.is_ending.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        // What it has read is written already.
        let _ = self.thread.join();
    }
}

/// What the thread works with.
struct Reading {
    options: RequestOptions,
    log: Log,
    wanted: Arc<Wanted>,
    processes: FastMap<u32, Followed>,
}

/// A process that is read.
struct Followed {
    series: Series,
    target: Target,
    meter: Meter,
    /// Where it was last read.
    address: Option<SocketAddr>,
    /// When that was tried, by the monotonic clock.
    tried: Nanoseconds,
    reads: u32,
    falls: u32,
    /// Failures in a row.
    failures: u32,
    /// Rounds that it is left alone for.
    left_out: u32,
    is_logged: bool,
    is_given_up: bool,
}

impl Followed {
    fn new(series: Series, target: Target) -> Self {
        Self {
            series,
            target,
            meter: Meter::default(),
            address: None,
            tried: 0,
            reads: 0,
            falls: 0,
            failures: 0,
            left_out: 0,
            is_logged: false,
            is_given_up: false,
        }
    }
}

/// Windows that are whole: of which process, when they start, and their requests.
type Windows = Vec<(Series, UnixSeconds, u64)>;

impl Reading {
    fn run(&mut self, writers: &Writers) {
        while !self.wanted.is_ending() {
            let now = Moment::now();
            let unix = now.unix;
            let windows = self.round(now);
            writers.write(batch_of(windows));
            // Just after a window has ended, so that what is read is about that window.
            let next = (unix / WINDOW + 1) * WINDOW;
            while !self.wanted.is_ending() && (unix..next).contains(&unix_now()) {
                std::thread::park_timeout(Duration::from_nanos(next.saturating_sub(unix_now())));
            }
        }
    }

    /// Reads every process that is due, those first that were not read for longest.
    fn round(&mut self, now: Moment) -> Windows {
        self.take_over();
        let started = Instant::now();
        let mut due = Vec::new();
        for (pid, followed) in &mut self.processes {
            match followed.left_out {
                0 if followed.is_given_up => {}
                0 => due.push((followed.tried, *pid)),
                _ => followed.left_out -= 1,
            }
        }
        due.small_sort();
        if due.is_empty() {
            return Vec::new();
        }
        let listeners = LocalListeners::of(self.processes.keys().copied());
        let mut windows = Vec::new();
        for (_, pid) in due {
            if self.wanted.is_ending() || started.elapsed() > MAX_ROUND {
                break;
            }
            self.read(pid, &listeners, (now, started), &mut windows);
        }
        windows
    }

    /// Takes over which processes are wanted now.
    fn take_over(&mut self) {
        let wanted = self.wanted.series();
        let is_wanted = |pid: &u32, followed: &Followed| {
            wanted.get(pid) == Some(&followed.series) && !followed.target.has_ended()
        };
        self.processes
            .retain(|pid, followed| is_wanted(pid, followed));
        for (pid, series) in wanted.iter() {
            if !self.processes.contains_key(pid)
                && let Ok(target) = Target::hold(*pid)
            {
                let followed = Followed::new(series.clone(), target);
                self.processes.insert(*pid, followed);
            }
        }
    }

    /// Reads the counter of a process.
    fn read(
        &mut self,
        pid: u32,
        listeners: &LocalListeners,
        (now, started): (Moment, Instant),
        windows: &mut Windows,
    ) {
        let Some(followed) = self.processes.get_mut(&pid) else {
            return;
        };
        let before = started.elapsed();
        followed.tried = now.monotonic + before.as_nanos() as Nanoseconds;
        let read = read_counter(followed, listeners, &self.options);
        // In the middle of asking: the process counts somewhere in between.
        let elapsed = (before + started.elapsed()).as_nanos() as Nanoseconds / 2;
        let at = Moment {
            unix: now.unix + elapsed,
            monotonic: now.monotonic + elapsed,
        };
        match read {
            // Who answered then?
            _ if followed.target.has_ended() => {}
            Ok(value) => {
                let told = followed.meter.read(at, value);
                followed.failures = 0;
                followed.reads += 1;
                followed.falls += u32::from(told.was_reset);
                let whole = told.windows.into_iter();
                let whole = whole.filter(|(_, requests)| *requests > 0);
                windows.extend(
                    whole.map(|(start, requests)| (followed.series.clone(), start, requests)),
                );
                if followed.falls >= MAX_FALLS && followed.falls * 4 >= followed.reads {
                    followed.is_given_up = true;
                    self.say_not_read(pid, "the counter keeps falling: several processes answer");
                }
            }
            Err(why) => {
                followed.failures = followed.failures.saturating_add(1);
                let doubled = 1_u32.checked_shl(followed.failures - 1);
                followed.left_out =
                    doubled.map_or(MAX_ROUNDS_LEFT_OUT, |it| (it - 1).min(MAX_ROUNDS_LEFT_OUT));
                if followed.failures >= FAILURES_LOGGED {
                    self.say_not_read(pid, &why);
                }
            }
        }
    }

    /// Logs once that the requests of a process are not known.
    fn say_not_read(&mut self, pid: u32, why: &str) {
        let Some(followed) = self.processes.get_mut(&pid) else {
            return;
        };
        if std::mem::replace(&mut followed.is_logged, true) {
            return;
        }
        let line = LogLine::new(Level::Warn, "requests not read")
            .with("pid", pid)
            .with("service", &followed.series.service);
        (self.log)(&line.with("why", why));
    }
}

/// The counter of a process, at the first of its own addresses that has it.
fn read_counter(
    followed: &mut Followed,
    listeners: &LocalListeners,
    options: &RequestOptions,
) -> Result<u64, String> {
    let pid = followed.target.pid();
    let ports = options.ports.iter();
    let mut addresses: Vec<SocketAddr> = ports
        .flat_map(|port| listeners.loopback_routes(pid, *port))
        .collect();
    addresses.small_sort_by_key(|address| Some(*address) != followed.address);
    let mut why = "it listens on none of the ports, or not alone".to_owned();
    for address in addresses {
        match page::counter_at(address, options) {
            Ok(value) => {
                followed.address = Some(address);
                return Ok(value);
            }
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn batch_of(windows: Windows) -> Batch {
    let mut positions: FastMap<Series, usize> = FastMap::default();
    let mut all_series = Vec::new();
    let mut counts = Vec::new();
    for (series, start, requests) in windows {
        let position = *positions.entry(series).or_insert_with_key(|series| {
            all_series.push(series.clone());
            all_series.len() - 1
        });
        counts.push((position, start, requests));
    }
    Batch::counted(all_series, &counts)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::AtomicU64;

    use nodespy_model::Labels;

    use super::*;

    /// A page of metrics in this process, of a counter.
    fn served() -> (u16, Arc<AtomicU64>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let counter = Arc::new(AtomicU64::new(0));
        let shown = Arc::clone(&counter);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let _ = connection.read(&mut [0; 4096]);
                let page = format!("requests_total {}\n", shown.load(Ordering::Relaxed));
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
                let _ = connection.write_all((head + &page).as_bytes());
            }
        });
        (port, counter)
    }

    fn cpu_series(pid: u32) -> Series {
        let mut labels = Labels::default();
        labels.set(PID, pid.to_string());
        labels.set("version", "1.0.0");
        Series {
            service: "shop".to_owned(),
            event: CPU_EVENT.to_owned(),
            unit: WeightUnit::Nanoseconds,
            period: 52_631_578,
            labels,
        }
    }

    fn reading(port: u16) -> (Reading, RequestReader, Arc<Mutex<Vec<String>>>) {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let taken = Arc::clone(&lines);
        let wanted = Arc::new(Wanted::default());
        let reading = Reading {
            options: RequestOptions {
                metric: "requests_total".to_owned(),
                ports: vec![port],
                path: "/metrics".to_owned(),
            },
            log: Arc::new(move |line: &LogLine| taken.lock().unwrap().push(line.to_string())),
            wanted: Arc::clone(&wanted),
            processes: FastMap::default(),
        };
        let thread = std::thread::spawn(|| {});
        (reading, RequestReader { wanted, thread }, lines)
    }

    fn at(seconds: u64) -> Moment {
        Moment {
            unix: (1_700_000_000 + seconds) * 1_000_000_000,
            monotonic: (100 + seconds) * 1_000_000_000,
        }
    }

    #[test]
    fn what_a_counter_rose_by_is_in_windows_with_the_labels_of_its_process() {
        let (port, counter) = served();
        let (mut reading, reader, lines) = reading(port);
        let pid = std::process::id();
        reader.follow(&[cpu_series(pid)], |_| true);
        let mut windows = Vec::new();
        for turn in 0..4 {
            windows.extend(reading.round(at(10 * turn)));
            counter.fetch_add(500, Ordering::Relaxed);
        }
        let total: u64 = windows.iter().map(|(_, _, requests)| requests).sum();
        let starts: Vec<u64> = windows.iter().map(|(_, start, _)| *start).collect();
        // The first is not known from its start, by a moment.
        assert_eq!(starts, [1_700_000_010, 1_700_000_020]);
        assert!((900..=1100).contains(&total), "{total}");
        let batch = batch_of(windows);
        assert_eq!((batch.series.len(), batch.windows.len()), (1, 2));
        let series = &batch.series[0];
        assert_eq!(series.labels, cpu_series(pid).labels);
        assert_eq!((&*series.event, series.period), (REQUESTS_EVENT, 1));
        assert!(lines.lock().unwrap().is_empty());
        reader.forget(pid);
        assert!(reading.round(at(40)).is_empty() && reading.processes.is_empty());
        // Samples that come late do not put it back.
        reader.follow(&[cpu_series(pid)], |_| false);
        assert!(reading.round(at(50)).is_empty() && reading.processes.is_empty());
    }

    #[test]
    fn a_process_that_serves_nothing_is_said_once_and_asked_rarely() {
        let (_, _) = served();
        let (mut reading, reader, lines) = reading(1);
        reader.follow(&[cpu_series(std::process::id())], |_| true);
        for turn in 0..100 {
            assert!(reading.round(at(10 * turn)).is_empty());
        }
        let lines = lines.lock().unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("requests not read") && lines[0].contains("service=shop"));
        let failures = reading.processes.values().next().unwrap().failures;
        assert!(failures < 10, "{failures}");
    }

    #[test]
    fn a_counter_that_is_several_is_given_up() {
        let (port, counter) = served();
        let (mut reading, reader, lines) = reading(port);
        reader.follow(&[cpu_series(std::process::id())], |_| true);
        for turn in 0..20 {
            let of_worker = if turn % 2 == 0 { 1000 } else { 900 };
            counter.store(of_worker + turn, Ordering::Relaxed);
            reading.round(at(10 * turn));
        }
        assert!(reading.processes.values().all(|it| it.is_given_up));
        assert_eq!(lines.lock().unwrap().len(), 1);
    }
}
