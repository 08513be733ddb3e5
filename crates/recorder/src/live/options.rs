//! What a recording is asked for: how events become a profile, when it ends, how it is cut.

use std::time::Duration;

use nodespy_capture::target::Wanted;
use nodespy_capture::{Children, GcPlaces, LiveOrigin};
use nodespy_model::Nanoseconds;
use nodespy_symbolize::{Resolver, StoreOptions};

use crate::rates::Rates;

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its time was over.
    Duration,
    /// The caller ended it.
    Interrupted,
    /// Every process has ended.
    TargetsGone,
}

/// When a recording ends, and how it is cut.
pub struct Limits<'a> {
    /// How long it lasts; until something else ends it when absent.
    pub duration: Option<Duration>,
    /// How long each slice is; one for all when absent.
    pub slice: Option<Duration>,
    /// How long the first slice is, where that differs: making it reads the symbols that all need, and
    /// meanwhile nothing else is read.
    pub first_slice: Option<Duration>,
    /// A slice is at least so many times as long as it took to make the one before, up to ten times
    /// its length.
    pub slice_stretch: u32,
    /// How long slices are while all event loops wait for events, in recordings that watch for stalls: nothing happens that
    /// would have to be known soon.
    pub idle_slice: Option<Duration>,
    /// Whether the user wants it to end.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// How events become a profile.
#[derive(Debug, Default)]
pub struct LiveOptions {
    /// What processes that appear later have to be to join, and what becomes of children; none join
    /// when absent.
    pub joining: Option<(Wanted, Children)>,
    /// Whether V8's heap is left alone.
    pub no_heap_walk: bool,
    /// Whether async callers are left out.
    pub no_async: bool,
    /// Whether the routes of requests are left out.
    pub no_routes: bool,
    /// What is wanted of the stores of AsyncLocalStorage.
    pub stores: StoreOptions,
    /// How many processes that have ended are remembered for their source maps, beyond the slice they
    /// ended in.
    pub remembered_processes: usize,
    /// How long samples are left lying before they are read: for tests of what happens when the heap
    /// has changed meanwhile.
    pub delay: Duration,
    /// From when on a time that an event loop is away from poll is reported as a stall; none are when
    /// absent.
    pub stalls: Option<Duration>,
    /// Where the pauses of V8's garbage collector are measured; they are not when absent.
    pub gc_places: Option<GcPlaces>,
    /// What the recording may cost, of one CPU; samples get fewer where it costs more.
    pub max_overhead: Option<f64>,
    /// Whether every context switch is watched.
    pub off_cpu_exact: bool,
    /// Whether it goes on for as long as the machine is up; none when it is a recording.
    pub continuous: Option<Continuous>,
}

impl LiveOptions {
    /// A resolver that leaves out what is not wanted.
    pub(super) fn resolver(&self) -> Resolver {
        let origin = Box::new(LiveOrigin::new());
        let mut resolver = Resolver::new(origin).remembering_ended(self.remembered_processes);
        if self.no_heap_walk {
            resolver = resolver.without_heap_walk();
        }
        if self.no_async {
            resolver = resolver.without_async_callers();
        }
        if self.no_routes {
            resolver = resolver.without_routes();
        }
        resolver.with_stores(self.stores.clone())
    }
}

/// A recording without an end: it outlives its processes, keeps nothing of those that have ended, and reads nothing
/// beside their samples but their CPU times now and then, neither event loops nor pools nor the scheduler's accounts.
#[derive(Debug, Clone, Copy)]
pub struct Continuous {
    /// A slice ends at this time plus a multiple of its length, by the monotonic clock: none drifts away from the windows
    /// that it fills.
    pub aligned_to: Nanoseconds,
    /// How often `max_overhead` is judged: as often as slices end, of which naming is a large part of the costs.
    pub judged_every: Nanoseconds,
    /// How often samples are taken, of those that the engine is asked for.
    pub sampled: SampledShare,
}

/// How many of the samples that an engine is asked for an agent takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledShare {
    /// One in so many, usually.
    pub one_in: u32,
    /// One in so many at least, whatever it costs.
    pub one_in_at_least: u32,
    /// Whether all of them are taken while a process is unusual, and fewer while all are idle.
    pub is_adaptive: bool,
}

impl SampledShare {
    pub(super) fn rates(self) -> Rates {
        Rates::new(self.one_in, self.one_in_at_least)
    }
}
