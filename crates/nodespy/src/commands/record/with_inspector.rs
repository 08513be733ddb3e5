//! Recording through V8's inspector.
//!
//! Each process has a thread of its own here, because a process that ends waits for us to disconnect:
//! none of them must wait for another's profile.

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use nodespy_capture::engines::EngineId;
use nodespy_capture::engines::inspector::{
    Inspected, InspectorEvent, InspectorOptions, InspectorSession, InspectorUrl, is_node_command,
};
use nodespy_capture::target::{Launched, Target, looks_like_node, proc};
use nodespy_capture::{CaptureError, Interrupts, LiveOrigin, monotonic_now, unix_now};
use nodespy_formats::{ImportOptions, Input};
use nodespy_model::{
    About, EventType, Nanoseconds, Notes, Origin, Profile, ProfileBuilder, Recording, WeightUnit,
    add_samples, add_threads,
};
use nodespy_symbolize::map_sources;

use super::{End, end_command, source_maps};
use crate::cli::{Engine, Event, RecordArgs};
use crate::commands::close_abandoned;
use crate::failure::Failure;
use crate::output;

/// V8's default sampling interval.
const INTERVAL_US: u32 = 1000;
/// How often the end of the recording is checked for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What is recorded.
pub(super) struct Subject<'a> {
    pub(super) targets: Vec<Target>,
    pub(super) launched: Option<Launched>,
    pub(super) app: &'a str,
}

/// Whether only the inspector can do what is asked.
pub(super) fn is_needed(arguments: &RecordArgs) -> anyhow::Result<bool> {
    let reason = match (arguments.event, &arguments.inspect_url) {
        (_, Some(_)) => "--inspect-url",
        (Event::Alloc, None) => "--event alloc",
        (Event::Cpu, None) => return Ok(arguments.engine == Engine::Inspector),
    };
    match arguments.engine {
        Engine::Auto | Engine::Inspector => Ok(true),
        _ => Err(Failure::Usage(format!("{reason} needs --engine inspector")).into()),
    }
}

/// Whether a command can be started with its inspector open.
pub(super) fn can_launch(arguments: &RecordArgs) -> bool {
    is_node_command(&arguments.command)
}

/// Records until it is over, and leaves the processes as they were found. The status is that of a
/// command which was started.
pub(super) fn record(
    arguments: &RecordArgs,
    mut subject: Subject<'_>,
    interrupts: Interrupts,
) -> anyhow::Result<(Profile, Option<ExitStatus>)> {
    let started = monotonic_now();
    let options = options(arguments, started, interrupts);
    let about = about(arguments, subject.app);
    let sessions = attach(arguments, &mut subject, &options)?;
    // A process behind an address is none of this machine, whatever its pid.
    let origin = (!subject.targets.is_empty()).then(|| origin_of(&subject.targets));
    if !arguments.quiet {
        announce(arguments, &sessions, subject.app);
    }
    let inspecting = Inspecting::start(sessions, about);
    let end = wait(arguments, &inspecting, &subject, interrupts);
    let profile = inspecting.finish();
    let status = subject
        .launched
        .as_mut()
        .and_then(|launched| end_command(launched, end));
    let Inspected { profile, scripts } = profile?;
    if profile.samples.is_empty() {
        return Err(Failure::NoSamples("no samples: V8's profiler saw nothing".to_owned()).into());
    }
    let profile = match source_maps(arguments) {
        Some(options) => {
            let origin = origin.as_ref().map(|origin| origin as &dyn Origin);
            map_sources(profile, &scripts, origin, &options)
        }
        None => profile,
    };
    Ok((profile, status))
}

/// What opens the files of the targets, also when they have ended.
fn origin_of(targets: &[Target]) -> LiveOrigin {
    let origin = LiveOrigin::new();
    for target in targets {
        origin.describe(target.pid());
    }
    origin
}

