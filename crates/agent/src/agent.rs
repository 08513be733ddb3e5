//! An agent from its start to its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nodespy_capture::engine::Engine;
use nodespy_capture::engines::inspector::CompanionCommand;
use nodespy_capture::engines::perf_events::{CopiedAtSample, EventSpec, PerfEvents, PerfOptions};
use nodespy_capture::target::{Target, Wanted};
use nodespy_capture::{CaptureError, Children, Interrupts, monotonic_now, with_causes};
use nodespy_model::{FastMap, FastSet, Labels, Nanoseconds};
use nodespy_recorder::{
    Continuous, End, Limits, Live, LiveOptions, SampledShare, Subject, continuous_inspector, hold,
};
use nodespy_store::{OpenWindows, WINDOW_SECONDS};
use nodespy_symbolize::SourceMapOptions;

use crate::counters::{Counters, Written};
use crate::destination::Destination;
use crate::error::AgentError;
use crate::following::Following;
use crate::log_line::{Level, Log, LogLine};
use crate::requests::{RequestOptions, RequestReader};
use crate::status::Status;
use crate::wall_clock::{Moment, WallClock};
use crate::writer::{Writers, written};

const SECOND: Nanoseconds = 1_000_000_000;
/// How long after the end of a window it is cut: until then its last samples have been read.
const CUT_AFTER: Nanoseconds = 250_000_000;
/// How often Node processes are looked for while there is none.
const WAIT: Duration = Duration::from_millis(500);
/// How many times the usual rate an unusual process is sampled with, up to so many samples a second.
const FAST: u32 = 5;
const MAX_FAST_HZ: u32 = 999;
/// Events of threads stay open when their process ends, two of each thread on each CPU: after so many processes all are
/// opened anew.
const MAX_ENDED: usize = 8;

/// What an agent samples by.
#[derive(Debug, Clone, Copy)]
pub enum AgentEngine {
    /// Perf events, with eBPF where permitted. Where they are refused, the error says what else there is: an inspector is
    /// not opened unless that is asked for.
    Auto,
    /// Perf events.
    Perf,
    /// V8's own profiler, through the inspector of every process.
    Inspector {
        /// Starts what closes an inspector when the agent is killed.
        companion: CompanionCommand,
    },
}

/// What an agent does.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// What takes the samples.
    pub engine: AgentEngine,
    /// Samples a second of CPU time, usually.
    pub rate_hz: u32,
    /// Whether more are taken while a process is unusual, and fewer while all are idle. V8's profiler has one rate.
    pub is_adaptive: bool,
    /// What it may cost, of one CPU; samples get fewer where it costs more, each counting for those that were not taken.
    pub max_overhead: Option<f64>,
    /// Whether kernel frames are wanted.
    pub include_kernel: bool,
    /// Whether no eBPF program runs at the samples.
    pub no_ebpf: bool,
    /// Which source maps are used; none when absent.
    pub source_maps: Option<SourceMapOptions>,
    /// Labels of every process, which win over those that are found.
    pub labels: Labels,
    /// Which counter tells the requests of each process; they are not counted when absent.
    pub requests: Option<RequestOptions>,
    /// How long it runs; until it is told to end when absent.
    pub duration: Option<Duration>,
    /// Ctrl-C and SIGTERM.
    pub interrupts: Option<Interrupts>,
    /// What it counts, for `/metrics`.
    pub status: Arc<Status>,
    /// Called when it is attached: gives up the rights that only attaching takes.
    pub attached: fn(),
    /// Called first by each thread that writes or sends: gives up the rights that sampling takes.
    pub write_only: fn(),
    /// Called first by the thread that reads counters of requests: keeps the right to see whose sockets are whose.
    pub read_sockets: fn(),
}

