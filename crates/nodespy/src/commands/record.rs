//! `nodespy record`: samples in, a picture out.

mod every;
mod files;
mod flight;
pub(super) mod journal;
mod outputs;
mod reporting;

use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use nodespy_analysis::shaped;
use nodespy_capture::engines::perf_events::EventSpec;
use nodespy_capture::target::Target;
use nodespy_capture::{Interrupts, catch_interrupts};
use nodespy_model::{Nanoseconds, Profile};
use nodespy_recorder::{EngineChoice, RecordError, RecordRequest, Sampled, Subject};
use nodespy_symbolize::{SourceMapOptions, SourceRoots};

use super::close_abandoned;
use crate::cli::{Engine, Names, RecordArgs};
use crate::failure::Failure;
use crate::output;
use crate::privileges::{self, Extra};
use journal::Journal;
use reporting::Reporting;

pub(crate) fn run(
    arguments: &RecordArgs,
    process_started: Nanoseconds,
) -> anyhow::Result<ExitCode> {
    let has_target = !arguments.target.wanted().is_empty() || arguments.inspect_url.is_some();
    if !has_target && arguments.command.is_empty() {
        return Err(Failure::Usage(
            "nothing to record: give a name, -p PID, -c CONTAINER (nodespy record --help has more), \
             or a command: nodespy record -- node app.js (`nodespy` lists the Node processes of \
             this machine)"
                .to_owned(),
        )
        .into());
    }
    if arguments.flight.is_flight()? {
        return flight::run(arguments);
    }
    if let Some(every) = arguments.flight.every {
        return every::run(arguments, every);
    }
    let mut request = request(arguments)?;
    let subject = prepare(arguments, &request)?;
    let sources = source_roots(arguments, &subject);
    let destinations = outputs::destinations(arguments, &subject)?;
    let interrupts: Interrupts = catch_interrupts();
    request.interrupts = Some(interrupts);
    let mut reporting = Reporting::new(arguments);
    let journal = Journal::beside(&destinations);
    let create = journal.as_ref().map(Journal::creator);
    let recorded = nodespy_recorder::record(&request, subject, create, &mut reporting);
    reporting.end();
    let recorded = match recorded {
        Ok(recorded) => recorded,
        // Thrown away, it was broken off wherever it was.
        Err(_) if interrupts.is_discard_requested() => return Err(Failure::Discarded.into()),
        Err(error) => {
            let is_empty = matches!(error, RecordError::NoSamples(_));
            let kept = journal.filter(|_| !is_empty);
            kept.into_iter().for_each(Journal::keep);
            return Err(error.into());
        }
    };
    if let (Some(first), Some(_)) = (recorded.first_sample, std::env::var_os("NODESPY_TIMING")) {
        output::note(&format!(
            "timing: attached after {:.1} ms, first sample after {:.1} ms",
            recorded.started.saturating_sub(process_started) as f64 / 1e6,
            first.saturating_sub(process_started) as f64 / 1e6
        ));
    }
    let profile = shaped(recorded.profile, &arguments.show.filters());
    let profile = with_sources(profile, sources.as_ref());
    if let Err(error) = outputs::write_all(arguments, &profile, &destinations, interrupts) {
        let kept = journal.filter(|_| outputs::is_nowhere(&error));
        kept.into_iter().for_each(Journal::keep);
        return Err(error);
    }
    if let Some(failure) = recorded.failure {
        return Err(anyhow::anyhow!(failure));
    }
    Ok(match recorded.status {
        Some(status) if arguments.exit_code => exit_like(status),
        _ => ExitCode::SUCCESS,
    })
}

/// Launches the command or takes hold of the processes, keeps the rights that recording takes, and says
/// what was left out.
fn prepare(arguments: &RecordArgs, request: &RecordRequest) -> anyhow::Result<Subject> {
    let launches = !request.command.is_empty();
    if !launches {
        privileges::keep_for_processes(rights(request));
    }
    let subject = request.prepare()?;
    if launches {
        // The command's process was made with all rights.
        privileges::keep_for_processes(rights(request));
    }
    for remark in &subject.remarks {
        output::note(&nodespy_model::printable(remark));
    }
    if arguments.pool_submitters && !arguments.quiet {
        output::note(
            "Breakpoints are set in the program while it is recorded, at uv__work_submit and uv_queue_work \
             (--pool-submitters).",
        );
    }
    if arguments.gc_pauses && !arguments.quiet {
        output::note(
            "Breakpoints are set in the program while it is recorded, where V8 collects garbage (--gc-pauses).",
        );
    }
    if let Some(time) = request.warm_up.filter(|_| !arguments.quiet) {
        output::note(&format!(
            "Samples are taken from {} s on (--delay).",
            time.as_secs_f64()
        ));
    }
    Ok(subject)
}

