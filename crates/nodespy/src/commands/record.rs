//! `nodespy record`: samples in, a picture out.

mod throttled;
mod twins;
mod with_inspector;

use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::anyhow;
use nodespy_capture::engines::EngineId;
use nodespy_capture::engines::inspector::command_to_launch;
use nodespy_capture::engines::perf_events::{PerfOptions, PerfSession};
use nodespy_capture::target::{Children, LaunchOptions, Launched, Newcomers, Target, proc};
use nodespy_capture::{
    CaptureError, Interrupts, LiveOrigin, catch_interrupts, monotonic_now, unix_now,
};
use nodespy_model::{
    About, EventType, ExitReason, Nanoseconds, Notes, Process, Profile, UtcTime, WeightUnit,
};
use nodespy_symbolize::{Resolver, SourceMapOptions};

use crate::cli::{Engine, Names, RecordArgs};
use crate::failure::Failure;
use crate::filter;
use crate::output::{self, LiveLine, Stream, grouped};
use crate::save::{self, Destination, FormatChoice};
use crate::sources::SourceRoots;
use crate::targets;
use throttled::Throttled;

/// How often samples are looked at when the ring does not call earlier.
const LOOK: Duration = Duration::from_millis(200);
/// How often the hottest function is shown.
const SHOW_EVERY: Nanoseconds = 1_000_000_000;
/// A process that uses less of a CPU than this is called idle.
const IDLE_SHARE: f64 = 0.02;
/// How long a launched command is given to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Duration,
    Interrupted,
    TargetsGone,
}

/// A recording that goes on.
struct Recording {
    session: PerfSession,
    resolver: Resolver,
    targets: Vec<Target>,
    launched: Option<Launched>,
    /// V8's own profiler, where both are wanted.
    twin: Option<twins::Twin>,
    started: Nanoseconds,
    started_unix: Nanoseconds,
    app: String,
    newcomers: Newcomers,
}

pub(crate) fn run(
    arguments: &RecordArgs,
    process_started: Nanoseconds,
) -> anyhow::Result<ExitCode> {
    let names_nobody = arguments.target.wanted().is_empty() && arguments.inspect_url.is_none();
    if names_nobody && arguments.command.is_empty() {
        return Err(Failure::Usage(
            "nothing to record: give a name, -p PID, -c CONTAINER (nodespy record --help has more), \
             or a command: nodespy record -- node app.js (`nodespy` lists the Node processes of \
             this machine)"
                .to_owned(),
        )
        .into());
    }
    let by_inspector = with_inspector::is_needed(arguments)?;
    let mut launched = launch(arguments, by_inspector)?;
    let targets = hold_targets(arguments, launched.as_ref())?;
    let app = app_name(arguments, &targets);
    let sources = source_roots(arguments, &targets);
    let destinations = destinations(arguments, &targets, &app)?;
    let throttled = Throttled::watch(&targets);
    let keep =
        |profile: Profile| with_sources(kept(profile, arguments, &throttled), sources.as_ref());
    let interrupts = catch_interrupts();
    if by_inspector {
        return inspect(arguments, targets, launched, &app, &destinations, &keep);
    }
    let twin = twins::start(arguments, &targets, &app, interrupts)?;
    let mut recording = match start(arguments, targets, launched.take(), app.clone()) {
        Err(error) if falls_back(arguments, &error) => {
            output::note(&format!("{error:#}. Using V8's inspector instead."));
            let launched = launch(arguments, true)?;
            let targets = hold_targets(arguments, launched.as_ref())?;
            return inspect(arguments, targets, launched, &app, &destinations, &keep);
        }
        started => started?,
    };
    recording.twin = twin;
    announce(arguments, &recording);
    let end = record(&mut recording, arguments, interrupts)?;
    let profile = finish(&mut recording, arguments, process_started, end);
    let status = recording
        .launched
        .as_mut()
        .and_then(|launched| end_command(launched, end));
    write_all(arguments, &keep(profile?), &destinations, interrupts)?;
    Ok(match status {
        Some(status) if arguments.exit_code => exit_like(status),
        _ => ExitCode::SUCCESS,
    })
}

