//! The binary as its users meet it: what it prints, writes and answers. What it records of live
//! processes is in `tests/live`.

#![allow(
    clippy::print_stderr,
    reason = "a test that skips says so, and a recording that surprises is shown"
)]

mod architecture;
mod browser;
mod collapse;
mod command;
mod corpus;
mod filters;
mod flamegraph;
mod perf_data;
mod reports;
#[path = "../support/run.rs"]
mod run;
#[path = "../support/scratch.rs"]
mod scratch;
mod sources;
mod v8_log_report;
mod viewer;
mod webdriver;
