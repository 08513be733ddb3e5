//! Every thread's stack, once.

use nodespy_capture::engine::Engine;
use nodespy_capture::engines::snapshot::{SnapshotEngine, Stopping, ThreadLook};
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
    pub threads: Vec<ThreadLook>,
}

/// Takes every thread's stack. Naming follows when all threads run again, so what is not in the
/// copies of their stacks may be a moment younger than those.
pub fn snapshot(targets: Vec<Target>, stopping: Stopping) -> Result<Snapshot, CaptureError> {
    let mut engine = SnapshotEngine::new(stopping);
    let profile = profile_of(&mut engine, targets)?;
    Ok(Snapshot {
        profile,
        threads: engine.into_threads(),
    })
}

fn profile_of(engine: &mut dyn Engine, targets: Vec<Target>) -> Result<Profile, CaptureError> {
    struct Silent;
    impl Observer for Silent {}

    let subject = Subject::running(targets);
    let mut live = Live::attach(engine, subject, LiveOptions::default(), &mut Silent)?;
    let started = monotonic_now();
    let limits = Limits {
        duration: None,
        slice: None,
        first_slice: None,
        slice_stretch: 0,
        is_stopped: &|| false,
    };
    live.run(&limits, &mut Silent)?;
    let profile = live.slice();
    let profile = live.map_sources(profile, &SourceMapOptions::default());
    log::info!(
        "named {} stacks in {:.1} ms",
        profile.samples.len(),
        monotonic_now().saturating_sub(started) as f64 / 1e6
    );
    Ok(profile)
}
