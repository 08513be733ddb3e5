//! Every thread of some processes, polled many times a second.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use nodespy_model::{
    Event, EventIndex, FastMap, FastSet, Nanoseconds, RawSample, ThreadState, UserStack,
};

use super::copies::StackCopies;
use super::jitter::Jitter;
use super::thread::{Polled, PolledThread, Wait};
use crate::error::{CaptureError, explain_no_tracing};
use crate::sys::clock::monotonic_now;
use crate::sys::files::raise_descriptor_limit;
use crate::target::{proc, program};

/// How much less often threads are polled that stand still.
const STILL_FACTOR: u64 = 10;
/// The same where idle processes are to be spared: who has work is found out otherwise.
const SPARING_FACTOR: u64 = 100;
/// The time a thread had no CPU is handed on with a sample of its CPU time once it is so much.
const LEAST_RUNNABLE: Nanoseconds = 1_000_000;
/// More threads than this are not polled.
const THREAD_LIMIT: usize = 20_000;

/// An event whose samples are polls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PolledEvent {
    pub(crate) event: EventIndex,
    /// Whether the time on a CPU is part of it, whose samples come from the kernel.
    pub(crate) has_cpu: bool,
}

/// Polls the threads of processes.
#[derive(Debug)]
pub(crate) struct ThreadPoller {
    events: Vec<PolledEvent>,
    period: Nanoseconds,
    /// From sample to sample of CPU time.
    cpu_period: Nanoseconds,
    threads: FastMap<(u32, u32), PolledThread>,
    pids: FastSet<u32>,
    /// What the processes run: a child that runs the same is polled as well.
    programs: FastSet<PathBuf>,
    next: Nanoseconds,
    /// When threads that stand still are polled, all together: a process that is idle costs little.
    next_of_still: Nanoseconds,
    /// Whether main threads that stand still are among them.
    spares_idle: bool,
    jitter: Jitter,
    copies: StackCopies,
    is_full: bool,
}

impl ThreadPoller {
    /// Nothing is polled yet.
    pub(crate) fn new(events: Vec<PolledEvent>, rate_hz: u32, cpu_rate_hz: u32) -> Self {
        let period = |rate_hz: u32| 1_000_000_000 / Nanoseconds::from(rate_hz.max(1));
        let now = monotonic_now();
        Self {
            events,
            period: period(rate_hz),
            cpu_period: period(cpu_rate_hz),
            threads: FastMap::default(),
            pids: FastSet::default(),
            programs: FastSet::default(),
            next: now,
            next_of_still: now,
            spares_idle: false,
            jitter: Jitter::new(now),
            copies: StackCopies::new(),
            is_full: false,
        }
    }

    /// Polls so many times a second from now on.
    pub(crate) fn set_rate(&mut self, rate_hz: f64) {
        self.period = (1e9 / rate_hz.max(1.0)) as Nanoseconds;
    }

    /// Polls main threads that stand still for long less often too.
    pub(crate) fn sparing_idle(mut self) -> Self {
        self.spares_idle = true;
        self
    }

    /// Polls a process that is recorded from now on, unless it is a shell or the like that one of
    /// the others started: all it does is wait.
    pub(crate) fn add_target(&mut self, pid: u32) -> Result<(), CaptureError> {
        match self.pids.is_empty() || program(pid).is_some() {
            true => self.add_process(pid),
            false => Ok(()),
        }
    }

    /// Polls the threads of a process from now on.
    fn add_process(&mut self, pid: u32) -> Result<(), CaptureError> {
        raise_descriptor_limit();
        let first = PolledThread::open(pid, pid, None).map_err(|error| explain(pid, error))?;
        self.threads.insert((pid, pid), first);
        for tid in proc::threads(pid) {
            self.add_thread(pid, tid, None);
        }
        self.pids.insert(pid);
        self.programs.extend(proc::exe(pid));
        Ok(())
    }

    fn add_thread(&mut self, pid: u32, tid: u32, made: Option<Nanoseconds>) {
        if self.threads.len() >= THREAD_LIMIT || self.threads.contains_key(&(pid, tid)) {
            return;
        }
        match PolledThread::open(pid, tid, made) {
            Ok(thread) => {
                self.threads.insert((pid, tid), thread);
                self.next = 0;
            }
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => self.is_full = true,
            // It has ended meanwhile.
            Err(error) => log::debug!("thread {tid} is not polled: {error}"),
        }
    }

    /// Polls every thread next time, including those that stood still.
    pub(crate) fn poll_soon(&mut self) {
        self.next = 0;
        self.next_of_still = 0;
        for thread in self.threads.values_mut() {
            thread.due = 0;
        }
    }

    /// When the next poll is due.
    pub(crate) fn next(&self) -> Nanoseconds {
        self.next
    }

    /// Whether threads are left out because too many files are open, since the last call.
    pub(crate) fn take_is_full(&mut self) -> bool {
        std::mem::take(&mut self.is_full)
    }

