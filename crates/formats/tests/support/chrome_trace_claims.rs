//! What must be true of any trace that Chrome or Node wrote.

use std::collections::BTreeMap;

use nodespy_model::Profile;
use serde_json::Value;

use crate::convert::{read, written};
use crate::in_words::{json, path};

/// The events of a file.
pub(crate) fn events(file: &Value) -> &Vec<Value> {
    file.as_array()
        .unwrap_or_else(|| file["traceEvents"].as_array().unwrap())
}

/// The samples of every thread: when, how much, and where.
pub(crate) fn by_thread(profile: &Profile) -> BTreeMap<u32, Vec<(u64, u64, String)>> {
    let mut threads: BTreeMap<u32, Vec<(u64, u64, String)>> = BTreeMap::new();
    for sample in &profile.samples {
        let thread = &profile.threads[sample.thread.at()];
        let row = (sample.time, sample.weight, path(profile, sample));
        threads.entry(thread.tid).or_default().push(row);
    }
    threads
}

/// Every sample of the CPU profiles of as many threads is there, with the time between them.
pub(crate) fn profiles_have_all_their_time(name: &str, bytes: &[u8], threads: usize) {
    let file = json(bytes);
    let mut expected = 0i64;
    let mut count = 0;
    let mut profiles: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for event in events(&file) {
        if event["name"] == "ProfileChunk" {
            let data = &event["args"]["data"];
            let none = Vec::new();
            let deltas = data["timeDeltas"].as_array().unwrap_or(&none);
            count += data["cpuProfile"]["samples"]
                .as_array()
                .unwrap_or(&none)
                .len();
            let all = profiles.entry(event["id"].to_string()).or_default();
            all.extend(deltas.iter().map(|delta| delta.as_i64().unwrap()));
        }
    }
    assert_eq!(profiles.len(), threads);
    let profile = read(bytes).unwrap();
    for deltas in profiles.values() {
        // From the first sample to the last; the last lasts as long as they usually do.
        expected += deltas[1..].iter().sum::<i64>();
    }
    assert_eq!(profile.samples.len(), count, "{name}");
    assert_eq!(profile.threads.len(), threads, "{name}");
    let ends: u64 = (0..threads)
        .map(|thread| {
            let mut own = profile.samples.iter().rev();
            own.find(|sample| sample.thread.at() == thread)
                .unwrap()
                .weight
        })
        .sum();
    assert_eq!(
        profile.total_weight() - ends,
        expected as u64 * 1000,
        "{name}"
    );
    assert!(
        profile
            .notes
            .remarks
            .iter()
            .any(|one| one.contains("events with a length"))
    );
}

/// What is read is the same after it was written and read once more.
pub(crate) fn comes_back_as_it_was(name: &str, bytes: &[u8]) {
    let first = read(bytes).unwrap();
    let again = read(&written(&first, "chrome-trace")).unwrap();
    assert_eq!(by_thread(&again), by_thread(&first), "{name}");
}
