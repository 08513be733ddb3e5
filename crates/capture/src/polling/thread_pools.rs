//! libuv's thread pools, read from outside: who is busy, and which jobs wait.

use std::collections::VecDeque;

use nodespy_model::{
    FastMap, Nanoseconds, Pool, PoolAddresses, PoolJobs, PoolPart, PoolTimeline, Profile, SmallSort,
};

use super::jitter::Jitter;
use super::uv_pool::PoolReading;
use crate::sys::clock::monotonic_now;
use crate::target::proc;

/// How often pools are read.
const POOL_INTERVAL: Nanoseconds = 50_000_000;
/// How often while there are no jobs and no loop runs that could submit one: what was read is true meanwhile.
const IDLE_INTERVAL: Nanoseconds = 1_000_000_000;
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
    /// What was read last.
    latest: Option<PoolReading>,
    /// Until when that is what there is, if no loop runs.
    known_until: Nanoseconds,
    /// What no profile has yet.
    timeline: PoolTimeline,
    /// What is known is from the first of them on.
    periods: VecDeque<Period>,
}

/// What was seen in a part of the time.
#[derive(Debug, Default)]
struct Period {
    since: Nanoseconds,
    pool: Pool,
    /// What waited, by kind: how many in all readings together, and what one was about.
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
            latest: None,
            known_until: 0,
            timeline: PoolTimeline::default(),
            periods: VecDeque::from([Period::default()]),
        };
        self.pools.entry(pid).or_insert(watched);
    }

    /// Whether the pool of a process is read.
    pub fn has(&self, pid: u32) -> bool {
        self.pools.contains_key(&pid)
    }

    /// Reads the pools if it is time. Where `is_idle`, no loop runs that could submit jobs.
    pub fn poll(&mut self, is_idle: bool) {
        let now = monotonic_now();
        if now < self.next {
            return;
        }
        self.next = now + self.jitter.around(POOL_INTERVAL);
        for (pid, watched) in &mut self.pools {
            let is_known = is_idle && now < watched.known_until && !watched.has_jobs();
            let reading = match is_known {
                true => watched.latest.clone(),
                false => {
                    watched.known_until = now + IDLE_INTERVAL;
                    PoolReading::of(*pid, &watched.addresses)
                }
            };
            if let Some(reading) = reading {
                watched.take(now.saturating_sub(self.started), reading);
            }
        }
    }

    /// What the pools did when they were read last, each with its process: as if they had been read once.
    pub fn latest(&self) -> Vec<(u32, Pool)> {
        let latest = |(pid, watched): (&u32, &Watched)| {
            let mut moment = Period::default();
            moment.take(watched.latest.as_ref()?);
            Some((*pid, moment.summary()?))
        };
        let mut pools: Vec<(u32, Pool)> = self.pools.iter().filter_map(latest).collect();
        pools.small_sort_by_key(|(pid, _)| *pid);
        pools
    }

    /// Forgets the pools of processes that have ended: another may get the same pid.
    pub fn forget_ended(&mut self) {
        let is_same = |pid: u32, watched: &Watched| proc::start_time(pid) == watched.started;
        self.pools.retain(|pid, watched| is_same(*pid, watched));
    }

    /// Starts a period, and forgets those that are over at `since`: what is known is from then on.
    pub fn start_period(&mut self, since: Nanoseconds) {
        let now = monotonic_now();
        for watched in self.pools.values_mut() {
            watched.periods.push_back(Period {
                since: now,
                ..Period::default()
            });
            while watched
                .periods
                .get(1)
                .is_some_and(|next| next.since <= since)
            {
                watched.periods.pop_front();
            }
        }
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
    /// Whether jobs run or wait, as far as is known.
    fn has_jobs(&self) -> bool {
        let latest = self.latest.as_ref();
        latest.is_some_and(|latest| latest.busy() > 0 || latest.waiting() > 0)
    }

    fn take(&mut self, time: Nanoseconds, reading: PoolReading) {
        let part = PoolPart {
            readings: 1,
            busy: reading.busy().into(),
            waiting: reading.waiting() as u64,
        };
        self.timeline.add(time, part);
        if let Some(period) = self.periods.back_mut() {
            period.take(&reading);
        }
        self.latest = Some(reading);
    }

    fn summary(&self) -> Option<Pool> {
        let mut whole = Period::default();
        for period in &self.periods {
            whole.add(period);
        }
        whole.summary()
    }
}

impl Period {
    /// Adds what was seen at another time.
    fn add(&mut self, other: &Self) {
        let (sum, more) = (&mut self.pool, &other.pool);
        sum.threads = sum.threads.max(more.threads);
        sum.readings += more.readings;
        sum.busy += more.busy;
        sum.full += more.full;
        sum.waiting += more.waiting;
        sum.slow_waiting += more.slow_waiting;
        sum.slow_full += more.slow_full;
        for (kind, (waited, about)) in &other.kinds {
            self.add_jobs(kind, *waited, about);
        }
    }

    fn add_jobs(&mut self, kind: &str, jobs: u64, about: &str) {
        if let Some((waited, _)) = self.kinds.get_mut(kind) {
            *waited += jobs;
        } else if self.kinds.len() < MAX_KINDS {
            self.kinds.insert(kind.to_owned(), (jobs, about.to_owned()));
        }
    }

    fn take(&mut self, reading: &PoolReading) {
        let pool = &mut self.pool;
        pool.threads = reading.threads;
        pool.readings += 1;
        pool.busy += u64::from(reading.busy());
        pool.full += u64::from(reading.busy() == reading.threads);
        pool.waiting += reading.waiting() as u64;
        pool.slow_waiting += reading.slow_jobs.len() as u64;
        // libuv lets slow jobs take half of the threads.
        let is_full_for_slow = reading.slow_running >= reading.threads.div_ceil(2);
        pool.slow_full += u64::from(is_full_for_slow && !reading.slow_jobs.is_empty());
        for job in reading.fast_jobs.iter().chain(&reading.slow_jobs) {
            self.add_jobs(&job.kind, 1, &job.about);
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
        jobs.small_sort_by(|one, other| {
            let by_number = other.waiting.cmp(&one.waiting);
            by_number.then_with(|| one.kind.cmp(&other.kind))
        });
        (self.pool.readings > 0).then(|| Pool {
            jobs,
            ..self.pool.clone()
        })
    }
}
