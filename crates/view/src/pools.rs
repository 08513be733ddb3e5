//! What libuv's thread pools did, in words.

use nodespy_model::{Pool, PoolJobs, PoolSubmitter, Process, Profile, printable};

use crate::linked::Line;
use crate::wording::{counted, percent, percent_of};

/// Jobs that wait on average, from which a pool is worth a line.
const WORTH_A_LINE: f64 = 0.05;
/// The same for a sentence, and how much of the time it has to be full, in percent.
const WORTH_A_FINDING: f64 = 1.0;
const MUCH_OF_THE_TIME: f64 = 50.0;
/// How many lines that submit jobs are told.
const MAX_SUBMITTERS: usize = 5;

/// The processes whose pools are known.
pub(crate) fn pools(profile: &Profile) -> impl Iterator<Item = (&Process, &Pool)> {
    let processes = profile.processes.iter();
    processes.filter_map(|process| Some((process, process.pool.as_ref()?)))
}

/// A line for each pool in which jobs wait or threads work. What filters left is not what was watched.
pub(crate) fn lines(profile: &Profile) -> Vec<Line> {
    if !profile.notes.filters.is_empty() {
        return Vec::new();
    }
    let is_one = profile.processes.len() == 1;
    let rows = profile.processes.iter().enumerate();
    let used = rows
        .filter_map(|(row, process)| Some((row, process, process.pool.as_ref()?)))
        .filter(|(_, _, pool)| {
            pool.average(pool.waiting) >= WORTH_A_LINE
                || pool.average(pool.busy) >= WORTH_A_LINE
                || !pool.submitters.is_empty()
        });
    let line = |(row, process, pool): (usize, &Process, &Pool)| {
        let name = match is_one {
            true => "libuv pool".to_owned(),
            false => format!("libuv pool of process {}", process.pid),
        };
        let line = Line::default().lead(name, format!("p{row}"));
        line.text(format!(": {}", words(pool)))
    };
    used.map(line).collect()
}

/// What a pool does at one moment: `libuv pool: 4 of 4 threads busy, 12 jobs wait: 12 fs.open /tmp/x`.
pub fn moment(pool: &Pool) -> String {
    let mut words = format!("libuv pool: {} of {} threads busy", pool.busy, pool.threads);
    if pool.waiting > 0 {
        let kinds: Vec<String> = pool
            .jobs
            .iter()
            .take(3)
            .map(|jobs| format!("{} {}", jobs.waiting, named(jobs)))
            .collect();
        let jobs = counted(pool.waiting, "job");
        let verb = if pool.waiting == 1 { "waits" } else { "wait" };
        words.push_str(&format!(", {jobs} {verb}: {}", kinds.join(", ")));
    }
    if pool.slow_full > 0 {
        let limit = pool.threads.div_ceil(2);
        words.push_str(&format!(
            "; DNS may use {limit} threads, {} busy",
            all(limit)
        ));
    }
    words
}

/// What a pool that is too small, or too slow, does to its process; with how much of the time.
pub(crate) fn finding(pool: &Pool) -> Option<(f64, String)> {
    let full = percent_of(pool.full, pool.readings);
    let full_for_slow = percent_of(pool.slow_full, pool.readings);
    if full_for_slow >= MUCH_OF_THE_TIME && pool.average(pool.slow_waiting) >= WORTH_A_FINDING {
        let sentence = format!(
            "{} lookups wait for libuv's pool on average: DNS may use {} of its {} threads, \
             {} busy {} of the time; cache lookups, or use dns.resolve",
            number(pool.average(pool.slow_waiting)),
            pool.threads.div_ceil(2),
            pool.threads,
            all(pool.threads.div_ceil(2)),
            percent(full_for_slow)
        );
        return Some((full_for_slow, sentence));
    }
    let is_much = full >= MUCH_OF_THE_TIME && pool.average(pool.waiting) >= WORTH_A_FINDING;
    is_much.then(|| {
        let kind = pool.jobs.first().map_or(String::new(), |jobs| {
            format!(", {} of them {}", share(pool, jobs), named(jobs))
        });
        let sentence = format!(
            "{} jobs wait for libuv's pool on average{kind}: its {} threads are all busy {} of \
             the time; raise UV_THREADPOOL_SIZE, or {}",
            number(pool.average(pool.waiting)),
            pool.threads,
            percent(full),
            ask_for_less(pool)
        );
        (full, sentence)
    })
}

/// Where to ask for less, if that is known: a line of the application or a package.
fn ask_for_less(pool: &Pool) -> String {
    let mut submitters = pool.submitters.iter();
    let written = submitters.find(|it| !it.place.is_empty() && !it.place.starts_with("node:"));
    match written {
        Some(submitter) => format!("call it less ({})", spelled(&submitter.place)),
        None => "ask for less".to_owned(),
    }
}

/// Who submitted jobs: `login /app/auth.js:41 75.0 %`.
fn submitters(pool: &Pool) -> Vec<String> {
    let all = pool.submitters.iter();
    let total = all
        .clone()
        .fold(0, |sum: u64, it| sum.saturating_add(it.jobs));
    let told = |it: &PoolSubmitter| {
        let share = percent(percent_of(it.jobs, total));
        match (&*it.function, &*it.place) {
            ("", "") => format!("native code {share}"),
            ("", place) => format!("{} {share}", spelled(place)),
            (function, place) => format!("{} {} {share}", spelled(function), spelled(place)),
        }
    };
    all.take(MAX_SUBMITTERS).map(told).collect()
}

fn spelled(text: &str) -> String {
    printable(text).replace('`', "'")
}

fn words(pool: &Pool) -> String {
    let mut words = format!(
        "{} of {} threads busy on average, all of them {} of the time; {} jobs wait",
        number(pool.average(pool.busy)),
        pool.threads,
        percent(percent_of(pool.full, pool.readings)),
        number(pool.average(pool.waiting))
    );
    let kinds: Vec<String> = pool
        .jobs
        .iter()
        .take(3)
        .map(|jobs| format!("{} {}", named(jobs), share(pool, jobs)))
        .collect();
    if !kinds.is_empty() {
        words.push_str(&format!(" ({})", kinds.join(", ")));
    }
    let submitters = submitters(pool);
    if !submitters.is_empty() {
        words.push_str(&format!("; submitted by {}", submitters.join(", ")));
    }
    if pool.slow_full > 0 {
        words.push_str(&format!(
            "; DNS may use {} of {} threads, {} busy {} of the time while {} lookups wait",
            pool.threads.div_ceil(2),
            pool.threads,
            all(pool.threads.div_ceil(2)),
            percent(percent_of(pool.slow_full, pool.readings)),
            number(pool.average(pool.slow_waiting))
        ));
    }
    words
}

fn all(threads: u32) -> &'static str {
    match threads {
        1 => "which is",
        2 => "both",
        _ => "all",
    }
}

fn share(pool: &Pool, jobs: &PoolJobs) -> String {
    percent(percent_of(jobs.waiting, pool.waiting))
}

fn named(jobs: &PoolJobs) -> String {
    match &*jobs.about {
        "" => printable(&jobs.kind).into_owned(),
        about => format!("{} {}", printable(&jobs.kind), printable(about)).replace('`', "'"),
    }
}

fn number(value: f64) -> String {
    format!("{value:.1}")
}
