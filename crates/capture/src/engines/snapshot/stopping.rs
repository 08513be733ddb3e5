//! Stopping threads, one after the other.

use std::io;
use std::time::{Duration, Instant};

use nodespy_model::{Nanoseconds, UserStack};

use super::process_snapshot::{StackReader, ThreadStack};
use super::{SnapshotOutcome, ThreadSnapshot};
use crate::error::{CaptureError, explain_no_tracing};
use crate::polling::StackCopies;
use crate::sys::ptrace::{Traced, Waited, hurry};
use crate::target::proc::{self, MappedRange, RunState};

/// How long a thread is given to stop. On a machine with more work than CPUs a thread that could
/// run has to wait for its turn first (764 ms were seen).
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for one in uninterruptible sleep, which mostly won't.
const SLEEPER_STOP_TIMEOUT: Duration = Duration::from_millis(100);
/// How long all threads together are given.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Stops each thread for as long as it takes to copy its registers and stack.
#[derive(Debug)]
pub(super) struct Stops {
    /// What is left of the time that all threads together are given.
    time_left: Duration,
    deadline: Instant,
}

impl Stops {
    pub(super) fn new() -> Self {
        Self {
            time_left: TOTAL_TIMEOUT,
            deadline: Instant::now(),
        }
    }

    /// Stops one thread, copies and lets go; none when it has ended.
    fn stop_thread(
        &self,
        pid: u32,
        tid: u32,
        state: RunState,
        ranges: &[MappedRange],
        copies: &mut StackCopies,
    ) -> io::Result<Option<(SnapshotOutcome, UserStack<'static>)>> {
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
                    SnapshotOutcome::DidNotStop { waited },
                    UserStack::Absent,
                )));
            }
            Waited::Stopped => {}
        }
        let registers = traced.registers()?;
        let copied = copies.copy(pid, &registers, ranges);
        let since = traced.stopped_since();
        drop(traced);
        let time = since.elapsed().as_nanos() as Nanoseconds;
        let user = UserStack::Copy {
            registers,
            stack: copies.take(copied).into(),
        };
        Ok(Some((SnapshotOutcome::Held { time }, user)))
    }
}

impl StackReader for Stops {
    /// Runs `work`, which stops threads, on a thread of its own. The kernel lets go of what a thread
    /// traces when that thread ends, also when it panics: a target thread that stops only after we gave
    /// up on it is never left behind stopped.
    fn run<T: Send>(&mut self, work: impl FnOnce(&mut Self) -> T + Send) -> T {
        std::thread::scope(|scope| {
            let tracer = scope.spawn(|| {
                hurry();
                let started = Instant::now();
                self.deadline = started + self.time_left;
                let done = work(self);
                self.time_left = self.time_left.saturating_sub(started.elapsed());
                done
            });
            match tracer.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn read_stack(
        &mut self,
        thread: (u32, u32),
        is_main: bool,
        ranges: &[MappedRange],
        copies: &mut StackCopies,
    ) -> Result<Option<ThreadStack>, CaptureError> {
        let (pid, tid) = thread;
        let Some(state) = proc::live_run_state(pid, tid) else {
            return Ok(None);
        };
        let (outcome, user) = match self.stop_thread(pid, tid, state, ranges, copies) {
            Ok(Some(stopped)) => stopped,
            Ok(None) => return Ok(None),
            Err(_) if proc::live_run_state(pid, tid).is_none() => return Ok(None),
            Err(error) if is_main => return Err(explain_no_tracing(pid, error)),
            Err(error) => {
                let why = error.to_string();
                (SnapshotOutcome::Unseen { why }, UserStack::Absent)
            }
        };
        let thread = ThreadSnapshot {
            pid,
            tid,
            state,
            outcome,
        };
        Ok(Some((thread, user)))
    }
}
