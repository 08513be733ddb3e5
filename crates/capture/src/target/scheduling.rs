//! How threads share the CPUs: on one, waiting for one, or asleep, by the kernel's own account.

use std::collections::VecDeque;

use nodespy_model::{FastMap, Nanoseconds, Profile, Scheduling};

use super::proc::{self, Schedstat};
use crate::sys::clock::{monotonic_now, ticks_after_boot};

/// How often the kernel is asked: what a thread does between the last answer and its end is not
/// known.
const POLL_INTERVAL: Nanoseconds = 1_000_000_000;
/// Asking for a thread takes microseconds: with thousands of them it is done less often.
const INTERVAL_PER_THREAD: Nanoseconds = 2_000_000;

/// Threads, and what the scheduler does with them from the start of the recording on.
#[derive(Debug)]
pub struct SchedulingWatch {
    started: Nanoseconds,
    next_poll: Nanoseconds,
    /// When the kernel was last asked.
    read_at: Nanoseconds,
    threads: FastMap<(u32, u32), WatchedThread>,
    /// How often threads were put on a CPU since the start.
    slices: u64,
}

#[derive(Debug, Clone)]
struct WatchedThread {
    /// Where periods start; what is known is from the first of them on.
    periods: VecDeque<(Nanoseconds, Schedstat)>,
    until: Nanoseconds,
    now: Schedstat,
}

impl SchedulingWatch {
    /// Starts with the threads that these processes have.
    pub fn start(pids: impl Iterator<Item = u32>) -> Self {
        let mut watch = Self {
            started: monotonic_now(),
            next_poll: 0,
            read_at: 0,
            threads: FastMap::default(),
            slices: 0,
        };
        watch.read(pids);
        watch
    }

    /// Asks the kernel again if it is time to.
    pub fn poll(&mut self, pids: impl Iterator<Item = u32>) {
        if monotonic_now() >= self.next_poll {
            self.read(pids);
        }
    }

    /// Asks the kernel.
    pub fn read(&mut self, pids: impl Iterator<Item = u32>) {
        self.read_at = monotonic_now();
        let mut asked = 0;
        for pid in pids {
            for tid in proc::threads(pid) {
                self.read_thread(pid, tid);
                asked += 1;
            }
        }
        self.next_poll = monotonic_now() + POLL_INTERVAL.max(asked * INTERVAL_PER_THREAD);
    }

    fn read_thread(&mut self, pid: u32, tid: u32) {
        let Some(now) = proc::thread_schedstat(pid, tid) else {
            return;
        };
        let until = monotonic_now();
        let known = self.threads.get_mut(&(pid, tid));
        // Counters that went back are those of another thread with the same tid.
        if let Some(thread) = known.filter(|thread| thread.now.on_cpu <= now.on_cpu) {
            let more = now.slices.saturating_sub(thread.now.slices);
            self.slices = self.slices.saturating_add(more);
            (thread.until, thread.now) = (until, now);
            return;
        }
        let (since, before) = match started(pid, tid, until) {
            Some(started) if started > self.started => (started, Schedstat::default()),
            _ => (until, now),
        };
        let thread = WatchedThread {
            periods: VecDeque::from([(since, before)]),
            until,
            now,
        };
        self.threads.insert((pid, tid), thread);
    }

    /// How often threads were put on a CPU since the start, when the kernel was asked last.
    pub fn slices(&self) -> u64 {
        self.slices
    }

    /// Notes in a profile what is known of its threads.
    pub fn note_in(&self, profile: &mut Profile) {
        for thread in &mut profile.threads {
            let pid = profile.processes[thread.process.at()].pid;
            let watched = self.threads.get(&(pid, thread.tid));
            let known = watched.and_then(WatchedThread::scheduling);
            thread.scheduling = known.or(thread.scheduling);
        }
    }

    /// Starts a period, and forgets those that are over at `since`: what is known is from then on.
    pub fn start_period(&mut self, since: Nanoseconds) {
        for thread in self.threads.values_mut() {
            thread.periods.push_back((thread.until, thread.now));
            while thread
                .periods
                .get(1)
                .is_some_and(|(start, _)| *start <= since)
            {
                thread.periods.pop_front();
            }
        }
    }

