//! Engines made from what is asked for.

use nodespy_capture::engine::Engine;
use std::time::Duration;

use nodespy_capture::Interrupts;
use nodespy_capture::engines::inspector::{
    CompanionCommand, ContinuousInspector, InspectorEngine, InspectorEvent, InspectorOptions,
    InspectorUrl,
};
use nodespy_capture::engines::perf_events::{CopiedAtSample, EventSpec, PerfEvents, PerfOptions};
use nodespy_formats::{ImportOptions, Input};
use nodespy_model::Recording;

use super::{RecordRequest, Sampled};
use crate::error::RecordError;

/// How long an agent waits for a process that does not answer.
const INSPECTOR_TIMEOUT: Duration = Duration::from_secs(10);

/// V8's default sampling interval.
const INTERVAL_US: u32 = 1000;

/// What makes engines: the real ones, or those of a test.
pub(super) trait EngineSource {
    /// The kernel's perf events.
    fn perf_events(&self, request: &RecordRequest, events: Vec<EventSpec>) -> Box<dyn Engine>;

    /// V8's own profiler.
    fn inspector(&self, request: &RecordRequest) -> Result<Box<dyn Engine>, RecordError>;
}

/// The engines of [`nodespy_capture::engines`].
pub(super) struct RealEngines;

impl EngineSource for RealEngines {
    fn perf_events(&self, request: &RecordRequest, events: Vec<EventSpec>) -> Box<dyn Engine> {
        Box::new(PerfEvents::new(PerfOptions {
            events,
            rate_hz: request.perf_rate_hz(),
            include_kernel: request.include_kernel,
            follow_children: request.follow_children,
            walks_at_sample: !request.no_ebpf,
            reads_at_sample: request.reads_async,
            copies: CopiedAtSample {
                async_callers: !request.no_async,
                requests: !request.no_routes,
                stores: !request.stores.is_empty(),
            },
            spares_idle: request.spares_idle,
            prefers_cpus: false,
            placebo: request.placebo,
        }))
    }

    fn inspector(&self, request: &RecordRequest) -> Result<Box<dyn Engine>, RecordError> {
        let options = inspector_options(request);
        let engine = match &request.inspect_url {
            Some(address) => {
                let url = InspectorUrl::parse(address)
                    .map_err(|error| RecordError::Usage(format!("--inspect-url: {error}")))?;
                InspectorEngine::at(url, options)
            }
            None => InspectorEngine::new(options, request.wanted.pids.clone()),
        };
        Ok(Box::new(engine))
    }
}

/// V8's own profiler for an agent: any number of processes, which come and go. Only time in which threads were busy counts.
pub fn continuous_inspector(
    rate_hz: u32,
    interrupts: Option<Interrupts>,
    companion: CompanionCommand,
) -> ContinuousInspector {
    ContinuousInspector::new(InspectorOptions {
        interval_us: 1_000_000 / rate_hz.max(1),
        busy_only: true,
        max_block: INSPECTOR_TIMEOUT,
        stop_timeout: INSPECTOR_TIMEOUT,
        interrupts,
        companion: Some(companion),
        ..InspectorOptions::new(read_profile)
    })
}

fn inspector_options(request: &RecordRequest) -> InspectorOptions {
    let by_rate = request.rate_hz.map(|rate_hz| 1_000_000 / rate_hz.max(1));
    InspectorOptions {
        event: match request.sampled {
            Sampled::Perf(_) => InspectorEvent::Cpu,
            Sampled::Allocations => InspectorEvent::Allocations,
        },
        interval_us: request.interval_us.or(by_rate).unwrap_or(INTERVAL_US),
        slice: request.v8_slice,
        embed_sources: request.embed_sources,
        wants_source_maps: request.source_maps.is_some(),
        force: request.force,
        interrupts: request.interrupts,
        companion: request.companion,
        report: request.report.unwrap_or(|_| {}),
        ..InspectorOptions::new(read_profile)
    }
}

/// Reads a profile that V8 sent: its JSON is what DevTools saves.
fn read_profile(
    event: InspectorEvent,
    json: &str,
) -> Result<Recording, Box<dyn std::error::Error + Send + Sync>> {
    let format = match event {
        InspectorEvent::Cpu => "cpuprofile",
        InspectorEvent::Allocations => "heapprofile",
    };
    let input = Input::from(json.as_bytes().to_vec());
    Ok(nodespy_formats::import(
        input,
        &ImportOptions::from(Some(format)),
    )?)
}
