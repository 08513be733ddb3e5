//! A flight recorder: it records all the time and keeps the last seconds, until something happens that
//! makes them worth a file.
//!
//! A slice a second goes into a [`Ring`]; a [`TriggerWatch`] looks at what was seen in it. A file has
//! what was kept before the trigger fired and what followed until its cause was over.

mod cause;
mod ring;
mod trigger;
mod watch;

use std::process::ExitStatus;
use std::time::Duration;

use nodespy_capture::target::{Target, proc};
use nodespy_capture::{TriggerSignal, process_cpu_time};
use nodespy_model::{Nanoseconds, Profile};
use nodespy_symbolize::SourceMapOptions;

use crate::error::RecordError;
use crate::observer::{Observer, Slice};
use crate::record::{RecordRequest, record_slices};
use crate::subject::Subject;
use crate::submitters::with_submitters;
use cause::Cause;
pub use ring::Ring;
pub use trigger::Trigger;
use watch::{Seen, TriggerWatch};

/// How long a slice is while nothing happens: making one takes longer than all else that is done then.
const IDLE_SLICE: Duration = Duration::from_secs(4);

/// When a flight recorder writes, and how much.
#[derive(Debug, Clone)]
pub struct FlightOptions {
    /// Any one of them fires.
    pub triggers: Vec<Trigger>,
    /// How much of what was before is in a file; as long at most is waited for the end of its cause.
    pub keep: Duration,
    /// How long nothing is written after a file.
    pub hold_off: Duration,
}

/// How a flight ended.
#[derive(Debug)]
pub struct Flown {
    /// How often a trigger fired while nothing was to be written.
    pub missed: u64,
    /// How the command ended, if there was one and it did.
    pub status: Option<ExitStatus>,
}

/// Records until it is over. `write` is handed what is worth a file, with the reason among its notes;
/// false ends the recording.
pub fn fly(
    request: &RecordRequest,
    subject: Subject,
    options: &FlightOptions,
    observer: &mut dyn Observer,
    write: &mut dyn FnMut(Profile) -> bool,
) -> Result<Flown, RecordError> {
    let has_signal = options.triggers.contains(&Trigger::Signal);
    let mut flight = Flight {
        ring: Ring::new(options.keep),
        watch: TriggerWatch::new(&options.triggers, options.keep, options.hold_off),
        keep: options.keep.as_nanos() as Nanoseconds,
        now: 0,
        kept_from: None,
        signal: has_signal.then(TriggerSignal::catch),
        source_maps: request.source_maps.as_ref(),
        observer,
        write,
    };
    let stalls = flight.watch.shortest_stall();
    // Other triggers are judged once a second, whatever loops do.
    let is_stall = |trigger: &Trigger| matches!(trigger, Trigger::Stall(_));
    let idle_slice = (options.triggers.iter().all(is_stall)).then_some(IDLE_SLICE);
    let status = record_slices(request, subject, (stalls, idle_slice), &mut flight)?;
    Ok(Flown {
        missed: flight.watch.missed(),
        status,
    })
}

/// Keeps slices and hands out files.
struct Flight<'a> {
    ring: Ring,
    watch: TriggerWatch,
    keep: Nanoseconds,
    /// When the last slice ended.
    now: Nanoseconds,
    /// From when on everything is in the file that waits for its end.
    kept_from: Option<Nanoseconds>,
    signal: Option<TriggerSignal>,
    source_maps: Option<&'a SourceMapOptions>,
    observer: &'a mut dyn Observer,
    write: &'a mut dyn FnMut(Profile) -> bool,
}

impl Observer for Flight<'_> {
    fn inner(&mut self) -> Option<&mut dyn Observer> {
        Some(&mut *self.observer)
    }

    fn slice(&mut self, mut slice: Slice<'_>) -> bool {
        let profile = std::mem::take(&mut slice.profile);
        let now = profile.about.duration;
        self.now = now;
        self.ring.add(profile);
        let running = slice.targets.iter().filter(|target| !target.has_ended());
        let pids: Vec<u32> = running.map(Target::pid).collect();
        let cause = self.watch.take(&Seen {
            now,
            stalls: &slice.stalls,
            pids: &pids,
            measure: &measure,
            has_signal: self.signal.is_some_and(TriggerSignal::take),
        });
        let from = now.saturating_sub(self.keep);
        if self.watch.has_fired() || cause.is_some() {
            self.kept_from.get_or_insert(from);
        }
        let rest = || slice.is_last.then(|| self.watch.take_rest()).flatten();
        let wants_more = match cause.or_else(rest) {
            Some(cause) => {
                let from = self.kept_from.take().unwrap_or(from);
                self.write_file(&cause, from, &slice)
            }
            None => true,
        };
        self.ring.forget_old(now, self.kept_from);
        wants_more
    }

    fn counts_since(&mut self) -> Option<Nanoseconds> {
        Some(self.kept_from.unwrap_or(self.now.saturating_sub(self.keep)))
    }
}

impl Flight<'_> {
    /// Hands out what is there from a moment on.
    fn write_file(&mut self, cause: &Cause, from: Nanoseconds, slice: &Slice<'_>) -> bool {
        let (profile, start) = self.ring.profile_from(from);
        let mut profile = match self.source_maps {
            Some(options) => slice.map_sources(profile, options),
            None => profile,
        };
        profile = with_submitters(profile);
        let sentence = cause.sentence(&profile, start);
        profile.notes.add_trigger(&sentence);
        (self.write)(profile)
    }
}

/// What a trigger compares of a process.
fn measure(trigger: &Trigger, pid: u32) -> Option<u64> {
    match trigger {
        Trigger::Cpu { .. } => process_cpu_time(pid),
        Trigger::Rss(_) => proc::resident_bytes(pid),
        Trigger::RunDelay { .. } => proc::thread_run_delay(pid, pid),
        Trigger::Stall(_) | Trigger::Signal => None,
    }
}
