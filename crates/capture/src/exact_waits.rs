//! Every time that a thread was off the CPU: how often, how long, in which system call.
//!
//! The kernel writes a record whenever a watched thread goes off or on a CPU (`PERF_RECORD_SWITCH`), which the owner of a process
//! may have too. Which system call it was in is known where the tracepoints of system calls can be opened. Stacks are not copied:
//! that would cost the target more than the switch itself, and `-e wall` has them.

use std::io;

use nodespy_model::{ExactWaits, FastMap, Nanoseconds, Profile, SmallSort};
use nodespy_perf_abi::{RecordLayout, Sideband, record_type, u64_at};

use crate::engines::perf_events::tracepoint_id;
use crate::error::CaptureError;
use crate::sys::clock::monotonic_now;
use crate::sys::perf_event::{Counted, PerfEvent};
use crate::sys::ring::Ring;
use crate::sys::ring_cursor::RecordRing;
use crate::target::proc;

/// How often rings are read.
const READ_INTERVAL: Nanoseconds = 40_000_000;
/// Room for 10,000 waits a second of one thread; what an unprivileged user may lock is less.
const RING_BYTES: [usize; 2] = [256 << 10, 16 << 10];
/// How often threads are looked for that have been made since.
const THREADS_INTERVAL: Nanoseconds = 250_000_000;
/// So many reasons of one thread are told apart.
const MAX_KINDS: usize = 64;
const OTHER: &str = "other system calls";
/// The bytes of a tracepoint's record before the number of the system call.
const NUMBER_AT: usize = 8;
const ARGUMENT_AT: usize = 16;

/// The waits of some processes, from when they are watched.
#[derive(Debug)]
pub struct WaitWatch {
    /// The tracepoints of system calls, entered and left.
    tracepoints: Option<[u64; 2]>,
    processes: FastMap<u32, FastMap<u32, WatchedThread>>,
    next_read: Nanoseconds,
    next_threads: Nanoseconds,
    remarks: Vec<String>,
}

#[derive(Debug)]
struct WatchedThread {
    /// Kept open: the switches, and where system calls are entered and left.
    _switches: PerfEvent,
    calls: Option<[(u64, PerfEvent); 2]>,
    switch_layout: RecordLayout,
    call_layout: RecordLayout,
    ring: Ring,
    pairing: Pairing,
    waits: FastMap<Reason, ExactWaits>,
    lost: u64,
}

impl WaitWatch {
    /// Watches these processes.
    pub fn start(pids: impl Iterator<Item = u32>) -> Result<Self, CaptureError> {
        let id = |name| tracepoint_id("raw_syscalls", name);
        let tracepoints = match (id("sys_enter"), id("sys_exit")) {
            (Ok(enter), Ok(exit)) => Some([enter, exit]),
            _ => None,
        };
        let mut watch = Self {
            tracepoints,
            processes: FastMap::default(),
            next_read: 0,
            next_threads: 0,
            remarks: Vec::new(),
        };
        if tracepoints.is_none() {
            watch.remarks.push(
                "which system calls threads waited in is not known: tracepoints need root"
                    .to_owned(),
            );
        }
        for pid in pids {
            watch.add_threads(pid)?;
        }
        Ok(watch)
    }

    /// Watches the threads of a process that are not watched yet.
    fn add_threads(&mut self, pid: u32) -> Result<(), CaptureError> {
        let threads = self.processes.entry(pid).or_default();
        for tid in proc::threads(pid) {
            if threads.contains_key(&tid) {
                continue;
            }
            match WatchedThread::open(tid, self.tracepoints) {
                Ok(thread) => {
                    threads.insert(tid, thread);
                }
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(source) => return Err(explain(source)),
            }
        }
        Ok(())
    }

    /// Reads what happened if it is time, and watches processes and threads that are new.
    pub fn poll(&mut self, pids: impl Iterator<Item = u32>) {
        let now = monotonic_now();
        if now >= self.next_threads {
            self.next_threads = now + THREADS_INTERVAL;
            for pid in pids {
                if let Err(error) = self.add_threads(pid) {
                    log::info!("waits of a thread of process {pid} are not watched: {error}");
                }
            }
        }
        if now >= self.next_read {
            self.next_read = now + READ_INTERVAL;
            self.read();
        }
    }

