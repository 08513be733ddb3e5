//! What was recorded: the application, its processes and threads, and how.

use crate::gc_timeline::GcTimeline;
use crate::labels::{Labels, label_key};
use crate::over_time::{LoopTimeline, PoolTimeline};
use crate::profile::{Nanoseconds, ProcessIndex};

/// What was recorded, how and when.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct About {
    /// The application: a script or package name.
    pub app: String,
    /// The machine it ran on.
    pub host: String,
    /// The way the samples were taken, such as `perf events`.
    pub engine: String,
    /// When the recording started, in nanoseconds since 1970.
    pub started_unix: Nanoseconds,
    /// How long it lasted.
    pub duration: Nanoseconds,
    /// The version of nodespy that made the profile.
    pub nodespy_version: String,
}

/// How a process ended while it was being recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// It ended during the recording; its status is not known.
    Ended,
    /// It returned this status.
    Status(i32),
    /// This signal ended it.
    Signal(i32),
}

/// One process of a profile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Process {
    /// Its number on the machine that recorded it.
    pub pid: u32,
    /// Its parent's number; 0 when not known.
    pub parent_pid: u32,
    /// The application it runs: a script or package name.
    pub name: String,
    /// Its command line.
    pub command: String,
    /// `v20.20.2`, when it is Node and says so.
    pub node_version: Option<String>,
    /// When it was first seen, from the start of the recording.
    pub started: Nanoseconds,
    /// When it ended, from the start of the recording.
    pub ended: Option<Nanoseconds>,
    /// How it ended.
    pub exit: Option<ExitReason>,
    /// CPU time it used during the recording, by the kernel's own account.
    pub cpu_time: Option<Nanoseconds>,
    /// Where it ran, as what, in which version.
    pub labels: Labels,
    /// What libuv's thread pool did.
    pub pool: Option<Pool>,
    /// The same over time.
    pub pool_timeline: Option<Box<PoolTimeline>>,
}

/// What a thread pool did, read many times a second. Sums are over all readings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pool {
    /// How many threads it has.
    pub threads: u32,
    /// How often it was looked at.
    pub readings: u64,
    /// Threads with a job.
    pub busy: u64,
    /// In how many readings all threads had one.
    pub full: u64,
    /// Jobs that waited.
    pub waiting: u64,
    /// Those among them that libuv calls slow, which may use half of the threads: DNS.
    pub slow_waiting: u64,
    /// In how many readings slow jobs waited and that half was busy with others.
    pub slow_full: u64,
    /// The jobs that waited, by kind, most first.
    pub jobs: Vec<PoolJobs>,
    /// Who submitted jobs, most first, where that was asked for.
    pub submitters: Vec<PoolSubmitter>,
}

/// A line that submits jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolSubmitter {
    /// The function: of the application or a package where one led to it, else of Node.
    pub function: String,
    /// Its file and the line that was run: `/app/lib/auth.js:41`.
    pub place: String,
    /// How many jobs it submitted.
    pub jobs: u64,
}

/// Jobs of a kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolJobs {
    /// `fs.open`, `dns.lookup`, `crypto`.
    pub kind: String,
    /// How many waited, in all readings together.
    pub waiting: u64,
    /// What one of them was about: a path, a host name; empty where there is none.
    pub about: String,
}

impl Pool {
    /// A sum as an average over the readings.
    pub fn average(&self, sum: u64) -> f64 {
        sum as f64 / self.readings.max(1) as f64
    }
}

impl Process {
    /// What runs its JavaScript, as it is said: `node v20.20.2`, `Bun 1.4.4`; none when not known.
    pub fn runtime(&self) -> Option<String> {
        let other = self.labels.get(label_key::RUNTIME).map(str::to_owned);
        other.or_else(|| Some(format!("node {}", self.node_version.as_ref()?)))
    }
}

/// What a thread of a Node process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ThreadRole {
    /// Runs the event loop.
    Main,
    /// A `worker_threads` Worker.
    Worker,
    /// A thread of libuv's pool: file system, DNS, crypto, zlib.
    Pool,
    /// V8's own helpers: garbage collection, concurrent compilation, delayed tasks.
    Platform,
    /// Anything else.
    #[default]
    Other,
}

impl ThreadRole {
    /// Every role, in the order they are shown and stored.
    pub const ALL: [Self; 5] = [
        Self::Main,
        Self::Worker,
        Self::Pool,
        Self::Platform,
        Self::Other,
    ];

    /// The word shown for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Worker => "worker",
            Self::Pool => "libuv pool",
            Self::Platform => "V8 platform",
            Self::Other => "other",
        }
    }
}

/// One thread of a profile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thread {
    /// The process it belongs to.
    pub process: ProcessIndex,
    /// Its number on the machine that recorded it.
    pub tid: u32,
    /// Its name as the kernel knows it, or better.
    pub name: String,
    /// What it is for.
    pub role: ThreadRole,
    /// How it shared the CPUs, by the kernel's own account.
    pub scheduling: Option<Scheduling>,
    /// What its event loop did, by libuv's own account.
    pub event_loop: Option<EventLoop>,
    /// The same over time.
    pub loop_timeline: Option<Box<LoopTimeline>>,
    /// The pauses of V8's garbage collector, by kind, where they were measured.
    pub gc_pauses: Vec<GcPauses>,
    /// The longest of them over time.
    pub gc_timeline: GcTimeline,
    /// Every time it was off the CPU, by what for, where that was watched; most time first.
    pub exact_waits: Vec<ExactWaits>,
}

