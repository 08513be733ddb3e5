//! No bytes may crash, hang or exhaust the reader of what Pyroscope's SDKs push to `nodespy serve`.
#![no_main]

// By its path: the crate would bring TLS along.
#[allow(dead_code)]
#[path = "../../crates/server/src/push_request.rs"]
mod push_request;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(all) = push_request::series_of(bytes) else {
        return;
    };
    let profiles = all.iter().map(|series| series.profiles.len());
    assert!(profiles.sum::<usize>() <= push_request::MAX_PROFILES);
    for series in &all {
        assert!(series.labels.len() <= push_request::MAX_LABELS);
        for profile in &series.profiles {
            nodespy_fuzz::feed("pprof", profile.pprof);
        }
    }
});
