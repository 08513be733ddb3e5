//! What a store costs: bytes a sample, ingestion, merges, retention, each beside its goal. CPU times: those of the wall clock are
//! of whatever else the machine does. Given the address of a ClickHouse after the hours, one there; then times are of the wall
//! clock, because another process does the work.

#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

mod fleet;

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fleet::{Fleet, START, WINDOWS_AN_HOUR};
use nodespy_analysis::CallTree;
use nodespy_model::{About, EventType, WeightUnit};
use nodespy_store::{
    ClickHouseOptions, ClickHouseStore, ClickHouseTables, Count, Detail, HOUR_SECONDS, OpenMode,
    Selection, SqliteStore, StackHash, Store, StoreError, Window, profile_of,
};

/// Windows of an agent's request.
const BATCH: usize = 100;
/// Each merge is timed so often; the least counts.
const REPEATS: usize = 7;

type Failure = Box<dyn std::error::Error>;

/// Whether another process does the work.
static IS_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// CPU time of this thread, or the time of the wall clock where that says nothing.
fn cpu() -> Duration {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    if IS_ELSEWHERE.load(Ordering::Relaxed) {
        return BEGUN.get_or_init(Instant::now).elapsed();
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec that lives as long as the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = cpu();
    let result = work();
    (result, cpu() - before)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn main() -> Result<(), Failure> {
    let hours = std::env::args()
        .nth(1)
        .map_or(Ok(24), |hours| hours.parse())?;
    let folder = std::env::temp_dir().join(format!("nodespy-bench-store-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let outcome = match std::env::args().nth(2) {
        Some(address) => run_in_clickhouse(&address, hours),
        None => run(&folder, hours),
    };
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn run_in_clickhouse(address: &str, hours: u64) -> Result<(), Failure> {
    IS_ELSEWHERE.store(true, Ordering::Relaxed);
    let options = ClickHouseOptions::of_address(address)?;
    ClickHouseTables::default().create(&options)?;
    let mut store = ClickHouseStore::open(&options)?;
    ingest(&Fleet::new(), &mut store, hours)?;
    ask(&store, hours)
}

fn run(folder: &Path, hours: u64) -> Result<(), Failure> {
    let fleet = Fleet::new();
    let mut store = SqliteStore::open(&folder.join("day"), OpenMode::Write)?;
    ingest(&fleet, &mut store, hours)?;
    ask(&store, hours)?;
    month(folder, &fleet)?;
    beside(folder, &fleet)?;
    retention(&mut store, hours)
}

/// Asks for an hour, and for all of it.
fn ask(store: &dyn Store, hours: u64) -> Result<(), Failure> {
    let hour = START + hours / 3 * HOUR_SECONDS;
    merges(
        store,
        "1 h of a service, merged",
        hour..hour + HOUR_SECONDS,
        &[],
    )?;
    drawn(store, hour..hour + HOUR_SECONDS)?;
    let day = START..START + hours * HOUR_SECONDS;
    merges(store, "1 h by process", hour..hour + HOUR_SECONDS, &["pid"])?;
    let odd = hour + 1230..hour + HOUR_SECONDS + 1230;
    merges(store, "1 h that starts within one", odd, &[])?;
    merges(store, "all of it, from rollups", day.clone(), &[])?;
    merges(store, "all of it by process (hours)", day.clone(), &["pid"])?;
    let asked = selection(day);
    let (series, time) = timed(|| store.series(&asked, 60, &["version"]));
    println!(
        "{:<36} {:8.2} ms  ({} series)",
        "weight over time, a minute a step",
        milliseconds(time),
        series?.series.len()
    );
    Ok(())
}

fn selection(time: std::ops::Range<u64>) -> Selection {
    Selection::new(&Fleet::service_name(0), "cpu-clock", time)
}

/// Stacks of windows that the store does not know.
fn unknown(store: &dyn Store, windows: &[Window]) -> Result<Vec<StackHash>, StoreError> {
    let counts = windows.iter().flat_map(|window| &window.counts);
    let mut hashes: Vec<StackHash> = counts.map(|count| count.stack).collect();
    hashes.sort_unstable();
    hashes.dedup();
    store.unknown_stacks(&hashes)
}

fn ingest(fleet: &Fleet, store: &mut dyn Store, hours: u64) -> Result<(), Failure> {
    let (mut windows, mut samples) = (0, 0);
    let (mut appending, mut compacting, mut asking) =
        (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut longest = Duration::ZERO;
    let mut pending: Vec<Window> = Vec::new();
    for number in 0..hours * WINDOWS_AN_HOUR {
        pending.extend(fleet.windows(number));
        let is_last = number + 1 == hours * WINDOWS_AN_HOUR;
        while pending.len() >= BATCH || (is_last && !pending.is_empty()) {
            let rest = pending.split_off(pending.len().min(BATCH));
            let sent = std::mem::replace(&mut pending, rest);
            let (missing, time) = timed(|| unknown(store, &sent));
            asking += time;
            windows += sent.len();
            let counts = sent.iter().flat_map(|window| &window.counts);
            samples += counts.map(|count| count.count).sum::<u64>();
            let batch = fleet.batch(sent, &missing?);
            let (appended, time) = timed(|| store.append(&batch));
            appended?;
            appending += time;
        }
        if (number + 1) % WINDOWS_AN_HOUR == 0 {
            let since = Instant::now();
            let (compacted, time) = timed(|| store.compact(START + (number + 1) * 10));
            compacted?;
            compacting += time;
            longest = longest.max(since.elapsed());
        }
    }
    // Folds the WAL into the file.
    store.drop_before(Detail::Rollups, START)?;
    let bytes = store.bytes()?;
    let per_second = |time: Duration| windows as f64 / time.as_secs_f64();
    println!("{windows} windows, {samples} samples, {hours} hours, batches of {BATCH}");
    println!(
        "{:<36} {:8.2}     (goal: at most 2; {:.1} MB)",
        "bytes a sample, everything",
        bytes as f64 / samples as f64,
        bytes as f64 / 1e6
    );
    println!(
        "{:<36} {:8.0}",
        "windows appended per CPU second",
        per_second(appending)
    );
    let all = appending + compacting + asking;
    println!(
        "{:<36} {:8.0}     (goal: 833, which is 50,000 a minute on one core)",
        "… with names asked for, compaction",
        per_second(all)
    );
    println!(
        "{:<36} {:8.0} ms wall",
        "longest compaction of an hour",
        milliseconds(longest)
    );
    Ok(())
}

fn merges(
    store: &dyn Store,
    name: &str,
    time: std::ops::Range<u64>,
    by: &[&str],
) -> Result<(), Failure> {
    let asked = selection(time);
    let mut best = Duration::MAX;
    let (mut stacks, mut count) = (0, 0);
    for _ in 0..REPEATS {
        let (merged, time) = timed(|| store.merge(&asked, by));
        best = best.min(time);
        let merged = merged?;
        let all = merged.groups.iter().flat_map(|group| &group.stacks);
        stacks = all.clone().count();
        count = all.map(|stack| stack.count).sum::<u64>();
    }
    println!(
        "{name:<36} {:8.2} ms  ({stacks} stacks, {count} samples)",
        milliseconds(best)
    );
    Ok(())
}

/// From the file to a tree that is ready to be drawn.
fn drawn(store: &dyn Store, time: std::ops::Range<u64>) -> Result<(), Failure> {
    let asked = selection(time);
    let mut best = Duration::MAX;
    let mut nodes = 0;
    let mut names = Duration::MAX;
    for _ in 0..REPEATS {
        let before = cpu();
        let merged = store.merge(&asked, &[])?;
        let stacks = &merged.groups[0].stacks;
        let ids: Vec<_> = stacks.iter().map(|stack| stack.stack).collect();
        let (symbols, time) = timed(|| store.stacks(&ids));
        names = names.min(time);
        let event = EventType::new("cpu-clock", WeightUnit::Nanoseconds);
        let profile = profile_of(About::default(), event, &symbols?, stacks);
        nodes = CallTree::of(&profile, |_| true)
            .child_lists()
            .of_node(None)
            .len();
        best = best.min(cpu() - before);
    }
    println!(
        "{:<36} {:8.2} ms  (goal: 25; of which names {:.2}; {nodes} roots)",
        "1 h merged, named, counted as a tree",
        milliseconds(best),
        milliseconds(names)
    );
    Ok(())
}

/// Thirty days of one service: each hour as one window of what the whole hour counted, so that rollups are as large as
/// those of all its windows.
fn month(folder: &Path, fleet: &Fleet) -> Result<(), Failure> {
    let mut store = SqliteStore::open(&folder.join("month"), OpenMode::Write)?;
    let mut hours: Vec<Window> = Vec::new();
    for hour in 0..24 {
        let mut counts: std::collections::BTreeMap<_, Count> = std::collections::BTreeMap::new();
        for number in hour * WINDOWS_AN_HOUR..(hour + 1) * WINDOWS_AN_HOUR {
            let windows = fleet.windows(number).into_iter().take(8);
            for count in windows.flat_map(|window| window.counts) {
                let known = counts.entry(count.stack);
                known
                    .and_modify(|sum: &mut Count| sum.count += count.count)
                    .or_insert(count);
            }
        }
        hours.push(Window {
            series: 0,
            start: START + hour * HOUR_SECONDS,
            counts: counts.into_values().collect(),
        });
    }
    for day in 0..30 {
        for hour in &hours {
            let window = Window {
                start: hour.start + day * 24 * HOUR_SECONDS,
                ..hour.clone()
            };
            let sent = vec![window];
            let missing = unknown(&store, &sent)?;
            store.append(&fleet.batch(sent, &missing))?;
        }
        store.compact(START + (day + 1) * 24 * HOUR_SECONDS)?;
    }
    let month = START..START + 30 * 24 * HOUR_SECONDS;
    merges(&store, "30 days from rollups (goal: 150)", month, &[])
}

/// One thread writes as fast as it can, another merges the last hour that is over.
fn beside(folder: &Path, fleet: &Fleet) -> Result<(), Failure> {
    let path = folder.join("beside");
    let mut writer = SqliteStore::open(&path, OpenMode::Write)?;
    let reader = SqliteStore::open(&path, OpenMode::Read)?;
    let hours_done = AtomicU64::new(0);
    const HOURS: u64 = 4;
    let mut times: Vec<Duration> = Vec::new();
    let mut wrong = 0;
    let (windows, took) = std::thread::scope(|scope| -> Result<_, Failure> {
        let writing = scope.spawn(|| -> Result<_, StoreError> {
            let mut windows = 0;
            let since = Instant::now();
            for number in 0..HOURS * WINDOWS_AN_HOUR {
                let sent = fleet.windows(number);
                windows += sent.len();
                let missing = unknown(&writer, &sent)?;
                writer.append(&fleet.batch(sent, &missing))?;
                if (number + 1) % WINDOWS_AN_HOUR == 0 {
                    let hour = (number + 1) / WINDOWS_AN_HOUR;
                    writer.compact(START + hour * HOUR_SECONDS)?;
                    hours_done.store(hour, Ordering::SeqCst);
                }
            }
            hours_done.store(u64::MAX, Ordering::SeqCst);
            Ok((windows, since.elapsed()))
        });
        let mut known: Vec<u64> = Vec::new();
        loop {
            let hour = hours_done.load(Ordering::SeqCst);
            if hour == u64::MAX {
                break;
            }
            if hour > 0 {
                let start = START + (hour - 1) * HOUR_SECONDS;
                let asked = selection(start..start + HOUR_SECONDS);
                let since = Instant::now();
                let merged = reader.merge(&asked, &[])?;
                times.push(since.elapsed());
                let sum = merged.groups[0]
                    .stacks
                    .iter()
                    .map(|stack| stack.count)
                    .sum();
                if known.len() < hour as usize {
                    known.resize(hour as usize, sum);
                }
                wrong += u64::from(known[hour as usize - 1] != sum);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(writing.join().expect("the writer does not panic")?)
    })?;
    times.sort_unstable();
    let at = |share: usize| {
        times
            .get(times.len() * share / 100)
            .copied()
            .unwrap_or_default()
    };
    println!(
        "{:<36} {:8.0}     windows a minute by the clock, names made on the way (goal: 50,000)",
        "ingested beside a reader",
        windows as f64 / took.as_secs_f64() * 60.0
    );
    println!(
        "{:<36} {:8.2} ms  p99 {:.2}, {} merges, {wrong} that differ",
        "… its merges of an hour, wall, p50",
        milliseconds(at(50)),
        milliseconds(at(99)),
        times.len()
    );
    Ok(())
}

fn retention(store: &mut SqliteStore, hours: u64) -> Result<(), Failure> {
    let cut = START + hours / 2 * HOUR_SECONDS;
    for (name, detail) in [
        ("half dropped: windows", Detail::Windows),
        ("half dropped: hours", Detail::Hours),
        ("half dropped: rollups and names", Detail::Rollups),
    ] {
        let before = store.bytes()?;
        let (dropped, time) = timed(|| store.drop_before(detail, cut));
        dropped?;
        println!(
            "{name:<36} {:8.0} ms  {:.1} → {:.1} MB",
            milliseconds(time),
            before as f64 / 1e6,
            store.bytes()? as f64 / 1e6
        );
    }
    Ok(())
}
