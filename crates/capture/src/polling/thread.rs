//! A thread that is polled again and again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nodespy_model::{Nanoseconds, UserStack, WaitingIn};

use super::account::Account;
use super::copies::StackCopies;
use super::waiting::{copy_waiting_stack, waiting_in};
use crate::sys::clock::monotonic_now;
use crate::target::proc::{Schedstat, SystemCall, parse_system_call, path_of};

/// A wait is handed on so often while it lasts.
const HANDED_ON_EVERY: Nanoseconds = 100_000_000;
/// What a running thread has run by the kernel's account lags by a tick at most, 4 ms or 1 ms on
/// ordinary kernels: what is taken for it on average.
const LAG: Nanoseconds = 1_000_000;
/// A thread that stood still for so many polls is polled less often.
const STILL_POLLS: u32 = 10;
/// The same for a main thread, a fifth of a second: one that only serves a timer now and then is idle as well.
const STILL_POLLS_OF_MAIN: u32 = 20;

/// A thread, its descriptors and its time.
#[derive(Debug)]
pub(super) struct PolledThread {
    pub(super) pid: u32,
    pub(super) tid: u32,
    schedstat: File,
    system_call: File,
    pub(super) account: Account,
    /// What it was seen waiting in at the last poll.
    wait: Option<Wait>,
    /// For how many polls it has not run.
    still: u32,
    /// When it is polled next.
    pub(super) due: Nanoseconds,
}

/// A wait that goes on.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) waiting_in: WaitingIn,
    pub(super) user: UserStack<'static>,
    slices: u64,
    /// How long it lasted that was not handed on.
    pub(super) time: Nanoseconds,
}

/// Whether a thread is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Polled {
    There,
    Gone,
}

impl PolledThread {
    /// Takes hold of a thread. Its time counts from now, or from when it was made.
    pub(super) fn open(pid: u32, tid: u32, made: Option<Nanoseconds>) -> io::Result<Self> {
        let open = |name: &str| File::open(path_of(pid, &format!("task/{tid}/{name}")));
        let (schedstat, system_call) = (open("schedstat")?, open("syscall")?);
        let counters = read_counters(&schedstat)?;
        let account = match made {
            Some(made) => Account::new(made, Schedstat::default()),
            None => Account::new(monotonic_now(), counters),
        };
        read_system_call(&system_call)?;
        Ok(Self {
            pid,
            tid,
            schedstat,
            system_call,
            account,
            wait: None,
            still: 0,
            due: 0,
        })
    }

    /// Whether it is the thread that runs the event loop of its process.
    fn is_main(&self) -> bool {
        self.pid == self.tid
    }

    /// Whether it stood still for a while, and may be polled less often. A main thread that waits
    /// for requests is back in a moment, unless idle processes are to be spared.
    pub(super) fn is_still(&self, spares_idle: bool) -> bool {
        match (self.is_main(), spares_idle) {
            (false, _) => self.still >= STILL_POLLS,
            (true, true) => self.still >= STILL_POLLS_OF_MAIN,
            (true, false) => false,
        }
    }

    /// Polls it; waits that are over, or go on for long, are handed on.
    pub(super) fn poll(
        &mut self,
        copies: &mut StackCopies,
        hand_on: &mut dyn FnMut(&Wait, Nanoseconds),
    ) -> Polled {
        let Ok(counters) = read_counters(&self.schedstat) else {
            return Polled::Gone;
        };
        let now = monotonic_now();
        let before = self.account.counters().slices;
        self.account.update(now, counters);
        if let Some(wait) = &mut self.wait
            && wait.slices == counters.slices
        {
            self.still = self.still.saturating_add(1);
            wait.time += self.account.give_waiting(Nanoseconds::MAX);
            if wait.time >= HANDED_ON_EVERY {
                hand_on_time(wait, now, hand_on);
            }
            return Polled::There;
        }
        self.still = 0;
        let Ok(next) = self.new_wait(counters, copies) else {
            return Polled::Gone;
        };
        self.end_wait(next.is_some(), counters.slices.wrapping_sub(before));
        if let Some(mut last) = std::mem::replace(&mut self.wait, next) {
            hand_on_time(&mut last, now, hand_on);
        }
        if let Some(wait) = &mut self.wait {
            wait.time += self.account.give_waiting(Nanoseconds::MAX);
        }
        Polled::There
    }

    /// What it waits in now, if it does.
    fn new_wait(&self, counters: Schedstat, copies: &mut StackCopies) -> io::Result<Option<Wait>> {
        let SystemCall::Waiting(call) = read_system_call(&self.system_call)? else {
            return Ok(None);
        };
        let user = copy_waiting_stack(self.pid, &call, &[], copies);
        copies.start();
        // Had it run in between, the copy would be of two moments.
        let is_whole = read_counters(&self.schedstat)?.slices == counters.slices;
        Ok(is_whole.then(|| Wait {
            waiting_in: waiting_in(self.pid, &call),
            user,
            slices: counters.slices,
            time: 0,
        }))
    }

    /// Gives the wait that is over its part of the time since the last poll. It ended somewhere in
    /// between: of the time that is shared with a new wait it gets half, of what is followed by
    /// running all. Where the thread waited in between, unseen, that goes to what is seen next.
    fn end_wait(&mut self, waits_again: bool, slices: u64) {
        let Some(last) = &mut self.wait else {
            return;
        };
        let left = self.account.waiting_left();
        let part = match (waits_again, slices) {
            (true, _) => left / 2,
            (false, 1) => left.saturating_sub(LAG),
            (false, _) => 0,
        };
        last.time += self.account.give_waiting(part);
    }

    /// Hands on everything that is left of its time: what it waited; what it ran and had no CPU is
    /// returned.
    pub(super) fn finish(
        &mut self,
        hand_on: &mut dyn FnMut(&Wait, Nanoseconds),
    ) -> (Nanoseconds, Nanoseconds) {
        if let Ok(counters) = read_counters(&self.schedstat) {
            self.account.update(monotonic_now(), counters);
        }
        let mut wait = self.wait.take().unwrap_or(Wait {
            waiting_in: WaitingIn::Other,
            user: UserStack::Absent,
            slices: 0,
            time: 0,
        });
        wait.time += self.account.give_waiting(Nanoseconds::MAX);
        hand_on_time(&mut wait, monotonic_now(), hand_on);
        let runnable = self.account.give_runnable(1).unwrap_or(0);
        (self.account.give_rest_on_cpu(), runnable)
    }
}

fn hand_on_time(wait: &mut Wait, now: Nanoseconds, hand_on: &mut dyn FnMut(&Wait, Nanoseconds)) {
    if wait.time > 0 {
        hand_on(wait, now);
        wait.time = 0;
    }
}

/// Reads a small file of `/proc` from its start.
fn read_at_start<'a>(file: &File, buffer: &'a mut [u8; 512]) -> io::Result<&'a str> {
    let length = file.read_at(buffer, 0)?;
    let text = buffer.get(..length).unwrap_or_default();
    std::str::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn read_counters(file: &File) -> io::Result<Schedstat> {
    let mut buffer = [0; 512];
    let text = read_at_start(file, &mut buffer)?;
    Schedstat::parse(text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn read_system_call(file: &File) -> io::Result<SystemCall> {
    let mut buffer = [0; 512];
    read_at_start(file, &mut buffer).map(parse_system_call)
}
