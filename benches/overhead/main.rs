//! What a recording costs the watched program: CPU time of a fixed amount of work, with and without a
//! profiler, in alternating rounds. See `benches/README.md` for how to read the numbers.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a report on the terminal is what this program is for"
)]

mod inspector;
mod load;
mod options;
mod profiler;
mod program_statistics;
mod server;
mod statistics;
mod target;
mod waiting;

use std::io::IsTerminal;
use std::time::Duration;

use options::Options;
use profiler::{Attached, BusyLoops, Condition, Cost};
use statistics::{Spread, median};
use target::Target;

/// Enough to leave no CPU idle on a machine with two.
const BUSY_LOOPS: usize = 2;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let Some(options) = Options::from_arguments(std::env::args().skip(1))? else {
        print!("{}", options::HELP);
        return Ok(());
    };
    if options.inspector {
        return inspector::measure(&options);
    }
    if let Some(program) = &options.server {
        return server::measure(&options, program);
    }
    if let Some(program) = &options.waiting {
        return waiting::measure(&options, program);
    }
    let mut target = Target::start(&options)?;
    println!(
        "target: {} (pid {}), {} items a window, {} rounds",
        options.node, target.pid, options.items, options.rounds
    );
    if let Some(length) = options.memory {
        return watch_memory(&options, &mut target, length);
    }
    for &rate_hz in &options.rates_hz {
        measure_rate(&options, &mut target, rate_hz)?;
    }
    measure_attach(&options, &mut target)
}

/// One window: the work under one condition.
struct Window {
    cpu_us: f64,
    ratio: f64,
    cost: Option<Cost>,
}

/// What one sample costs the target under a condition.
struct PerSample {
    condition: Condition,
    us: f64,
    samples: f64,
}

/// Measures every condition at one rate and prints a table.
fn measure_rate(options: &Options, target: &mut Target, rate_hz: u32) -> Result<(), Failure> {
    println!("\n{rate_hz} Hz");
    warn_about_kernel_limit(rate_hz);
    let mut windows: Vec<Vec<Window>> = Condition::ALL.iter().map(|_| Vec::new()).collect();
    let mut beside_loops = Vec::new();
    for round in 0..options.rounds {
        let mut of_round = Vec::new();
        for step in 0..Condition::ALL.len() {
            let at = (round + step) % Condition::ALL.len();
            let (cpu_us, cost) = measure(options, target, Condition::ALL[at], rate_hz)?;
            of_round.push((at, cpu_us, cost));
        }
        let without = of_round
            .iter()
            .find(|(at, ..)| Condition::ALL[*at] == Condition::None)
            .map_or(1.0, |(_, cpu_us, _)| *cpu_us);
        for (at, cpu_us, cost) in of_round {
            windows[at].push(Window {
                cpu_us,
                ratio: cpu_us / without,
                cost,
            });
        }
        let loops = BusyLoops::start(BUSY_LOOPS)?;
        beside_loops.extend(measure(options, target, Condition::Nodespy, rate_hz)?.1);
        drop(loops);
        if std::io::stderr().is_terminal() {
            eprint!("\rround {} of {}\x1b[K\r", round + 1, options.rounds);
        }
    }
    print_table(&windows, &beside_loops);
    Ok(())
}

/// Lets the target work under one condition.
fn measure(
    options: &Options,
    target: &mut Target,
    condition: Condition,
    rate_hz: u32,
) -> Result<(f64, Option<Cost>), Failure> {
    let attached = Attached::start(options, condition, target.pid, rate_hz)?;
    let before = attached.as_ref().map(Attached::mark);
    let cpu_us = target.work(options.items)?;
    let cost = match (attached, before) {
        (Some(attached), Some(before)) => Some(attached.finish(before)?),
        _ => None,
    };
    Ok((cpu_us, cost))
}

fn print_table(windows: &[Vec<Window>], beside_loops: &[Cost]) {
    println!(
        "  {:<8} {:>10} {:>22} {:>8} {:>10}  {:>9} {:>10} {:>10} {:>8}  {:>9}  beside two busy loops",
        "",
        "target CPU",
        "ratio (range)",
        "samples",
        "us/sample",
        "own CPU",
        "us/sample",
        "whole run",
        "memory",
        "named"
    );
    let without = median(windows[0].iter().map(|window| window.cpu_us));
    // What the machine does to a window in which nothing is sampled.
    let noise = windows[1]
        .iter()
        .map(|window| (window.ratio - 1.0).abs())
        .fold(0.0, f64::max);
    let mut per_sample = Vec::new();
    for (condition, windows) in Condition::ALL.iter().zip(windows) {
        let cpu_us = median(windows.iter().map(|window| window.cpu_us));
        let ratios = Spread::of(windows.iter().map(|window| window.ratio));
        let costs: Vec<&Cost> = windows
            .iter()
            .filter_map(|window| window.cost.as_ref())
            .collect();
        let mut line = format!(
            "  {:<8} {:>7.0} ms {:>22}",
            condition.label(),
            cpu_us / 1000.0,
            ratios.to_string()
        );
        if !costs.is_empty() {
            let samples = median(costs.iter().map(|cost| cost.samples as f64));
            let cost_us = (ratios.median - 1.0) * without / samples;
            let is_noise = (ratios.median - 1.0).abs() <= noise;
            // By the target's CPU time, not by the clock: on a busy machine both stand still for a while.
            let steady = median(windows.iter().filter_map(|window| {
                let cost = window.cost.as_ref()?;
                Some(cost.steady_us / window.cpu_us)
            }));
            let own_us = median(costs.iter().map(|cost| cost.steady_us)) / samples;
            let whole = median(costs.iter().map(|cost| cost.whole_seconds));
            let memory = median(costs.iter().map(|cost| cost.memory_mib));
            let each = |value: f64| {
                if samples > 0.0 {
                    format!("{value:.1}")
                } else {
                    "–".to_owned()
                }
            };
            line += &format!(
                " {samples:>8.0} {:>10}  {:>7.2} % {:>10} {whole:>8.2} s {memory:>4.0} MiB",
                if is_noise && samples > 0.0 {
                    "noise".to_owned()
                } else {
                    each(cost_us)
                },
                100.0 * steady,
                each(own_us),
            );
            if *condition == Condition::Nodespy {
                line += &format!(
                    "  {:>9}  {}",
                    named_of(costs.iter().copied()),
                    beside(beside_loops)
                );
            }
            if samples > 0.0 && !is_noise {
                per_sample.push(PerSample {
                    condition: *condition,
                    us: cost_us,
                    samples,
                });
            }
        }
        println!("{line}");
    }
    print_ratios(&per_sample, noise * without);
}

