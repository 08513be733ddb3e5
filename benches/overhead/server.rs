//! What a recording costs a server under load: CPU time of a request, by what the events are of. Of a program that is no server
//! it is the CPU time between two context switches.
//!
//! One process works as fast as it can all the time. Profilers take turns on it in short slices, in random order, so
//! that what the machine does meanwhile hits all of them. CPU time is that of the server's threads as the scheduler counts it.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::load::{Load, Server};
use crate::options::Options;
use crate::profiler::{interrupt_and_wait, read_profile, samples_of};
use crate::program_statistics::{ProgramRuns, count_program_runs};
use crate::statistics::{Spread, median};

/// How long the server is measured under one condition at a time.
const SLICE: Duration = Duration::from_millis(1600);

/// What the server is watched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watcher {
    None,
    /// Events of threads that copy whole stacks.
    WholeStacks,
    /// Events of threads, with the program.
    Threads,
    /// Events of CPUs, with the program.
    Cpus,
    /// The same without async callers and routes: they are what the program does most of the time for.
    CpusWithoutRoutes,
    /// Events of threads, with threads that read async callers and routes.
    Readers,
}

impl Watcher {
    const ALL: [Self; 6] = [
        Self::None,
        Self::WholeStacks,
        Self::Threads,
        Self::Cpus,
        Self::CpusWithoutRoutes,
        Self::Readers,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::WholeStacks => "threads, no eBPF",
            Self::Threads => "threads, eBPF",
            Self::Cpus => "CPU-wide, eBPF",
            Self::CpusWithoutRoutes => "… no routes",
            Self::Readers => "threads, --async",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::None | Self::Threads | Self::Cpus => &[],
            Self::WholeStacks => &["--no-ebpf"],
            Self::CpusWithoutRoutes => &["--no-routes", "--no-async"],
            Self::Readers => &["--no-ebpf", "--async"],
        }
    }

    /// A recording of the server, which ends when it is interrupted.
    fn start(
        self,
        options: &Options,
        pid: u32,
        rate_hz: u32,
        output: &Path,
    ) -> Result<Option<Child>, Failure> {
        if self == Self::None {
            return Ok(None);
        }
        let mut command = Command::new(&options.nodespy);
        command.args([
            "record",
            "-q",
            "-p",
            &pid.to_string(),
            "-F",
            &rate_hz.to_string(),
            "-o",
        ]);
        command.arg(output);
        match self {
            Self::Cpus | Self::CpusWithoutRoutes => command.env("NODESPY_EVENTS", "cpus"),
            _ => command.env("NODESPY_EVENTS", "threads"),
        };
        command.args(self.arguments());
        let silent = command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Some(silent.stderr(Stdio::piped()).spawn()?))
    }
}

/// One slice of the measurement; its unit is a request, or a slice of the scheduler.
struct Slice {
    cpu_us_per_unit: f64,
    units_per_second: f64,
    switches_per_unit: f64,
    /// The median and the 99th percentile of requests, in milliseconds.
    latency_ms: (f64, f64),
    recording: Option<Recording>,
}

/// What was recorded meanwhile.
struct Recording {
    samples: u64,
    runs: ProgramRuns,
    /// In the measured time, and how many samples were taken in it.
    own_cpu_us: f64,
    measured_samples: f64,
}

/// Measures every watcher at every rate and prints a table for each.
pub(crate) fn measure(options: &Options, server: &Path) -> Result<(), Failure> {
    let (program, server) = (server, Server::start(&options.node, server)?);
    let load = server.port.map(|port| Load::start(port, program));
    let unit = if load.is_some() { "request" } else { "slice" };
    println!(
        "program: pid {}, {} rounds of {} ms slices, load {}",
        server.pid(),
        options.rounds,
        SLICE.as_millis(),
        load_average()
    );
    let _counting = count_program_runs()
        .inspect_err(|error| println!("runs of the program are not counted: {error}"));
    std::thread::sleep(Duration::from_secs(3));
    for &rate_hz in &options.rates_hz {
        let mut slices: [Vec<Slice>; Watcher::ALL.len()] = Default::default();
        for round in 0..options.rounds {
            for at in shuffled(round as u64 ^ u64::from(rate_hz)) {
                let slice =
                    measure_slice(options, Watcher::ALL[at], &server, load.as_ref(), rate_hz)?;
                slices[at].push(slice);
            }
        }
        print_table(rate_hz, unit, &slices);
    }
    Ok(())
}

/// The positions of all watchers, in an order that only the number decides.
fn shuffled(seed: u64) -> [usize; Watcher::ALL.len()] {
    let mut order = std::array::from_fn(|at| at);
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for last in (1..order.len()).rev() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        order.swap(last, (state % (last as u64 + 1)) as usize);
    }
    order
}

