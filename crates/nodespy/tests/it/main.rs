//! The binary as its users meet it: what it prints, writes, answers and leaves behind, and whether
//! the profiles it makes are true. One test binary, because linking is the slow part.

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
mod live;
mod perf_data;
mod reports;
mod run;
mod scratch;
mod sources;
mod v8_log_report;
mod viewer;
mod webdriver;