    fn read(&mut self) {
        let threads = self.processes.values_mut().flat_map(FastMap::values_mut);
        let mut lost = 0;
        for thread in threads {
            thread.read();
            lost += std::mem::take(&mut thread.lost);
        }
        if lost > 0 {
            let remark = format!("{lost} records of waits were lost: there were more waits");
            self.remarks.push(remark);
        }
    }

    /// What the reader of the profile should know, since the last call.
    pub fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    /// Notes in a profile what its threads waited for.
    pub fn note_in(&mut self, profile: &mut Profile) {
        self.read();
        for thread in &mut profile.threads {
            let pid = profile.processes[thread.process.at()].pid;
            let watched = self.processes.get(&pid);
            if let Some(known) = watched.and_then(|watched| watched.get(&thread.tid)) {
                let mut waits: Vec<ExactWaits> = known.waits.values().cloned().collect();
                waits.small_sort_by(|one, other| {
                    let order = other.total.cmp(&one.total);
                    order.then_with(|| one.what.cmp(&other.what))
                });
                thread.exact_waits = waits;
            }
        }
    }
}

fn explain(source: io::Error) -> CaptureError {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => CaptureError::NotPermitted {
            sentence: "--off-cpu-exact needs an event on each thread, which is not permitted: run as root, or \
                       record -e wall"
                .to_owned(),
            source,
        },
        _ => CaptureError::call("watching context switches", source),
    }
}

impl WatchedThread {
    fn open(tid: u32, tracepoints: Option<[u64; 2]>) -> io::Result<Self> {
        let switches = PerfEvent::switches(tid)?;
        let ring = match Ring::map(&switches, RING_BYTES[0]) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                Ring::map(&switches, RING_BYTES[1])?
            }
            ring => ring?,
        };
        let open = |id: u64| {
            let event = PerfEvent::raw_of_thread(tid, &Counted::tracepoint(id))?;
            event.write_to_ring_of(&switches)?;
            Ok::<_, io::Error>((event.id()?, event))
        };
        let calls = match tracepoints {
            Some([enter, exit]) => Some([open(enter)?, open(exit)?]),
            None => None,
        };
        for (_, event) in calls.iter().flatten() {
            event.enable();
        }
        switches.enable();
        Ok(Self {
            _switches: switches,
            pairing: Pairing::new(),
            calls,
            switch_layout: PerfEvent::switches_layout(),
            call_layout: PerfEvent::raw_of_thread_layout(),
            ring,
            waits: FastMap::default(),
            lost: 0,
        })
    }

    fn read(&mut self) {
        self.ring.load_head();
        loop {
            let seen = match self.ring.peek() {
                Ok(None) => return,
                Ok(Some(record)) if record.kind == record_type::SAMPLE => {
                    let sample = self.call_layout.sample(&record).ok();
                    sample.and_then(|sample| call_of(self.calls.as_ref()?, sample.id?, sample.raw))
                }
                Ok(Some(record)) => match self.switch_layout.sideband(&record) {
                    Ok(Sideband::Switch {
                        is_out, is_preempt, ..
                    }) => {
                        let time = self.switch_layout.trailer_time(record.body);
                        time.map(|time| match is_out {
                            true => Seen::Out { time, is_preempt },
                            false => Seen::In(time),
                        })
                    }
                    Ok(Sideband::Lost { count }) => Some(Seen::Lost(count)),
                    Ok(_) => None,
                    Err(_) => Some(Seen::Lost(1)),
                },
                Err(_) => Some(Seen::Lost(1)),
            };
            self.ring.consume();
            match seen {
                Some(Seen::Lost(count)) => {
                    self.lost = self.lost.saturating_add(count);
                    self.pairing = Pairing::new();
                }
                Some(seen) => {
                    if let Some((reason, length)) = self.pairing.take(seen) {
                        count(&mut self.waits, reason, length);
                    }
                }
                None => {}
            }
        }
    }
}