/// How much of the JavaScript had a name, in words.
fn named_of<'a>(costs: impl Iterator<Item = &'a Cost>) -> String {
    let shares: Vec<f64> = costs.filter_map(|cost| cost.named_share).collect();
    match shares.is_empty() {
        true => "–".to_owned(),
        false => format!("{:.2} %", 100.0 * median(shares.into_iter())),
    }
}

/// What a recording is like where others want the CPUs too: names, and nodespy's own time.
fn beside(costs: &[Cost]) -> String {
    let samples = median(costs.iter().map(|cost| cost.samples as f64));
    let own_us = median(costs.iter().map(|cost| cost.steady_us)) / samples;
    format!(
        "{} named, {own_us:.1} us/sample own",
        named_of(costs.iter())
    )
}

/// Compares what a sample costs the target under two conditions, where both exceed the noise.
fn print_ratios(per_sample: &[PerSample], noise_us: f64) {
    let comparisons = [
        (Condition::Nodespy, Condition::Perf, "at most 1.10"),
        (Condition::WithoutHeap, Condition::Perf, "at most 1.10"),
        (
            Condition::Nodespy,
            Condition::WithoutHeap,
            "1, give or take the noise",
        ),
    ];
    let of = |wanted: Condition| per_sample.iter().find(|cost| cost.condition == wanted);
    for (one, other, goal) in comparisons {
        if let (Some(one), Some(other)) = (of(one), of(other))
            && other.us > 0.0
        {
            println!(
                "  cost per sample, {} to {}: {:.2}, noise {:.2}   (goal: {goal})",
                one.condition.label(),
                other.condition.label(),
                one.us / other.us,
                noise_us / one.samples / other.us,
            );
        }
    }
}

/// Measures how long after its start nodespy's first samples of a busy target were taken.
fn measure_attach(options: &Options, target: &mut Target) -> Result<(), Failure> {
    let (mut first_ms, mut first_named_ms) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        target.start_work(options.items)?;
        std::thread::sleep(Duration::from_millis(100));
        let first = profiler::first_samples(options, target.pid)?;
        first_ms.extend(first.any_ms);
        first_named_ms.extend(first.named_ms);
        target.finish_work()?;
    }
    println!(
        "\nstart of nodespy to its first sample of a busy thread, at 999 Hz: {} ms   (goal: under 150)",
        Spread::of(first_ms)
    );
    println!(
        "and to the first whose JavaScript is named: {} ms   (goal: under 300)",
        Spread::of(first_named_ms)
    );
    Ok(())
}

/// Records one busy target for long and prints nodespy's memory along the way.
fn watch_memory(options: &Options, target: &mut Target, length: Duration) -> Result<(), Failure> {
    let rate_hz = options.rates_hz[0];
    println!(
        "memory of a recording of {} s at {rate_hz} Hz",
        length.as_secs()
    );
    let Some(attached) = Attached::start(options, Condition::Nodespy, target.pid, rate_hz)? else {
        return Ok(());
    };
    let before = attached.mark();
    let step = length / 20;
    let since = std::time::Instant::now();
    let mut next = step;
    while since.elapsed() < length {
        target.work(options.items)?;
        if since.elapsed() >= next {
            println!(
                "  {:>5} s  {:>7.1} MiB",
                since.elapsed().as_secs(),
                attached.memory_mib()
            );
            next += step;
        }
    }
    let cost = attached.finish(before)?;
    println!(
        "  end: {} samples, most {:.1} MiB, own CPU {:.2} % of a core while recording, {:.2} s in all",
        cost.samples,
        cost.memory_mib,
        100.0 * cost.steady_share,
        cost.whole_seconds
    );
    Ok(())
}

/// The kernel refuses a rate above its limit, and lowers the limit when interrupts take too long.
fn warn_about_kernel_limit(rate_hz: u32) {
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate")
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok());
    if let Some(limit) = limit.filter(|limit| *limit < rate_hz) {
        println!("  the kernel allows {limit} Hz only: kernel.perf_event_max_sample_rate");
    }
}
