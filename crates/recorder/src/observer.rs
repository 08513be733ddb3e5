//! What the caller of the live loop is informed of.

use nodespy_capture::engine::{Attached, Losses};
use nodespy_capture::engines::EngineId;
use nodespy_capture::target::Target;
use nodespy_capture::{CaptureError, LiveOrigin, Stall};
use nodespy_model::{EventType, Nanoseconds, Pool, Profile};
use nodespy_symbolize::{Resolver, SourceMapOptions, map_sources};

use crate::rates::Pacing;

/// The caller's view of a recording that goes on.
pub trait Observer {
    /// Who is informed of what this one does not handle itself.
    fn inner(&mut self) -> Option<&mut dyn Observer> {
        None
    }

    /// An engine is attached.
    fn started(&mut self, started: &Started<'_>) {
        if let Some(inner) = self.inner() {
            inner.started(started);
        }
    }

    /// Rings were read.
    fn progress(&mut self, progress: &mut Progress<'_>) {
        if let Some(inner) = self.inner() {
            inner.progress(progress);
        }
    }

    /// A process that joined is recorded.
    fn added(&mut self, target: &Target) {
        if let Some(inner) = self.inner() {
            inner.added(target);
        }
    }

    /// A process that joined is not recorded.
    fn not_added(&mut self, error: &CaptureError) {
        if let Some(inner) = self.inner() {
            inner.not_added(error);
        }
    }

    /// A slice is complete. False ends the recording.
    fn slice(&mut self, _slice: Slice<'_>) -> bool {
        true
    }

    /// From when on threads, event loops and pools are counted from now on, on the clock that samples
    /// carry from the start of the recording; asked after each slice. None changes nothing.
    fn counts_since(&mut self) -> Option<Nanoseconds> {
        None
    }

    /// Samples of an agent are taken at another rate from now on.
    fn paced(&mut self, paced: &Paced) {
        if let Some(inner) = self.inner() {
            inner.paced(paced);
        }
    }

    /// Something worth a line.
    fn note(&mut self, line: &str) {
        if let Some(inner) = self.inner() {
            inner.note(line);
        }
    }
}

/// How often samples of an agent are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paced {
    /// One in so many of those that the engine is asked for.
    pub one_in: u32,
    /// Why; none where it is for what it costs, which is noted.
    pub pacing: Option<Pacing>,
}

/// An engine that was attached.
#[derive(Debug)]
pub struct Started<'a> {
    /// Which one.
    pub engine: EngineId,
    /// What makes samples.
    pub events: &'a [EventType],
    /// The application.
    pub app: &'a str,
    /// What is recorded.
    pub targets: &'a [Target],
    /// The user that a launched command runs as, when that is not who nodespy runs as.
    pub runs_as: Option<&'a str>,
    /// How attaching went.
    pub attached: &'a Attached,
    /// What the reader should know.
    pub remarks: &'a [String],
}

/// How far a recording is.
#[derive(Debug)]
pub struct Progress<'a> {
    /// The engine that is drained.
    pub engine: EngineId,
    /// How long it goes on.
    pub elapsed: Nanoseconds,
    /// Samples lost since the start.
    pub lost_samples: u64,
    pub(crate) samples_before: usize,
    pub(crate) resolver: &'a mut Resolver,
}

impl Progress<'_> {
    /// How many samples there are since the start.
    pub fn sample_count(&self) -> usize {
        self.samples_before + self.resolver.sample_count()
    }

    /// The name and share of the function that was on top most often since the last call.
    pub fn hottest(&mut self) -> Option<(String, f64)> {
        self.resolver.hottest()
    }
}

/// A part of a recording.
#[derive(Debug)]
pub struct Slice<'a> {
    /// What was seen.
    pub profile: Profile,
    /// How long it is.
    pub length: Nanoseconds,
    /// When the recording started, by the monotonic clock.
    pub started: Nanoseconds,
    /// Until when everything is in this slice or an earlier one, since the start: V8 reports samples later than they
    /// were taken.
    pub complete_until: Nanoseconds,
    /// Whether no other follows.
    pub is_last: bool,
    /// What was lost in it.
    pub losses: Losses,
    /// The stalls that ended in it, where they are asked for.
    pub stalls: Vec<Stall>,
    /// What libuv's thread pools did when they were read last, each with its process.
    pub pools: Vec<(u32, Pool)>,
    /// The processes that are recorded.
    pub targets: &'a [Target],
    pub(crate) engine: EngineId,
    pub(crate) resolver: &'a Resolver,
}

impl Slice<'_> {
    /// Puts the functions of a profile of this slice where they were written.
    pub fn map_sources(&self, profile: Profile, options: &SourceMapOptions) -> Profile {
        match self.engine {
            // The resolver knows nothing of these processes, and must not keep what it would learn.
            EngineId::Inspector => map_sources(profile, &[], Some(&LiveOrigin::new()), options),
            _ => self.resolver.map_sources(profile, options),
        }
    }
}