    /// Forgets the threads that were not there when the kernel was last asked.
    pub fn forget_ended(&mut self) {
        let read_at = self.read_at;
        self.threads.retain(|_, thread| thread.until >= read_at);
    }
}

impl WatchedThread {
    /// None where the kernel does not count, and for a thread that was seen once.
    fn scheduling(&self) -> Option<Scheduling> {
        let (since, before) = *self.periods.front()?;
        let counts = self.now != Schedstat::default() && self.until > since;
        counts.then(|| Scheduling {
            watched: self.until - since,
            on_cpu: self.now.on_cpu.saturating_sub(before.on_cpu),
            run_delay: self.now.run_delay.saturating_sub(before.run_delay),
        })
    }
}

/// When a thread started, on the monotonic clock, which is `now`.
fn started(pid: u32, tid: u32, now: Nanoseconds) -> Option<Nanoseconds> {
    proc::thread_start_time(pid, tid).map(|ticks| ticks_after_boot(ticks, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::{About, Notes, Process, ProfileBuilder, Thread, WeightUnit};

    /// What is known of a thread of this process.
    fn scheduling_of(watch: &SchedulingWatch, tid: u32) -> Option<Scheduling> {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let process = builder.process(Process {
            pid: std::process::id(),
            ..Process::default()
        });
        builder.thread(Thread {
            process,
            tid,
            ..Thread::default()
        });
        let mut profile = builder.finish(About::default(), Notes::default());
        watch.note_in(&mut profile);
        profile.threads[0].scheduling
    }

    fn own_tid() -> u32 {
        let link = std::fs::read_link("/proc/thread-self").unwrap();
        link.file_name().unwrap().to_str().unwrap().parse().unwrap()
    }

    fn own_pid() -> std::iter::Once<u32> {
        std::iter::once(std::process::id())
    }

    #[test]
    fn what_the_kernel_counts_is_counted_from_the_start() {
        let tid = own_tid();
        let before = proc::thread_schedstat(std::process::id(), tid).unwrap();
        let mut watch = SchedulingWatch::start(own_pid());
        assert_eq!(scheduling_of(&watch, tid), None);
        let end = std::time::Instant::now() + std::time::Duration::from_millis(100);
        while std::time::Instant::now() < end {
            std::hint::spin_loop();
        }
        watch.read(own_pid());
        let after = proc::thread_schedstat(std::process::id(), tid).unwrap();
        let found = scheduling_of(&watch, tid).unwrap();
        assert!(found.on_cpu > 0 && found.on_cpu <= after.on_cpu - before.on_cpu);
        assert!(found.run_delay <= after.run_delay - before.run_delay);
        assert!(found.watched >= 100_000_000);
    }

    #[test]
    fn what_is_known_is_of_the_periods_that_are_not_forgotten() {
        let tid = own_tid();
        let mut watch = SchedulingWatch::start(own_pid());
        let pause = || std::thread::sleep(std::time::Duration::from_millis(60));
        pause();
        watch.read(own_pid());
        watch.start_period(0);
        let first = monotonic_now();
        pause();
        watch.read(own_pid());
        assert!(scheduling_of(&watch, tid).unwrap().watched >= 120_000_000);
        watch.start_period(first);
        assert!(scheduling_of(&watch, tid).unwrap().watched < 120_000_000);
        watch.start_period(monotonic_now());
        assert_eq!(scheduling_of(&watch, tid), None);
    }

    #[test]
    fn a_thread_that_starts_later_is_watched_from_its_start() {
        let mut watch = SchedulingWatch::start(own_pid());
        // A start is known to a tick.
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            watch.read(own_pid());
            let found = scheduling_of(&watch, own_tid()).unwrap();
            assert!(found.watched >= 50_000_000);
            assert!(found.on_cpu < found.watched, "{found:?}");
        })
        .join()
        .unwrap();
    }
}
