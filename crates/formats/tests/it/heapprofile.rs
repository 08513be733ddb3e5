//! V8's heap profiles.

use nodespy_model::{Category, Profile, ThreadIndex, WeightUnit};
use proptest::prelude::*;
use serde_json::json;

use crate::fixture::fixture;
use crate::heapprofile_claims::{all_bytes_are_there, comes_back_as_it_was, places};
use crate::in_words::self_weight;
use crate::sample::{any_profile, read, small, written};

const FILES: [&str; 3] = [
    "heapprofile/node16.heapprofile",
    "heapprofile/node20.heapprofile",
    "heapprofile/node26.heapprofile",
];

#[test]
fn the_bytes_of_recorded_files_are_all_there() {
    for name in FILES {
        let profile = all_bytes_are_there(&fixture(name));
        let mut kinds = (profile.functions.iter()).map(|function| {
            let file = function.file.map_or("", |file| profile.strings.get(file));
            (file, function.category)
        });
        let is_core = |(file, kind): (&str, Category)| match file.starts_with("node:") {
            true => kind == Category::NodeCore,
            false => kind != Category::NodeCore,
        };
        assert!(kinds.all(is_core), "{name}");
    }
}

#[test]
fn samples_that_explain_a_size_are_kept_one_by_one() {
    let leaf = |id: u32, name: &str, size: u32| {
        json!({"id": id, "selfSize": size, "children": [], "callFrame": {"functionName": name,
            "scriptId": "3", "url": "file:///a.js", "lineNumber": 1, "columnNumber": 1}})
    };
    let file = json!({"samples": [
            {"nodeId": 7, "size": 30, "ordinal": 9},
            {"nodeId": 8, "size": 5, "ordinal": 1},
            {"nodeId": 7, "size": 10, "ordinal": 2}],
        "head": {"id": 1, "selfSize": 0, "callFrame": {"functionName": "(root)", "url": ""},
            "children": [leaf(7, "told", 40), leaf(8, "more", 6)]}});
    let profile = read(file.to_string().as_bytes()).unwrap();
    let weights: Vec<u64> = profile.samples.iter().map(|sample| sample.weight).collect();
    assert_eq!(weights, [10, 30, 6]);
    assert_eq!(self_weight(&profile, "told"), 40);
}

#[test]
fn what_is_written_reads_back_and_time_is_refused() {
    for name in FILES {
        comes_back_as_it_was(&fixture(name));
    }
    let error = nodespy_formats::export(&small(), "heapprofile", &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("use cpuprofile"), "{error}");
}

#[test]
fn a_hundred_thousand_levels_need_no_stack() {
    let levels = 100_000;
    let mut text = r#"{"head":"#.to_owned();
    for _ in 0..levels {
        text.push_str(r#"{"callFrame":{"functionName":"f"},"selfSize":1,"children":["#);
    }
    let cut = text.clone();
    text.push_str(&"]}".repeat(levels));
    text.push('}');
    let profile = read(text.as_bytes()).unwrap();
    assert_eq!(profile.total_weight(), levels as u64);
    assert_eq!(
        read(&written(&profile, "heapprofile"))
            .unwrap()
            .samples
            .len(),
        levels
    );
    let cut = read(cut.as_bytes()).unwrap();
    assert_eq!(cut.total_weight(), levels as u64);
    assert!(cut.notes.remarks[0].contains("cut off"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_stack_keeps_its_bytes(mut profile in any_profile()) {
        profile.events[0].unit = WeightUnit::Bytes;
        for sample in &mut profile.samples {
            sample.thread = ThreadIndex(0);
            sample.weight = sample.weight % 1_000_000 + 1;
        }
        prop_assume!(!profile.samples.is_empty());
        let without_lines = |profile: &Profile| -> Vec<(u64, String)> {
            let places = places(profile).into_iter();
            places
                .map(|(bytes, path)| {
                    let path = path.rsplit_once(" at ").map_or(&*path, |(path, _)| path);
                    (bytes, path.to_owned())
                })
                .collect()
        };
        let again = read(&written(&profile, "heapprofile")).unwrap();
        prop_assert_eq!(without_lines(&again), without_lines(&profile));
    }
}