/// The profile as it is kept: with what throttled it, merged and redacted as asked.
fn kept(mut profile: Profile, arguments: &RecordArgs, throttled: &Throttled) -> Profile {
    for remark in throttled.remarks(profile.about.duration) {
        profile.notes.remark(remark);
    }
    filter::shaped(profile, &arguments.show)
}

/// Whether the inspector is tried where perf events are refused.
fn falls_back(arguments: &RecordArgs, error: &anyhow::Error) -> bool {
    let is_refused = matches!(
        error.downcast_ref::<CaptureError>(),
        Some(CaptureError::NotPermitted { .. })
    );
    let is_possible = arguments.command.is_empty() || with_inspector::can_launch(arguments);
    is_refused && arguments.engine == Engine::Auto && is_possible && !arguments.target.any
}

/// Records with V8's inspector and writes what it saw.
fn inspect(
    arguments: &RecordArgs,
    targets: Vec<Target>,
    launched: Option<Launched>,
    app: &str,
    destinations: &[Destination],
    keep: &dyn Fn(Profile) -> Profile,
) -> anyhow::Result<ExitCode> {
    let interrupts = catch_interrupts();
    let subject = with_inspector::Subject {
        targets,
        launched,
        app,
    };
    let (profile, status) = with_inspector::record(arguments, subject, interrupts)?;
    write_all(arguments, &keep(profile), destinations, interrupts)?;
    Ok(match status {
        Some(status) if arguments.exit_code => exit_like(status),
        _ => ExitCode::SUCCESS,
    })
}

fn launch(arguments: &RecordArgs, by_inspector: bool) -> anyhow::Result<Option<Launched>> {
    if arguments.command.is_empty() {
        return Ok(None);
    }
    if by_inspector && !with_inspector::can_launch(arguments) {
        return Err(Failure::Usage(
            "the inspector engine starts only Node itself: nodespy record --engine inspector -- \
             node app.js; attach to anything else with -p PID"
                .to_owned(),
        )
        .into());
    }
    let launched = Launched::prepare(&LaunchOptions {
        command: match by_inspector {
            true => command_to_launch(&arguments.command),
            false => arguments.command.clone(),
        },
        keep_root: arguments.keep_root,
    })?;
    Ok(Some(launched))
}

/// Takes hold of every process to record: those asked for and, unless told otherwise, the
/// children they have already.
fn hold_targets(
    arguments: &RecordArgs,
    launched: Option<&Launched>,
) -> anyhow::Result<Vec<Target>> {
    if let Some(launched) = launched {
        return Ok(vec![Target::hold(launched.pid())?]);
    }
    if arguments.inspect_url.is_some() {
        return Ok(Vec::new());
    }
    let mut targets = targets::hold(&arguments.target)?;
    if !arguments.no_subprocesses {
        targets::add_children(&mut targets);
    }
    Ok(targets)
}

fn app_name(arguments: &RecordArgs, targets: &[Target]) -> String {
    if !arguments.command.is_empty() {
        let words: Vec<String> = arguments
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        return nodespy_capture::target::app_of_command(&words);
    }
    targets.first().map_or_else(
        || "node".to_owned(),
        |target| nodespy_capture::target::app_name(target.pid()),
    )
}

/// The files to write, known to be writable.
fn destinations(
    arguments: &RecordArgs,
    targets: &[Target],
    app: &str,
) -> anyhow::Result<Vec<Destination>> {
    let pid = targets.first().map_or(0, Target::pid);
    let fill = |template: &Path| fill_template(template, pid, app, unix_now() / 1_000_000_000);
    let show = arguments.show.of_shaped();
    if arguments.output.is_empty() {
        let stem = fill(Path::new("nodespy-{app}-{time}"));
        let format = arguments.format.as_deref().unwrap_or("html");
        let page = Destination::new_in(Path::new(""), &stem.to_string_lossy(), format, &show)?;
        return Ok(vec![page.keeping_all()]);
    }
    let choice = FormatChoice {
        flag: "--format",
        name: arguments.format.as_deref(),
    };
    let check = |path: &PathBuf| Destination::check(&fill(path), choice, &show);
    let checked = arguments.output.iter().map(check);
    checked
        .map(|destination| Ok(destination?.keeping_all()))
        .collect()
}

