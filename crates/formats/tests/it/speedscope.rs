//! speedscope's format, in and out.

use std::collections::BTreeMap;

use nodespy_analysis::function_weights;
use nodespy_formats::{ImportError, ImportOptions, import};
use nodespy_model::{Contents, NO_STACK, Profile, WeightUnit};
use proptest::prelude::*;

use crate::sample::{any_profile, corpus, read, small, written};

fn read_event(bytes: &[u8], event: &str) -> Result<Profile, ImportError> {
    let options = ImportOptions {
        event: Some(event.to_owned()),
        ..ImportOptions::default()
    };
    match import(bytes.to_vec().into(), &options)?.contents {
        Contents::Named(profile) => Ok(*profile),
        _ => panic!("speedscope comes with names"),
    }
}

fn self_weights(profile: &Profile) -> BTreeMap<&str, u64> {
    let weights = function_weights(profile, |_| true);
    let rows = weights
        .iter()
        .map(|row| (profile.name_of(row.function), row.self_weight));
    rows.filter(|(_, weight)| *weight > 0).collect()
}

/// What speedscope can hold: for each thread its stacks in order, with their weights.
fn held(profile: &Profile) -> BTreeMap<String, Vec<(String, u64)>> {
    let mut threads: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    for sample in profile.samples.iter().filter(|sample| sample.weight > 0) {
        let thread = &profile.threads[sample.thread.at()];
        let process = &profile.processes[thread.process.at()];
        let key = format!(
            "{} {} {} {} {:?}",
            process.pid, process.name, thread.tid, thread.name, thread.role
        );
        let mut path = String::new();
        for frame in sample
            .stack
            .into_iter()
            .flat_map(|it| profile.frames_of(it))
        {
            let function = profile.function(profile.frame(frame).function);
            path += &format!(
                "|{} {} {:?}",
                match profile.strings.get(function.name) {
                    "" => "[unknown]",
                    name => name,
                },
                profile.location_of(profile.frame(frame).function),
                function.category
            );
        }
        threads.entry(key).or_default().push((path, sample.weight));
    }
    threads
}

/// c runs from 0 to 2 and 6 to 9, d from 2 to 6, and b alone from 9 to 14.
#[test]
fn events_become_stacks_with_what_lies_between_them() {
    let profile = read(&corpus("speedscope/simple.speedscope.json")).unwrap();
    assert_eq!(profile.unit, WeightUnit::Samples);
    assert_eq!(
        self_weights(&profile),
        BTreeMap::from([("b", 5), ("c", 5), ("d", 4)])
    );
    assert_eq!(profile.threads[0].name, "simple.txt");
    assert!(profile.notes.remarks.is_empty());
}

#[test]
fn each_profile_of_a_file_is_a_thread() {
    let bytes = corpus("speedscope/two-sampled.speedscope.json");
    let profile = read(&bytes).unwrap();
    assert_eq!(profile.unit, WeightUnit::Nanoseconds);
    assert_eq!(profile.total_weight(), 28_000_000_000);
    let names: Vec<&str> = profile.threads.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(self_weights(&profile)["c"], 10_000_000_000);
    assert_eq!(profile.about.app, "Two Samples");
    let times: Vec<u64> = profile
        .samples
        .iter()
        .map(|it| it.time / 1_000_000_000)
        .collect();
    assert_eq!(times, [0, 0, 1, 1, 2, 2, 6, 6, 9, 9]);
    let one = read_event(&bytes, "one").unwrap();
    assert_eq!(one.total_weight(), 14_000_000_000);
    assert_eq!(
        one.notes.remarks,
        ["the file also holds \"two\" (--event chooses)"]
    );
    let error = read_event(&bytes, "three").unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no \"three\" in the file; it holds \"one\", \"two\""
    );
}

/// B ends while A, which it called, is still open; then A ends a second time.
#[test]
fn events_out_of_order_are_read_as_far_as_they_make_sense_and_said() {
    let profile = read(&corpus("speedscope/invalid-out-of-order-events.json")).unwrap();
    assert_eq!(profile.total_weight(), 3);
    let remark = "2 frames end that are not the innermost, or never began";
    assert_eq!(profile.notes.remarks, [remark]);
}

#[test]
fn odd_values_are_left_out_and_said() {
    let text = r#"{"profiles": [{"type": "sampled", "unit": "milliseconds", "name": "x",
        "weights": [1.5, -3, 2, 1e300, 7], "samples": [[0], [0], [9, 0], [0], [0], [0]]}],
        "shared": {"frames": [{"name": "a", "line": -1}]}}"#;
    let profile = read(text.as_bytes()).unwrap();
    assert_eq!(
        profile.total_weight(),
        u64::try_from(i64::MAX).unwrap() + 10_500_000
    );
    assert_eq!(
        profile.notes.remarks.len(),
        3,
        "{:?}",
        profile.notes.remarks
    );
    let cut = &text[..text.len() - 60];
    assert!(matches!(
        read(cut.as_bytes()),
        Err(ImportError::Unrecognized)
    ));
}

#[test]
fn a_file_that_is_cut_off_gives_the_samples_before_the_cut() {
    let bytes = written(&small(), "speedscope");
    let end = bytes
        .windows(9)
        .position(|it| it == b"\"nodespy\"")
        .unwrap();
    let profile = read(&bytes[..end - 60]).unwrap();
    assert!(profile.notes.remarks[0].contains("cut off at byte"));
    assert!(!profile.samples.is_empty());
}

#[test]
fn times_are_kept_by_empty_stacks_between_the_samples() {
    let mut profile = small();
    for (position, sample) in profile.samples.iter_mut().enumerate() {
        sample.time = position as u64 * 1_000_000_000;
    }
    let again = read(&written(&profile, "speedscope")).unwrap();
    assert_eq!(held(&again), held(&profile));
    assert_eq!(again.about, profile.about);
    assert_eq!(again.notes, profile.notes);
    let times: Vec<u64> = again.samples.iter().map(|it| it.time).collect();
    let expected: Vec<u64> = profile.samples.iter().map(|it| it.time).collect();
    assert_eq!(times, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_profile_comes_back_as_far_as_speedscope_can_hold_it(mut profile in any_profile()) {
        // All of it together has to fit below 2^63 nanoseconds, and one empty stack is as good as
        // another.
        for sample in &mut profile.samples {
            sample.time >>= 8;
            sample.weight >>= 34;
        }
        profile.notes.remarks.retain(|remark| !remark.is_empty());
        prop_assume!(profile.samples.iter().any(|sample| sample.weight > 0));
        prop_assume!(profile.strings.iter().all(|text| text != NO_STACK));
        let again = read(&written(&profile, "speedscope")).unwrap();
        prop_assert_eq!(held(&again), held(&profile));
        prop_assert_eq!(again.unit, profile.unit);
        prop_assert_eq!(&again.about, &profile.about);
        prop_assert_eq!(&again.notes, &profile.notes);
    }
}
