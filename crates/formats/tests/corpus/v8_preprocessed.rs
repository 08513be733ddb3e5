//! What `node --prof-process --preprocess` writes.

use std::io::Read;

use nodespy_formats::detect;
use nodespy_model::Tier;

use crate::convert::read;
use crate::corpus;
use crate::preprocessed_claims::{
    a_log_is_preprocessed_to_the_same, cut_off_it_keeps_the_ticks_before, self_ticks,
};

fn corpus_json() -> Vec<u8> {
    let packed = corpus("v8-log/node20-v8.preprocessed.json.gz");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
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
    a_log_is_preprocessed_to_the_same(&corpus("v8-log/node20-v8.log"), &corpus_json());
}

#[test]
fn a_file_that_is_cut_off_keeps_the_ticks_before() {
    cut_off_it_keeps_the_ticks_before(&corpus_json());
}