/// Fills in `{pid}`, `{app}` and `{time}`.
fn fill_template(path: &Path, pid: u32, app: &str, unix_seconds: u64) -> PathBuf {
    let Some(text) = path.to_str() else {
        return path.to_owned();
    };
    let app: String = app
        .chars()
        .map(|character| {
            if character.is_alphanumeric() || "._-".contains(character) {
                character
            } else {
                '-'
            }
        })
        .take(80)
        .collect();
    let app = app.trim_matches(['.', '-']);
    let app = if app.is_empty() { "node" } else { app };
    PathBuf::from(
        text.replace("{pid}", &pid.to_string())
            .replace("{app}", app)
            .replace("{time}", &time_stamp(unix_seconds)),
    )
}

/// `20261115-024530` in universal time.
fn time_stamp(unix_seconds: u64) -> String {
    let time = UtcTime::of(unix_seconds);
    format!(
        "{:04}{:02}{:02}-{:02}{:02}{:02}",
        time.year, time.month, time.day, time.hour, time.minute, time.second
    )
}

fn rate_of(arguments: &RecordArgs) -> u32 {
    let is_seldom = arguments.command.is_empty() && arguments.engine != Engine::Both;
    arguments.rate.unwrap_or(if is_seldom { 99 } else { 999 })
}

fn start(
    arguments: &RecordArgs,
    targets: Vec<Target>,
    mut launched: Option<Launched>,
    app: String,
) -> anyhow::Result<Recording> {
    let options = PerfOptions {
        rate_hz: rate_of(arguments),
        include_kernel: !arguments.no_kernel,
        follow_children: !arguments.no_subprocesses,
        start_on_exec: launched.is_some(),
        placebo: std::env::var_os("NODESPY_PLACEBO").is_some(),
    };
    let children = match arguments.no_subprocesses {
        true => Children::LeftOut,
        false => Children::Followed,
    };
    let wanted = arguments.target.wanted();
    let (session, newcomers) = PerfSession::attach_growing(&targets, &options, wanted, children)?;
    let started = monotonic_now();
    let started_unix = unix_now();
    if let Some(launched) = &mut launched {
        launched.start()?;
    }
    let event = EventType::new(session.event(), WeightUnit::Samples).at_rate(options.rate_hz);
    let mut resolver = Resolver::new(Box::new(LiveOrigin::new())).with_events(vec![event]);
    if arguments.names == Names::Map {
        resolver = resolver.without_heap_walk();
    }
    Ok(Recording {
        session,
        resolver,
        targets,
        launched,
        twin: None,
        started,
        started_unix,
        app,
        newcomers,
    })
}

fn announce(arguments: &RecordArgs, recording: &Recording) {
    if arguments.quiet {
        return;
    }
    if let Some(user) = recording.launched.as_ref().and_then(Launched::runs_as) {
        output::note(&format!(
            "The command runs as {user} (--keep-root: as root)."
        ));
    }
    let pids: Vec<String> = recording
        .targets
        .iter()
        .map(|target| target.pid().to_string())
        .collect();
    let until = match arguments.duration {
        Some(duration) => format!("for {} s", duration.as_secs_f64()),
        None if recording.launched.is_some() => "until it ends or Ctrl-C".to_owned(),
        None => "until Ctrl-C".to_owned(),
    };
    output::note(&format!(
        "Recording {} (pid {}) at {} Hz {until}.",
        nodespy_model::printable(&recording.app),
        pids.join(", "),
        rate_of(arguments)
    ));
}

