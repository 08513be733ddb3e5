//! What the terminal shows of a recording that goes on.

use std::time::Duration;

use nodespy_capture::CaptureError;
use nodespy_capture::engine::OpenInspector;
use nodespy_capture::engines::EngineId;
use nodespy_capture::target::Target;
use nodespy_model::{EventType, Nanoseconds, Sampling, printable};
use nodespy_recorder::{Observer, Progress, Started};

use crate::cli::{Engine, RecordArgs};
use crate::output::{self, LiveLine};
use crate::privileges;

/// How often the hottest function is shown.
const HOTTEST_INTERVAL: Nanoseconds = 1_000_000_000;

/// Prints how a recording goes.
pub(super) struct Reporting<'a> {
    arguments: &'a RecordArgs,
    line: LiveLine,
    hottest: Option<(String, f64)>,
    /// When that was found, since the start.
    hottest_at: Nanoseconds,
}

impl<'a> Reporting<'a> {
    pub(super) fn new(arguments: &'a RecordArgs) -> Self {
        Self {
            arguments,
            line: LiveLine::new(arguments.quiet),
            hottest: None,
            hottest_at: 0,
        }
    }

    /// Takes the live line away.
    pub(super) fn end(&self) {
        self.line.clear();
    }

    /// How long it will go on.
    fn until(&self) -> String {
        match self.arguments.duration {
            Some(duration) => format!("for {} s", duration.as_secs_f64()),
            None if self.arguments.on_port.is_some() => "until its load ends or Ctrl-C".to_owned(),
            None if !self.arguments.command.is_empty() => "until it ends or Ctrl-C".to_owned(),
            None => "until Ctrl-C".to_owned(),
        }
    }

    fn announce_inspector(&self, inspector: &OpenInspector, app: &str) {
        let process = match inspector.pid {
            Some(pid) => format!("{} (pid {pid}, ", printable(app)),
            None => format!("the process behind {} (", inspector.address),
        };
        output::note(&format!(
            "Recording {process}Node {}) with V8's profiler {}.",
            printable(&inspector.node_version),
            self.until()
        ));
        if inspector.is_opened_by_us {
            output::note(&format!(
                "Its inspector is open at {} meanwhile: any user of this machine can run code in it.",
                inspector.address
            ));
        }
    }

    fn announce_perf_events(&self, started: &Started<'_>) {
        if let Some(user) = started.runs_as {
            output::note(&format!(
                "The command runs as {user} (--keep-root: as root)."
            ));
        }
        let pids = started.targets.iter().map(Target::pid);
        let pids: Vec<String> = pids.map(|pid| pid.to_string()).collect();
        output::note(&format!(
            "Recording {} (pid {}) {}{} {}.",
            printable(started.app),
            pids.join(", "),
            how_often(started.events),
            with_ebpf(started),
            self.until()
        ));
    }
}

/// Whether the program is told all the time what to copy: what tells routes and stores is learned from samples.
fn wants_copy_rules(arguments: &RecordArgs) -> bool {
    !arguments.no_routes || !arguments.stores.options().is_empty()
}

/// What reads memory at samples, and at whose.
fn with_ebpf(started: &Started<'_>) -> &'static str {
    match (started.attached.has_ebpf, started.attached.is_cpu_wide) {
        (true, true) => " CPU-wide with eBPF",
        (true, false) => " with eBPF",
        (false, _) if started.attached.has_readers => " with reader threads",
        (false, _) => "",
    }
}

/// `at 99 Hz`; with the names of events where they are not just CPU time.
fn how_often(events: &[EventType]) -> String {
    let one = |event: &EventType| match event.sampling {
        Sampling::Rate(rate_hz) => format!("at {rate_hz} Hz"),
        Sampling::Period(1) => "each time".to_owned(),
        Sampling::Period(period) => format!("every {period} times"),
        Sampling::Unknown => String::new(),
    };
    match events {
        [event] if event.is_cpu() => one(event),
        events => {
            let named = |event: &EventType| format!("{} {}", printable(event.label()), one(event));
            let all: Vec<String> = events.iter().map(named).collect();
            format!("by {}", all.join(", "))
        }
    }
}

impl Observer for Reporting<'_> {
    fn started(&mut self, started: &Started<'_>) {
        let is_alone = self.arguments.engine != Engine::Both;
        if started.engine == EngineId::PerfEvents && is_alone {
            match started.attached.has_ebpf && wants_copy_rules(self.arguments) {
                true => privileges::keep_when_copy_rules_follow(),
                false => privileges::keep_when_perf_is_attached(),
            }
        }
        if self.arguments.quiet {
            return;
        }
        match started.engine {
            EngineId::Inspector => {
                for inspector in &started.attached.inspectors {
                    self.announce_inspector(inspector, started.app);
                }
            }
            EngineId::PerfEvents | EngineId::Snapshot => self.announce_perf_events(started),
        }
    }

    fn progress(&mut self, progress: &mut Progress<'_>) {
        // What V8 has seen is known when it hands it over.
        if !self.line.is_shown() || progress.engine == EngineId::Inspector {
            return;
        }
        if progress.elapsed.saturating_sub(self.hottest_at) >= HOTTEST_INTERVAL {
            self.hottest_at = progress.elapsed;
            self.hottest = progress.hottest();
        }
        self.line.show(
            Duration::from_nanos(progress.elapsed),
            progress.sample_count(),
            progress.lost_samples,
            self.hottest.as_ref(),
        );
    }

    fn not_added(&mut self, error: &CaptureError) {
        if !self.arguments.quiet {
            output::note(&format!("A process that joined is not recorded: {error}"));
        }
    }

    fn note(&mut self, line: &str) {
        output::note(line);
    }
}
