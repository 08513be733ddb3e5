//! The event loops of some processes, read many times a second.

use std::collections::VecDeque;

use nodespy_model::{EventLoop, FastMap, Nanoseconds, Profile};

use super::jitter::Jitter;
use super::loop_times::LoopTimes;
use super::stretch::{Ages, Stretches};
use super::uv_loop::{Reading, Search, UvLoop};
use crate::sys::clock::{TICK, monotonic_now, ticks_after_boot};
use crate::target::proc;

/// How often loops are read.
const LOOP_INTERVAL: Nanoseconds = 50_000_000;
/// And at most, where short stalls are wanted.
const SHORTEST_INTERVAL: Nanoseconds = 5_000_000;
/// In how many of these times at the latest while all of them wait for events, where stalls are wanted: when one has begun
/// is known to the loop itself, so the length of a stall is early enough.
const IDLE_INTERVALS: Nanoseconds = 6;
/// How often threads are searched for loops.
const SEARCH_INTERVAL: Nanoseconds = 500_000_000;
/// How much less often while all loops wait for events: what has no loop yet is hardly made then.
const IDLE_SEARCH_FACTOR: Nanoseconds = 8;
/// How often a thread is searched.
const SEARCHES: u32 = 20;
/// More threads than this are not searched.
const MAX_THREADS: usize = 512;

/// SIGPROF among the signals of `/proc`: V8 catches it while its CPU profiler runs, and only then.
const PROFILER_SIGNAL: u64 = 1 << (libc::SIGPROF - 1);

/// A stall that goes on for so long is reported before it is over.
const LONG_STALL: Nanoseconds = 2_000_000_000;

/// A time that a loop was away from poll for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// The process.
    pub pid: u32,
    /// The thread that runs the loop.
    pub tid: u32,
    /// When it started, at the latest.
    pub started: Nanoseconds,
    /// How long it lasted, at least.
    pub lasted: Nanoseconds,
    /// Whether it is over.
    pub is_over: bool,
}

/// The loops that run JavaScript, and what they do from when they are found.
#[derive(Debug, Default)]
pub struct EventLoops {
    /// When the recording started.
    started: Nanoseconds,
    loops: FastMap<(u32, u32), Watched>,
    /// Where processes have their default loops, which their main threads run.
    defaults: FastMap<u32, u64>,
    /// How often threads were searched that have none.
    searched: FastMap<(u32, u32), Searched>,
    next_read: Nanoseconds,
    jitter: Jitter,
    next_search: Nanoseconds,
    remarks: Vec<String>,
    has_unknown: bool,
    has_interrupted: bool,
    /// What counts as a stall; nothing does when absent.
    limit: Option<Nanoseconds>,
    stalls: Vec<Stall>,
    /// Whether all loops waited for events when they were last read.
    was_idle: bool,
    has_left_poll: bool,
}

/// A thread without a loop that is known.
#[derive(Debug, Default)]
struct Searched {
    times: u32,
    /// How often it had been put on a CPU then: one that stood still since has no more to show.
    slices: Option<u64>,
}

#[derive(Debug)]
struct Watched {
    at: UvLoop,
    /// What is known is from the first of them on.
    periods: VecDeque<Period>,
    last: Reading,
    stretches: Stretches,
    times: LoopTimes,
    /// The stall that goes on.
    stall: Option<Stall>,
    is_long_reported: bool,
    is_gone: bool,
    /// Whether signals interrupt poll.
    is_interrupted: bool,
}

/// A part of the time that a loop is watched.
#[derive(Debug)]
struct Period {
    first: Reading,
    ages: Ages,
}

impl EventLoops {
    /// Nothing is known yet. The recording started at `started`.
    pub fn new(started: Nanoseconds) -> Self {
        Self {
            started,
            ..Self::default()
        }
    }

    /// The same, and times away from poll that are at least as long are reported as stalls.
    pub fn with_stalls(started: Nanoseconds, limit: std::time::Duration) -> Self {
        Self {
            limit: Some(limit.as_nanos() as Nanoseconds),
            ..Self::new(started)
        }
    }

    /// From now on it is known where a process has its default loop.
    pub fn know_default(&mut self, pid: u32, address: u64) {
        self.defaults.insert(pid, address);
    }

    /// The stalls that are over since the last call, and those that have gone on for long.
    pub fn take_stalls(&mut self) -> Vec<Stall> {
        std::mem::take(&mut self.stalls)
    }

    /// Whether a loop has work after all waited for events, since the last call.
    pub fn take_has_left_poll(&mut self) -> bool {
        std::mem::take(&mut self.has_left_poll)
    }