fn record(
    recording: &mut Recording,
    arguments: &RecordArgs,
    interrupts: Interrupts,
) -> anyhow::Result<End> {
    let line = LiveLine::new(arguments.quiet);
    let deadline = arguments
        .duration
        .map(|duration| recording.started.saturating_add(duration.as_nanos() as u64));
    let mut shown = recording.started;
    let mut hottest = None;
    let delay = artificial_delay();
    let end = loop {
        let now = monotonic_now();
        let left = deadline.map_or(LOOK, |deadline| {
            Duration::from_nanos(deadline.saturating_sub(now)).min(LOOK)
        });
        std::thread::sleep(delay);
        let (resolver, newcomers) = (&mut recording.resolver, &mut recording.newcomers);
        resolver.start_batch();
        recording
            .session
            .drain(left.max(Duration::from_millis(1)), &mut |event| {
                newcomers.pass(event, &mut |event| resolver.take(event));
            })?;
        admit_newcomers(recording, arguments);
        let now = monotonic_now();
        recording.resolver.tick(now);
        if let Some(end) = is_over(recording, now, deadline, interrupts) {
            break end;
        }
        if line.is_shown() {
            if now.saturating_sub(shown) >= SHOW_EVERY {
                shown = now;
                hottest = recording.resolver.hottest();
            }
            line.show(
                Duration::from_nanos(now.saturating_sub(recording.started)),
                recording.resolver.sample_count(),
                recording.session.losses().samples,
                hottest.as_ref(),
            );
        }
    };
    let (resolver, newcomers) = (&mut recording.resolver, &mut recording.newcomers);
    resolver.start_batch();
    recording.session.finish(&mut |event| {
        newcomers.pass(event, &mut |event| resolver.take(event));
    });
    line.clear();
    Ok(end)
}

/// Takes in the processes that joined what is recorded.
fn admit_newcomers(recording: &mut Recording, arguments: &RecordArgs) {
    let fresh = recording.newcomers.joined();
    if fresh.is_empty() {
        return;
    }
    match recording.session.add(&fresh) {
        Ok(()) => recording.targets.extend(fresh),
        // It came and went, or belongs to somebody else: what is recorded goes on.
        Err(error) => {
            log::warn!("a process that joined is not recorded: {error}");
            if !arguments.quiet {
                output::note(&format!("A process that joined is not recorded: {error}"));
            }
        }
    }
}

/// How long samples are left lying before they are looked at: none, unless a test asks with
/// `NODESPY_DELAY_MS` what happens when the heap has changed meanwhile.
fn artificial_delay() -> Duration {
    std::env::var("NODESPY_DELAY_MS")
        .ok()
        .and_then(|text| text.parse().ok())
        .map_or(Duration::ZERO, Duration::from_millis)
}

fn is_over(
    recording: &mut Recording,
    now: Nanoseconds,
    deadline: Option<Nanoseconds>,
    interrupts: Interrupts,
) -> Option<End> {
    if interrupts.is_stop_requested() {
        return Some(End::Interrupted);
    }
    let has_ended = match &mut recording.launched {
        Some(launched) => launched.try_status().is_some(),
        None => recording.targets.iter().all(Target::has_ended),
    };
    if has_ended {
        return Some(End::TargetsGone);
    }
    (deadline.is_some_and(|deadline| now >= deadline)).then_some(End::Duration)
}

