//! How an agent is, for monitoring: `/metrics` in Prometheus' text format, `/healthz` for a liveness probe.

use std::fmt::Write;
use std::io::{self, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nodespy_capture::monotonic_now;
use nodespy_http::{Answer, HEAD_TIMEOUT, TimedStream, accept, read_head};

use crate::counters::Counters;

/// After how long without a sign of life an agent is not well: it gives one every ten seconds at least.
const SILENCE: Duration = Duration::from_secs(60);
/// Clock ticks of a second in /proc, the same on every Linux for x86-64 and ARM.
const TICKS: f64 = 100.0;
const PAGE_BYTES: u64 = 4096;

/// What an agent has counted since its start.
#[derive(Debug, Default)]
pub struct Status {
    pub(crate) processes: AtomicU64,
    pub(crate) joined: AtomicU64,
    pub(crate) samples: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) rate_hz: AtomicU64,
    /// In thousandths.
    current_rate: AtomicU64,
    /// How often a process was unusual.
    pub(crate) unusual: AtomicU64,
    /// When it last gave a sign of life, in nanoseconds of the monotonic clock.
    beat: AtomicU64,
    /// How processes are sampled; none before the first is.
    engine: Mutex<&'static str>,
    destinations: Mutex<Vec<(String, Arc<Counters>)>>,
}

impl Status {
    /// Gives a sign of life.
    pub(crate) fn beat(&self) {
        self.beat.store(monotonic_now(), Ordering::Relaxed);
    }

    /// Samples are taken so often now.
    pub(crate) fn sample_at(&self, rate_hz: f64) {
        let thousandths = (1000.0 * rate_hz).round() as u64;
        self.current_rate.store(thousandths, Ordering::Relaxed);
    }

    /// Samples are taken in this way now.
    pub(crate) fn sample_by(&self, engine: &'static str) {
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = engine;
    }

    pub(crate) fn watch(&self, destinations: Vec<(String, Arc<Counters>)>) {
        *self.destinations() = destinations;
    }

    fn destinations(&self) -> MutexGuard<'_, Vec<(String, Arc<Counters>)>> {
        self.destinations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers for as long as the process lives.
    pub fn serve(&self, listener: &TcpListener) {
        accept(listener, |connection, guest| {
            self.answer(connection, &|| guest.keep())
        });
    }

    fn answer(&self, connection: TcpStream, known: &dyn Fn()) -> io::Result<()> {
        let deadline = Instant::now() + HEAD_TIMEOUT;
        let mut reader = BufReader::new(TimedStream::until(connection, deadline));
        let head = read_head(&mut reader)?;
        known();
        let path = head.target.split('?').next().unwrap_or_default();
        let answer = match (head.method.as_str(), path) {
            ("GET", "/metrics") => Answer::ok(
                "text/plain; version=0.0.4; charset=utf-8",
                self.metrics().into_bytes(),
            ),
            ("GET", "/healthz") => self.health(monotonic_now()),
            _ => Answer::text("404 Not Found", "/metrics and /healthz are here"),
        };
        let connection = reader.get_mut();
        connection.allow_until(Instant::now() + HEAD_TIMEOUT);
        answer.write(connection)
    }

    fn health(&self, now: u64) -> Answer {
        let silent = now.saturating_sub(self.beat.load(Ordering::Relaxed));
        match silent > SILENCE.as_nanos() as u64 {
            false => Answer::text("200 OK", "ok"),
            true => {
                let seconds = silent / 1_000_000_000;
                let why = format!("nothing was sampled or looked for since {seconds} s");
                Answer::text("503 Service Unavailable", &why)
            }
        }
    }