/// Samples every Node process of the machine, until it is told to end. What was seen is written to every destination before
/// this returns, or waits on disk for the next agent to send it. The answer is what became of the windows of each.
pub fn run(
    options: &AgentOptions,
    destinations: Vec<Destination>,
    log: Log,
) -> Result<Vec<(String, Written)>, AgentError> {
    let destinations = destinations
        .into_iter()
        .map(|destination| (destination, Arc::new(Counters::default())));
    let destinations: Vec<_> = destinations.collect();
    let counters = destinations.iter();
    let counters: Vec<_> = counters
        .map(|(destination, counters)| (destination.name().to_owned(), Arc::clone(counters)))
        .collect();
    let status = &options.status;
    status.watch(counters.clone());
    status
        .rate_hz
        .store(options.rate_hz.into(), Ordering::Relaxed);
    status.sample_at(f64::from(options.rate_hz));
    // From the start: what an earlier agent left waits for no process.
    let writers = Arc::new(Writers::start(destinations, &log, options.write_only));
    let requests = options.requests.clone().map(|requests| {
        RequestReader::start(requests, Arc::clone(&writers), &log, options.read_sockets)
    });
    let mut agent = Agent {
        options,
        deadline: options
            .duration
            .map(|duration| monotonic_now().saturating_add(duration.as_nanos() as Nanoseconds)),
        log,
        writers,
        requests,
        open: OpenWindows::default(),
        clock: WallClock::default(),
        sampled: FastMap::default(),
        remarks: FastSet::default(),
    };
    let ran = agent.follow_until_the_end();
    agent.finish();
    ran.map(|()| written(&counters))
}

struct Agent<'a> {
    options: &'a AgentOptions,
    deadline: Option<Nanoseconds>,
    log: Log,
    writers: Arc<Writers>,
    requests: Option<RequestReader>,
    open: OpenWindows,
    clock: WallClock,
    /// The processes that are sampled, by pid, with their services.
    sampled: FastMap<u32, String>,
    /// What was remarked already.
    remarks: FastSet<String>,
}

