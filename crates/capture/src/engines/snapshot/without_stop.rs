//! Looking at threads without stopping any.
//!
//! A thread that waits in the kernel does not change its stack, and the kernel reports its stack
//! and instruction pointers; the other registers stay unknown. One that runs is caught by a short
//! sampling of its CPU time.

use std::time::{Duration, Instant};

use nodespy_model::{Event, FastMap, FastSet, RawSample, Registers, UserStack};

use super::{LookOutcome, ProcessLook, Snapshot, StackCopies, ThreadLook, look_at_each, sample};
use crate::engines::perf_events::{EventSpec, PerfOptions, PerfSession};
use crate::error::{CaptureError, explain_no_tracing};
use crate::target::Target;
use crate::target::proc::{self, MappedRange, SystemCall};

/// How long running threads are sampled.
const SAMPLING: Duration = Duration::from_millis(200);
const SAMPLING_RATE_HZ: u32 = 499;
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Looks at every thread of the targets without stopping any.
pub(super) fn look_without_stopping(targets: &[Target]) -> Result<Snapshot, CaptureError> {
    let mut copies = StackCopies::new();
    let mut looks = look_at_each(targets, |look, pid| look_at_process(look, pid, &mut copies))?;
    let mut unseen: FastSet<(u32, u32)> = threads_in(&mut looks)
        .filter(|(thread, _)| thread.outcome == LookOutcome::Sampled)
        .map(|(thread, _)| (thread.pid, thread.tid))
        .collect();
    let mut seen: FastMap<(u32, u32), Event<'static>> = FastMap::default();
    let why_not = sample_running(targets, &mut unseen, &mut seen);
    for (thread, event) in threads_in(&mut looks) {
        if unseen.contains(&(thread.pid, thread.tid)) {
            thread.outcome = LookOutcome::Unseen {
                why: why_not.clone(),
            };
        }
        if let Some(sampled) = seen.remove(&(thread.pid, thread.tid)) {
            *event = sampled;
        }
    }
    let mut snapshot = Snapshot::of(looks);
    snapshot.remarks.extend(copies.remark());
    Ok(snapshot)
}

fn threads_in(
    looks: &mut [ProcessLook],
) -> impl Iterator<Item = &mut (ThreadLook, Event<'static>)> {
    looks.iter_mut().flat_map(|look| &mut look.threads)
}

/// Looks at the waiting threads of a process; one that runs is left to be sampled, and has an empty
/// stack until then: it is still one of the threads.
fn look_at_process(
    look: &mut ProcessLook,
    pid: u32,
    copies: &mut StackCopies,
) -> Result<(), CaptureError> {
    let ranges = proc::mapped_ranges(pid);
    for tid in proc::threads(pid) {
        let Some(state) = proc::live_run_state(pid, tid) else {
            continue;
        };
        let (outcome, user) = match look_at_waiting(pid, tid, &ranges, copies) {
            Ok(Some(user)) => (LookOutcome::Waiting, user),
            Ok(None) => (LookOutcome::Sampled, UserStack::Absent),
            Err(_) if proc::live_run_state(pid, tid).is_none() => continue,
            Err(error) => return Err(explain_no_tracing(pid, error)),
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

/// The stack of a thread that waits in the kernel; none when it does not.
fn look_at_waiting(
    pid: u32,
    tid: u32,
    ranges: &[MappedRange],
    copies: &mut StackCopies,
) -> std::io::Result<Option<UserStack<'static>>> {
    let SystemCall::Waiting(call) = proc::system_call(pid, tid)? else {
        return Ok(None);
    };
    let mut registers = Registers::default();
    registers.0[Registers::STACK_POINTER] = call.stack_pointer;
    registers.0[Registers::INSTRUCTION_POINTER] = call.instruction_pointer;
    let copied = copies.copy(pid, &registers, ranges);
    // Had it run in between, the copy would be of two moments.
    if proc::system_call(pid, tid)? != SystemCall::Waiting(call) {
        return Ok(None);
    }
    Ok(Some(UserStack::Copy {
        registers,
        stack: copies.take(copied).into(),
    }))
}

/// Samples the threads in `unseen` until each was seen once, or the time is over. Returns why the
/// rest was not seen.
fn sample_running(
    targets: &[Target],
    unseen: &mut FastSet<(u32, u32)>,
    seen: &mut FastMap<(u32, u32), Event<'static>>,
) -> String {
    if unseen.is_empty() {
        return String::new();
    }
    let options = PerfOptions {
        events: vec![EventSpec::cpu()],
        rate_hz: SAMPLING_RATE_HZ,
        include_kernel: false,
        follow_children: false,
        placebo: false,
    };
    let mut session = match PerfSession::attach(targets, None, &options, false) {
        Ok(session) => session,
        Err(error) => return format!("it runs, and can't be sampled: {error}"),
    };
    let mut take = |event: Event<'_>| {
        if let Event::Sample(sample) = event
            && unseen.remove(&(sample.pid, sample.tid))
        {
            seen.insert((sample.pid, sample.tid), Event::Sample(owned(sample)));
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

fn owned(sample: RawSample<'_>) -> RawSample<'static> {
    RawSample {
        time: sample.time,
        pid: sample.pid,
        tid: sample.tid,
        cpu: sample.cpu,
        event: sample.event,
        weight: sample.weight,
        kernel: sample.kernel.into_owned().into(),
        user: match sample.user {
            UserStack::Absent => UserStack::Absent,
            UserStack::Chain(addresses) => UserStack::Chain(addresses.into_owned().into()),
            UserStack::Copy { registers, stack } => UserStack::Copy {
                registers,
                stack: stack.into_owned().into(),
            },
        },
    }
}
