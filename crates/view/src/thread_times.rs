//! What each thread did with its time, as a table.

use nodespy_analysis::ThreadTime;
use nodespy_model::{Profile, ThreadRole, printable};

use crate::wording::{counted, percent_of};

/// How many threads are listed one by one.
const MAX_THREADS: usize = 8;
/// Below this share, in percent, a kind of wait is not named.
const WORTH_NAMING: f64 = 0.5;

/// A row of the table.
pub(crate) struct TimeRow {
    /// On CPU, runnable, waiting and idle, in percent.
    pub(crate) percents: [f64; 4],
    /// The thread, or how many there are.
    pub(crate) name: String,
    /// What it waited for, such as `file 3.1 %, lock 1.0 %`.
    pub(crate) waits: String,
}

/// The rows: main threads and workers first; threads that did next to nothing but wait for work are
/// one row.
pub(crate) fn rows(profile: &Profile, times: &[ThreadTime]) -> Vec<TimeRow> {
    let is_quiet = |time: &ThreadTime| {
        let role = profile.threads[time.thread.at()].role;
        !matches!(role, ThreadRole::Main | ThreadRole::Worker)
            && percent_of(time.idle, time.total()) >= 100.0 - WORTH_NAMING
    };
    let (quiet, lively): (Vec<&ThreadTime>, Vec<&ThreadTime>) =
        times.iter().partition(|time| is_quiet(time));
    let (listed, more) = lively.split_at(lively.len().min(MAX_THREADS));
    let mut rows: Vec<TimeRow> = listed.iter().map(|time| of_thread(profile, time)).collect();
    for (threads, noun) in [(more, "more thread"), (&quiet[..], "more idle thread")] {
        if let Some(row) = of_several(threads, noun) {
            rows.push(row);
        }
    }
    rows
}

fn of_thread(profile: &Profile, time: &ThreadTime) -> TimeRow {
    let thread = &profile.threads[time.thread.at()];
    let mut name = match &*thread.name {
        "" => thread.role.label().to_owned(),
        name => format!("{}, {}", printable(name), thread.role.label()),
    };
    name.push_str(&format!(", tid {}", thread.tid));
    TimeRow {
        percents: percents(&[time]),
        name,
        waits: waits(time),
    }
}

fn of_several(times: &[&ThreadTime], noun: &str) -> Option<TimeRow> {
    (!times.is_empty()).then(|| TimeRow {
        percents: percents(times),
        name: counted(times.len() as u64, noun),
        waits: String::new(),
    })
}

fn percents(times: &[&ThreadTime]) -> [f64; 4] {
    let sum = |part: &dyn Fn(&ThreadTime) -> u64| {
        let parts = times.iter().map(|time| part(time));
        parts.fold(0, u64::saturating_add)
    };
    let total = sum(&ThreadTime::total);
    let parts: [&dyn Fn(&ThreadTime) -> u64; 4] = [
        &|time| time.on_cpu,
        &|time| time.runnable,
        &ThreadTime::waiting,
        &|time| time.idle,
    ];
    parts.map(|part| percent_of(sum(part), total))
}

fn waits(time: &ThreadTime) -> String {
    let share = |weight: u64| percent_of(weight, time.total());
    let named = time
        .waits
        .iter()
        .filter(|(_, weight)| share(*weight) >= WORTH_NAMING);
    let named = named.map(|(kind, weight)| format!("{} {:.1} %", printable(kind), share(*weight)));
    named.collect::<Vec<_>>().join(", ")
}