/// A record of a thread's ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Entered { number: i64, argument: u64 },
    Left,
    Out { time: Nanoseconds, is_preempt: bool },
    In(Nanoseconds),
    Lost(u64),
}

/// What a sample of the tracepoints says.
fn call_of(calls: &[(u64, PerfEvent); 2], id: u64, raw: &[u8]) -> Option<Seen> {
    let number = u64_at(raw, NUMBER_AT)? as i64;
    match id == calls[0].0 {
        true => Some(Seen::Entered {
            number,
            argument: u64_at(raw, ARGUMENT_AT)?,
        }),
        false => Some(Seen::Left),
    }
}

/// Why a thread is off the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Reason {
    /// Another thread runs.
    Preempted,
    /// In this system call, of this descriptor where it is one of epoll.
    Call(i64, Option<u32>),
    /// Outside of system calls.
    Fault,
    /// Anything but another thread.
    Unknown,
    /// System calls that there is no room for.
    Other,
}

impl Reason {
    fn words(self) -> String {
        match self {
            Self::Preempted => "(preempted)".to_owned(),
            Self::Fault => "(page fault)".to_owned(),
            Self::Unknown => "(not known)".to_owned(),
            Self::Other => OTHER.to_owned(),
            Self::Call(number, None) => call_name(number),
            Self::Call(number, Some(descriptor)) => format!("{}({descriptor})", call_name(number)),
        }
    }
}

/// Puts together what a thread does and when.
#[derive(Debug)]
struct Pairing {
    now: Reason,
    /// Since when it is off the CPU, and why.
    out: Option<(Nanoseconds, Reason)>,
}

impl Pairing {
    /// It may be in a system call already: which is not known before the next.
    fn new() -> Self {
        Self {
            now: Reason::Unknown,
            out: None,
        }
    }

    /// The reason and length of the wait that ends here, if one does.
    fn take(&mut self, seen: Seen) -> Option<(Reason, Nanoseconds)> {
        match seen {
            Seen::Entered { number, argument } => {
                self.now = Reason::Call(number, is_epoll(number).then_some(argument as u32));
                None
            }
            Seen::Left => {
                self.now = Reason::Fault;
                None
            }
            Seen::Out { time, is_preempt } => {
                let reason = if is_preempt {
                    Reason::Preempted
                } else {
                    self.now
                };
                self.out = Some((time, reason));
                None
            }
            Seen::In(time) => {
                let (since, reason) = self.out.take()?;
                Some((reason, time.saturating_sub(since)))
            }
            Seen::Lost(_) => None,
        }
    }
}

fn count(waits: &mut FastMap<Reason, ExactWaits>, reason: Reason, length: Nanoseconds) {
    let is_full = waits.len() >= MAX_KINDS && !waits.contains_key(&reason);
    let reason = if is_full { Reason::Other } else { reason };
    let known = waits.entry(reason).or_insert_with(|| ExactWaits {
        what: reason.words(),
        ..ExactWaits::default()
    });
    known.add(length);
}

fn is_epoll(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2
    )
}

