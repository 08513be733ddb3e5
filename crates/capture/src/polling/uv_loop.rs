//! libuv's event loops, read from outside.
//!
//! `uv_loop_t` is the same in libuv 1.43 to 1.52 (Node 16 to 26); what it keeps to itself has two
//! layouts. A loop is found by the thread that waits in it: a pointer to it is on the stack of
//! `uv__io_poll`, and it holds the descriptor that the thread waits for. That of the main thread has a
//! symbol as well, and is found while the thread is busy.

use nodespy_model::{FastSet, Nanoseconds};

use super::memory::Memory;
use crate::sys::clock::monotonic_now;
use crate::target::proc::{self, SystemCall, WaitingAt};

/// `sizeof(uv_loop_t)`.
const LOOP_BYTES: usize = 848;
const INTERNAL_FIELDS: usize = 40;
const BACKEND_FD: usize = 64;
/// The queue of finished jobs, a list that leads back to itself.
const DONE_QUEUE: usize = 120;
/// When poll last returned, in milliseconds.
const TIME: usize = 544;
/// What is read of `uv__loop_internal_fields_t`.
const INTERNAL_BYTES: usize = 152;
/// Where iterations are counted.
const ITERATIONS: usize = 8;
/// `UV_METRICS_IDLE_TIME`: the time in poll is kept. Node asks for it for the loops that run
/// JavaScript, and for no others.
const KEEPS_IDLE_TIME: u32 = 1;
/// What `/proc/PID/fd` calls an epoll descriptor.
const EPOLL_FILE: &str = "anon_inode:[eventpoll]";
/// `uv__io_poll` holds 12 KiB of events above the stack pointer; the loop is not far behind.
const STACK_BYTES: usize = 20 << 10;

/// Where libuv keeps the time in poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// 1.43, 1.44: when poll was entered, how long it lasted.
    Old,
    /// From 1.45 on: counts of iterations and events as well.
    Counting,
}

impl Layout {
    /// The layout whose times can be those of a process that lived from `started` to `now`.
    fn of(internal: &[u8], (started, now): (Nanoseconds, Nanoseconds)) -> Option<Self> {
        let fits = |layout: &Self, is_in_poll: bool| {
            let (entry, idle) = times(internal, *layout);
            let is_entry = match is_in_poll {
                true => (started..=now).contains(&entry),
                false => entry == 0,
            };
            is_entry && idle <= now.saturating_sub(started)
        };
        let both = [Self::Old, Self::Counting];
        let in_poll = both.into_iter().find(|layout| fits(layout, true));
        // Outside of poll the old layout has a zero where the other one counts iterations.
        in_poll.or_else(|| match u64_at(internal, ITERATIONS) {
            0 if u64_at(internal, Self::Old.entry() + 8) == 0 => None,
            0 => Some(Self::Old).filter(|layout| fits(layout, false)),
            _ => Some(Self::Counting).filter(|layout| fits(layout, false)),
        })
    }

    fn entry(self) -> usize {
        match self {
            Self::Old => 8,
            Self::Counting => 136,
        }
    }
}

/// A loop that runs JavaScript.
#[derive(Debug, Clone, Copy)]
pub(super) struct UvLoop {
    pid: u32,
    address: u64,
    internal_fields: u64,
    backend_fd: i32,
    layout: Layout,
}

/// What a search for the loop of a thread came to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Search {
    /// It waits in this loop.
    Found(UvLoop),
    /// It does not wait in a loop that runs JavaScript.
    NotThere,
    /// It does, but what libuv keeps in it is laid out in a way that is not known.
    Unknown,
}

/// What a loop says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) at: Nanoseconds,
    /// How long it has been in poll, waiting for events, all in all.
    pub(super) idle: Nanoseconds,
    /// Whether it is there now.
    pub(super) is_in_poll: bool,
    /// How often it went round, where that is counted.
    pub(super) iterations: Option<u64>,
    /// When poll last returned, or something asked the loop for the time anew.
    pub(super) time: Nanoseconds,
}

