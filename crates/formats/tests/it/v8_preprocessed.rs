//! What `node --prof-process --preprocess` writes.

use std::collections::BTreeMap;

use nodespy_formats::detect;
use nodespy_model::Tier;
use serde_json::Value;

use crate::fixture::fixture;
use crate::preprocessed_claims::{
    a_log_is_preprocessed_to_the_same, cut_off_it_keeps_the_ticks_before, self_ticks,
};
use crate::sample::{read, written};

const LOG: &str = "v8_log/node20-v8.log.gz";
const PREPROCESSED: &str = "v8_log/node20.preprocessed.json.gz";

/// A name as V8 writes it, split from its place: `until /app/mix.js:11:15`.
fn name_and_place(text: &str) -> String {
    match text.strip_prefix(' ') {
        Some(place) => format!("(anonymous) {place}"),
        None => text.to_owned(),
    }
}

#[test]
fn a_preprocessed_log_has_the_ticks_of_every_function_and_tier() {
    let bytes = fixture(PREPROCESSED);
    assert_eq!(detect(&bytes).unwrap().name(), "v8-preprocessed");
    let profile = read(&bytes).unwrap();
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    // The option -j of node's tool keeps only the ticks in JavaScript.
    assert_eq!(
        profile.samples.len(),
        file["ticks"].as_array().unwrap().len()
    );
    let mut expected: BTreeMap<(String, Tier), u64> = BTreeMap::new();
    for tick in file["ticks"].as_array().unwrap() {
        let code = usize::try_from(tick["s"][0].as_i64().unwrap())
            .map_or(&Value::Null, |id| &file["code"][id]);
        let tier = match (code["type"].as_str(), code["kind"].as_str()) {
            (Some("JS"), Some("Opt")) => Tier::Optimized,
            (Some("JS"), Some("Sparkplug")) => Tier::Baseline,
            (Some("JS"), Some("Unopt")) => Tier::Interpreted,
            _ => continue,
        };
        let name = name_and_place(code["name"].as_str().unwrap());
        if name.contains("mix.js") {
            *expected.entry((name, tier)).or_default() += 1;
        }
    }
    assert!(expected.len() > 3, "{expected:?}");
    let ticks = self_ticks(&profile);
    for (code, count) in expected {
        assert_eq!(ticks.get(&code), Some(&count), "{code:?}");
    }
}

#[test]
fn a_log_is_preprocessed_to_the_same_ticks_names_and_tiers() {
    a_log_is_preprocessed_to_the_same(&fixture(LOG), &fixture(PREPROCESSED));
}

#[test]
fn a_file_that_is_cut_off_keeps_the_ticks_before() {
    cut_off_it_keeps_the_ticks_before(&fixture(PREPROCESSED));
}

/// Every tick with its state, and its code in words.
fn told(bytes: &[u8]) -> Vec<String> {
    let file: Value = serde_json::from_slice(bytes).unwrap();
    let ticks = file["ticks"].as_array().unwrap().iter();
    let told = ticks.map(|tick| {
        let stack = tick["s"].as_array().unwrap();
        let code = stack.chunks(2).map(|pair| {
            let id = pair[0].as_i64().unwrap();
            let code = usize::try_from(id).map_or(&Value::Null, |id| &file["code"][id]);
            let words = [
                &code["type"],
                &code["kind"],
                &code["name"],
                &code["deopt"],
                &pair[1],
            ];
            words.map(Value::to_string).join(" ")
        });
        let code: Vec<String> = code.collect();
        format!("{} {} {}", tick["tm"], tick["vm"], code.join("; "))
    });
    told.collect()
}

#[test]
fn what_was_written_reads_back_and_is_written_the_same() {
    let profile = read(crate::v8_log::SMALL.as_bytes()).unwrap();
    let first = written(&profile, "v8-preprocessed");
    let second = written(&read(&first).unwrap(), "v8-preprocessed");
    assert_eq!(told(&first).len(), profile.samples.len());
    assert_eq!(told(&first), told(&second));
}
