//! Who submitted the jobs of libuv's pool, as breakpoints saw it.

use nodespy_analysis::pool_submitters;
use nodespy_capture::engines::perf_events::POOL_JOBS;
use nodespy_model::{EventType, Profile};

/// Notes in a profile who submitted jobs, where breakpoints were set for that. Lines are those of source maps by then.
pub(crate) fn with_submitters(mut profile: Profile) -> Profile {
    let Some(event) = EventType::find(&profile.events, POOL_JOBS) else {
        return profile;
    };
    for (process, submitters) in pool_submitters(&profile, event) {
        if let Some(pool) = &mut profile.processes[process.at()].pool {
            pool.submitters = submitters;
        }
    }
    profile
}