impl Agent<'_> {
    fn is_stopped(&self) -> bool {
        let interrupts = self.options.interrupts;
        interrupts.is_some_and(Interrupts::is_stop_requested)
            || self.deadline.is_some_and(|it| monotonic_now() >= it)
    }

    fn follow_until_the_end(&mut self) -> Result<(), AgentError> {
        while let Some(targets) = self.wait_for_processes()? {
            match self.follow(targets) {
                Ok(End::Duration) => return Ok(()),
                // It is to end, or to attach anew.
                Ok(_) => {}
                // They ended before they were attached to.
                Err(CaptureError::Gone { .. }) => std::thread::sleep(WAIT),
                Err(error @ CaptureError::NotPermitted { .. }) if self.is_auto() => {
                    return Err(AgentError::PerfRefused(error));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn is_auto(&self) -> bool {
        matches!(self.options.engine, AgentEngine::Auto)
    }

    /// The Node processes there are, once there are any; none when the agent is to end.
    fn wait_for_processes(&mut self) -> Result<Option<Vec<Target>>, CaptureError> {
        let mut has_said = false;
        while !self.is_stopped() {
            self.options.status.beat();
            let held = match self.options.engine {
                // Who may not be sent the signal is known once it is.
                AgentEngine::Inspector { .. } => wanted().hold(|_| true),
                AgentEngine::Auto | AgentEngine::Perf => hold(&wanted(), false),
            };
            match held {
                Ok(found) => {
                    for remark in &found.remarks {
                        let line = LogLine::new(Level::Warn, "process not sampled");
                        (self.log)(&line.with("why", remark));
                    }
                    return Ok(Some(found.targets));
                }
                Err(CaptureError::NotFound { .. }) if has_said => {}
                Err(error @ CaptureError::NotFound { .. }) => {
                    has_said = true;
                    let line = LogLine::info("waiting for a process");
                    (self.log)(&line.with("why", with_causes(&error)));
                }
                Err(error) => return Err(error),
            }
            std::thread::sleep(WAIT);
        }
        Ok(None)
    }

    /// Samples these processes and those that join them, until the end or until it is better to attach anew.
    fn follow(&mut self, targets: Vec<Target>) -> Result<End, CaptureError> {
        let options = self.options;
        let deadline = self.deadline;
        let is_inspector = matches!(options.engine, AgentEngine::Inspector { .. });
        let sampled = sampled(options.rate_hz, options.is_adaptive && !is_inspector);
        let asked_hz = options.rate_hz * sampled.one_in;
        let mut engine = engine_for(options, asked_hz);
        let mut following = Following {
            given: &options.labels,
            status: &options.status,
            rate_hz: options.rate_hz,
            asked_hz,
            source_maps: options.source_maps.as_ref(),
            attached: options.attached,
            open: &mut self.open,
            writers: &self.writers,
            requests: self.requests.as_ref(),
            log: &self.log,
            clock: &mut self.clock,
            engine: "",
            is_cpu_wide: false,
            is_late: false,
            sampled: &mut self.sampled,
            ended: 0,
            max_ended: match is_inspector {
                true => usize::MAX,
                false => MAX_ENDED,
            },
            remarks: &mut self.remarks,
        };
        let live_options = LiveOptions {
            joining: Some((wanted(), Children::Judged)),
            no_routes: true,
            max_overhead: options.max_overhead,
            continuous: Some(Continuous {
                aligned_to: end_of_window(Moment::now()).saturating_add(CUT_AFTER),
                judged_every: WINDOW_SECONDS * SECOND,
                sampled,
            }),
            ..LiveOptions::default()
        };
        let subject = Subject::running(targets);
        let mut live = Live::attach(&mut *engine, subject, live_options, &mut following)?;
        let left = deadline.map(|it| Duration::from_nanos(it.saturating_sub(monotonic_now())));
        let limits = Limits {
            duration: left,
            slice: Some(Duration::from_secs(WINDOW_SECONDS)),
            first_slice: None,
            slice_stretch: 0,
            idle_slice: None,
            is_stopped: &|| {
                options
                    .interrupts
                    .is_some_and(Interrupts::is_stop_requested)
            },
        };
        let end = live.run(&limits, &mut following)?;
        live.hand_out(&mut following);
        Ok(end)
    }

    /// Writes what is left.
    fn finish(mut self) {
        self.writers.write(self.open.take_all());
        if let Some(requests) = self.requests {
            requests.finish();
        }
        // No other thread has them any more.
        if let Some(writers) = Arc::into_inner(self.writers) {
            writers.finish();
        }
    }
}

fn engine_for(options: &AgentOptions, asked_hz: u32) -> Box<dyn Engine> {
    if let AgentEngine::Inspector { companion } = options.engine {
        let engine = continuous_inspector(asked_hz, options.interrupts, companion);
        return Box::new(engine);
    }
    Box::new(PerfEvents::new(PerfOptions {
        events: vec![EventSpec::cpu()],
        rate_hz: asked_hz,
        include_kernel: options.include_kernel,
        follow_children: false,
        walks_at_sample: !options.no_ebpf,
        reads_at_sample: false,
        copies: CopiedAtSample {
            async_callers: true,
            ..CopiedAtSample::default()
        },
        spares_idle: true,
        prefers_cpus: true,
        placebo: false,
    }))
}

/// Every Node process.
fn wanted() -> Wanted {
    Wanted {
        all: true,
        ..Wanted::default()
    }
}

/// How many of the samples are taken that an engine is asked for: of so many times the usual rate, where that makes sense.
fn sampled(rate_hz: u32, is_adaptive: bool) -> SampledShare {
    let fits = |times: &u32| rate_hz.saturating_mul(*times) <= MAX_FAST_HZ;
    let one_in = [FAST, 2].into_iter().find(fits).filter(|_| is_adaptive);
    let one_in = one_in.unwrap_or(1);
    SampledShare {
        one_in,
        // One a second.
        one_in_at_least: rate_hz.saturating_mul(one_in),
        is_adaptive,
    }
}

/// When the window that goes on ends, by the monotonic clock.
fn end_of_window(now: Moment) -> Nanoseconds {
    let window = WINDOW_SECONDS * SECOND;
    now.monotonic.saturating_add(window - now.unix % window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusual_processes_are_sampled_five_times_as_often_but_not_too_often() {
        let one_in = |rate_hz, is_adaptive| sampled(rate_hz, is_adaptive).one_in;
        assert_eq!([19, 199, 499, 999].map(|it| one_in(it, true)), [5, 5, 2, 1]);
        assert_eq!(one_in(19, false), 1);
        assert_eq!(sampled(19, true).one_in_at_least, 95);
    }

    #[test]
    fn windows_end_at_multiples_of_ten_seconds() {
        let end = |unix| {
            end_of_window(Moment {
                unix,
                monotonic: 5 * SECOND,
            })
        };
        assert_eq!(end(1_003 * SECOND), 12 * SECOND);
        assert_eq!(end(1_000 * SECOND), 15 * SECOND);
    }
}