/// Names everything and adds what only the capturing side knows.
fn finish(
    recording: &mut Recording,
    arguments: &RecordArgs,
    process_started: Nanoseconds,
    end: End,
) -> anyhow::Result<Profile> {
    let duration = monotonic_now().saturating_sub(recording.started);
    let cpu_times: Vec<(u32, Option<Nanoseconds>)> = recording
        .targets
        .iter()
        .map(|target| (target.pid(), target.cpu_time()))
        .collect();
    if std::env::var_os("NODESPY_TIMING").is_some()
        && let Some(first) = recording.resolver.first_sample_time()
    {
        output::note(&format!(
            "timing: attached after {:.1} ms, first sample after {:.1} ms",
            recording.started.saturating_sub(process_started) as f64 / 1e6,
            first.saturating_sub(process_started) as f64 / 1e6
        ));
    }
    if recording.resolver.sample_count() == 0 {
        return Err(no_samples(duration, &cpu_times, end).into());
    }
    let losses = recording.session.losses();
    let mut notes = Notes {
        lost_samples: losses.samples,
        lost_records: losses.records,
        throttled: losses.throttled,
        ..Default::default()
    };
    for remark in recording.session.remarks() {
        notes.remark(remark.clone());
    }
    let about = About {
        app: recording.app.clone(),
        host: proc::host_name(),
        engine: EngineId::PerfEvents.label().to_owned(),
        started_unix: recording.started_unix,
        duration,
        nodespy_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let resolver = &mut recording.resolver;
    let mut profile = resolver.slice(about, notes, recording.started);
    for process in &mut profile.processes {
        process.cpu_time = cpu_times
            .iter()
            .find(|(pid, _)| *pid == process.pid)
            .and_then(|(_, time)| *time);
    }
    say_who_ended(recording, &mut profile);
    // Twins are compared by where the code runs.
    let profile = match recording.twin.take() {
        Some(twin) => twin.join(profile, recording.started),
        None => profile,
    };
    Ok(match source_maps(arguments) {
        Some(options) => recording.resolver.map_sources(profile, &options),
        None => profile,
    })
}

/// Which source maps are used; none when none are wanted.
fn source_maps(arguments: &RecordArgs) -> Option<SourceMapOptions> {
    (!arguments.no_source_maps).then(|| SourceMapOptions {
        given: arguments.source_maps.clone(),
        embeds_sources: arguments.embed_source,
    })
}

/// Notes how targets ended while they were recorded.
fn say_who_ended(recording: &mut Recording, profile: &mut Profile) {
    for target in &recording.targets {
        if !target.has_ended() {
            continue;
        }
        let status = recording.launched.as_mut().and_then(Launched::try_status);
        let Some(process) = profile
            .processes
            .iter_mut()
            .find(|process| process.pid == target.pid())
        else {
            continue;
        };
        process.exit = Some(status.map_or(ExitReason::Ended, exit_reason));
        let remark = ended_sentence(process);
        profile.notes.remark(remark);
    }
}

fn ended_sentence(process: &Process) -> String {
    let when = process
        .ended
        .map(|time| format!(" after {:.1} s", time as f64 / 1e9))
        .unwrap_or_default();
    let how = match process.exit {
        Some(ExitReason::Status(0)) => " with status 0".to_owned(),
        Some(ExitReason::Status(status)) => format!(" with status {status}"),
        Some(ExitReason::Signal(signal)) => format!(" by signal {signal}"),
        _ => String::new(),
    };
    format!("process {} ended{when}{how}", process.pid)
}

fn exit_reason(status: ExitStatus) -> ExitReason {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitReason::Status(code),
        (None, Some(signal)) => ExitReason::Signal(signal),
        (None, None) => ExitReason::Ended,
    }
}

fn no_samples(
    duration: Nanoseconds,
    cpu_times: &[(u32, Option<Nanoseconds>)],
    end: End,
) -> Failure {
    let seconds = duration as f64 / 1e9;
    let (pid, used) = cpu_times.first().copied().unwrap_or((0, None));
    let why = match (end, used) {
        (End::TargetsGone, _) => format!("process {pid} ended after {seconds:.1} s"),
        (_, Some(used)) => {
            let is_idle = (used as f64) < duration as f64 * IDLE_SHARE;
            format!(
                "process {pid} used {:.3} s of CPU in {seconds:.1} s{}",
                used as f64 / 1e9,
                if is_idle {
                    ", so it was idle; record while it is busy, or longer (-d 60)"
                } else {
                    "; record longer (-d 60) or at a higher rate (-F 999)"
                }
            )
        }
        (_, None) => format!("process {pid} is gone"),
    };
    Failure::NoSamples(format!("no samples: {why}"))
}