    /// Polls every thread that is due, if it is time. What they waited for is handed on.
    pub(crate) fn poll(&mut self, now: Nanoseconds, take: &mut dyn FnMut(Event<'_>)) {
        if now < self.next {
            return;
        }
        let next = now + self.jitter.around(self.period);
        if now >= self.next_of_still {
            let factor = match self.spares_idle {
                true => SPARING_FACTOR,
                false => STILL_FACTOR,
            };
            self.next_of_still = now + self.jitter.around(self.period * factor);
        }
        self.next = self.next_of_still;
        let mut due: Vec<(u32, u32)> = Vec::new();
        for (id, thread) in &self.threads {
            if thread.due <= now {
                due.push(*id);
            }
        }
        for id in due {
            let Some(thread) = self.threads.get_mut(&id) else {
                continue;
            };
            let events = &self.events;
            let polled = thread.poll(&mut self.copies, &mut |wait, time| {
                hand_on_wait(events, id, wait, time, take);
            });
            match thread.is_still(self.spares_idle) {
                true => thread.due = self.next_of_still,
                false => self.next = self.next.min(next),
            }
            if polled == Polled::Gone {
                self.end_thread(id, take);
            }
        }
    }

    /// Takes an event of the kernel on its way: samples of CPU time get their weights, and threads
    /// come and go.
    pub(crate) fn pass(&mut self, event: Event<'_>, take: &mut dyn FnMut(Event<'_>)) {
        let mut event = event;
        match &mut event {
            Event::Sample(sample) => self.weigh(sample, take),
            Event::Fork { pid, tid, time, .. } if self.pids.contains(pid) => {
                let (pid, tid, time) = (*pid, *tid, *time);
                take(event);
                self.add_thread(pid, tid, Some(time));
                return;
            }
            Event::ThreadName {
                pid, is_exec: true, ..
            } if !self.pids.contains(pid) => {
                let pid = *pid;
                take(event);
                self.add_child(pid);
                return;
            }
            Event::Exit { pid, tid, .. } => self.end_thread((*pid, *tid), take),
            _ => {}
        }
        take(event);
    }

    /// Polls a process that has just started a program, if that is one of ours. The first is.
    fn add_child(&mut self, pid: u32) {
        let is_ours = proc::exe(pid).is_some_and(|program| self.programs.contains(&program));
        if (is_ours || self.pids.is_empty())
            && let Err(error) = self.add_process(pid)
        {
            log::debug!("process {pid} is not polled: {error}");
        }
    }

    /// Gives a sample of CPU time its weight, and hands on the time the thread had no CPU before.
    fn weigh(&mut self, sample: &mut RawSample<'_>, take: &mut dyn FnMut(Event<'_>)) {
        let has_cpu = |of: &PolledEvent| of.has_cpu && of.event == sample.event;
        if !self.events.iter().any(has_cpu) {
            return;
        }
        // What else a thread does that is not polled is not known.
        let Some(thread) = self.threads.get_mut(&(sample.pid, sample.tid)) else {
            sample.weight = self.cpu_period.saturating_mul(sample.weight);
            return;
        };
        sample.state = ThreadState::OnCpu;
        sample.weight = thread.account.give_on_cpu(self.cpu_period, sample.weight);
        if let Some(time) = thread.account.give_runnable(LEAST_RUNNABLE) {
            for of in &self.events {
                let mut runnable = sample.clone();
                runnable.event = of.event;
                runnable.state = ThreadState::Runnable;
                runnable.weight = time;
                take(Event::Sample(runnable));
            }
        }
    }

    /// Hands on what is left of every thread's time.
    pub(crate) fn finish(&mut self, take: &mut dyn FnMut(Event<'_>)) {
        let all: Vec<(u32, u32)> = self.threads.keys().copied().collect();
        for id in all {
            self.end_thread(id, take);
        }
    }

    /// Closes the descriptors of a thread and hands on what is left of its time.
    fn end_thread(&mut self, id: (u32, u32), take: &mut dyn FnMut(Event<'_>)) {
        let Some(mut thread) = self.threads.remove(&id) else {
            return;
        };
        let events = &self.events;
        let (on_cpu, runnable) = thread.finish(&mut |wait, time| {
            hand_on_wait(events, id, wait, time, take);
        });
        let now = monotonic_now();
        for of in events {
            let on_cpu = if of.has_cpu { on_cpu } else { 0 };
            for (state, weight) in [
                (ThreadState::OnCpu, on_cpu),
                (ThreadState::Runnable, runnable),
            ] {
                if weight > 0 {
                    take(sample(
                        id,
                        of.event,
                        (state, weight, now),
                        UserStack::Absent,
                    ));
                }
            }
        }
        if id.0 == id.1 {
            self.pids.remove(&id.0);
        }
    }
}

fn hand_on_wait(
    events: &[PolledEvent],
    id: (u32, u32),
    wait: &Wait,
    time: Nanoseconds,
    take: &mut dyn FnMut(Event<'_>),
) {
    let state = ThreadState::Waiting(wait.waiting_in);
    for of in events {
        let user = match &wait.user {
            UserStack::Copy { registers, stack } => UserStack::Copy {
                registers: *registers,
                stack: Cow::Borrowed(stack),
            },
            _ => UserStack::Absent,
        };
        take(sample(id, of.event, (state, wait.time, time), user));
    }
}

fn sample(
    (pid, tid): (u32, u32),
    event: EventIndex,
    (state, weight, time): (ThreadState, u64, Nanoseconds),
    user: UserStack<'_>,
) -> Event<'_> {
    Event::Sample(RawSample {
        labels: Default::default(),
        time,
        pid,
        tid,
        cpu: None,
        event,
        weight,
        state,
        kernel: Vec::new().into(),
        user,
        memory: Default::default(),
        is_copied_at_sample: false,
        stands_still: matches!(state, ThreadState::Waiting(_)),
    })
}

fn explain(pid: u32, error: io::Error) -> CaptureError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => explain_no_tracing(pid, error),
        io::ErrorKind::NotFound if proc::live_run_state(pid, pid).is_some() => {
            CaptureError::refused(
                "this kernel does not say where threads wait (/proc/PID/syscall, \
                 CONFIG_HAVE_ARCH_TRACEHOOK): wall and off-cpu can't be recorded"
                    .to_owned(),
            )
        }
        _ => CaptureError::Gone { pid },
    }
}