impl UvLoop {
    /// Looks for the loop that a thread waits in. `started` is when its process did.
    pub(super) fn find(pid: u32, tid: u32, started: Nanoseconds) -> Search {
        let Ok(SystemCall::Waiting(call)) = proc::system_call(pid, tid) else {
            return Search::NotThere;
        };
        if !is_epoll(call.number) {
            return Search::NotThere;
        }
        Self::waited_in(pid, &call, started)
    }

    fn waited_in(pid: u32, call: &WaitingAt, started: Nanoseconds) -> Search {
        let stack = Memory { pid }.read_up_to(call.stack_pointer, STACK_BYTES);
        let mut tried = FastSet::default();
        for word in stack.chunks_exact(8) {
            let address = u64_at(word, 0);
            let is_address = address.is_multiple_of(8) && address >= 4096;
            if !is_address || !tried.insert(address) {
                continue;
            }
            match Self::at(pid, address, call.argument as i32, started) {
                Search::NotThere => {}
                search => return search,
            }
        }
        Search::NotThere
    }

    /// The default loop of a process, whether a thread waits in it or not.
    pub(super) fn default_of(pid: u32, address: u64, started: Nanoseconds) -> Option<Self> {
        let backend_fd = Memory { pid }.u32(address.wrapping_add(BACKEND_FD as u64))? as i32;
        let file = std::fs::read_link(proc::path_of(pid, &format!("fd/{backend_fd}"))).ok()?;
        if file.as_os_str() != EPOLL_FILE {
            return None;
        }
        match Self::at(pid, address, backend_fd, started) {
            Search::Found(found) => Some(found),
            // One that has never been in poll does not tell.
            Search::NotThere | Search::Unknown => None,
        }
    }

    /// The loop at this address, if there is one that waits for `backend_fd`.
    fn at(pid: u32, address: u64, backend_fd: i32, started: Nanoseconds) -> Search {
        let memory = Memory { pid };
        let Some(bytes) = memory.read::<LOOP_BYTES>(address) else {
            return Search::NotThere;
        };
        if u32_at(&bytes, BACKEND_FD) as i32 != backend_fd {
            return Search::NotThere;
        }
        let queue = address + DONE_QUEUE as u64;
        let back = memory.u64(u64_at(&bytes, DONE_QUEUE).wrapping_add(8));
        if back != Some(queue) {
            return Search::NotThere;
        }
        let internal_fields = u64_at(&bytes, INTERNAL_FIELDS);
        let Some(internal) = memory.read::<INTERNAL_BYTES>(internal_fields) else {
            return Search::NotThere;
        };
        if u32_at(&internal, 0) & KEEPS_IDLE_TIME == 0 {
            return Search::NotThere;
        }
        // Before its first iteration is over it does not tell.
        let is_new = [Layout::Old, Layout::Counting]
            .iter()
            .all(|layout| times(&internal, *layout) == (0, 0));
        if is_new {
            return Search::NotThere;
        }
        // After the read: the thread may have entered poll just before it.
        let now = monotonic_now();
        Layout::of(&internal, (started, now)).map_or(Search::Unknown, |layout| {
            Search::Found(Self {
                pid,
                address,
                internal_fields,
                backend_fd,
                layout,
            })
        })
    }

    /// Reads it again; none when it is gone.
    pub(super) fn read(&self, now: impl Fn() -> Nanoseconds) -> Option<Reading> {
        let memory = Memory { pid: self.pid };
        let (bytes, internal) =
            memory.read_both::<LOOP_BYTES, INTERNAL_BYTES>(self.address, self.internal_fields)?;
        let is_same = u32_at(&bytes, BACKEND_FD) as i32 == self.backend_fd
            && u64_at(&bytes, INTERNAL_FIELDS) == self.internal_fields;
        if !is_same {
            return None;
        }
        let at = now();
        let (entry, idle) = times(&internal, self.layout);
        let in_poll = match entry {
            0 => 0,
            entry => at.saturating_sub(entry),
        };
        Some(Reading {
            at,
            idle: idle.saturating_add(in_poll),
            is_in_poll: entry != 0,
            iterations: match self.layout {
                Layout::Old => None,
                Layout::Counting => Some(u64_at(&internal, ITERATIONS)),
            },
            time: u64_at(&bytes, TIME).saturating_mul(1_000_000),
        })
    }
}

