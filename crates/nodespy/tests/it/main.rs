//! The binary as its users meet it: what it prints, writes and answers. What it records of live
//! processes is in `tests/live`.

#![allow(
    clippy::print_stderr,
    reason = "a test that skips says so, and a recording that surprises is shown"
)]

mod architecture;
#[path = "../support/at_exit.rs"]
mod at_exit;
mod browser;
mod collapse;
mod command;
mod corpus;
mod filters;
mod flamegraph;
mod perf_data;
mod reports;
#[allow(dead_code, reason = "the live tests use all of it")]
#[path = "../support/run.rs"]
mod run;
#[path = "../support/scratch.rs"]
mod scratch;
#[path = "../support/skip.rs"]
mod skip;
mod sources;
mod v8_log_report;
mod viewer;
mod webdriver;