    /// Whether all loops wait for events, where stalls are wanted.
    pub fn are_idle(&self) -> bool {
        self.was_idle
    }

    /// How long until loops are to be read again.
    pub fn until_next(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.next_read.saturating_sub(monotonic_now()))
    }

    /// Reads the loops of these processes if it is time.
    pub fn poll(&mut self, pids: impl Iterator<Item = u32>) {
        let now = monotonic_now();
        if now < self.next_read {
            return;
        }
        // Four times in what is a stall, at least.
        let sixth = self.limit.map_or(LOOP_INTERVAL, |limit| limit / 6);
        let interval = LOOP_INTERVAL.min(sixth.max(SHORTEST_INTERVAL));
        let mut is_idle = self.limit.is_some() && !self.loops.is_empty();
        for (id, watched) in &mut self.loops {
            let age = watched.read();
            if let Some(limit) = self.limit {
                self.stalls.extend(watched.stalled(*id, age, limit));
            }
            is_idle &= watched.last.is_in_poll;
        }
        if self.was_idle && !is_idle {
            self.has_left_poll = true;
            self.next_search = self.next_search.min(now + SEARCH_INTERVAL);
        }
        self.was_idle = is_idle;
        self.next_read = now
            + match is_idle {
                true => self.jitter.at_most(interval * IDLE_INTERVALS),
                false => self.jitter.around(interval),
            };
        if now >= self.next_search {
            let factor = if is_idle { IDLE_SEARCH_FACTOR } else { 1 };
            self.next_search = now + SEARCH_INTERVAL * factor;
            for pid in pids {
                self.search(pid);
                self.look_for_profiler(pid);
            }
        }
    }

    /// Finds out whether V8's CPU profiler runs in a process. Each of its signals interrupts poll, and libuv forgets
    /// how long it had been there: an idle loop seems busy.
    fn look_for_profiler(&mut self, pid: u32) {
        let status = proc::read_status(pid).unwrap_or_default();
        if status.caught_signals & PROFILER_SIGNAL == 0 {
            return;
        }
        let of_process = self.loops.iter_mut().filter(|((of, _), _)| *of == pid);
        of_process.for_each(|(_, watched)| watched.is_interrupted = true);
        if !std::mem::replace(&mut self.has_interrupted, true) {
            self.remarks.push(format!(
                "the event loop of process {pid} is left out: V8's CPU profiler runs, whose signals interrupt its poll, so \
                 that libuv's account of it, and Node's own, is wrong"
            ));
        }
    }

    /// Searches the threads of a process for loops that are not known yet.
    fn search(&mut self, pid: u32) {
        let mut started = None;
        for tid in proc::threads(pid).into_iter().take(MAX_THREADS) {
            if self.loops.contains_key(&(pid, tid)) {
                continue;
            }
            let searched = self.searched.entry((pid, tid)).or_default();
            // A main thread may be busy for long; others that have a loop mostly wait in it.
            if searched.times >= SEARCHES && tid != pid {
                continue;
            }
            let slices = proc::thread_schedstat(pid, tid).map(|counters| counters.slices);
            if slices.is_some() && slices == searched.slices && tid != pid {
                continue;
            }
            searched.slices = slices;
            searched.times += 1;
            let started = *started.get_or_insert_with(|| started_at(pid, monotonic_now()));
            let default = self.defaults.get(&pid).filter(|_| tid == pid);
            let known = default.and_then(|at| UvLoop::default_of(pid, *at, started));
            let found = match known {
                Some(found) => Search::Found(found),
                None => UvLoop::find(pid, tid, started),
            };
            match found {
                Search::Found(at) => self.watch((pid, tid), at),
                Search::NotThere => {}
                Search::Unknown => self.note_unknown(pid),
            }
        }
    }

    fn watch(&mut self, id: (u32, u32), at: UvLoop) {
        self.searched.remove(&id);
        if let Some(first) = at.read(monotonic_now) {
            let mut stretches = Stretches::default();
            let mut ages = Ages::default();
            ages.take(stretches.take(first), 1);
            let watched = Watched {
                at,
                periods: VecDeque::from([Period { first, ages }]),
                last: first,
                stretches,
                times: LoopTimes::new(self.started),
                stall: None,
                is_long_reported: false,
                is_gone: false,
                is_interrupted: false,
            };
            self.loops.insert(id, watched);
        }
    }

    fn note_unknown(&mut self, pid: u32) {
        if !std::mem::replace(&mut self.has_unknown, true) {
            self.remarks.push(format!(
                "the event loop of process {pid} is left out: its libuv is laid out in a way that \
                 this nodespy does not know (it knows 1.43 to 1.52)"
            ));
        }
    }

    /// What the reader should know, since the last call.
    pub fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    /// Notes in a profile what is known of the loops of its threads: all of it as a summary, and over
    /// time what no profile has yet.
    pub fn note_in(&mut self, profile: &mut Profile) {
        for thread in &mut profile.threads {
            let pid = profile.processes[thread.process.at()].pid;
            let Some(watched) = self.loops.get_mut(&(pid, thread.tid)) else {
                continue;
            };
            if watched.is_interrupted {
                (thread.event_loop, thread.loop_timeline) = (None, None);
                continue;
            }
            thread.event_loop = watched.summary().or(thread.event_loop);
            if let Some(timeline) = watched.times.hand_over() {
                let known = thread.loop_timeline.get_or_insert_default();
                known.merge(&timeline);
                known.keep_longest();
            }
        }
    }

    /// Starts a period, and forgets those that are over at `since`: what is known is from then on.
    pub fn start_period(&mut self, since: Nanoseconds) {
        for watched in self.loops.values_mut() {
            watched.start_period(since);
        }
    }

    /// Forgets loops that are gone.
    pub fn forget_ended(&mut self) {
        self.loops.retain(|_, watched| !watched.is_gone);
        self.defaults
            .retain(|pid, _| proc::path_of(*pid, "stat").exists());
        self.searched
            .retain(|(pid, tid), _| proc::path_of(*pid, &format!("task/{tid}")).exists());
    }
}

