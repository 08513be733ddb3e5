//! Real inputs, read in place; and profiles told in plain words, to compare them.

use std::path::PathBuf;

use nodespy_model::{FunctionIndex, Profile, Sample};
use serde_json::Value;

/// A file of the corpus.
pub(crate) fn corpus(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/corpus")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The file as JSON.
pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// A function in words: name, place and kind. V8 writes no name for an anonymous function.
pub(crate) fn told(profile: &Profile, function: FunctionIndex) -> String {
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
        .map(|frame| told(profile, profile.frame(frame).function))
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
