//! What must be true of any CPU profile that V8 wrote.

use std::collections::BTreeMap;

use nodespy_formats::{ImportError, ImportOptions, import};
use nodespy_model::{Profile, WeightUnit};
use serde_json::Value;

use crate::convert::{read, written};
use crate::in_words::{json, samples, self_weight};

pub(crate) fn numbers(value: &Value) -> Vec<i64> {
    let list = value.as_array().map_or(&[][..], Vec::as_slice);
    list.iter().map(|number| number.as_i64().unwrap()).collect()
}

/// All of the time after the first gap is there, and every sample.
pub(crate) fn weights_are_the_time_after_the_first_gap(name: &str, bytes: &[u8]) {
    let file = json(bytes);
    let profile = read(bytes).unwrap();
    assert_eq!(profile.unit(), WeightUnit::Nanoseconds);
    let total = match numbers(&file["timeDeltas"]) {
        deltas if deltas.is_empty() => {
            let times = numbers(&file["timestamps"]);
            times[times.len() - 1] - times[0]
        }
        deltas => {
            assert!(deltas.iter().all(|delta| *delta >= 0), "{name}");
            let length = |key: &str| file[key].as_i64().unwrap();
            length("endTime") - length("startTime") - deltas[0]
        }
    };
    assert_eq!(profile.total_weight(), total as u64 * 1000, "{name}");
    assert_eq!(profile.samples.len(), numbers(&file["samples"]).len());
    let is_gaps = |remark: &String| remark.contains("lies in gaps");
    assert!(profile.notes.remarks.iter().all(is_gaps), "{name}");
}

/// Every function of a flat file has the time of its samples.
pub(crate) fn functions_have_the_time_of_their_samples(name: &str, bytes: &[u8]) {
    let file = json(bytes);
    let deltas = numbers(&file["timeDeltas"]);
    let ids = numbers(&file["samples"]);
    let end = file["endTime"].as_i64().unwrap() - file["startTime"].as_i64().unwrap();
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    let nodes = file["nodes"].as_array().unwrap();
    for (position, id) in ids.iter().enumerate() {
        let weight = match deltas.get(position + 1) {
            Some(delta) => *delta,
            None => end - deltas.iter().sum::<i64>(),
        };
        let node = nodes.iter().find(|node| node["id"] == *id).unwrap();
        let function = node["callFrame"]["functionName"].as_str().unwrap();
        let function = if function.is_empty() {
            "(anonymous)"
        } else {
            function
        };
        *expected.entry(function.to_owned()).or_default() += weight as u64 * 1000;
    }
    let profile = read(bytes).unwrap();
    for (function, weight) in expected {
        assert_eq!(
            self_weight(&profile, &function),
            weight,
            "{name} {function}"
        );
    }
}

/// What is read is the same after it was written and read once more.
pub(crate) fn comes_back_as_it_was(name: &str, bytes: &[u8]) {
    let first = read(bytes).unwrap();
    let again = read(&written(&first, "cpuprofile")).unwrap();
    assert_eq!(samples(&again), samples(&first), "{name}");
    assert_eq!(again.deopt_reasons.len(), first.deopt_reasons.len());
    assert_eq!((again.unit(), &again.notes), (first.unit(), &first.notes));
    assert_eq!(again.about, first.about);
}

/// However short a file is cut, it gives what comes before: samples in more than `least` cases.
pub(crate) fn cut_off_it_gives_what_comes_before(bytes: &[u8], least: usize) {
    let mut kept = 0;
    for length in (0..bytes.len()).step_by(97) {
        let options = ImportOptions::from(Some("cpuprofile"));
        match import(bytes[..length].to_vec().into(), &options) {
            Ok(recording) => {
                kept += 1;
                let at = format!("cut off at byte {length};");
                assert!(
                    recording
                        .notes
                        .remarks
                        .iter()
                        .any(|remark| remark.contains(&at))
                );
            }
            Err(ImportError::Cut { at }) => assert_eq!(at, length as u64),
            Err(ImportError::NoStacks | ImportError::Empty) => {}
            Err(error) => panic!("{length}: {error}"),
        }
    }
    assert!(kept > least, "{kept}");
}

/// The samples of a file whose last gaps are missing, and of the whole file: all but the last of them
/// are the same, more than half of all.
pub(crate) fn without_its_last_gaps(bytes: &[u8]) -> [Vec<(u64, u64, String)>; 2] {
    let whole = read(bytes).unwrap();
    let cut = read(&bytes[..bytes.len() - 200]).unwrap();
    let same = cut.samples.len() - 1;
    assert!(same > whole.samples.len() / 2);
    [cut, whole].map(|profile| samples(&profile)[..same].to_vec())
}

/// The names of every sample's stack, leaf first.
pub(crate) fn stack_names(profile: &Profile) -> Vec<String> {
    let samples = profile.samples.iter();
    samples
        .map(|sample| {
            let frames = profile.frames_of(sample.stack.unwrap());
            let names = frames.map(|frame| profile.name_of(profile.frame(frame).function));
            names.collect::<Vec<_>>().join(";")
        })
        .collect()
}

/// The weight of every sample.
pub(crate) fn weights(profile: &Profile) -> Vec<u64> {
    profile.samples.iter().map(|one| one.weight).collect()
}