impl Watched {
    /// Reads the loop; returns how long it has been away from poll.
    fn read(&mut self) -> Nanoseconds {
        if self.is_gone {
            return 0;
        }
        let Some(reading) = self.at.read(monotonic_now) else {
            self.is_gone = true;
            return 0;
        };
        let before = std::mem::replace(&mut self.last, reading);
        let ms = reading.at.saturating_sub(before.at).div_ceil(1_000_000);
        let age = self.stretches.take(reading);
        self.times.take(&before, &reading, age);
        if let Some(period) = self.periods.back_mut() {
            period.ages.take(age, ms);
        }
        age
    }

    fn start_period(&mut self, since: Nanoseconds) {
        self.periods.push_back(Period {
            first: self.last,
            ages: Ages::default(),
        });
        while self
            .periods
            .get(1)
            .is_some_and(|next| next.first.at <= since)
        {
            self.periods.pop_front();
        }
    }

    /// The stall that is over, or has gone on for long, now that the loop has been away for `age`.
    fn stalled(
        &mut self,
        (pid, tid): (u32, u32),
        age: Nanoseconds,
        limit: Nanoseconds,
    ) -> Option<Stall> {
        let started = self.last.at.saturating_sub(age);
        let before = self.stall;
        // A loop that is away again since later has been in poll in between.
        let goes_on = before.is_some_and(|stall| age >= stall.lasted);
        if age < limit {
            self.stall = None;
        } else {
            self.stall = Some(Stall {
                pid,
                tid,
                started: before
                    .filter(|_| goes_on)
                    .map_or(started, |it| it.started.min(started)),
                lasted: age,
                is_over: false,
            });
        }
        if goes_on {
            let long = self.stall.filter(|stall| stall.lasted >= LONG_STALL);
            let is_reported = std::mem::replace(&mut self.is_long_reported, long.is_some());
            return long.filter(|_| !is_reported);
        }
        self.is_long_reported = false;
        before.map(|stall| Stall {
            is_over: true,
            ..stall
        })
    }

    fn summary(&self) -> Option<EventLoop> {
        let (first, last) = (&self.periods.front()?.first, &self.last);
        let mut ages = Ages::default();
        for period in &self.periods {
            ages.add(&period.ages);
        }
        let watched = last.at.saturating_sub(first.at);
        (watched > 0).then(|| EventLoop {
            watched,
            idle: last.idle.saturating_sub(first.idle).min(watched),
            iterations: last
                .iterations
                .zip(first.iterations)
                .map(|(last, first)| last.saturating_sub(first)),
            longest: ages.longest(),
            p99: ages.p99(),
        })
    }
}

/// When a process started at the earliest, on the monotonic clock.
fn started_at(pid: u32, now: Nanoseconds) -> Nanoseconds {
    ticks_after_boot(proc::start_time(pid).unwrap_or(0), now).saturating_sub(TICK)
}