/// The times that a thread was off the CPU for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExactWaits {
    /// The system call it was in, or another reason in parentheses.
    pub what: String,
    /// How many.
    pub count: u64,
    /// How long together.
    pub total: Nanoseconds,
    /// The longest.
    pub longest: Nanoseconds,
    /// How many took less than 2 µs, less than 4, 8, 16 and so on, none counted twice. At most [`Self::BUCKETS`].
    pub histogram: Vec<u64>,
}

impl ExactWaits {
    /// The last is for all that took longer than half an hour.
    pub const BUCKETS: usize = 32;

    /// Counts one more.
    pub fn add(&mut self, length: Nanoseconds) {
        self.count = self.count.saturating_add(1);
        self.total = self.total.saturating_add(length);
        self.longest = self.longest.max(length);
        let bucket = (length / 1000).max(1).ilog2() as usize;
        let bucket = bucket.min(Self::BUCKETS - 1);
        if self.histogram.len() <= bucket {
            self.histogram.resize(bucket + 1, 0);
        }
        self.histogram[bucket] += 1;
    }

    /// What `share` of them are not longer than, as far as the histogram can say: up to twice as long as they are.
    pub fn percentile(&self, share: f64) -> Nanoseconds {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0u64;
        for (bucket, count) in self.histogram.iter().enumerate() {
            seen = seen.saturating_add(*count);
            if seen >= wanted {
                return (2000u64 << bucket.min(Self::BUCKETS)).min(self.longest);
            }
        }
        self.longest
    }
}

/// What a garbage collection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GcKind {
    /// Of the young generation.
    Scavenge,
    /// Of the whole heap.
    MarkCompact,
    /// Another one.
    Other,
}

impl GcKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Scavenge, Self::MarkCompact, Self::Other];

    /// As V8 calls it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Scavenge => "scavenge",
            Self::MarkCompact => "mark-compact",
            Self::Other => "other",
        }
    }
}

/// The pauses of a kind of garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcPauses {
    /// Which collections.
    pub kind: GcKind,
    /// How many.
    pub count: u64,
    /// How long together.
    pub total: Nanoseconds,
    /// The longest.
    pub longest: Nanoseconds,
    /// What 99 of 100 are not longer than.
    pub p99: Nanoseconds,
}

/// What an event loop did while it was watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventLoop {
    /// How long it was watched.
    pub watched: Nanoseconds,
    /// How long it was in poll, waiting for events.
    pub idle: Nanoseconds,
    /// How often it went round; not known before libuv 1.45.
    pub iterations: Option<u64>,
    /// The longest time without a return to poll that was seen: it may have been longer.
    pub longest: Nanoseconds,
    /// The time within which the loop had been in poll at 99 of 100 moments.
    pub p99: Nanoseconds,
}

impl EventLoop {
    /// The part of the time it did something else than wait for events, from 0 to 1, as Node's
    /// `eventLoopUtilization`.
    pub fn utilization(&self) -> f64 {
        1.0 - (self.idle as f64 / self.watched.max(1) as f64).min(1.0)
    }

    /// How often it went round in a second.
    pub fn iterations_per_second(&self) -> Option<f64> {
        let seconds = self.watched.max(1) as f64 / 1e9;
        self.iterations
            .map(|iterations| iterations as f64 / seconds)
    }
}

/// What the kernel's scheduler did with a thread while it was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// How long it was watched.
    pub watched: Nanoseconds,
    /// How long it ran.
    pub on_cpu: Nanoseconds,
    /// How long it could have run and waited for a CPU, which the kernel calls run delay.
    pub run_delay: Nanoseconds,
}

impl Scheduling {
    /// The part of the time it ran, from 0 to 1.
    pub fn on_cpu_share(&self) -> f64 {
        self.share(self.on_cpu)
    }

    /// The part of the time it waited for a CPU, from 0 to 1.
    pub fn run_delay_share(&self) -> f64 {
        self.share(self.run_delay)
    }

    fn share(&self, part: Nanoseconds) -> f64 {
        // The kernel counts a wait when it ends, so one that began before is in it whole: nothing adds up to more than
        // all of the time.
        let counted = self.on_cpu.saturating_add(self.run_delay);
        part as f64 / self.watched.max(counted).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_time_never_add_up_to_more_than_all_of_it() {
        // It waited for 200 ms before it was watched.
        let scheduling = Scheduling {
            watched: 1_000_000_000,
            on_cpu: 110_000_000,
            run_delay: 1_090_000_000,
        };
        let sum = scheduling.on_cpu_share() + scheduling.run_delay_share();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let half = Scheduling {
            on_cpu: 500_000_000,
            run_delay: 100_000_000,
            ..scheduling
        };
        assert!((half.on_cpu_share() - 0.5).abs() < 1e-9);
    }
}
