//! The pauses of V8's garbage collector, exactly.
//!
//! Breakpoints at the functions with which V8 itself measures a pause: where it starts, where it stops, and at the
//! collection between them, which tells its kind. None of them is at a return, so that stacks of samples taken meanwhile
//! stay whole. A pause takes four hits of some 2 µs.

use std::collections::VecDeque;
use std::ffi::CString;
use std::path::PathBuf;

use nodespy_model::{
    FastMap, GcKind, GcPause, GcPauses, GcTimeline, Nanoseconds, Profile, SmallSort,
};
use nodespy_perf_abi::{RecordLayout, record_type};

use crate::engines::perf_events::{may_run_javascript, uprobe_pmu};
use crate::error::CaptureError;
use crate::sys::clock::monotonic_now;
use crate::sys::perf_event::{Counted, PerfEvent};
use crate::sys::ring::Ring;
use crate::sys::ring_cursor::RecordRing;
use crate::target::proc;

/// How often rings are read: they have room for 500 pauses.
const READ_INTERVAL: Nanoseconds = 50_000_000;
const RING_BYTES: usize = 64 << 10;
/// How often threads are looked for that have been made since.
const THREADS_INTERVAL: Nanoseconds = 500_000_000;
/// More pauses of a thread than this are sums only.
const MAX_PAUSES: usize = 1 << 16;

/// What a breakpoint marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    Start,
    Stop,
    Collection(GcKind),
}

/// In the order of [`GcPlaces::FUNCTIONS`].
const POINTS: [Point; 4] = [
    Point::Start,
    Point::Stop,
    Point::Collection(GcKind::Scavenge),
    Point::Collection(GcKind::MarkCompact),
];

/// Where the functions are in a program's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcPlaces {
    /// The program, by which processes that run another are left alone.
    pub program: PathBuf,
    /// Bytes from the start of the file, in the order of [`Self::FUNCTIONS`].
    pub offsets: [u64; 4],
}

impl GcPlaces {
    /// The symbols, each by the names it has in Node 16 to 26: a pause starts, stops, scavenge, mark-compact.
    pub const FUNCTIONS: [&[&str]; 4] = [
        &[
            "_ZN2v88internal8GCTracer20StartObservablePauseEv",
            "_ZN2v88internal8GCTracer20StartObservablePauseENS_4base9TimeTicksE",
            "_ZN2v88internal8GCTracer5StartENS0_16GarbageCollectorENS0_23GarbageCollectionReasonEPKc",
        ],
        &[
            "_ZN2v88internal8GCTracer19StopObservablePauseEv",
            "_ZN2v88internal8GCTracer19StopObservablePauseENS0_16GarbageCollectorENS_4base9TimeTicksE",
            "_ZN2v88internal8GCTracer4StopENS0_16GarbageCollectorE",
        ],
        &["_ZN2v88internal4Heap8ScavengeEv"],
        &["_ZN2v88internal4Heap11MarkCompactEv"],
    ];
}

/// The pauses of some processes, from when they are watched.
#[derive(Debug)]
pub struct GcWatch {
    places: GcPlaces,
    processes: FastMap<u32, Watched>,
    next_read: Nanoseconds,
    next_threads: Nanoseconds,
}

#[derive(Debug)]
struct Watched {
    /// When the process started, by which it is told from another with its pid.
    started: Option<u64>,
    threads: FastMap<u32, WatchedThread>,
}

#[derive(Debug)]
struct WatchedThread {
    /// Kept open, each with the number of its records.
    events: Vec<(u64, PerfEvent)>,
    layout: RecordLayout,
    ring: Ring,
    pairing: Pairing,
    pauses: Pauses,
}

impl GcWatch {
    /// Nothing is watched yet.
    pub fn new(places: GcPlaces) -> Self {
        Self {
            places,
            processes: FastMap::default(),
            next_read: 0,
            next_threads: 0,
        }
    }

    /// Watches a process from now on, unless it runs another program.
    pub fn watch(&mut self, pid: u32) -> Result<(), CaptureError> {
        if self.processes.contains_key(&pid)
            || proc::exe(pid).as_ref() != Some(&self.places.program)
        {
            return Ok(());
        }
        let mut watched = Watched {
            started: proc::start_time(pid),
            threads: FastMap::default(),
        };
        watched.add_threads(pid, &self.places)?;
        self.processes.insert(pid, watched);
        Ok(())
    }

    /// Reads what happened if it is time, and watches processes and threads that are new.
    pub fn poll(&mut self, pids: impl Iterator<Item = u32>) {
        let now = monotonic_now();
        if now >= self.next_threads {
            self.next_threads = now + THREADS_INTERVAL;
            for pid in pids {
                let added = match self.processes.get_mut(&pid) {
                    Some(watched) => watched.add_threads(pid, &self.places),
                    None => self.watch(pid),
                };
                if let Err(error) = added {
                    log::info!("pauses of a thread of process {pid} are not watched: {error}");
                }
            }
        }
        if now >= self.next_read {
            self.next_read = now + READ_INTERVAL;
            self.read();
        }
    }

