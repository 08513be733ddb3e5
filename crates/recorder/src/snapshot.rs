//! Every thread's stack, once.

use nodespy_capture::engine::Engine;
use nodespy_capture::engines::snapshot::{SnapshotEngine, Stopping, ThreadSnapshot};
use nodespy_capture::target::Target;
use nodespy_capture::{CaptureError, monotonic_now};
use nodespy_model::Profile;
use nodespy_symbolize::SourceMapOptions;

use crate::live::{Limits, Live, LiveOptions};
use crate::observer::Observer;
use crate::subject::Subject;

/// What was seen.
#[derive(Debug)]
pub struct Snapshot {
    /// One sample for each thread.
    pub profile: Profile,
    /// How it went with each thread.
    pub threads: Vec<ThreadSnapshot>,
    /// The suspended async functions, where they were asked for, as [`Resolver::pending`] has them.
    ///
    /// [`Resolver::pending`]: nodespy_symbolize::Resolver::pending
    pub pending: Option<Profile>,
}

/// Takes every thread's stack. Naming follows when all threads run again, so what is not in the
/// copies of their stacks may be a moment younger than those.
///
/// With `no_async` those are left out who await what a thread runs or waits for. With `has_pending` V8's heap is searched
/// for every suspended async function, while the process runs.
pub fn snapshot(
    targets: Vec<Target>,
    stopping: Stopping,
    no_async: bool,
    has_pending: bool,
) -> Result<Snapshot, CaptureError> {
    let mut engine = SnapshotEngine::new(stopping);
    let options = LiveOptions {
        no_async,
        ..LiveOptions::default()
    };
    let (profile, pending) = profiles_of(&mut engine, targets, options, has_pending)?;
    Ok(Snapshot {
        profile,
        threads: engine.into_threads(),
        pending,
    })
}

fn profiles_of(
    engine: &mut dyn Engine,
    targets: Vec<Target>,
    options: LiveOptions,
    has_pending: bool,
) -> Result<(Profile, Option<Profile>), CaptureError> {
    struct Silent;
    impl Observer for Silent {}

    let subject = Subject::running(targets);
    let mut live = Live::attach(engine, subject, options, &mut Silent)?;
    let started = monotonic_now();
    let limits = Limits {
        duration: None,
        slice: None,
        first_slice: None,
        slice_stretch: 0,
        idle_slice: None,
        is_stopped: &|| false,
    };
    live.run(&limits, &mut Silent)?;
    let mut profile = live.slice();
    let pending = has_pending.then(|| live.pending());
    if let Some(pending) = &pending {
        profile.notes.add_sentences(&pending.notes);
    }
    let map_sources = |profile| live.map_sources(profile, &SourceMapOptions::default());
    let (profile, pending) = (map_sources(profile), pending.map(map_sources));
    log::info!(
        "named {} stacks in {:.1} ms",
        profile.samples.len(),
        monotonic_now().saturating_sub(started) as f64 / 1e6
    );
    Ok((profile, pending))
}
