//! What a recording through the inspector can be asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nodespy_inspector::Cancel;
use nodespy_model::{EventType, Nanoseconds, Recording, Sampling, WeightUnit};

use super::companion::CompanionCommand;
use super::event::InspectorEvent;
use crate::Interrupts;

/// Reads a profile as V8 sends it: the JSON of a `.cpuprofile` or, for allocations, a `.heapprofile`.
/// The caller's, because an engine knows no file formats.
pub type ProfileReader =
    fn(InspectorEvent, &str) -> Result<Recording, Box<dyn std::error::Error + Send + Sync>>;

/// The event of busy time, by the kernel's name for the clock it stands in for.
const BUSY_TIME: &str = "cpu-clock";

/// What to record.
#[derive(Debug, Clone)]
pub struct InspectorOptions {
    /// What makes a sample.
    pub event: InspectorEvent,
    /// Microseconds between samples of time.
    pub interval_us: u32,
    /// Bytes between samples of allocations.
    pub alloc_bytes: u32,
    /// How long a slice of a long recording is; by default as long as it takes to cost little.
    pub slice: Option<Duration>,
    /// How long a busy process may take to answer a command.
    pub timeout: Duration,
    /// How long a main thread in native code, which opens no inspector, is waited for.
    pub max_block: Duration,
    /// How long the last profile of a main thread may take to arrive: V8 makes it on that thread.
    pub stop_timeout: Duration,
    /// Whether only time in which threads were busy counts, as on the kernel's CPU clock.
    pub busy_only: bool,
    /// Whether the texts of the scripts that were seen go into the profile.
    pub embed_sources: bool,
    /// Whether V8 is asked for the source maps of scripts that it did not load as they are on disk.
    pub wants_source_maps: bool,
    /// Whether an inspector that other machines can reach is opened all the same.
    pub force: bool,
    /// When the recording starts, by the monotonic clock.
    pub started: Option<Nanoseconds>,
    /// Ctrl-C and SIGTERM.
    pub interrupts: Option<Interrupts>,
    /// Ends waits for processes to open their inspectors once it is set.
    pub stop: Arc<AtomicBool>,
    /// The command that starts a companion; without one, an inspector stays open when the caller is
    /// killed.
    pub companion: Option<CompanionCommand>,
    /// Reports what is waited for.
    pub report: fn(&str),
    /// Reads what V8 sends.
    pub read_profile: ProfileReader,
}

impl InspectorOptions {
    /// What makes the samples, as a profile has it.
    pub fn event_type(&self) -> EventType {
        let name = match self.busy_only {
            true => BUSY_TIME,
            false => self.event.label(),
        };
        match self.event {
            InspectorEvent::Cpu => EventType::new(name, WeightUnit::Nanoseconds)
                .at_rate(1_000_000_u32.checked_div(self.interval_us).unwrap_or(0)),
            InspectorEvent::Allocations => EventType {
                sampling: Sampling::Period(self.alloc_bytes.into()),
                ..EventType::new(name, WeightUnit::Bytes)
            },
        }
    }

    /// The defaults, with the caller's reader of profiles.
    pub fn new(read_profile: ProfileReader) -> Self {
        Self {
            event: InspectorEvent::Cpu,
            interval_us: 1000,
            alloc_bytes: 64 << 10,
            slice: None,
            timeout: Duration::from_secs(10),
            max_block: Duration::from_secs(600),
            stop_timeout: Duration::from_secs(60),
            busy_only: false,
            embed_sources: false,
            wants_source_maps: false,
            force: false,
            started: None,
            interrupts: None,
            stop: Arc::default(),
            companion: None,
            report: |_| {},
            read_profile,
        }
    }

    /// Ends waits at the start of a recording.
    pub(super) fn cancel(&self) -> Cancel {
        let stop = Arc::clone(&self.stop);
        let cancel = self.cancel_when(Interrupts::is_stop_requested);
        Cancel::when(move || stop.load(Ordering::Relaxed) || cancel.is_cancelled())
    }

    /// Ends waits at its end, which a first Ctrl-C may have brought about: it takes a second one.
    pub(super) fn cancel_at_end(&self) -> Cancel {
        self.cancel_when(Interrupts::is_discard_requested)
    }

    fn cancel_when(&self, is_requested: fn(Interrupts) -> bool) -> Cancel {
        match self.interrupts {
            Some(interrupts) => Cancel::when(move || is_requested(interrupts)),
            None => Cancel::default(),
        }
    }
}
