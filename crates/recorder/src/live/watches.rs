//! What is watched beside samples: how threads share the CPUs, event loops, thread pools, garbage collection, waits.

use nodespy_capture::engines::EngineId;
use nodespy_capture::target::{SchedulingWatch, Target};
use nodespy_capture::{EventLoops, GcWatch, Stall, ThreadPools, WaitWatch, monotonic_now};
use nodespy_model::{Nanoseconds, Pool, Profile};
use nodespy_symbolize::Resolver;

use super::{LiveOptions, POLL_INTERVAL};
use crate::subject::Subject;

/// How often threads are asked what they did while all loops are idle, in recordings that watch for stalls.
const IDLE_ASK_INTERVAL: Nanoseconds = 10_000_000_000;

pub(super) struct Watches {
    /// When the recording started.
    started: Nanoseconds,
    scheduling: SchedulingWatch,
    /// When idle threads are asked next.
    next_asked: Nanoseconds,
    /// None where one moment is looked at.
    loops: Option<EventLoops>,
    pools: ThreadPools,
    gc: Option<GcWatch>,
    waits: Option<WaitWatch>,
}

impl Watches {
    /// Starts to watch the processes of a recording that started at `started`.
    pub(super) fn start(
        engine: EngineId,
        subject: &Subject,
        started: Nanoseconds,
        options: &LiveOptions,
    ) -> Self {
        let loops = match (engine, options.stalls) {
            // V8's profiler interrupts poll with its signals, so that loops say of themselves what is not so.
            (EngineId::Snapshot | EngineId::Inspector, _) => None,
            (_, Some(limit)) => Some(EventLoops::with_stalls(started, limit)),
            (_, None) => Some(EventLoops::new(started)),
        };
        Self {
            started,
            scheduling: SchedulingWatch::start(subject.targets.iter().map(Target::pid)),
            next_asked: 0,
            loops,
            pools: ThreadPools::new(started),
            gc: None,
            waits: None,
        }
    }

    /// Watches the pauses of V8's garbage collector too, and every context switch.
    pub(super) fn with(self, gc: Option<GcWatch>, waits: Option<WaitWatch>) -> Self {
        Self { gc, waits, ..self }
    }

    /// Reads what is due, of the processes that have joined too. True when a loop has work after all were idle.
    pub(super) fn poll(&mut self, subject: &Subject, resolver: &mut Resolver) -> bool {
        if self.has_work() {
            self.scheduling.poll(subject.pids());
        }
        self.know_libuv(subject, resolver);
        let mut has_left_poll = false;
        if let Some(loops) = &mut self.loops {
            loops.poll(subject.pids());
            has_left_poll = loops.take_has_left_poll();
        }
        let is_idle = self.is_idle();
        self.pools.poll(is_idle);
        if let Some(gc) = &mut self.gc {
            gc.poll(subject.pids());
        }
        if let Some(waits) = &mut self.waits {
            waits.poll(subject.pids());
        }
        has_left_poll
    }

    /// Reads the scheduler's accounts for the last time.
    pub(super) fn finish(&mut self, subject: &Subject) {
        self.scheduling.read(subject.pids());
    }

    /// Whether threads may have done something since they were asked last: while every loop waits for events, one in ten
    /// seconds is enough.
    fn has_work(&mut self) -> bool {
        let now = monotonic_now();
        if self.is_idle() && now < self.next_asked {
            return false;
        }
        self.next_asked = now + IDLE_ASK_INTERVAL;
        true
    }

    /// Finds out where the processes that are new have their pool and their default loop.
    fn know_libuv(&mut self, subject: &Subject, resolver: &mut Resolver) {
        for pid in subject.pids() {
            if !self.pools.has(pid)
                && let Some(libuv) = resolver.libuv_of(pid)
            {
                self.pools.watch(pid, libuv.pool);
                if let Some(loops) = &mut self.loops {
                    loops.know_default(pid, libuv.default_loop);
                }
            }
        }
    }

    /// Whether all event loops wait for events, in recordings that watch for stalls.
    pub(super) fn is_idle(&self) -> bool {
        self.loops.as_ref().is_some_and(EventLoops::are_idle)
    }

    /// How long until something is due.
    pub(super) fn until_next(&self) -> std::time::Duration {
        self.loops
            .as_ref()
            .map_or(POLL_INTERVAL, EventLoops::until_next)
    }

    /// How often threads were switched to so far.
    pub(super) fn switches(&self) -> u64 {
        self.scheduling.slices()
    }

    /// What thread pools did when they were read last.
    pub(super) fn pools(&self) -> Vec<(u32, Pool)> {
        self.pools.latest()
    }

    /// The stalls since the last call, counted from the start of the recording.
    pub(super) fn take_stalls(&mut self) -> Vec<Stall> {
        let mut stalls = match &mut self.loops {
            Some(loops) => loops.take_stalls(),
            None => Vec::new(),
        };
        for stall in &mut stalls {
            stall.started = stall.started.saturating_sub(self.started);
        }
        stalls
    }

    /// What the reader should know, since the last call.
    pub(super) fn take_remarks(&mut self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(loops) = &mut self.loops {
            remarks.extend(loops.take_remarks());
        }
        if let Some(waits) = &mut self.waits {
            remarks.extend(waits.take_remarks());
        }
        remarks
    }

    /// Notes in a profile of this recording what is known of its threads and processes.
    pub(super) fn note_in(&mut self, profile: &mut Profile) {
        self.scheduling.note_in(profile);
        if let Some(loops) = &mut self.loops {
            loops.note_in(profile);
        }
        self.pools.note_in(profile);
        if let Some(gc) = &mut self.gc {
            gc.note_in(profile, self.started);
        }
        if let Some(waits) = &mut self.waits {
            waits.note_in(profile);
        }
    }

    /// Forgets what has ended, once a profile has it.
    pub(super) fn forget_ended(&mut self) {
        self.scheduling.forget_ended();
        if let Some(loops) = &mut self.loops {
            loops.forget_ended();
        }
        self.pools.forget_ended();
        if let Some(gc) = &mut self.gc {
            gc.forget_ended();
        }
    }

    /// From now on what threads, loops and pools do is counted from `since` on.
    pub(super) fn start_period(&mut self, since: Nanoseconds) {
        self.scheduling.start_period(since);
        if let Some(loops) = &mut self.loops {
            loops.start_period(since);
        }
        self.pools.start_period(since);
        if let Some(gc) = &mut self.gc {
            gc.start_period(since);
        }
    }
}