fn measure_slice(
    options: &Options,
    watcher: Watcher,
    server: &Server,
    load: Option<&Load>,
    rate_hz: u32,
) -> Result<Slice, Failure> {
    let output = output();
    let watching = watcher.start(options, server.pid(), rate_hz, &output)?;
    std::thread::sleep(options.attached);
    load.map(Load::take_latencies);
    let (start, before) = (Instant::now(), scheduled(server.pid()));
    let own_before = watching.as_ref().map(|child| scheduled(child.id()));
    std::thread::sleep(SLICE);
    let (after, took) = (scheduled(server.pid()), start.elapsed().as_secs_f64());
    let switches = after.slices - before.slices;
    let latencies = load.map(Load::take_latencies);
    let units = latencies.as_ref().map_or(switches, |it| it.len() as f64);
    let recording = match (watching, own_before) {
        (Some(child), Some(own_before)) => {
            let own = scheduled(child.id()).cpu_us - own_before.cpu_us;
            Some(finish(child, &output, server.pid(), own)?)
        }
        _ => None,
    };
    Ok(Slice {
        cpu_us_per_unit: (after.cpu_us - before.cpu_us) / units,
        units_per_second: units / took,
        switches_per_unit: switches / units,
        latency_ms: percentiles(latencies.unwrap_or_default()),
        recording,
    })
}

fn percentiles(mut latencies: Vec<Duration>) -> (f64, f64) {
    latencies.sort_unstable();
    let at = |part: usize| {
        let latency = latencies.get(latencies.len() * part / 100);
        latency.map_or(0.0, |latency| 1000.0 * latency.as_secs_f64())
    };
    (at(50), at(99))
}

pub(crate) fn output() -> PathBuf {
    let name = format!("nodespy-overhead-{}.nspy", std::process::id());
    std::env::temp_dir().join(name)
}

fn finish(
    mut child: Child,
    output: &Path,
    pid: u32,
    own_cpu_us: f64,
) -> Result<Recording, Failure> {
    let runs = ProgramRuns::of_process(child.id());
    interrupt_and_wait(&child);
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said)?;
    }
    let profile = read_profile(output, &said)?;
    let _ = fs::remove_file(output);
    let samples = samples_of(&profile, pid);
    let measured = SLICE.as_nanos() as f64 / profile.about.duration.max(1) as f64;
    Ok(Recording {
        samples,
        runs,
        own_cpu_us,
        measured_samples: samples as f64 * measured,
    })
}

/// What the scheduler has counted for all threads of a process.
pub(crate) struct Scheduled {
    pub(crate) cpu_us: f64,
    slices: f64,
}

pub(crate) fn scheduled(pid: u32) -> Scheduled {
    let mut all = Scheduled {
        cpu_us: 0.0,
        slices: 0.0,
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    for thread in threads.flatten() {
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let numbers: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
        if let [on_cpu, _, slices] = numbers[..] {
            all.cpu_us += on_cpu / 1000.0;
            all.slices += slices;
        }
    }
    all
}

fn print_table(rate_hz: u32, unit: &str, slices: &[Vec<Slice>]) {
    println!("\n{rate_hz} Hz, load {}", load_average());
    println!(
        "  {:<17} {:>22} {:>7} {:>12} {:>7} {:>7} {:>9} {:>8} {:>8} {:>9} {:>12} {:>8} {:>14}",
        "",
        format!("CPU us a {unit}"),
        "",
        format!("{unit}s/s"),
        "p50 ms",
        "p99 ms",
        "switches",
        "samples",
        "runs",
        "us a run",
        "us a sample",
        "own CPU",
        "own us/sample"
    );
    let cpu_of = |slices: &[Slice]| median(slices.iter().map(|slice| slice.cpu_us_per_unit));
    let without = cpu_of(&slices[0]);
    for (watcher, slices) in Watcher::ALL.iter().zip(slices) {
        let of = |value: fn(&Slice) -> f64| median(slices.iter().map(value));
        let cpu = Spread::of(slices.iter().map(|slice| slice.cpu_us_per_unit));
        let mut line = format!(
            "  {:<17} {:>22} {:>+5.1} % {:>12.0} {:>7.2} {:>7.2} {:>9.1}",
            watcher.label(),
            cpu.to_string(),
            100.0 * (cpu.median / without - 1.0),
            of(|slice| slice.units_per_second),
            of(|slice| slice.latency_ms.0),
            of(|slice| slice.latency_ms.1),
            of(|slice| slice.switches_per_unit),
        );
        let recordings: Vec<&Recording> = slices
            .iter()
            .filter_map(|slice| slice.recording.as_ref())
            .collect();
        if !recordings.is_empty() {
            line += &of_recordings(&recordings);
        }
        println!("{line}");
    }
}

fn of_recordings(recordings: &[&Recording]) -> String {
    let samples: u64 = recordings.iter().map(|it| it.samples).sum();
    let runs: u64 = recordings.iter().map(|it| it.runs.count).sum();
    let us: f64 = recordings
        .iter()
        .map(|it| it.runs.nanoseconds as f64 / 1000.0)
        .sum();
    let own = median(
        recordings
            .iter()
            .map(|it| it.own_cpu_us / SLICE.as_micros() as f64),
    );
    let own_us: f64 = recordings.iter().map(|it| it.own_cpu_us).sum();
    let measured: f64 = recordings.iter().map(|it| it.measured_samples).sum();
    let each = |us: f64, count: u64| match count > 0 && us > 0.0 {
        true => format!("{:.1}", us / count as f64),
        false => "–".to_owned(),
    };
    format!(
        " {samples:>8} {runs:>8} {:>9} {:>12} {:>6.1} % {:>14}",
        each(us, runs),
        each(us, samples),
        100.0 * own,
        each(own_us, measured as u64)
    )
}

/// The first of the kernel's load averages.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_watcher_has_one_turn_a_round() {
        for seed in 0..100 {
            let mut order = shuffled(seed);
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        }
        assert_ne!(shuffled(1), shuffled(2));
    }
}
