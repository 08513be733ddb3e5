//! `nodespy dump`: every thread's stack right now.

use std::process::ExitCode;

use nodespy_capture::engines::snapshot::{
    LookOutcome, Snapshot, ThreadLook, look_without_stopping, stop_and_look,
};
use nodespy_capture::target::Target;
use nodespy_capture::target::proc::{self, RunState};
use nodespy_capture::{LiveOrigin, monotonic_now, unix_now};
use nodespy_model::{About, Event, Notes, Profile};
use nodespy_symbolize::{Resolver, SourceMapOptions};
use nodespy_view::DrawOptions;
use nodespy_view::dump::{DumpedThread, draw_dump};

use crate::cli::DumpArgs;
use crate::output::{self, Stream};
use crate::targets;

mod json;

pub(crate) fn run(arguments: &DumpArgs) -> anyhow::Result<ExitCode> {
    let targets = targets::hold(&arguments.target)?;
    let snapshot = match arguments.nonblocking {
        true => look_without_stopping(&targets)?,
        false => stop_and_look(&targets)?,
    };
    let threads: Vec<DumpedThread> = snapshot.threads.iter().map(dumped).collect();
    let profile = resolve(snapshot, &targets);
    let text = if arguments.json {
        format!(
            "{:#}\n",
            json::of(&profile, &threads, arguments.nonblocking)
        )
    } else {
        let mut text = Vec::new();
        let options = DrawOptions {
            has_color: output::has_color(Stream::Standard),
            width_columns: output::width_if_terminal().unwrap_or(usize::MAX),
            ..Default::default()
        };
        draw_dump(&profile, &threads, &options, &mut text)?;
        String::from_utf8_lossy(&text).into_owned()
    };
    output::result(&text, Stream::Standard);
    Ok(ExitCode::SUCCESS)
}

/// Names every frame. All threads run again, so what is not in the copies of their stacks may be
/// a moment younger than those.
fn resolve(snapshot: Snapshot, targets: &[Target]) -> Profile {
    let started = monotonic_now();
    let mut resolver = Resolver::new(Box::new(LiveOrigin::new()));
    for event in snapshot.events {
        // What may be read of the heap is bounded by batch; each stack gets one of its own.
        if matches!(event, Event::Sample(_)) {
            resolver.start_batch();
        }
        resolver.take(event);
    }
    let mut notes = Notes::default();
    for remark in snapshot.remarks {
        notes.remark(remark);
    }
    let about = About {
        app: targets.first().map_or_else(String::new, |target| {
            nodespy_capture::target::app_name(target.pid())
        }),
        host: proc::host_name(),
        engine: "snapshot".to_owned(),
        started_unix: unix_now(),
        nodespy_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Default::default()
    };
    let profile = resolver.slice(about, notes, started);
    let profile = resolver.map_sources(profile, &SourceMapOptions::default());
    log::info!(
        "named {} stacks in {:.1} ms",
        profile.samples.len(),
        monotonic_now().saturating_sub(started) as f64 / 1e6
    );
    profile
}

fn dumped(thread: &ThreadLook) -> DumpedThread {
    let (held, remark) = match &thread.outcome {
        LookOutcome::Held { time } => (Some(*time), None),
        LookOutcome::DidNotStop { waited } => (
            None,
            Some(format!(
                "did not stop within {} ms",
                waited.div_ceil(1_000_000)
            )),
        ),
        LookOutcome::Waiting => (None, Some("seen waiting in the kernel".to_owned())),
        LookOutcome::Sampled => (None, Some("seen by a sample of its CPU time".to_owned())),
        LookOutcome::Unseen { why } => (None, Some(why.clone())),
    };
    DumpedThread {
        pid: thread.pid,
        tid: thread.tid,
        state: thread.state.label(),
        is_running: thread.state == RunState::Running,
        held,
        remark,
    }
}