/// The system calls that Node's threads wait in; others by number.
fn call_name(number: i64) -> String {
    let name = match number {
        libc::SYS_read => "read",
        libc::SYS_write => "write",
        libc::SYS_readv => "readv",
        libc::SYS_writev => "writev",
        libc::SYS_pread64 => "pread64",
        libc::SYS_pwrite64 => "pwrite64",
        libc::SYS_open => "open",
        libc::SYS_openat => "openat",
        libc::SYS_close => "close",
        libc::SYS_fsync => "fsync",
        libc::SYS_fdatasync => "fdatasync",
        libc::SYS_stat => "stat",
        libc::SYS_statx => "statx",
        libc::SYS_newfstatat => "newfstatat",
        libc::SYS_getdents64 => "getdents64",
        libc::SYS_unlink => "unlink",
        libc::SYS_rename => "rename",
        libc::SYS_flock => "flock",
        libc::SYS_fcntl => "fcntl",
        libc::SYS_poll => "poll",
        libc::SYS_ppoll => "ppoll",
        libc::SYS_select => "select",
        libc::SYS_epoll_wait => "epoll_wait",
        libc::SYS_epoll_pwait => "epoll_pwait",
        libc::SYS_epoll_pwait2 => "epoll_pwait2",
        libc::SYS_io_uring_enter => "io_uring_enter",
        libc::SYS_futex => "futex",
        libc::SYS_nanosleep => "nanosleep",
        libc::SYS_clock_nanosleep => "clock_nanosleep",
        libc::SYS_sched_yield => "sched_yield",
        libc::SYS_wait4 => "wait4",
        libc::SYS_waitid => "waitid",
        libc::SYS_clone => "clone",
        libc::SYS_clone3 => "clone3",
        libc::SYS_vfork => "vfork",
        libc::SYS_execve => "execve",
        libc::SYS_connect => "connect",
        libc::SYS_accept4 => "accept4",
        libc::SYS_sendto => "sendto",
        libc::SYS_recvfrom => "recvfrom",
        libc::SYS_sendmsg => "sendmsg",
        libc::SYS_recvmsg => "recvmsg",
        libc::SYS_sendmmsg => "sendmmsg",
        libc::SYS_mmap => "mmap",
        libc::SYS_munmap => "munmap",
        libc::SYS_mprotect => "mprotect",
        libc::SYS_madvise => "madvise",
        libc::SYS_membarrier => "membarrier",
        number => return format!("system call {number}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(seen: &[Seen]) -> Vec<(String, u64)> {
        let mut pairing = Pairing::new();
        let all = seen.iter().filter_map(|seen| pairing.take(*seen));
        all.map(|(reason, length)| (reason.words(), length))
            .collect()
    }

    fn entered(number: i64, argument: u64) -> Seen {
        Seen::Entered { number, argument }
    }

    fn out(time: u64, is_preempt: bool) -> Seen {
        Seen::Out { time, is_preempt }
    }

    #[test]
    fn a_wait_is_of_the_system_call_that_the_thread_is_in() {
        let seen = [
            Seen::In(5),
            out(7, false),
            Seen::In(9),
            entered(libc::SYS_epoll_pwait, 13),
            out(10, false),
            Seen::In(40),
            Seen::Left,
            out(50, true),
            Seen::In(51),
            out(60, false),
            Seen::In(70),
            entered(libc::SYS_futex, 77),
            out(80, true),
            Seen::In(90),
            out(100, false),
            Seen::In(101),
        ];
        let expected = [
            ("(not known)", 2),
            ("epoll_pwait(13)", 30),
            ("(preempted)", 1),
            ("(page fault)", 10),
            ("(preempted)", 10),
            ("futex", 1),
        ];
        let expected = expected.map(|(what, length)| (what.to_owned(), length));
        assert_eq!(waits(&seen), expected);
    }

    #[test]
    fn many_reasons_become_one() {
        let mut all = FastMap::default();
        for number in 0..1_000 {
            count(&mut all, Reason::Call(10_000 + number, None), 3);
        }
        assert_eq!(all.len(), MAX_KINDS + 1);
        assert_eq!(all[&Reason::Other].count, 1_000 - MAX_KINDS as u64);
        assert!(all.values().map(|waits| waits.total).sum::<u64>() == 3_000);
    }

    #[test]
    fn waits_of_this_process_are_seen() {
        let own = std::process::id();
        let Ok(mut watch) = WaitWatch::start(std::iter::once(own)) else {
            return;
        };
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        watch.read();
        let own_tid = proc::threads(own);
        let counted: u64 = own_tid
            .iter()
            .filter_map(|tid| watch.processes[&own].get(tid))
            .flat_map(|thread| thread.waits.values())
            .map(|waits| waits.count)
            .sum();
        assert!(counted >= 20, "{counted}");
    }
}
