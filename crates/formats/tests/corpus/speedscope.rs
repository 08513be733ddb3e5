//! speedscope's own samples.

use std::collections::BTreeMap;

use nodespy_model::WeightUnit;

use crate::convert::{read, read_event};
use crate::corpus;
use crate::in_words::self_weights;

/// c runs from 0 to 2 and 6 to 9, d from 2 to 6, and b alone from 9 to 14.
#[test]
fn events_become_stacks_with_what_lies_between_them() {
    let profile = read(&corpus("speedscope/simple.speedscope.json")).unwrap();
    assert_eq!(profile.unit(), WeightUnit::Samples);
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
    assert_eq!(profile.unit(), WeightUnit::Nanoseconds);
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
    let of_one = profile.samples.iter().filter(|it| it.thread.0 == 0);
    assert_eq!(of_one.map(|it| it.weight).sum::<u64>(), 14_000_000_000);
    let error = read_event(&bytes, "three").unwrap_err().to_string();
    assert_eq!(error, "there is no \"three\" in the file; it holds ns");
}

/// B ends while A, which it called, is still open; then A ends a second time.
#[test]
fn events_out_of_order_are_read_as_far_as_they_make_sense_and_said() {
    let profile = read(&corpus("speedscope/invalid-out-of-order-events.json")).unwrap();
    assert_eq!(profile.total_weight(), 3);
    let remark = "2 frames end that are not the innermost, or never began";
    assert_eq!(profile.notes.remarks, [remark]);
}