    /// Reads what happened.
    fn read(&mut self) {
        let watched = self.processes.values_mut();
        for thread in watched.flat_map(|watched| watched.threads.values_mut()) {
            thread.read();
        }
    }

    /// Forgets the pauses of processes that have ended: another may get the same pid.
    pub fn forget_ended(&mut self) {
        let is_same = |pid: u32, watched: &Watched| proc::start_time(pid) == watched.started;
        self.processes.retain(|pid, watched| is_same(*pid, watched));
    }

    /// Forgets what was over at `since`.
    pub fn start_period(&mut self, since: Nanoseconds) {
        let watched = self.processes.values_mut();
        for thread in watched.flat_map(|watched| watched.threads.values_mut()) {
            thread.pauses.forget_before(since);
        }
    }

    /// Notes in a profile what is known of the pauses of its threads: all of it as sums, and over time, from `started` on,
    /// what no profile has yet.
    pub fn note_in(&mut self, profile: &mut Profile, started: Nanoseconds) {
        self.read();
        for thread in &mut profile.threads {
            let pid = profile.processes[thread.process.at()].pid;
            let watched = self.processes.get_mut(&pid);
            if let Some(known) = watched.and_then(|watched| watched.threads.get_mut(&thread.tid)) {
                thread.gc_pauses = known.pauses.summary();
                let new = std::mem::take(&mut known.pauses.new);
                thread
                    .gc_timeline
                    .merge(&new.between(started, Nanoseconds::MAX));
            }
        }
    }
}

impl Watched {
    /// Sets breakpoints for the threads that have none yet and may run JavaScript.
    fn add_threads(&mut self, pid: u32, places: &GcPlaces) -> Result<(), CaptureError> {
        for tid in proc::threads(pid) {
            if self.threads.contains_key(&tid) || !may_run_javascript(pid, tid) {
                continue;
            }
            match WatchedThread::open(pid, tid, places) {
                Ok(thread) => {
                    self.threads.insert(tid, thread);
                }
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) && tid != pid => {}
                Err(source) => return Err(explain(source)),
            }
        }
        Ok(())
    }
}

fn explain(source: std::io::Error) -> CaptureError {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => CaptureError::NotPermitted {
            sentence:
                "--gc-pauses sets breakpoints in the program, which needs CAP_PERFMON: run as root"
                    .to_owned(),
            source,
        },
        _ => CaptureError::call("setting breakpoints at V8's garbage collector", source),
    }
}

impl WatchedThread {
    fn open(pid: u32, tid: u32, places: &GcPlaces) -> std::io::Result<Self> {
        let file = proc::path_of(pid, "exe");
        let file = CString::new(file.into_os_string().into_encoded_bytes())?;
        let kind = uprobe_pmu()?;
        let mut events: Vec<(u64, PerfEvent)> = Vec::new();
        for offset in places.offsets {
            let counted = Counted {
                kind,
                config: 0,
                place: Some((file.clone(), offset)),
            };
            let event = PerfEvent::of_thread(tid, &counted)?;
            events.push((event.id()?, event));
        }
        let (_, owner) = &events[0];
        let ring = Ring::map(owner, RING_BYTES)?;
        for (_, event) in &events[1..] {
            event.write_to_ring_of(owner)?;
        }
        events.iter().for_each(|(_, event)| event.enable());
        Ok(Self {
            events,
            layout: PerfEvent::of_thread_layout(),
            ring,
            pairing: Pairing::default(),
            pauses: Pauses::default(),
        })
    }

    fn read(&mut self) {
        self.ring.load_head();
        loop {
            match self.ring.peek() {
                Ok(None) => return,
                Ok(Some(record)) if record.kind == record_type::SAMPLE => {
                    let id = self.layout.sample_id(record.body);
                    let time = self.layout.sample_time(record.body);
                    let mut events = self.events.iter();
                    let at = events.position(|(known, _)| Some(*known) == id);
                    if let (Some(at), Some(time)) = (at, time)
                        && let Some((kind, length)) = self.pairing.take(POINTS[at], time)
                    {
                        self.pauses.add(time, kind, length);
                    }
                }
                // Something is missing in between: what is open does not end with what follows.
                Ok(Some(_)) | Err(_) => self.pairing = Pairing::default(),
            }
            self.ring.consume();
        }
    }
}

/// Puts together where a pause starts and where it stops.
#[derive(Debug, Default)]
struct Pairing {
    /// Collections may be within each other; V8 measures the outermost.
    depth: u32,
    started: Nanoseconds,
    kind: Option<GcKind>,
}

