//! What the formats promise, checked from outside. What only files of other projects prove is in
//! `tests/corpus`.

// A test that lacks something says so.
#![allow(clippy::print_stderr)]

mod chrome_trace;
#[path = "../support/chrome_trace_claims.rs"]
mod chrome_trace_claims;
#[path = "../support/convert.rs"]
mod convert;
mod cpuprofile;
#[path = "../support/cpuprofile_claims.rs"]
mod cpuprofile_claims;
mod events;
mod firefox;
mod fixture;
mod folded;
mod heapprofile;
#[path = "../support/heapprofile_claims.rs"]
mod heapprofile_claims;
mod hostile;
mod html;
#[path = "../support/in_words.rs"]
mod in_words;
mod journal;
mod labels;
#[path = "../support/mutate.rs"]
mod mutate;
mod native;
mod perf_data;
#[path = "../support/perf_data_claims.rs"]
mod perf_data_claims;
mod perf_script;
mod pprof;
#[path = "../support/preprocessed_claims.rs"]
mod preprocessed_claims;
mod sample;
#[path = "../../../nodespy/tests/support/skip.rs"]
mod skip;
mod speedscope;
mod stack_text;
mod v8_log;
mod v8_preprocessed;
mod viewer;