    fn metrics(&self) -> String {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed).to_string();
        let mut text = Text::default();
        text.family(
            "nodespy_agent_processes",
            "gauge",
            "Node processes that are sampled.",
        );
        text.value("", get(&self.processes));
        text.family(
            "nodespy_agent_processes_joined_total",
            "counter",
            "Node processes that were sampled so far.",
        );
        text.value("", get(&self.joined));
        let engine = *self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if !engine.is_empty() {
            text.family(
                "nodespy_agent_engine_info",
                "gauge",
                "How processes are sampled.",
            );
            text.value(&format!("{{engine=\"{engine}\"}}"), 1);
        }
        text.family(
            "nodespy_agent_rate_hertz",
            "gauge",
            "Samples per second of CPU time, usually.",
        );
        text.value("", get(&self.rate_hz));
        text.family(
            "nodespy_agent_current_rate_hertz",
            "gauge",
            "Samples per second of CPU time now: more while a process is unusual, fewer while all are idle or it costs too much.",
        );
        let current = self.current_rate.load(Ordering::Relaxed);
        text.value("", current as f64 / 1000.0);
        text.family(
            "nodespy_agent_unusual_total",
            "counter",
            "How often samples were taken fast because a process was hot or stalling.",
        );
        text.value("", get(&self.unusual));
        text.family(
            "nodespy_agent_samples_total",
            "counter",
            "Samples that were taken.",
        );
        text.value("", get(&self.samples));
        text.family(
            "nodespy_agent_samples_lost_total",
            "counter",
            "Samples that the kernel could not hand over, or that V8 handed over minutes too late.",
        );
        text.value("", get(&self.lost));
        self.put_destinations(&mut text);
        put_process(&mut text);
        text.0
    }

    fn put_destinations(&self, text: &mut Text) {
        let destinations = self.destinations();
        let name = "nodespy_agent_windows_total";
        text.family(name, "counter", "Windows by what became of them.");
        for (to, counters) in destinations.iter() {
            let written = counters.written();
            for (outcome, count) in [
                ("written", written.windows),
                ("repeated", written.repeated),
                ("dropped", written.dropped),
            ] {
                let labels = format!("{{to=\"{}\",outcome=\"{outcome}\"}}", escaped(to));
                text.value(&labels, count);
            }
        }
        let name = "nodespy_agent_retries_total";
        text.family(name, "counter", "How often something was tried again.");
        for (to, counters) in destinations.iter() {
            let labels = format!("{{to=\"{}\"}}", escaped(to));
            text.value(&labels, counters.written().retries);
        }
        let waiting = destinations.iter();
        let waiting: Vec<_> = waiting
            .filter_map(|(to, counters)| Some((to, counters.backlog()?)))
            .collect();
        if waiting.is_empty() {
            return;
        }
        let name = "nodespy_agent_spool_windows";
        text.family(name, "gauge", "Windows that wait to be sent.");
        for (to, backlog) in &waiting {
            text.value(&format!("{{to=\"{}\"}}", escaped(to)), backlog.windows);
        }
        let name = "nodespy_agent_spool_bytes";
        text.family(name, "gauge", "What waits to be sent, on disk.");
        for (to, backlog) in &waiting {
            text.value(&format!("{{to=\"{}\"}}", escaped(to)), backlog.bytes);
        }
    }
}

/// What the agent itself takes, by the names that Prometheus' own clients use.
fn put_process(text: &mut Text) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may have spaces: state is the third field of all, user and system time the 14th and 15th.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = |number: usize| -> Option<f64> {
        let word = fields.split_ascii_whitespace().nth(number - 3)?;
        word.parse().ok()
    };
    if let (Some(user), Some(system)) = (field(14), field(15)) {
        let name = "process_cpu_seconds_total";
        text.family(name, "counter", "CPU time of the agent.");
        text.value("", (user + system) / TICKS);
    }
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_ascii_whitespace().nth(1);
    if let Some(pages) = pages.and_then(|pages| pages.parse::<u64>().ok()) {
        let name = "process_resident_memory_bytes";
        text.family(name, "gauge", "Memory of the agent.");
        text.value("", pages * PAGE_BYTES);
    }
}

/// Prometheus' text format.
#[derive(Default)]
struct Text(String, &'static str);

impl Text {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.1 = name;
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{}{labels} {value}", self.1);
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_destination_has_its_counters() {
        let status = Status::default();
        status.samples.store(7, Ordering::Relaxed);
        status.sample_at(9.5);
        status.sample_by("inspector");
        let counters = Arc::new(Counters::default());
        counters.drop_windows(3);
        status.watch(vec![("http://a\"b".to_owned(), counters)]);
        let text = status.metrics();
        assert!(text.contains("\nnodespy_agent_samples_total 7\n"), "{text}");
        assert!(
            text.contains("\nnodespy_agent_current_rate_hertz 9.5\n"),
            "{text}"
        );
        let line = "nodespy_agent_windows_total{to=\"http://a\\\"b\",outcome=\"dropped\"} 3\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("process_cpu_seconds_total "), "{text}");
        let line = "\nnodespy_agent_engine_info{engine=\"inspector\"} 1\n";
        assert!(text.contains(line), "{text}");
        assert!(!text.contains("spool"), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (_, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }

    #[test]
    fn silence_is_not_health() {
        let status = Status::default();
        status.beat();
        let now = monotonic_now();
        assert!(status.health(now).status.starts_with("200"));
        let later = now + 61_000_000_000;
        assert!(status.health(later).status.starts_with("503"));
    }
}