/// What the arguments ask for, in the recorder's words.
fn request(arguments: &RecordArgs) -> anyhow::Result<RecordRequest> {
    check_load(arguments)?;
    Ok(RecordRequest {
        wanted: arguments.target.wanted(),
        command: arguments.command.clone(),
        keep_root: arguments.keep_root,
        inspect_url: arguments.inspect_url.clone(),
        engine: match arguments.engine {
            // The inspector's own port would be taken for the application's.
            Engine::Auto if arguments.on_port.is_some() => EngineChoice::Perf,
            Engine::Auto => EngineChoice::Auto,
            Engine::Perf => EngineChoice::Perf,
            Engine::Inspector => EngineChoice::Inspector,
            Engine::Both => EngineChoice::Both,
        },
        sampled: sampled(arguments)?,
        rate_hz: arguments.rate,
        interval_us: arguments.interval,
        v8_slice: arguments.slice,
        force: arguments.force,
        include_kernel: !arguments.no_kernel,
        follow_children: !arguments.no_subprocesses,
        no_heap_walk: arguments.names == Names::Map,
        no_ebpf: arguments.no_ebpf,
        reads_async: arguments.reads_async,
        no_async: arguments.no_async,
        no_routes: arguments.no_routes,
        stores: arguments.stores.options(),
        pool_submitters: arguments.pool_submitters,
        gc_pauses: arguments.gc_pauses,
        off_cpu_exact: arguments.off_cpu_exact,
        max_overhead: arguments.max_overhead,
        spares_idle: false,
        placebo: std::env::var_os("NODESPY_PLACEBO").is_some(),
        delay: artificial_delay(),
        warm_up: arguments.delay,
        duration: arguments.duration,
        max_size: arguments.flight.max_size,
        load: arguments.on_port.clone(),
        source_maps: (!arguments.no_source_maps).then(|| SourceMapOptions {
            given: arguments.source_maps.clone(),
            embeds_sources: arguments.embed_source,
        }),
        embed_sources: arguments.embed_source,
        interrupts: None,
        companion: Some(close_abandoned::command),
        report: Some(output::note),
    })
}

/// A load needs the command that it is put on, and ends its recording.
fn check_load(arguments: &RecordArgs) -> Result<(), Failure> {
    let is_divided = !arguments.flight.trigger.is_empty() || arguments.flight.every.is_some();
    let what = match (&arguments.on_port, arguments.command.is_empty(), is_divided) {
        (None, _, _) | (Some(_), false, false) => return Ok(()),
        (Some(_), true, _) => "--on-port needs the command that is recorded",
        (Some(_), false, true) => "--on-port is for one recording, without --trigger and --every",
    };
    Err(Failure::Usage(format!(
        "{what}: nodespy record --on-port 'autocannon -d 10 http://localhost:$PORT' -- node app.js"
    )))
}

/// What a recording in several files takes: perf events, which have no start and no end.
fn perf_request(arguments: &RecordArgs, option: &str) -> anyhow::Result<RecordRequest> {
    let mut request = request(arguments)?;
    let is_perf = matches!(request.engine, EngineChoice::Auto | EngineChoice::Perf);
    let is_allocations = request.sampled == Sampled::Allocations;
    if !is_perf || is_allocations || request.inspect_url.is_some() {
        return Err(Failure::Usage(format!(
            "{option} needs perf events: leave out --engine, --inspect-url and -e alloc: nodespy record \
             {option} -p PID"
        ))
        .into());
    }
    request.engine = EngineChoice::Perf;
    Ok(request)
}

/// What makes samples: events of the kernel, or allocations alone.
fn sampled(arguments: &RecordArgs) -> Result<Sampled, Failure> {
    let mut events: Vec<EventSpec> = Vec::new();
    let mut has_allocations = false;
    for event in arguments.event.iter().flat_map(|list| list.split(',')) {
        if event.trim() == "alloc" {
            has_allocations = true;
            continue;
        }
        let spec = EventSpec::parse(event).map_err(|why| Failure::Usage(format!("-e: {why}")))?;
        if !events.iter().any(|known| known.name() == spec.name()) {
            events.push(spec);
        }
    }
    match (has_allocations, events.is_empty()) {
        (true, true) => Ok(Sampled::Allocations),
        (true, false) => Err(Failure::Usage(
            "-e alloc comes from V8 and stands alone: record twice".to_owned(),
        )),
        (false, true) => Ok(Sampled::default()),
        (false, false) => Ok(Sampled::Perf(events)),
    }
}

/// What a recording may need beside the rights to look at processes.
fn rights(request: &RecordRequest) -> Extra {
    Extra {
        enters_namespaces: request.engine != EngineChoice::Perf
            || request.sampled.has_tracepoint()
            || request.off_cpu_exact,
        launches: !request.command.is_empty(),
    }
}

/// How long samples are left lying before they are read: none, unless a test asks with
/// `NODESPY_DELAY_MS` what happens when the heap has changed meanwhile.
fn artificial_delay() -> Duration {
    std::env::var("NODESPY_DELAY_MS")
        .ok()
        .and_then(|text| text.parse().ok())
        .map_or(Duration::ZERO, Duration::from_millis)
}

/// Where source is to be read from, if it is asked for.
fn source_roots(arguments: &RecordArgs, subject: &Subject) -> Option<SourceRoots> {
    arguments
        .embed_source
        .then(|| SourceRoots::of_processes(subject.targets.iter().map(Target::pid)))
}

fn with_sources(mut profile: Profile, roots: Option<&SourceRoots>) -> Profile {
    if let Some(roots) = roots {
        roots.embed(&mut profile);
    }
    profile
}

fn exit_like(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