/// Ends a launched command whose recording is over, and returns its status.
fn end_command(launched: &mut Launched, end: End) -> Option<ExitStatus> {
    if end == End::TargetsGone {
        return launched.wait();
    }
    // Ctrl-C reached the command too, as one of the terminal's foreground processes.
    if end == End::Duration {
        launched.terminate();
    }
    let deadline = monotonic_now() + PATIENCE.as_nanos() as u64;
    while launched.try_status().is_none() && monotonic_now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = launched.try_status();
    if status.is_none() {
        output::note(&format!(
            "The command still runs as process {}; to end it: kill {}",
            launched.pid(),
            launched.pid()
        ));
    }
    status
}

/// Where source is to be read from, if it is asked for.
fn source_roots(arguments: &RecordArgs, targets: &[Target]) -> Option<SourceRoots> {
    arguments
        .embed_source
        .then(|| SourceRoots::of_processes(targets.iter().map(Target::pid)))
}

fn with_sources(mut profile: Profile, roots: Option<&SourceRoots>) -> Profile {
    if let Some(roots) = roots {
        roots.embed(&mut profile);
    }
    profile
}

/// Writes every output, whatever happens to the others; the error names those that failed.
fn write_all(
    arguments: &RecordArgs,
    profile: &Profile,
    destinations: &[Destination],
    interrupts: Interrupts,
) -> anyhow::Result<()> {
    let uses_standard_output = destinations.iter().any(Destination::is_standard_output);
    let stream = if uses_standard_output {
        Stream::Error
    } else {
        Stream::Standard
    };
    if interrupts.is_discard_requested() {
        return Err(Failure::Discarded.into());
    }
    let mut failures = Vec::new();
    if !arguments.quiet || !uses_standard_output {
        let shown = save::print_summary(profile, &arguments.show.of_shaped(), stream);
        failures.extend(shown.err());
    }
    let mut is_kept = false;
    for destination in destinations {
        if interrupts.is_discard_requested() {
            return Err(Failure::Discarded.into());
        }
        match destination.write(profile) {
            Ok(()) => {
                is_kept |= destination.keeps_recording();
                report_written(arguments, destination);
            }
            Err(error) => failures.push(error),
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(not_written(&failures, profile, is_kept)),
    }
}

fn report_written(arguments: &RecordArgs, destination: &Destination) {
    let Some(path) = destination.path().filter(|_| !arguments.quiet) else {
        return;
    };
    let size = std::fs::metadata(path).map_or(0, |file| file.len());
    output::note(&format!(
        "Wrote {} ({} KB).",
        path.display(),
        grouped(size.div_ceil(1000))
    ));
}

/// What could not be shown or written. A recording that no output keeps is kept elsewhere.
fn not_written(failures: &[anyhow::Error], profile: &Profile, is_kept: bool) -> anyhow::Error {
    let mut sentences: Vec<String> = failures.iter().map(output::in_one_line).collect();
    if !is_kept {
        sentences.push(save::rescue(profile).map_or_else(
            || "and nowhere else could it be written".to_owned(),
            |path| format!("the recording was kept in {}", path.display()),
        ));
    }
    anyhow!(sentences.join("; "))
}

fn exit_like(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled_in_and_stay_one_file_name() {
        let path = fill_template(
            Path::new("out/{app}-{pid}-{time}.svg"),
            7,
            "@scope/../api",
            1_794_713_493,
        );
        assert_eq!(path, Path::new("out/scope-..-api-7-20261115-033133.svg"));
    }

    #[test]
    fn time_stamps_are_dates() {
        assert_eq!(time_stamp(0), "19700101-000000");
        assert_eq!(time_stamp(951_782_400), "20000229-000000");
        assert_eq!(time_stamp(4_102_444_799), "20991231-235959");
    }
}
