//! The pauses of V8's garbage collector, in words.

use nodespy_model::{GcKind, GcPauses, Nanoseconds, Profile, SmallSort, Thread, printable};

use crate::linked::Line;
use crate::wording::counted;

/// How many threads are shown.
const MAX_THREADS: usize = 4;

/// The threads whose pauses are known, those that had the most first.
pub(crate) fn threads(profile: &Profile) -> Vec<&Thread> {
    let known = profile.threads.iter();
    let mut known: Vec<&Thread> = known.filter(|it| !it.gc_pauses.is_empty()).collect();
    known.small_sort_by_key(|thread| std::cmp::Reverse(total(&thread.gc_pauses)));
    known
}

/// A line for each: `GC pauses: 212 scavenges took 148.0 ms, max 3.1 ms, …`. What filters left is not what was
/// watched.
pub(crate) fn lines(profile: &Profile) -> Vec<Line> {
    if !profile.notes.filters.is_empty() {
        return Vec::new();
    }
    let threads = threads(profile);
    let is_one = threads.len() == 1;
    let line = |thread: &&Thread| {
        let whose = match is_one {
            true => String::new(),
            false => format!(" of {}, tid {}", printable(&thread.name), thread.tid),
        };
        let kinds: Vec<String> = thread.gc_pauses.iter().map(words).collect();
        Line::default().text(format!("GC pauses{whose}: {}", kinds.join("; ")))
    };
    threads.iter().take(MAX_THREADS).map(line).collect()
}

fn total(pauses: &[GcPauses]) -> Nanoseconds {
    pauses
        .iter()
        .fold(0, |sum, it| sum.saturating_add(it.total))
}

fn words(pauses: &GcPauses) -> String {
    let noun = match pauses.kind {
        GcKind::Scavenge => "scavenge",
        GcKind::MarkCompact => "mark-compact",
        GcKind::Other => "other collection",
    };
    format!(
        "{} took {}, max {}, p99 {}",
        counted(pauses.count, noun),
        milliseconds(pauses.total),
        milliseconds(pauses.longest),
        milliseconds(pauses.p99)
    )
}

fn milliseconds(time: Nanoseconds) -> String {
    format!("{:.1} ms", time as f64 / 1e6)
}
