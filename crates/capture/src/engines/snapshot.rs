//! Where every thread is right now: one sample per thread, the waiting ones included.
//!
//! `stop_and_look` stops each thread for the few microseconds it takes to copy its registers and
//! its stack, one after the other, never two at once. `look_without_stopping` stops nothing and
//! knows less. What comes out are the same events as those of a sampling engine; naming
//! them is the caller's work, done when all threads run again.

use std::io;
use std::time::{Duration, Instant};

use nodespy_model::{Event, EventIndex, Nanoseconds, RawSample, UserStack};

use crate::error::{CaptureError, explain_no_tracing};
use crate::sys::ptrace::{Traced, Waited, hurry};
use crate::target::Target;
use crate::target::proc::{self, MappedRange, RunState};

mod copies;
mod engine;
mod process_look;
mod without_stop;

use copies::StackCopies;
pub use engine::{SnapshotEngine, Stopping};
use process_look::{ProcessLook, look_at_each};
use without_stop::look_without_stopping;

/// How long a thread is given to stop. On a machine with more work than CPUs a thread that could
/// run has to wait for its turn first (764 ms were seen).
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for one in uninterruptible sleep, which mostly won't.
const SLEEPER_STOP_TIMEOUT: Duration = Duration::from_millis(100);
/// How long all threads together are given.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(5);
/// More threads than this are not looked at.
const THREAD_LIMIT: usize = 20_000;

/// One look at every thread.
#[derive(Debug, Default)]
struct Snapshot {
    /// The threads, process by process, the main one first.
    threads: Vec<ThreadLook>,
    /// What was found, to be resolved: mappings, names and one sample per thread.
    events: Vec<Event<'static>>,
    /// What the reader should know of how it was captured.
    remarks: Vec<String>,
}

/// How a thread was looked at.
#[derive(Debug, Clone)]
pub struct ThreadLook {
    /// Its process.
    pub pid: u32,
    /// Its tid.
    pub tid: u32,
    /// What it was doing just before, by the kernel's account.
    pub state: RunState,
    /// How it went.
    pub outcome: LookOutcome,
}

/// How looking at a thread went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookOutcome {
    /// It was stopped and ran on.
    Held {
        /// For how long at most.
        time: Nanoseconds,
    },
    /// It did not stop within this time, so nothing is known of its stack.
    DidNotStop {
        /// How long it was waited for.
        waited: Nanoseconds,
    },
    /// It waits in the kernel and was looked at without stopping it.
    Waiting,
    /// It was seen running by a sample of its CPU time.
    Sampled,
    /// Nothing could be seen of it.
    Unseen {
        /// Why, as a clause.
        why: String,
    },
}

/// Stops every thread of the targets, one after the other, for as long as it takes to copy its
/// registers and stack.
fn stop_and_look(targets: &[Target]) -> Result<Snapshot, CaptureError> {
    // The kernel lets go of what a thread traces when that thread ends, also when it panics: a
    // target thread that stops only after we gave up on it is never left behind stopped.
    std::thread::scope(|scope| {
        let tracer = scope.spawn(|| {
            hurry();
            let mut stops = Stops {
                deadline: Instant::now() + TOTAL_TIMEOUT,
                copies: StackCopies::new(),
            };
            let looks = look_at_each(targets, |look, pid| stops.stop_process(look, pid))?;
            let mut snapshot = Snapshot::of(looks);
            snapshot.remarks.extend(stops.copies.remark());
            Ok(snapshot)
        });
        match tracer.join() {
            Ok(snapshot) => snapshot,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

impl Snapshot {
    fn of(looks: Vec<ProcessLook>) -> Self {
        let mut snapshot = Self::default();
        for look in looks {
            snapshot.events.extend(look.events);
            snapshot.remarks.extend(look.remarks);
            for (thread, sample) in look.threads {
                snapshot.threads.push(thread);
                snapshot.events.push(sample);
            }
        }
        snapshot
    }
}

/// What stopping threads one after the other draws from.
#[derive(Debug)]
struct Stops {
    deadline: Instant,
    copies: StackCopies,
}

impl Stops {
    fn stop_process(&mut self, look: &mut ProcessLook, pid: u32) -> Result<(), CaptureError> {
        let ranges = proc::mapped_ranges(pid);
        for (position, tid) in proc::threads(pid).into_iter().enumerate() {
            let Some(state) = proc::live_run_state(pid, tid) else {
                continue;
            };
            let (outcome, user) = if position >= THREAD_LIMIT {
                let why = format!("nodespy looks at {THREAD_LIMIT} threads at most");
                (LookOutcome::Unseen { why }, UserStack::Absent)
            } else {
                match self.stop_thread(pid, tid, state, &ranges) {
                    Ok(Some(looked)) => looked,
                    Ok(None) => continue,
                    Err(_) if proc::live_run_state(pid, tid).is_none() => continue,
                    Err(error) if position == 0 => return Err(explain_no_tracing(pid, error)),
                    Err(error) => {
                        let why = error.to_string();
                        (LookOutcome::Unseen { why }, UserStack::Absent)
                    }
                }
            };
            let thread = ThreadLook {
                pid,
                tid,
                state,
                outcome,
            };
            look.threads.push((thread, sample(pid, tid, user)));
        }
        Ok(())
    }

    /// Stops one thread, copies and lets go; none when it has ended.
    fn stop_thread(
        &mut self,
        pid: u32,
        tid: u32,
        state: RunState,
        ranges: &[MappedRange],
    ) -> io::Result<Option<(LookOutcome, UserStack<'static>)>> {
        let mut traced = match Traced::seize(tid) {
            Ok(traced) => traced,
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            Err(error) => return Err(error),
        };
        let timeout = match state {
            RunState::Uninterruptible => SLEEPER_STOP_TIMEOUT,
            _ => STOP_TIMEOUT,
        };
        let asked = Instant::now();
        match traced.stop(self.deadline.min(asked + timeout))? {
            Waited::Ended => return Ok(None),
            Waited::TimedOut => {
                let waited = asked.elapsed().as_nanos() as Nanoseconds;
                return Ok(Some((
                    LookOutcome::DidNotStop { waited },
                    UserStack::Absent,
                )));
            }
            Waited::Stopped => {}
        }
        let registers = traced.registers()?;
        let copied = self.copies.copy(pid, &registers, ranges);
        let since = traced.stopped_since();
        drop(traced);
        let time = since.elapsed().as_nanos() as Nanoseconds;
        let user = UserStack::Copy {
            registers,
            stack: self.copies.take(copied).into(),
        };
        Ok(Some((LookOutcome::Held { time }, user)))
    }
}

fn sample(pid: u32, tid: u32, user: UserStack<'static>) -> Event<'static> {
    Event::Sample(RawSample {
        time: crate::monotonic_now(),
        pid,
        tid,
        cpu: None,
        event: EventIndex::default(),
        weight: 1,
        kernel: Vec::new().into(),
        user,
    })
}
