//! Every wait of the threads, in words.

use nodespy_model::{ExactWaits, Nanoseconds, Profile, SmallSort, Thread, printable};

use crate::linked::Line;
use crate::wording::counted;

/// How many threads and reasons are shown.
const MAX_THREADS: usize = 4;
const MAX_REASONS: usize = 5;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The threads whose context switches were watched: those that run JavaScript first, then those that waited most often.
pub(crate) fn threads(profile: &Profile) -> Vec<&Thread> {
    let known = profile.threads.iter();
    let mut known: Vec<&Thread> = known.filter(|it| !it.exact_waits.is_empty()).collect();
    let count = |thread: &Thread| -> u64 {
        let each = thread.exact_waits.iter().map(|waits| waits.count);
        each.fold(0, u64::saturating_add)
    };
    known.small_sort_by_key(|thread| {
        let runs_javascript = thread.event_loop.is_some();
        (!runs_javascript, std::cmp::Reverse(count(thread)))
    });
    known
}

/// A line for each of the first: `waits of node, tid 12: 1,204 in epoll_pwait(13), …`. What filters left is not what was
/// watched.
pub(crate) fn lines(profile: &Profile) -> Vec<Line> {
    if !profile.notes.filters.is_empty() {
        return Vec::new();
    }
    let line = |thread: &&Thread| {
        let reasons = thread.exact_waits.iter().take(MAX_REASONS);
        let mut reasons: Vec<String> = reasons.map(words).collect();
        if let Some(rest) = thread.exact_waits.len().checked_sub(MAX_REASONS + 1) {
            reasons.push(format!("{} more", counted(rest as u64 + 1, "reason")));
        }
        Line::default().text(format!(
            "off the CPU, {}, tid {}: {}",
            printable(&thread.name),
            thread.tid,
            reasons.join("; ")
        ))
    };
    threads(profile)
        .iter()
        .take(MAX_THREADS)
        .map(line)
        .collect()
}

fn words(waits: &ExactWaits) -> String {
    format!(
        "{} {} for {}, max {}, p50 {}, p99 {} {}",
        waits.what,
        counted(waits.count, "time"),
        time(waits.total),
        time(waits.longest),
        time(waits.percentile(0.5)),
        time(waits.percentile(0.99)),
        bars(&waits.histogram)
    )
}

/// A bar for each doubling, from 1 µs on.
fn bars(histogram: &[u64]) -> String {
    let most = histogram.iter().copied().max().unwrap_or(0).max(1) as f64;
    let bar = |&count: &u64| match count {
        0 => ' ',
        count => {
            let height = (count as f64 / most * BARS.len() as f64).ceil() as usize;
            BARS[height.clamp(1, BARS.len()) - 1]
        }
    };
    let bars: String = histogram.iter().map(bar).collect();
    format!("[{bars}]")
}

fn time(time: Nanoseconds) -> String {
    match time {
        0..1_000_000 => format!("{:.0} µs", time as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", time as f64 / 1e6),
        _ => format!("{:.2} s", time as f64 / 1e9),
    }
}
