//! speedscope's format, in and out.

use std::collections::BTreeMap;

use nodespy_formats::ImportError;
use nodespy_model::{NO_STACK, Profile, WeightUnit};
use proptest::prelude::*;

use crate::convert::read_event;
use crate::fixture::fixture;
use crate::in_words::{json, path, self_weights};
use crate::sample::{any_profile, read, small, written};

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

/// `serve` is innermost from 0 to 2, 9 to 12 and 17 to 20; `parse` from 2 to 9 and 13 to 14; `reply`
/// from 12 to 13 and 14 to 17.
#[test]
fn events_become_stacks_with_what_lies_between_them() {
    let profile = read(&fixture("speedscope/evented.speedscope.json")).unwrap();
    assert_eq!(profile.unit(), WeightUnit::Samples);
    assert_eq!(
        self_weights(&profile),
        BTreeMap::from([("parse", 8), ("reply", 4), ("serve", 8)])
    );
    assert_eq!(profile.threads[0].name, "main thread");
    assert!(profile.notes.remarks.is_empty());
    let places: Vec<String> = (profile.samples.iter())
        .map(|sample| path(&profile, sample))
        .collect();
    assert!(places[1].contains("parse /app/parse.js:3:7"), "{places:?}");
}

#[test]
fn each_profile_of_a_file_is_a_thread() {
    let bytes = fixture("speedscope/two-sampled.speedscope.json");
    let profile = read(&bytes).unwrap();
    assert_eq!(profile.unit(), WeightUnit::Nanoseconds);
    assert_eq!(profile.total_weight(), 16_000_000);
    let names: Vec<&str> = profile.threads.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["main", "pool"]);
    assert_eq!(self_weights(&profile)["parse"], 9_500_000);
    assert_eq!(profile.about.app, "Two threads");
    let times: Vec<u64> = profile.samples.iter().map(|it| it.time / 500_000).collect();
    assert_eq!(times, [0, 0, 2, 2, 7, 10, 14]);
    let of_main = profile.samples.iter().filter(|it| it.thread.0 == 0);
    assert_eq!(of_main.map(|it| it.weight).sum::<u64>(), 10_000_000);
    assert_eq!(profile.events.len(), 1);
    let error = read_event(&bytes, "three").unwrap_err().to_string();
    assert_eq!(error, "there is no \"three\" in the file; it holds ns");
}

#[test]
fn profiles_that_count_different_things_are_events() {
    let text = br#"{"$schema":"https://www.speedscope.app/file-format-schema.json","activeProfileIndex":1,
        "shared":{"frames":[{"name":"f"}]},"profiles":[
        {"type":"sampled","name":"time","unit":"seconds","startValue":0,"endValue":2,"samples":[[0]],"weights":[2]},
        {"type":"sampled","name":"heap","unit":"bytes","startValue":0,"endValue":9,"samples":[[0]],"weights":[9]}]}"#;
    let profile = read(text).unwrap();
    let units: Vec<WeightUnit> = profile.events.iter().map(|event| event.unit).collect();
    assert_eq!(units, [WeightUnit::Bytes, WeightUnit::Nanoseconds]);
    assert_eq!(read_event(text, "bytes").unwrap().total_weight(), 9);
    assert_eq!(
        read_event(text, "ns").unwrap().total_weight(),
        2_000_000_000
    );
}

/// `outer` closes while `inner`, which it called, is still open; then `inner` closes a second time.
#[test]
fn events_out_of_order_are_read_as_far_as_they_make_sense_and_said() {
    let profile = read(&fixture("speedscope/out-of-order.speedscope.json")).unwrap();
    assert_eq!(profile.total_weight(), 5);
    let remark = "3 frames end that are not the innermost, or never began";
    assert_eq!(profile.notes.remarks, [remark]);
}

#[test]
fn every_sample_of_py_spy_has_its_stack_and_weight() {
    let bytes = fixture("speedscope/py-spy.speedscope.json");
    let file = json(&bytes);
    let profile = read(&bytes).unwrap();
    let mut expected = Vec::new();
    for one in file["profiles"].as_array().unwrap() {
        let weights = one["weights"].as_array().unwrap();
        for (sample, weight) in one["samples"].as_array().unwrap().iter().zip(weights) {
            let names = sample.as_array().unwrap().iter().map(|frame| {
                let frame = &file["shared"]["frames"][frame.as_u64().unwrap() as usize];
                frame["name"].as_str().unwrap()
            });
            let nanoseconds = (weight.as_f64().unwrap() * 1e9).round() as u64;
            expected.push((names.collect::<Vec<_>>().join(";"), nanoseconds));
        }
    }
    let read = (profile.samples.iter()).map(|sample| {
        let frames = profile.frames_of(sample.stack.unwrap());
        let mut names: Vec<&str> = frames
            .map(|frame| profile.name_of(profile.frame(frame).function))
            .collect();
        names.reverse();
        (names.join(";"), sample.weight)
    });
    assert_eq!(read.collect::<Vec<_>>(), expected);
    assert!(expected.len() > 100);
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
        prop_assert_eq!(again.unit(), profile.unit());
        prop_assert_eq!(&again.about, &profile.about);
        prop_assert_eq!(&again.notes, &profile.notes);
    }
}
