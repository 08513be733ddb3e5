//! What event loops did, in words.

use nodespy_analysis::main_threads;
use nodespy_model::{
    EventLoop, LoopStall, LoopTimeline, MAX_STALLS, MIN_STALL, Nanoseconds, Profile, SmallSort,
    Thread, ThreadIndex, printable,
};

use crate::linked::Line;
use crate::wording::counted;

/// How many loops are shown.
const MAX_LOOPS: usize = 8;

/// The threads with a loop: main ones first, then those that were used most.
pub(crate) fn loops(profile: &Profile) -> Vec<(ThreadIndex, &Thread, EventLoop)> {
    let is_main = main_threads(profile);
    let threads = profile.threads.iter().zip(is_main).enumerate();
    let mut loops: Vec<(bool, ThreadIndex, &Thread, EventLoop)> = threads
        .filter_map(|(row, (thread, is_main))| {
            Some((is_main, ThreadIndex(row as u32), thread, thread.event_loop?))
        })
        .collect();
    loops.small_sort_by(|one, other| {
        let used = other.3.utilization().total_cmp(&one.3.utilization());
        other.0.cmp(&one.0).then(used)
    });
    let loops = loops.into_iter();
    loops
        .map(|(_, row, thread, it)| (row, thread, it))
        .collect()
}

/// A line for each: `event loop: used 32 % of the time, …`. What filters left is not what was watched.
pub(crate) fn lines(profile: &Profile) -> Vec<Line> {
    if !profile.notes.filters.is_empty() {
        return Vec::new();
    }
    let loops = loops(profile);
    let is_one = loops.len() == 1;
    let line = |(row, thread, it): &(ThreadIndex, &Thread, EventLoop)| {
        let whose = match is_one {
            true => String::new(),
            false => format!(" of {}, tid {}", printable(&thread.name), thread.tid),
        };
        let start = Line::default().lead(format!("event loop{whose}"), format!("l{}", row.0));
        words(start.text(": "), *row, thread, it)
    };
    loops.iter().take(MAX_LOOPS).map(line).collect()
}

/// What the loop did. In the page the whole leads to its track, the longest time to when that was.
fn words(line: Line, row: ThreadIndex, thread: &Thread, it: &EventLoop) -> Line {
    let (track, stall) = (format!("l{}", row.0), format!("s{}", row.0));
    let utilized = format!("{:.1} % utilised", it.utilization() * 100.0);
    let mut line = line.lead(utilized, track);
    if let Some(rate) = it.iterations_per_second() {
        line = line.text(format!(", {rate:.0} iterations/s"));
    }
    let stalls = stalls(thread);
    line = line.text("; away from poll for ");
    let longest = milliseconds(it.longest);
    line = match stalls.is_empty() {
        true => line.text(longest),
        false => line.lead(longest, stall.clone()),
    };
    let p99 = milliseconds(it.p99);
    line = line.text(format!(" at most, p99 {p99}"));
    if stalls.is_empty() {
        return line;
    }
    let most = if stalls.len() < MAX_STALLS {
        ""
    } else {
        "at least "
    };
    let times = counted(stalls.len() as u64, "time");
    let least = milliseconds(MIN_STALL);
    line.text("; ")
        .lead(format!("{most}{times}"), stall)
        .text(format!(" for {least} or more"))
}

/// The stalls of a thread's loop.
pub(crate) fn stalls(thread: &Thread) -> &[LoopStall] {
    let timeline = thread.loop_timeline.as_deref();
    timeline.map_or(&[], LoopTimeline::stalls)
}

fn milliseconds(time: Nanoseconds) -> String {
    format!("{} ms", time / 1_000_000)
}
