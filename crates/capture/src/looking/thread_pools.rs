//! libuv's thread pools, read from outside: who is busy, and which jobs wait.

use nodespy_model::{
    FastMap, Nanoseconds, Pool, PoolAddresses, PoolJobs, PoolPart, PoolTimeline, Profile,
};

use super::jitter::Jitter;
use super::uv_pool::PoolReading;
use crate::sys::clock::monotonic_now;
use crate::target::proc;

/// How often pools are read.
const POOL_INTERVAL: Nanoseconds = 50_000_000;
/// More kinds of jobs than this are not told apart.
const MAX_KINDS: usize = 64;

/// The pools of some processes, and what they do from when they are known.
#[derive(Debug, Default)]
pub struct ThreadPools {
    /// When the recording started.
    started: Nanoseconds,
    pools: FastMap<u32, Watched>,
    next: Nanoseconds,
    jitter: Jitter,
}

#[derive(Debug)]
struct Watched {
    addresses: PoolAddresses,
    /// When the process started, by which it is told from another with its pid.
    started: Option<u64>,
    pool: Pool,
    /// What no profile has yet.
    timeline: PoolTimeline,
    /// What waited, by kind: how many at all looks together, and what one was about.
    kinds: FastMap<String, (u64, String)>,
}

impl ThreadPools {
    /// Nothing is known yet. The recording started at `started`.
    pub fn new(started: Nanoseconds) -> Self {
        Self {
            started,
            ..Self::default()
        }
    }

    /// Reads the pool of a process from now on.
    pub fn watch(&mut self, pid: u32, addresses: PoolAddresses) {
        let watched = Watched {
            addresses,
            started: proc::start_time(pid),
            pool: Pool::default(),
            timeline: PoolTimeline::default(),
            kinds: FastMap::default(),
        };
        self.pools.entry(pid).or_insert(watched);
    }

    /// Whether the pool of a process is read.
    pub fn has(&self, pid: u32) -> bool {
        self.pools.contains_key(&pid)
    }

    /// Reads the pools if it is time.
    pub fn poll(&mut self) {
        let now = monotonic_now();
        if now < self.next {
            return;
        }
        self.next = now + self.jitter.around(POOL_INTERVAL);
        for (pid, watched) in &mut self.pools {
            if let Some(reading) = PoolReading::of(*pid, &watched.addresses) {
                watched.take(now.saturating_sub(self.started), reading);
            }
        }
    }

    /// Forgets the pools of processes that have ended: another may get the same pid.
    pub fn forget_ended(&mut self) {
        let is_same = |pid: u32, watched: &Watched| proc::start_time(pid) == watched.started;
        self.pools.retain(|pid, watched| is_same(*pid, watched));
    }

    /// Notes in a profile what is known of the pools of its processes: all of it as a summary, and
    /// over time what no profile has yet.
    pub fn note_in(&mut self, profile: &mut Profile) {
        for process in &mut profile.processes {
            let Some(watched) = self.pools.get_mut(&process.pid) else {
                continue;
            };
            process.pool = watched.summary().or(process.pool.take());
            let timeline = std::mem::take(&mut watched.timeline);
            if !timeline.rows().is_empty() {
                process
                    .pool_timeline
                    .get_or_insert_default()
                    .merge(&timeline);
            }
        }
    }
}

impl Watched {
    fn take(&mut self, time: Nanoseconds, reading: PoolReading) {
        let pool = &mut self.pool;
        let busy = reading.threads.saturating_sub(reading.idle);
        pool.threads = reading.threads;
        pool.looks += 1;
        pool.busy += u64::from(busy);
        pool.full += u64::from(busy == reading.threads);
        let waiting = reading.fast_jobs.len() + reading.slow_jobs.len();
        pool.waiting += waiting as u64;
        let part = PoolPart {
            looks: 1,
            busy: busy.into(),
            waiting: waiting as u64,
        };
        self.timeline.add(time, part);
        pool.slow_waiting += reading.slow_jobs.len() as u64;
        // libuv lets slow jobs take half of the threads.
        let is_full_for_slow = reading.slow_running >= reading.threads.div_ceil(2);
        pool.slow_full += u64::from(is_full_for_slow && !reading.slow_jobs.is_empty());
        for job in reading.fast_jobs.into_iter().chain(reading.slow_jobs) {
            if let Some((waited, _)) = self.kinds.get_mut(&job.kind) {
                *waited += 1;
            } else if self.kinds.len() < MAX_KINDS {
                self.kinds.insert(job.kind, (1, job.about));
            }
        }
    }

    /// None where the process has not used its pool.
    fn summary(&self) -> Option<Pool> {
        let mut jobs: Vec<PoolJobs> = self
            .kinds
            .iter()
            .map(|(kind, (waiting, about))| PoolJobs {
                kind: kind.clone(),
                waiting: *waiting,
                about: about.clone(),
            })
            .collect();
        jobs.sort_by(|one, other| {
            let by_number = other.waiting.cmp(&one.waiting);
            by_number.then_with(|| one.kind.cmp(&other.kind))
        });
        (self.pool.looks > 0).then(|| Pool {
            jobs,
            ..self.pool.clone()
        })
    }
}
