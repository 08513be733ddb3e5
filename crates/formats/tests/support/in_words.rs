//! Profiles in plain words, to compare them.

use std::collections::BTreeMap;

use nodespy_analysis::function_weights;
use nodespy_model::{FunctionIndex, Profile, Sample};
use serde_json::Value;

/// The file as JSON.
pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// A function in words: name, place and kind. V8 writes no name for an anonymous function.
fn described(profile: &Profile, function: FunctionIndex) -> String {
    let name = match profile.name_of(function) {
        "" => "(anonymous)",
        name => name,
    };
    let place = profile.location_of(function);
    let kind = profile.function(function).category.label();
    format!("{name} {place} ({kind})")
}

/// The path of a sample from its root to its leaf, with the line of the leaf.
pub(crate) fn path(profile: &Profile, sample: &Sample) -> String {
    let Some(stack) = sample.stack else {
        return "[no stack]".to_owned();
    };
    let mut frames: Vec<String> = profile
        .frames_of(stack)
        .map(|frame| described(profile, profile.frame(frame).function))
        .collect();
    frames.reverse();
    let leaf = profile.frame(profile.stacks[stack.at()].frame);
    format!("{} at {}", frames.join(";"), leaf.line)
}

/// Every sample: when, how much, and where.
pub(crate) fn samples(profile: &Profile) -> Vec<(u64, u64, String)> {
    let samples = profile.samples.iter();
    samples
        .map(|sample| (sample.time, sample.weight, path(profile, sample)))
        .collect()
}

/// The weight of samples whose innermost function has this name.
pub(crate) fn self_weight(profile: &Profile, name: &str) -> u64 {
    let samples = profile.samples.iter();
    samples
        .filter(|sample| {
            sample
                .stack
                .is_some_and(|stack| profile.name_of(profile.function_of(stack)) == name)
        })
        .map(|sample| sample.weight)
        .sum()
}

/// The weight of every function's own samples, by name.
pub(crate) fn self_weights(profile: &Profile) -> BTreeMap<&str, u64> {
    let weights = function_weights(profile, |_| true);
    let rows = weights
        .iter()
        .map(|row| (profile.name_of(row.function), row.self_weight));
    rows.filter(|(_, weight)| *weight > 0).collect()
}
