//! V8's CPU profiles.

use nodespy_model::ThreadRole;

use crate::convert::read;
use crate::corpus;
use crate::cpuprofile_claims::{
    comes_back_as_it_was, cut_off_it_gives_what_comes_before,
    functions_have_the_time_of_their_samples, stack_names, weights,
    weights_are_the_time_after_the_first_gap, without_its_last_gaps,
};
use crate::in_words::path;

const FILES: [&str; 5] = [
    "cpuprofile/node18.cpuprofile",
    "cpuprofile/node20.cpuprofile",
    "cpuprofile/node24.cpuprofile",
    "cpuprofile/chrome65-simple.cpuprofile",
    "cpuprofile/node10-example.cpuprofile",
];

#[test]
fn the_weights_of_real_files_are_the_time_after_the_first_gap() {
    for name in FILES {
        weights_are_the_time_after_the_first_gap(name, &corpus(name));
    }
}

#[test]
fn every_node_has_the_time_of_its_samples() {
    for name in &FILES[..4] {
        functions_have_the_time_of_their_samples(name, &corpus(name));
    }
}

#[test]
fn golden_names_places_and_kinds_of_a_real_file() {
    let profile = read(&corpus("cpuprofile/node24.cpuprofile")).unwrap();
    let paths: Vec<String> = profile
        .samples
        .iter()
        .map(|sample| path(&profile, sample))
        .collect();
    let has = |part: &str| paths.iter().any(|path| path.contains(part));
    assert!(has(
        "(anonymous) node:internal/main/run_main_module:1:1 (node core);"
    ));
    assert!(has("(anonymous) /app/mix.js:1:1 (app)"));
    assert!(has("(program)  (native) at 0"));
    assert!(!has("(root)"));
    assert!(has("normalizeString node:path:92:25 (node core) at 98"));
    assert!(
        paths
            .iter()
            .all(|path| !path.starts_with("(garbage") || path.ends_with("(GC) at 0"))
    );
    assert_eq!(profile.threads[0].role, ThreadRole::Main);
    assert_eq!(profile.about.engine, "V8 CPU profiler");
}

#[test]
fn the_nested_form_of_old_says_the_same_as_the_flat_one() {
    let old = read(&corpus("cpuprofile/node10-example.cpuprofile")).unwrap();
    let new = read(&corpus("cpuprofile/chrome65-simple.cpuprofile")).unwrap();
    assert_eq!(stack_names(&old), stack_names(&new));
    // The old file has the time of each sample, and one more; the new one the gap before it.
    assert_eq!(weights(&old)[1..], weights(&new)[..28]);
}

#[test]
fn a_file_that_is_cut_off_gives_what_comes_before() {
    let bytes = corpus("cpuprofile/node20.cpuprofile");
    cut_off_it_gives_what_comes_before(&bytes, 200);
    let [cut, whole] = without_its_last_gaps(&bytes);
    assert_eq!(cut, whole);
}

#[test]
fn real_files_come_back_as_they_were() {
    for name in FILES {
        comes_back_as_it_was(name, &corpus(name));
    }
}
