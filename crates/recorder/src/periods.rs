//! A recording that goes on and on, in files of one period each. Nothing is lost between them.

use std::process::ExitStatus;
use std::time::Duration;

use nodespy_analysis::starting_at;
use nodespy_formats::ImportError;
use nodespy_model::{FastMap, Nanoseconds, Profile};
use nodespy_symbolize::SourceMapOptions;

use crate::error::RecordError;
use crate::journal::{CreateJournal, Journal};
use crate::observer::{Observer, Slice};
use crate::record::{RecordRequest, record_slices};
use crate::subject::Subject;
use crate::submitters::with_submitters;

/// Where the periods of a recording go.
pub trait PeriodFiles {
    /// Creates a file for what is seen of the period that starts; without one that is kept in memory.
    fn journal(&mut self) -> Option<CreateJournal>;

    /// Takes what was recorded in a period. False ends the recording.
    fn write(&mut self, profile: Profile) -> bool;
}

/// Records until it is over, and hands out a profile a period: those that have no sample are left out.
/// Returns how the command ended, if there was one and it did.
pub fn record_every(
    every: Duration,
    request: &RecordRequest,
    subject: Subject,
    observer: &mut dyn Observer,
    files: &mut dyn PeriodFiles,
) -> Result<Option<ExitStatus>, RecordError> {
    let every = every.as_nanos() as Nanoseconds;
    let mut periods = Periods {
        journal: Journal::new(files.journal()),
        every,
        started: 0,
        due: every,
        has_ended: false,
        cpu_before: FastMap::default(),
        source_maps: request.source_maps.as_ref(),
        failure: None,
        observer,
        files,
    };
    let status = record_slices(request, subject, (None, None), &mut periods)?;
    match periods.failure {
        Some(error) => Err(error.into()),
        None => Ok(status),
    }
}

/// Keeps the slices of a period and hands it out when it is over.
struct Periods<'a> {
    /// Of the period that goes on.
    journal: Journal,
    every: Nanoseconds,
    /// When it started.
    started: Nanoseconds,
    /// When it is to end: a multiple of its length, so that none drifts.
    due: Nanoseconds,
    /// Whether one has ended with the last slice.
    has_ended: bool,
    /// The CPU time of processes when the period started.
    cpu_before: FastMap<u32, Nanoseconds>,
    source_maps: Option<&'a SourceMapOptions>,
    failure: Option<ImportError>,
    observer: &'a mut dyn Observer,
    files: &'a mut dyn PeriodFiles,
}

impl Observer for Periods<'_> {
    fn inner(&mut self) -> Option<&mut dyn Observer> {
        Some(&mut *self.observer)
    }

    fn slice(&mut self, mut slice: Slice<'_>) -> bool {
        let profile = std::mem::take(&mut slice.profile);
        let now = profile.about.duration;
        self.journal.add_or_note(&profile, self.observer);
        if now < self.due && !slice.is_last {
            return true;
        }
        match self.end_period(now, &slice) {
            Ok(wants_more) => wants_more,
            Err(error) => {
                self.failure = Some(error);
                false
            }
        }
    }

    fn counts_since(&mut self) -> Option<Nanoseconds> {
        std::mem::take(&mut self.has_ended).then_some(self.started)
    }
}

impl Periods<'_> {
    /// Hands out the period that ends now, and starts the next.
    fn end_period(&mut self, now: Nanoseconds, slice: &Slice<'_>) -> Result<bool, ImportError> {
        let samples = self.journal.sample_count();
        let profile = match samples {
            0 => None,
            _ => Some(starting_at(self.journal.profile()?, self.started)),
        };
        let cpu_times = self.cpu_times(slice);
        let from = std::mem::replace(&mut self.started, now);
        self.has_ended = true;
        while self.due <= now {
            self.due = self.due.saturating_add(self.every);
        }
        let Some(mut profile) = profile else {
            self.observer.note(&format!(
                "No samples from {:.0} s to {:.0} s: no file.",
                from as f64 / 1e9,
                now as f64 / 1e9
            ));
            return Ok(true);
        };
        for process in &mut profile.processes {
            process.cpu_time = cpu_times.get(&process.pid).copied();
        }
        let profile = match self.source_maps {
            Some(options) => slice.map_sources(profile, options),
            None => profile,
        };
        let wants_more = self.files.write(with_submitters(profile));
        if wants_more && !slice.is_last {
            self.journal = Journal::new(self.files.journal());
        }
        Ok(wants_more)
    }

    /// The CPU time that processes used in this period.
    fn cpu_times(&mut self, slice: &Slice<'_>) -> FastMap<u32, Nanoseconds> {
        let mut used = FastMap::default();
        for target in slice.targets {
            let Some(time) = target.cpu_time() else {
                continue;
            };
            let before = self.cpu_before.insert(target.pid(), time).unwrap_or(0);
            used.insert(target.pid(), time.saturating_sub(before));
        }
        self.cpu_before.retain(|pid, _| used.contains_key(pid));
        used
    }
}
