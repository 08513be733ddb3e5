//! Reads the stacks of threads without stopping any.
//!
//! A thread that waits in the kernel does not change its stack, and the kernel reports its stack
//! and instruction pointers; the other registers stay unknown. One that runs is caught by a short
//! sampling of its CPU time.

use std::time::{Duration, Instant};

use nodespy_model::{Event, FastSet, UserStack};

use super::process_snapshot::{StackReader, ThreadStack};
use super::{SnapshotOutcome, ThreadSnapshot};
use crate::engines::perf_events::{CopiedAtSample, EventSpec, PerfOptions, PerfSession};
use crate::error::{CaptureError, explain_no_tracing};
use crate::polling::{StackCopies, copy_waiting_stack};
use crate::target::Target;
use crate::target::proc::{self, MappedRange, SystemCall};

/// How long running threads are sampled.
const SAMPLING: Duration = Duration::from_millis(200);
const SAMPLING_RATE_HZ: u32 = 499;
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Reads waiting threads as they wait; one that runs is left to be sampled.
#[derive(Debug)]
pub(super) struct Waiters;

impl StackReader for Waiters {
    fn run<T: Send>(&mut self, work: impl FnOnce(&mut Self) -> T + Send) -> T {
        work(self)
    }

    fn read_stack(
        &mut self,
        (pid, tid): (u32, u32),
        _is_main: bool,
        ranges: &[MappedRange],
        copies: &mut StackCopies,
    ) -> Result<Option<ThreadStack>, CaptureError> {
        let Some(state) = proc::live_run_state(pid, tid) else {
            return Ok(None);
        };
        let (outcome, user) = match read_waiting(pid, tid, ranges, copies) {
            Ok(Some(user)) => (SnapshotOutcome::Waiting, user),
            Ok(None) => (SnapshotOutcome::Sampled, UserStack::Absent),
            Err(_) if proc::live_run_state(pid, tid).is_none() => return Ok(None),
            Err(error) => return Err(explain_no_tracing(pid, error)),
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

/// The stack of a thread that waits in the kernel; none when it does not.
fn read_waiting(
    pid: u32,
    tid: u32,
    ranges: &[MappedRange],
    copies: &mut StackCopies,
) -> std::io::Result<Option<UserStack<'static>>> {
    let SystemCall::Waiting(call) = proc::system_call(pid, tid)? else {
        return Ok(None);
    };
    let user = copy_waiting_stack(pid, &call, ranges, copies);
    // Had it run in between, the copy would be of two moments.
    let still_waits = proc::system_call(pid, tid)? == SystemCall::Waiting(call);
    Ok(still_waits.then_some(user))
}

/// Samples the threads in `unseen` until each was seen once, or the time is over, and hands the samples
/// on. Returns why the rest was not seen.
pub(super) fn sample_running(
    targets: &[Target],
    unseen: &mut FastSet<(u32, u32)>,
    hand_on: &mut dyn FnMut(Event<'_>),
) -> String {
    if unseen.is_empty() {
        return String::new();
    }
    let options = PerfOptions {
        events: vec![EventSpec::cpu()],
        rate_hz: SAMPLING_RATE_HZ,
        include_kernel: false,
        follow_children: false,
        walks_at_sample: false,
        reads_at_sample: false,
        copies: CopiedAtSample::default(),
        spares_idle: false,
        prefers_cpus: false,
        placebo: false,
    };
    let mut session = match PerfSession::attach(targets, None, &options, false) {
        Ok(session) => session,
        Err(error) => return format!("it runs, and can't be sampled: {error}"),
    };
    let mut take = |event: Event<'_>| {
        if let Event::Sample(sample) = &event
            && unseen.remove(&(sample.pid, sample.tid))
        {
            hand_on(event);
        }
        unseen.is_empty()
    };
    let deadline = Instant::now() + SAMPLING;
    let mut is_done = false;
    while !is_done && Instant::now() < deadline {
        let drained = session.drain(POLL_INTERVAL, &mut |event| is_done = take(event));
        if let Err(error) = drained {
            return format!("it runs, and can't be sampled: {error}");
        }
    }
    session.finish(&mut |event| {
        take(event);
    });
    format!(
        "neither waiting in the kernel nor on a CPU within {} ms",
        SAMPLING.as_millis()
    )
}
