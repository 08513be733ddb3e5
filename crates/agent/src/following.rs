//! What the live loop reports, turned into windows and log lines.

use std::sync::atomic::Ordering;

use nodespy_capture::engines::EngineId;
use nodespy_capture::target::{Target, describe};
use nodespy_capture::{CaptureError, monotonic_now, with_causes};
use nodespy_model::{FastMap, FastSet, Labels, Nanoseconds, Process, Profile, label_key};
use nodespy_recorder::{Observer, Paced, Pacing, Slice, Started};
use nodespy_store::{OpenWindows, SAMPLING_RATE, batch_of};
use nodespy_symbolize::SourceMapOptions;

use crate::deployed;
use crate::log_line::{Level, Log, LogLine};
use crate::requests::RequestReader;
use crate::status::Status;
use crate::wall_clock::{Moment, WallClock};
use crate::writer::Writers;

const SECOND: Nanoseconds = 1_000_000_000;
/// How many remarks of recordings are remembered, so that each is logged once.
const MAX_REMARKS: usize = 256;

/// The observer of an agent's live loop.
pub(crate) struct Following<'a> {
    pub(crate) given: &'a Labels,
    pub(crate) status: &'a Status,
    /// Samples a second that are usually taken.
    pub(crate) rate_hz: u32,
    /// Samples a second that the engine is asked for, of which all or some are taken.
    pub(crate) asked_hz: u32,
    pub(crate) source_maps: Option<&'a SourceMapOptions>,
    /// What gives up the rights that only attaching takes.
    pub(crate) attached: fn(),
    pub(crate) open: &'a mut OpenWindows,
    pub(crate) writers: &'a Writers,
    /// What reads how many requests processes answer, if they are counted.
    pub(crate) requests: Option<&'a RequestReader>,
    pub(crate) log: &'a Log,
    pub(crate) clock: &'a mut WallClock,
    /// How processes are sampled.
    pub(crate) engine: &'static str,
    pub(crate) is_cpu_wide: bool,
    /// Whether V8 reports the samples, up to a minute after they were taken.
    pub(crate) is_late: bool,
    /// The processes that are sampled, by pid, with their services.
    pub(crate) sampled: &'a mut FastMap<u32, String>,
    /// How many have ended since it was attached.
    pub(crate) ended: usize,
    /// After how many of them it attaches anew; never where nothing is left of them.
    pub(crate) max_ended: usize,
    pub(crate) remarks: &'a mut FastSet<String>,
}

impl Following<'_> {
    fn say_joined(&mut self, pid: u32) {
        // Attached anew, it has them already.
        if self.sampled.contains_key(&pid) {
            return;
        }
        let process = describe(pid).unwrap_or_default();
        let service = service_of(&process).to_owned();
        let label = |key| process.labels.get(key).unwrap_or_default().to_owned();
        let version = deployed::deployed_version(&process.labels).unwrap_or_default();
        let line = LogLine::info("process joined")
            .with("pid", pid)
            .with("service", &service)
            .with("version", version)
            .with("container", label(label_key::CONTAINER))
            .with("pod", label(label_key::POD))
            .with("node", label(label_key::NODE))
            .with("engine", self.engine);
        (self.log)(&line);
        self.status.joined.fetch_add(1, Ordering::Relaxed);
        self.sampled.insert(pid, service);
    }

    fn say_ended(&mut self, targets: &[Target]) {
        let running = targets.iter().filter(|target| !target.has_ended());
        let running: FastSet<u32> = running.map(Target::pid).collect();
        let is_ended = |pid: &u32| !running.contains(pid);
        let ended: Vec<u32> = self.sampled.keys().copied().filter(is_ended).collect();
        for pid in ended {
            let service = self.sampled.remove(&pid).unwrap_or_default();
            let line = LogLine::info("process ended").with("pid", pid);
            (self.log)(&line.with("service", service));
            self.ended += 1;
            if let Some(requests) = self.requests {
                requests.forget(pid);
            }
        }
    }

    /// Sets the times of a slice and logs what is worth a line.
    fn settle_times(&mut self, profile: &mut Profile, slice: &Slice<'_>) -> Nanoseconds {
        // Both clocks now: naming a slice takes seconds where the machine is busy.
        let start = self.clock.start(Moment::now(), slice.started);
        profile.about.started_unix = start.unix;
        if let Some(seconds) = start.step {
            (self.log)(&LogLine::new(Level::Warn, "clock was set").with("by_s", seconds));
            self.writers.write_before_step(self.open.take_all());
        }
        start.unix.saturating_add(slice.complete_until)
    }

    /// Drops samples of windows that were handed out, of a process that did not answer for minutes, and of a time to come,
    /// which only a process that lies has. How many those are.
    fn leave_out_late(&self, profile: &mut Profile, now: Nanoseconds) -> u64 {
        let handed_out = self.open.handed_out_before().saturating_mul(SECOND);
        let handed_out = handed_out.saturating_sub(profile.about.started_unix);
        let before = profile.samples.len();
        // A little late is in the next window: clocks disagree by that.
        let earliest = handed_out.saturating_sub(SECOND);
        let possible = earliest..now.saturating_add(SECOND);
        profile
            .samples
            .retain(|sample| possible.contains(&sample.time));
        (before - profile.samples.len()) as u64
    }

    fn say_losses(&mut self, slice: &Slice<'_>, remarks: &[String]) {
        if slice.losses.samples > 0 || slice.losses.throttled > 0 {
            let line = LogLine::new(Level::Warn, "samples lost")
                .with("samples", slice.losses.samples)
                .with("throttled", slice.losses.throttled);
            (self.log)(&line);
        }
        for remark in remarks {
            if self.remarks.len() < MAX_REMARKS && self.remarks.insert(remark.clone()) {
                (self.log)(&LogLine::new(Level::Warn, "remark").with("text", remark));
            }
        }
    }
}

