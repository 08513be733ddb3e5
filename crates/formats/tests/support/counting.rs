//! What a call costs this thread: bytes allocated, bytes held at once, and processor time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rustix::time::{ClockId, clock_gettime};

/// What a call cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) allocated_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) seconds: f64,
}

/// How often a call is measured at least, and until when once more: the shorter it is, the more of it is noise.
const LEAST_TIMES: u32 = 3;
const MAX_TIMES: u32 = 12;
const ENOUGH_SECONDS: f64 = 0.1;

/// The cost of `call`: its memory, and the least time of several, as other programs only ever add.
pub(crate) fn cost_of(mut call: impl FnMut()) -> Cost {
    let mut once = || {
        let before = LIVE.get();
        PEAK.set(before);
        ALLOCATED.set(0);
        let started = thread_seconds();
        call();
        Cost {
            seconds: thread_seconds() - started,
            allocated_bytes: ALLOCATED.get(),
            peak_bytes: (PEAK.get() - before).max(0) as u64,
        }
    };
    let first = once();
    let (mut least, mut spent) = (first.seconds, first.seconds);
    for times in 1..MAX_TIMES {
        if times >= LEAST_TIMES && spent >= ENOUGH_SECONDS {
            break;
        }
        let seconds = once().seconds;
        least = least.min(seconds);
        spent += seconds;
    }
    Cost {
        seconds: least,
        ..first
    }
}

fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

thread_local! {
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(grown: usize, shrunk: usize) {
    ALLOCATED.set(ALLOCATED.get().wrapping_add(grown as u64));
    let live = LIVE.get() + grown as i64 - shrunk as i64;
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

// SAFETY: every call goes to the system's allocator with the arguments it came with; counting
// touches nothing but integers of this thread, which need no allocation and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise is the one that is asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