/// What the arguments say, in the engine's own words.
pub(super) fn options(
    arguments: &RecordArgs,
    started: Nanoseconds,
    interrupts: Interrupts,
) -> InspectorOptions {
    let by_rate = arguments.rate.map(|rate_hz| 1_000_000 / rate_hz);
    InspectorOptions {
        event: match arguments.event {
            Event::Cpu => InspectorEvent::Cpu,
            Event::Alloc => InspectorEvent::Allocations,
        },
        interval_us: arguments.interval.or(by_rate).unwrap_or(INTERVAL_US),
        slice: arguments.slice,
        embed_sources: arguments.embed_source,
        wants_source_maps: !arguments.no_source_maps,
        force: arguments.force,
        started: Some(started),
        interrupts: Some(interrupts),
        companion: Some(close_abandoned::command),
        report: output::note,
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

pub(super) fn about(arguments: &RecordArgs, app: &str) -> About {
    About {
        app: app.to_owned(),
        host: match arguments.inspect_url {
            Some(_) => String::new(),
            None => proc::host_name(),
        },
        engine: EngineId::Inspector.label().to_owned(),
        started_unix: unix_now(),
        nodespy_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..About::default()
    }
}

/// Starts V8's profiler beside another engine.
pub(super) fn start_beside(
    arguments: &RecordArgs,
    targets: &[Target],
    app: &str,
    started: Nanoseconds,
    interrupts: Interrupts,
) -> anyhow::Result<Inspecting> {
    let options = options(arguments, started, interrupts);
    let about = about(arguments, app);
    let sessions = attach_running(arguments, targets, &options)?;
    if !arguments.quiet {
        announce(arguments, &sessions, app);
    }
    Ok(Inspecting::start(sessions, about))
}

/// Attaches to those that run: the ones that were asked for and the Node processes among their
/// children.
fn attach_running(
    arguments: &RecordArgs,
    targets: &[Target],
    options: &InspectorOptions,
) -> anyhow::Result<Vec<InspectorSession>> {
    let wanted = arguments.target.wanted();
    let asked = |pid: u32| wanted.pids.contains(&pid);
    let is_needed = |target: &&Target| asked(target.pid()) || looks_like_node(target.pid());
    let targets: Vec<&Target> = targets.iter().filter(is_needed).collect();
    Ok(InspectorSession::attach_all(&targets, asked, options)?)
}

fn attach(
    arguments: &RecordArgs,
    subject: &mut Subject<'_>,
    options: &InspectorOptions,
) -> anyhow::Result<Vec<InspectorSession>> {
    if let Some(address) = &arguments.inspect_url {
        let url = InspectorUrl::parse(address)
            .map_err(|error| Failure::Usage(format!("--inspect-url: {error}")))?;
        return Ok(vec![InspectorSession::attach_url(&url, options)?]);
    }
    if let (Some(launched), [target]) = (&mut subject.launched, subject.targets.as_slice()) {
        launched.start()?;
        let attached = InspectorSession::attach_launched(target, options);
        return attached
            .map(|session| vec![session])
            .inspect_err(|_| launched.terminate())
            .context("recording the command from its start");
    }
    attach_running(arguments, &subject.targets, options)
}

fn announce(arguments: &RecordArgs, sessions: &[InspectorSession], app: &str) {
    let until = match arguments.duration {
        Some(duration) => format!("for {} s", duration.as_secs_f64()),
        None if !arguments.command.is_empty() => "until it ends or Ctrl-C".to_owned(),
        None => "until Ctrl-C".to_owned(),
    };
    for session in sessions {
        let who = match session.pid() {
            Some(pid) => format!("{} (pid {pid}", nodespy_model::printable(app)),
            None => format!("the process behind {} (", session.address()),
        };
        output::note(&format!(
            "Recording {}, Node {}) with V8's profiler {until}.",
            who,
            nodespy_model::printable(session.node_version()),
        ));
        if session.is_opened_by_us() {
            output::note(&format!(
                "Its inspector is open at {} meanwhile: any user of this machine can run code in it.",
                session.address()
            ));
        }
    }
}

/// Waits until the time is over, the user has enough, or no target is left.
fn wait(
    arguments: &RecordArgs,
    inspecting: &Inspecting,
    subject: &Subject<'_>,
    interrupts: Interrupts,
) -> End {
    let started = monotonic_now();
    let deadline = arguments
        .duration
        .map(|duration| started.saturating_add(duration.as_nanos() as u64));
    loop {
        if interrupts.is_stop_requested() {
            return End::Interrupted;
        }
        let is_gone = |target: &Target| target.has_ended();
        let has_ended = !subject.targets.is_empty() && subject.targets.iter().all(is_gone);
        if has_ended || inspecting.is_over() {
            return End::TargetsGone;
        }
        if deadline.is_some_and(|deadline| monotonic_now() >= deadline) {
            return End::Duration;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Recordings that go on, each on a thread of its own.
pub(super) struct Inspecting {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Inspected, CaptureError>>>,
    about: About,
}

impl Inspecting {
    pub(super) fn start(sessions: Vec<InspectorSession>, about: About) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let follow = |session: InspectorSession| {
            let (stop, about) = (Arc::clone(&stop), about.clone());
            std::thread::spawn(move || follow(session, &stop, about))
        };
        let threads = sessions.into_iter().map(follow).collect();
        Self {
            stop,
            threads,
            about,
        }
    }

    /// Whether every process has ended.
    pub(super) fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Ends the recordings: one profile of all processes.
    pub(super) fn finish(mut self) -> anyhow::Result<Inspected> {
        self.stop.store(true, Ordering::Relaxed);
        let mut profiles = Vec::new();
        let mut scripts = Vec::new();
        let mut failures = Vec::new();
        for thread in std::mem::take(&mut self.threads) {
            match thread.join() {
                Ok(Ok(inspected)) => {
                    profiles.push(inspected.profile);
                    scripts.extend(inspected.scripts);
                }
                Ok(Err(error)) => failures.push(anyhow::Error::from(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let mut profile = match (profiles.len(), failures.pop()) {
            (0, Some(error)) => return Err(error),
            (0, None) => {
                return Err(Failure::NoSamples("no process could be recorded".to_owned()).into());
            }
            (1, None) => profiles.remove(0),
            (1, Some(error)) => {
                failures.push(error);
                profiles.remove(0)
            }
            (_, error) => {
                failures.extend(error);
                together(&profiles, self.about.clone())
            }
        };
        for error in failures {
            profile.notes.remark(format!("{error:#}"));
        }
        Ok(Inspected { profile, scripts })
    }
}

impl Drop for Inspecting {
    /// An early return or a panic leaves no inspector open: the threads close them and are waited
    /// for.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

/// Follows one process until it ends or the recording does.
fn follow(
    mut session: InspectorSession,
    stop: &AtomicBool,
    about: About,
) -> Result<Inspected, CaptureError> {
    // Each poll waits a moment. A process that ends waits for us: it must not wait long.
    while !stop.load(Ordering::Relaxed) {
        if session.poll().unwrap_or(true) {
            break;
        }
    }
    session.finish(about)
}

/// One profile of several processes.
fn together(profiles: &[Profile], mut about: About) -> Profile {
    let event = profiles.first().map_or_else(
        || EventType::from(WeightUnit::Nanoseconds),
        |first| first.event().clone(),
    );
    let mut builder = ProfileBuilder::new(event);
    let mut notes = Notes::default();
    for profile in profiles {
        let threads = add_threads(&mut builder, profile);
        add_samples(&mut builder, profile, 0, |thread| threads[thread.at()]);
        about.duration = about.duration.max(profile.about.duration);
        for remark in &profile.notes.remarks {
            notes.remark(remark.clone());
        }
    }
    builder.finish(about, notes)
}
