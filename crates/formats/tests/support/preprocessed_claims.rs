//! What must be true of any log and what `node --prof-process --preprocess -j` made of it.

use std::collections::BTreeMap;

use nodespy_model::{Profile, Tier};
use serde_json::Value;

use crate::convert::{read, written};

/// Time and named JavaScript of every tick of a file, leaf first.
pub(crate) fn ticks(file: &Value) -> Vec<(u64, Vec<String>)> {
    let code = file["code"].as_array().unwrap();
    let ticks = file["ticks"].as_array().unwrap().iter();
    let told = ticks.map(|tick| {
        let stack = tick["s"].as_array().unwrap();
        let names = stack.iter().step_by(2).filter_map(|id| {
            let code = code.get(usize::try_from(id.as_i64()?).ok()?)?;
            let kind = code["kind"].as_str()?;
            (code["type"] == "JS").then(|| format!("{kind} {}", code["name"].as_str().unwrap()))
        });
        (tick["tm"].as_u64().unwrap(), names.collect())
    });
    told.collect()
}

/// The ticks of every function's own code, by name, place and tier.
pub(crate) fn self_ticks(profile: &Profile) -> BTreeMap<(String, Tier), u64> {
    let mut ticks = BTreeMap::new();
    for sample in &profile.samples {
        let Some(stack) = sample.stack else { continue };
        let frame = profile.frame(profile.stacks[stack.at()].frame);
        let name = format!(
            "{} {}",
            profile.name_of(frame.function),
            profile.location_of(frame.function)
        );
        *ticks.entry((name, frame.tier)).or_default() += sample.weight;
    }
    ticks
}

/// Our own preprocessing of the log has the same ticks, names and tiers.
pub(crate) fn a_log_is_preprocessed_to_the_same(log: &[u8], preprocessed: &[u8]) {
    let ours = written(&read(log).unwrap(), "v8-preprocessed");
    let ours: Value = serde_json::from_slice(&ours).unwrap();
    let ours: BTreeMap<u64, Vec<String>> = ticks(&ours).into_iter().collect();
    let theirs: Value = serde_json::from_slice(preprocessed).unwrap();
    for (time, names) in ticks(&theirs) {
        assert_eq!(ours.get(&time), Some(&names), "tick at {time} µs");
    }
}

/// A file that is cut off in its middle, or soon after its first ticks.
pub(crate) fn cut_off_it_keeps_the_ticks_before(bytes: &[u8]) {
    let at = bytes.len() / 2;
    let ticks_at = bytes
        .windows(9)
        .rposition(|window| window == b"\"ticks\": ")
        .unwrap();
    let profile = read(&bytes[..at.max(ticks_at + 5000)]).unwrap();
    assert!(!profile.samples.is_empty());
    assert_eq!(profile.notes.remarks.len(), 1);
}
