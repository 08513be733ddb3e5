//! What `node --prof-process --preprocess` writes.

use std::collections::BTreeMap;
use std::io::Read;

use nodespy_formats::detect;
use nodespy_model::{Profile, Tier};
use serde_json::Value;

use crate::corpus::corpus;
use crate::sample::{read, written};

fn corpus_json() -> Vec<u8> {
    let packed = corpus("v8-log/node20-v8.preprocessed.json.gz");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// Time and named JavaScript of every tick of a file, leaf first.
fn ticks(file: &Value) -> Vec<(u64, Vec<String>)> {
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

fn self_ticks(profile: &Profile) -> BTreeMap<(String, Tier), u64> {
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

#[test]
fn a_preprocessed_log_reads_as_the_log_does() {
    let bytes = corpus_json();
    assert_eq!(detect(&bytes).unwrap().name(), "v8-preprocessed");
    let profile = read(&bytes).unwrap();
    // The option -j of node's tool keeps only the ticks in JavaScript.
    assert_eq!(profile.samples.len(), 1180);
    let ticks = self_ticks(&profile);
    let sort = ("(anonymous) /app/mix.js:14:66".to_owned(), Tier::Optimized);
    assert_eq!(ticks[&sort], 112);
    let routes = ("matchRoutes /app/mix.js:16:21".to_owned(), Tier::Optimized);
    assert_eq!(ticks[&routes], 16);
}

#[test]
fn a_log_is_preprocessed_to_the_same_ticks_names_and_tiers() {
    let ours = written(
        &read(&corpus("v8-log/node20-v8.log")).unwrap(),
        "v8-preprocessed",
    );
    let ours: Value = serde_json::from_slice(&ours).unwrap();
    let ours: BTreeMap<u64, Vec<String>> = ticks(&ours).into_iter().collect();
    let theirs: Value = serde_json::from_slice(&corpus_json()).unwrap();
    for (time, names) in ticks(&theirs) {
        assert_eq!(ours.get(&time), Some(&names), "tick at {time} µs");
    }
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

#[test]
fn a_file_that_is_cut_off_keeps_the_ticks_before() {
    let bytes = corpus_json();
    let at = bytes.len() / 2;
    let ticks_at = bytes
        .windows(9)
        .rposition(|window| window == b"\"ticks\": ")
        .unwrap();
    let profile = read(&bytes[..at.max(ticks_at + 5000)]).unwrap();
    assert!(!profile.samples.is_empty());
    assert_eq!(profile.notes.remarks.len(), 1);
}
