//! What the formats promise, checked from outside.

// A test that lacks something says so.
#![allow(clippy::print_stderr)]

mod chrome_trace;
mod corpus;
mod cpuprofile;
mod firefox;
mod folded;
mod heapprofile;
mod hostile;
mod html;
mod labels;
mod native;
mod perf_data;
mod perf_script;
mod pprof;
mod sample;
mod speedscope;
mod stack_text;
mod v8_log;
mod v8_preprocessed;
mod viewer;
