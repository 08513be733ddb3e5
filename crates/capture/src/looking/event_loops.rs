//! The event loops of some processes, read many times a second.

use nodespy_model::{EventLoop, FastMap, Nanoseconds, Profile};

use super::stretch::Stretches;
use super::uv_loop::{Reading, Search, UvLoop};
use crate::sys::clock::{monotonic_now, since_boot};
use crate::target::proc;

/// How often loops are read.
const LOOP_INTERVAL: Nanoseconds = 50_000_000;
/// How often threads are searched for loops.
const SEARCH_INTERVAL: Nanoseconds = 500_000_000;
/// How often a thread is searched.
const SEARCHES: u32 = 20;
/// More threads than this are not searched.
const MOST_THREADS: usize = 512;
/// A clock tick of `/proc`.
const TICK: Nanoseconds = 10_000_000;

/// The loops that run JavaScript, and what they do from when they are found.
#[derive(Debug, Default)]
pub struct EventLoops {
    loops: FastMap<(u32, u32), Watched>,
    /// How often threads were searched that have none.
    searched: FastMap<(u32, u32), u32>,
    next_read: Nanoseconds,
    next_search: Nanoseconds,
    remarks: Vec<String>,
    has_unknown: bool,
}

#[derive(Debug)]
struct Watched {
    at: UvLoop,
    first: Reading,
    last: Reading,
    stretches: Stretches,
    is_gone: bool,
}

impl EventLoops {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
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
        self.next_read = now + LOOP_INTERVAL;
        for watched in self.loops.values_mut() {
            watched.read();
        }
        if now >= self.next_search {
            self.next_search = now + SEARCH_INTERVAL;
            pids.for_each(|pid| self.search(pid));
        }
    }

    /// Searches the threads of a process for loops that are not known yet.
    fn search(&mut self, pid: u32) {
        let mut started = None;
        for tid in proc::threads(pid).into_iter().take(MOST_THREADS) {
            if self.loops.contains_key(&(pid, tid)) {
                continue;
            }
            let searched = self.searched.entry((pid, tid)).or_default();
            // A main thread may be busy for long; others that have a loop mostly wait in it.
            if *searched >= SEARCHES && tid != pid {
                continue;
            }
            *searched += 1;
            let now = monotonic_now();
            let started = *started.get_or_insert_with(|| started_at(pid, now));
            match UvLoop::find(pid, tid, started, now) {
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
            stretches.take(first);
            let watched = Watched {
                at,
                first,
                last: first,
                stretches,
                is_gone: false,
            };
            self.loops.insert(id, watched);
        }
    }

    fn note_unknown(&mut self, pid: u32) {
        if !std::mem::replace(&mut self.has_unknown, true) {
            self.remarks.push(format!(
                "the event loop of process {pid} is not told: its libuv is laid out in a way that \
                 this nodespy does not know (it knows 1.43 to 1.52)"
            ));
        }
    }

    /// What the reader should know, since the last call.
    pub fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    /// Notes in a profile what is known of the loops of its threads.
    pub fn note_in(&self, profile: &mut Profile) {
        for thread in &mut profile.threads {
            let pid = profile.processes[thread.process.at()].pid;
            let watched = self.loops.get(&(pid, thread.tid));
            let known = watched.and_then(Watched::told);
            thread.event_loop = known.or(thread.event_loop);
        }
    }

    /// Forgets loops that are gone.
    pub fn forget_ended(&mut self) {
        self.loops.retain(|_, watched| !watched.is_gone);
        self.searched
            .retain(|(pid, tid), _| proc::path_of(*pid, &format!("task/{tid}")).exists());
    }
}

impl Watched {
    fn read(&mut self) {
        if self.is_gone {
            return;
        }
        match self.at.read(monotonic_now) {
            Some(reading) => {
                self.last = reading;
                self.stretches.take(reading);
            }
            None => self.is_gone = true,
        }
    }

    fn told(&self) -> Option<EventLoop> {
        let (first, last) = (&self.first, &self.last);
        let watched = last.at.saturating_sub(first.at);
        (watched > 0).then(|| EventLoop {
            watched,
            idle: last.idle.saturating_sub(first.idle).min(watched),
            iterations: last
                .iterations
                .zip(first.iterations)
                .map(|(last, first)| last.saturating_sub(first)),
            longest: self.stretches.longest(),
            p99: self.stretches.p99(),
        })
    }
}

/// When a process started, on the monotonic clock, to a tick.
fn started_at(pid: u32, now: Nanoseconds) -> Nanoseconds {
    let after_boot = proc::start_time(pid).unwrap_or(0).saturating_mul(TICK);
    now.saturating_sub(since_boot().saturating_sub(after_boot))
        .saturating_sub(TICK)
}
