//! What event loops did, in words.

use nodespy_analysis::main_threads;
use nodespy_model::{EventLoop, Nanoseconds, Profile, Thread, printable};

/// How many loops are shown.
const MAX_LOOPS: usize = 8;

/// The threads with a loop: main ones first, then those that were used most.
pub(crate) fn loops(profile: &Profile) -> Vec<(&Thread, EventLoop)> {
    let is_main = main_threads(profile);
    let threads = profile.threads.iter().zip(is_main);
    let mut loops: Vec<(bool, &Thread, EventLoop)> = threads
        .filter_map(|(thread, is_main)| Some((is_main, thread, thread.event_loop?)))
        .collect();
    loops.sort_by(|one, other| {
        let used = other.2.utilization().total_cmp(&one.2.utilization());
        other.0.cmp(&one.0).then(used)
    });
    let loops = loops.into_iter();
    loops.map(|(_, thread, it)| (thread, it)).collect()
}

/// A line for each: `event loop: used 32 % of the time, …`. What filters left is not what was watched.
pub(crate) fn lines(profile: &Profile) -> Vec<String> {
    if !profile.notes.filters.is_empty() {
        return Vec::new();
    }
    let loops = loops(profile);
    let is_one = loops.len() == 1;
    let line = |(thread, it): &(&Thread, EventLoop)| {
        let whose = match is_one {
            true => String::new(),
            false => format!(" of {}, tid {}", printable(&thread.name), thread.tid),
        };
        format!("event loop{whose}: {}", words(it))
    };
    loops.iter().take(MAX_LOOPS).map(line).collect()
}

fn words(it: &EventLoop) -> String {
    let mut words = format!("{:.1} % utilised", it.utilization() * 100.0);
    if let Some(rate) = it.iterations_per_second() {
        words.push_str(&format!(", {rate:.0} iterations/s"));
    }
    words.push_str(&format!(
        "; away from poll for {} at the longest, {} at 99 of 100 looks",
        milliseconds(it.longest),
        milliseconds(it.p99)
    ));
    words
}

fn milliseconds(time: Nanoseconds) -> String {
    format!("{} ms", time / 1_000_000)
}