impl Pairing {
    /// The kind and length of the pause that ends here, if one does.
    fn take(&mut self, point: Point, time: Nanoseconds) -> Option<(GcKind, Nanoseconds)> {
        match point {
            Point::Start => {
                if self.depth == 0 {
                    self.started = time;
                    self.kind = None;
                }
                self.depth = self.depth.saturating_add(1);
                None
            }
            Point::Collection(kind) => {
                if self.kind != Some(GcKind::MarkCompact) {
                    self.kind = Some(kind);
                }
                None
            }
            Point::Stop => {
                // One that was going on when the breakpoints were set has no start.
                self.depth = self.depth.checked_sub(1)?;
                let kind = self.kind.unwrap_or(GcKind::Other);
                (self.depth == 0).then(|| (kind, time.saturating_sub(self.started)))
            }
        }
    }
}

/// The pauses of a thread.
#[derive(Debug, Default)]
struct Pauses {
    /// When each was over, its kind and its length, oldest first.
    kept: VecDeque<(Nanoseconds, GcKind, Nanoseconds)>,
    /// Those that are not kept any more: how many, how long together, the longest.
    older: FastMap<GcKind, [u64; 3]>,
    /// Those that no profile has yet.
    new: GcTimeline,
}

impl Pauses {
    fn add(&mut self, end: Nanoseconds, kind: GcKind, length: Nanoseconds) {
        if self.kept.len() >= MAX_PAUSES
            && let Some((_, kind, length)) = self.kept.pop_front()
        {
            let [count, total, longest] = self.older.entry(kind).or_default();
            *count += 1;
            *total = total.saturating_add(length);
            *longest = length.max(*longest);
        }
        self.kept.push_back((end, kind, length));
        self.new.add(GcPause {
            start: end.saturating_sub(length),
            lasted: length,
            kind,
        });
    }

    fn forget_before(&mut self, since: Nanoseconds) {
        self.older.clear();
        while self.kept.front().is_some_and(|(end, ..)| *end < since) {
            self.kept.pop_front();
        }
    }

    /// By kind; nothing of those that did not happen.
    fn summary(&self) -> Vec<GcPauses> {
        let of_kind = |kind: &GcKind| {
            let kept = self.kept.iter().filter(|(_, its, _)| its == kind);
            let mut lengths: Vec<Nanoseconds> = kept.map(|(.., length)| *length).collect();
            lengths.small_sort();
            let [count, total, longest] = self.older.get(kind).copied().unwrap_or_default();
            let sum = lengths
                .iter()
                .fold(total, |sum, it| sum.saturating_add(*it));
            Some(GcPauses {
                kind: *kind,
                count: count + lengths.len() as u64,
                total: sum,
                longest: longest.max(*lengths.last()?),
                p99: lengths[(lengths.len() * 99).div_ceil(100) - 1],
            })
        };
        GcKind::ALL.iter().filter_map(of_kind).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_from_its_start_to_its_stop_and_has_the_kind_of_what_is_between() {
        let mut pairing = Pairing::default();
        let mut found = Vec::new();
        let (scavenge, compact) = (
            Point::Collection(GcKind::Scavenge),
            Point::Collection(GcKind::MarkCompact),
        );
        for (point, time) in [
            (compact, 1),
            (Point::Stop, 2),
            (Point::Start, 10),
            (scavenge, 11),
            (Point::Stop, 15),
            (Point::Start, 20),
            (Point::Start, 21),
            (compact, 22),
            (scavenge, 23),
            (Point::Stop, 24),
            (Point::Stop, 30),
            (Point::Start, 40),
            (Point::Stop, 41),
        ] {
            found.extend(pairing.take(point, time));
        }
        let expected = [
            (GcKind::Scavenge, 5),
            (GcKind::MarkCompact, 10),
            (GcKind::Other, 1),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn pauses_are_summed_by_kind_and_those_of_a_period_alone() {
        let mut pauses = Pauses::default();
        for time in 1..=200 {
            pauses.add(time, GcKind::Scavenge, time);
        }
        pauses.add(201, GcKind::MarkCompact, 50);
        let [scavenges, compacts] = &pauses.summary()[..] else {
            panic!("{:?}", pauses.summary());
        };
        assert_eq!((scavenges.count, scavenges.total), (200, 20_100));
        assert_eq!((scavenges.longest, scavenges.p99), (200, 198));
        assert_eq!((compacts.kind, compacts.p99), (GcKind::MarkCompact, 50));
        pauses.forget_before(201);
        assert_eq!(pauses.summary().len(), 1);
    }

    #[test]
    fn old_pauses_are_sums() {
        let mut pauses = Pauses::default();
        for time in 0..MAX_PAUSES as u64 + 10 {
            pauses.add(time, GcKind::Scavenge, 3);
        }
        assert_eq!(pauses.kept.len(), MAX_PAUSES);
        let summary = pauses.summary();
        assert_eq!(summary[0].count, MAX_PAUSES as u64 + 10);
        assert_eq!(summary[0].total, 3 * (MAX_PAUSES as u64 + 10));
    }
}
