//! What every engine does: it attaches to processes and hands what it sees to a sink, as events.
//!
//! Engines know pids, start times and control groups. Which processes are wanted, when a recording
//! ends and what becomes of the events is the caller's business.

use std::net::SocketAddr;
use std::time::Duration;

use nodespy_model::{
    CopyRules, Event, EventType, LoadedScript, Nanoseconds, Process, Profile, ThreadRole,
};

use crate::engines::{EngineId, Finding};
use crate::error::CaptureError;
use crate::target::{Group, Launched, Target};

/// A way to sample live processes.
pub trait Engine {
    /// Which one it is.
    fn id(&self) -> EngineId;

    /// What makes samples, at least one; known once it is attached.
    fn events(&self) -> Vec<EventType>;

    /// What works on process `pid`, and what to type where something does not.
    fn probe(&self, pid: u32) -> Vec<Finding>;

    /// Starts to record, and starts the command if there is one.
    fn attach(&mut self, subject: Subject<'_>) -> Result<Attached, CaptureError>;

    /// Records further processes.
    fn add(&mut self, targets: &[Target]) -> Result<(), CaptureError>;

    /// Whether attaching to a process takes so long that it is done meanwhile: what became of it is an [`Outcome`].
    fn attaches_meanwhile(&self) -> bool {
        false
    }

    /// What became of processes that were attached to meanwhile, since the last call.
    fn take_outcomes(&mut self) -> Vec<Outcome> {
        Vec::new()
    }

    /// Waits up to `timeout` for events, then hands on everything there is in order of time.
    fn drain(&mut self, timeout: Duration, sink: &mut dyn Sink) -> Result<Drained, CaptureError>;

    /// Stops recording, hands on what is left and leaves the processes as they were found. Returns
    /// what was lost since the last [`Self::drain`].
    fn finish(&mut self, sink: &mut dyn Sink) -> Result<Losses, CaptureError>;

    /// A slice ends then: samples may not wait in their rings any longer.
    fn read_by(&mut self, _time: Option<Nanoseconds>) {}

    /// A process that was idle has work: threads that stood still may not any more.
    fn poll_soon(&mut self) {}

    /// Takes samples less or more often from now on, each with the weight of those that are not taken. Returns how often that is, in
    /// words; none where there is no such step.
    fn change_pace(&mut self, _change: Pace) -> Result<Option<String>, CaptureError> {
        Ok(None)
    }

    /// What it costs the processes to be sampled.
    fn prices(&self) -> Prices {
        Prices::default()
    }

    /// What the reader of the profile should know of how it was captured, since the last call.
    fn take_remarks(&mut self) -> Vec<String>;
}

/// What became of a process that was attached to while others were recorded.
#[derive(Debug)]
pub struct Outcome {
    /// The process.
    pub pid: u32,
    /// Whether it is recorded, or why not or no longer.
    pub result: Result<(), CaptureError>,
}

/// How often samples are to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// One step less often.
    Slower,
    /// One step more often.
    Faster,
    /// One in so many of those that were asked for.
    OneIn(u32),
}

/// The steps of a pace: one in so many samples is taken.
pub const PACE_DIVISORS: [u32; 7] = [1, 2, 5, 10, 20, 50, 100];

/// The step that takes one in `divisor` samples, or the one before it.
pub fn pace_step(divisor: u32) -> usize {
    let below = PACE_DIVISORS.iter().filter(|known| **known <= divisor);
    below.count().saturating_sub(1)
}

/// What it costs processes to be sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prices {
    /// For each sample.
    pub sample: Nanoseconds,
    /// Whenever a thread of them is put on a CPU.
    pub switch: Nanoseconds,
}

/// What takes the events of an engine.
pub trait Sink {
    /// A batch begins: what was read of live memory before is out of date.
    fn batch(&mut self);

    /// The next event.
    fn event(&mut self, event: Event<'_>);

    /// The next event of an engine that gets its frames with names. `session` distinguishes the
    /// processes of one engine.
    fn named(&mut self, session: usize, event: NamedEvent);

    /// What is to be copied of objects at samples from now on, beside what was asked for before.
    fn take_copy_rules(&mut self) -> CopyRules {
        CopyRules::default()
    }
}

/// What an engine reports whose samples come with names: V8's own profiler.
#[derive(Debug)]
pub enum NamedEvent {
    /// A process is recorded. The first event of its session.
    Process(Box<Process>, EventType),
    /// A thread of it was seen. Threads of a session are numbered in this order.
    Thread {
        /// As the kernel counts it; 0 when that is not known.
        tid: u32,
        /// Its name.
        name: String,
        /// What it is for.
        role: ThreadRole,
    },
    /// Samples of one thread. Batches of a thread come in order of time and do not overlap.
    Samples {
        /// The number of the thread.
        thread: usize,
        /// When the batch starts, since the start of the recording; its own times count from here.
        start: Nanoseconds,
        /// The samples, with the functions they name.
        profile: Box<Profile>,
    },
    /// A thread has ended: no samples of it follow.
    ThreadEnded {
        /// The number of the thread.
        thread: usize,
    },
    /// All samples until this time, since the start of the recording, were reported.
    Complete(Nanoseconds),
    /// The last event of its session.
    Ended,
    /// The text of a file that was seen.
    Text {
        /// The file.
        file: String,
        /// Its text.
        text: String,
    },
    /// Scripts that V8 did not load as they are on disk.
    Scripts(Vec<LoadedScript>),
    /// What the reader should know.
    Remark(String),
}

/// What is to be recorded.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The processes.
    pub targets: &'a [Target],
    /// The control group that all of them are in, if everything in it is wanted.
    pub group: Option<&'a Group>,
    /// The command that is one of the processes and waits to be started.
    pub launched: Option<&'a mut Launched>,
}

/// How attaching went.
#[derive(Debug, Clone, Default)]
pub struct Attached {
    /// When the recording started, by the monotonic clock.
    pub started: Nanoseconds,
    /// When everything was sampled: attaching may take a while, and no duration counts that.
    pub sampling_since: Nanoseconds,
    /// Whether every process of the group is sampled, those that join it later included.
    pub samples_group: bool,
    /// Whether an eBPF program runs at each sample.
    pub has_ebpf: bool,
    /// Whether threads read memory at samples instead.
    pub has_readers: bool,
    /// Whether events are of whole CPUs, and the program drops samples of other processes.
    pub is_cpu_wide: bool,
    /// The inspectors that are used.
    pub inspectors: Vec<OpenInspector>,
}

/// An inspector that is used.
#[derive(Debug, Clone)]
pub struct OpenInspector {
    /// Its process on this machine.
    pub pid: Option<u32>,
    /// The version of Node, such as `v20.20.2`.
    pub node_version: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether nodespy opened it.
    pub is_opened_by_us: bool,
}

/// How a drain went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// What was lost since the drain before.
    pub losses: Losses,
    /// Whether nothing will follow.
    pub is_over: bool,
}

/// What was lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Samples the kernel dropped because a ring was full.
    pub samples: u64,
    /// Records about threads and mappings that were dropped.
    pub records: u64,
    /// How often the kernel throttled the sampling.
    pub throttled: u64,
}

impl std::ops::AddAssign for Losses {
    fn add_assign(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.records = self.records.saturating_add(other.records);
        self.throttled = self.throttled.saturating_add(other.throttled);
    }
}