fn is_epoll(call: Option<i64>) -> bool {
    [libc::SYS_epoll_pwait, libc::SYS_epoll_wait]
        .map(Some)
        .contains(&call)
}

/// When poll was entered, 0 outside of it, and how long it lasted before.
fn times(internal: &[u8], layout: Layout) -> (Nanoseconds, Nanoseconds) {
    let entry = layout.entry();
    (u64_at(internal, entry), u64_at(internal, entry + 8))
}

/// A number at a place that is inside of `bytes`.
fn u64_at(bytes: &[u8], place: usize) -> u64 {
    let bytes = bytes.get(place..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], place: usize) -> u32 {
    let bytes = bytes.get(place..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    /// A loop of this process that has been in poll, as libuv 1.45 and later keep it.
    fn own_loop(loop_words: &mut [AtomicU64], internal: &[AtomicU64], backend_fd: u64) -> u64 {
        let address = loop_words.as_ptr() as u64;
        loop_words[INTERNAL_FIELDS / 8] = AtomicU64::new(internal.as_ptr() as u64);
        loop_words[BACKEND_FD / 8] = AtomicU64::new(backend_fd);
        let queue = address + DONE_QUEUE as u64;
        loop_words[DONE_QUEUE / 8] = AtomicU64::new(queue);
        loop_words[DONE_QUEUE / 8 + 1] = AtomicU64::new(queue);
        internal[0].store(u64::from(KEEPS_IDLE_TIME), Ordering::Relaxed);
        internal[ITERATIONS / 8].store(77, Ordering::Relaxed);
        address
    }

    #[test]
    fn a_loop_that_enters_poll_while_it_is_read_is_known() {
        const READS: usize = 50_000;
        let started = monotonic_now();
        let mut loop_words = [const { AtomicU64::new(0) }; LOOP_BYTES / 8];
        let internal = [const { AtomicU64::new(0) }; INTERNAL_BYTES / 8];
        let entry = &internal[Layout::Counting.entry() / 8];
        entry.store(monotonic_now(), Ordering::Relaxed);
        let address = own_loop(&mut loop_words, &internal, 13);
        let is_over = AtomicBool::new(false);
        let unknown = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    entry.store(monotonic_now(), Ordering::Relaxed);
                }
            });
            let reads = (0..READS).map(|_| UvLoop::at(std::process::id(), address, 13, started));
            let unknown = reads.filter(|search| !matches!(search, Search::Found(_)));
            let unknown = unknown.count();
            is_over.store(true, Ordering::Relaxed);
            unknown
        });
        assert_eq!(unknown, 0, "of {READS}");
    }

    fn layout_of(words: &[(usize, u64)]) -> Option<Layout> {
        let mut internal = [0; INTERNAL_BYTES];
        for (at, word) in words {
            internal[*at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        Layout::of(&internal, (5_000_000, 9_000_000))
    }

    #[test]
    fn a_layout_is_known_by_its_times_in_poll_and_outside() {
        // In poll since 6 ms, idle for 2 ms before.
        assert_eq!(
            layout_of(&[(8, 6_000_000), (16, 2_000_000)]),
            Some(Layout::Old)
        );
        let counting = [(8, 77), (136, 6_000_000), (144, 2_000_000)];
        assert_eq!(layout_of(&counting), Some(Layout::Counting));
        // Outside of poll.
        assert_eq!(layout_of(&[(16, 2_000_000)]), Some(Layout::Old));
        let counting = [(8, 77), (16, 300), (144, 2_000_000)];
        assert_eq!(layout_of(&counting), Some(Layout::Counting));
        // Never in poll, and times that are none of this process.
        assert_eq!(layout_of(&[]), None);
        assert_eq!(layout_of(&[(8, 77), (136, 4_000_000)]), None);
        assert_eq!(layout_of(&[(16, 8_000_000)]), None);
    }
}