impl Observer for Following<'_> {
    fn started(&mut self, started: &Started<'_>) {
        (self.attached)();
        self.is_cpu_wide = started.attached.is_cpu_wide;
        let attached = started.attached;
        self.engine = match (started.engine, attached.has_ebpf, attached.is_cpu_wide) {
            (EngineId::Inspector, ..) => "inspector",
            (_, true, true) => "ebpf, cpu-wide",
            (_, true, false) => "ebpf",
            (_, false, _) => "perf events",
        };
        self.status.sample_by(self.engine);
        self.is_late = started.engine == EngineId::Inspector;
        if self.is_late {
            // Each process joins when its inspector is open.
            return;
        }
        for target in started.targets {
            self.say_joined(target.pid());
        }
    }

    fn added(&mut self, target: &Target) {
        self.say_joined(target.pid());
    }

    fn not_added(&mut self, error: &CaptureError) {
        let line = LogLine::new(Level::Warn, "process not sampled");
        (self.log)(&line.with("why", with_causes(error)));
    }

    fn slice(&mut self, mut slice: Slice<'_>) -> bool {
        let mut profile = std::mem::take(&mut slice.profile);
        let until = self.settle_times(&mut profile, &slice);
        if self.is_late {
            let now = monotonic_now().saturating_sub(slice.started);
            slice.losses.samples += self.leave_out_late(&mut profile, now);
        }
        self.say_losses(&slice, &profile.notes.remarks);
        self.status.beat();
        let samples = profile.samples.len() as u64;
        self.status.samples.fetch_add(samples, Ordering::Relaxed);
        let lost = slice.losses.samples;
        self.status.lost.fetch_add(lost, Ordering::Relaxed);
        if let Some(options) = self.source_maps {
            profile = slice.map_sources(profile, options);
        }
        let host = profile.about.host.clone();
        for process in &mut profile.processes {
            process.labels = deployed::labels_of(&process.labels, &host, process.pid, self.given);
            process.labels.set(SAMPLING_RATE, self.rate_hz.to_string());
        }
        let batch = batch_of(&profile);
        if let Some(requests) = self.requests {
            // V8 reports samples up to a minute late, also of processes that have ended.
            requests.follow(&batch.series, |pid| self.sampled.contains_key(&pid));
        }
        self.open.add(batch);
        self.writers.write(self.open.take_ended(until / SECOND));
        self.say_ended(slice.targets);
        let sampled = self.sampled.len() as u64;
        self.status.processes.store(sampled, Ordering::Relaxed);
        self.is_cpu_wide || self.ended < self.max_ended
    }

    fn paced(&mut self, paced: &Paced) {
        let rate_hz = f64::from(self.asked_hz) / f64::from(paced.one_in.max(1));
        self.status.sample_at(rate_hz);
        let line = LogLine::info("rate").with("hz", format!("{rate_hz:.1}"));
        let line = match paced.pacing {
            // It is noted.
            None => return,
            Some(Pacing::Usual) => line.with("why", "as usual"),
            Some(Pacing::Idle) => line.with("why", "every process is idle"),
            Some(Pacing::Unusual(unusual)) => {
                self.status.unusual.fetch_add(1, Ordering::Relaxed);
                let service = self.sampled.get(&unusual.pid);
                line.with("why", unusual.how)
                    .with("pid", unusual.pid)
                    .with("service", service.map_or("", String::as_str))
            }
        };
        (self.log)(&line);
    }

    fn note(&mut self, line: &str) {
        (self.log)(&LogLine::info("note").with("text", line));
    }
}

fn service_of(process: &Process) -> &str {
    let app = process.labels.get(label_key::APP);
    app.unwrap_or(&process.name)
}
