//! The binary as its users meet it: what it prints, writes and answers. What it records of live
//! processes is in `tests/live`; what only files of other projects prove is in `tests/corpus`.

#![allow(
    clippy::print_stderr,
    reason = "a test that skips says so, and a recording that surprises is shown"
)]

mod architecture;
#[path = "../support/at_exit.rs"]
mod at_exit;
mod browser;
mod clickhouse;
#[path = "../support/clickhouse.rs"]
mod clickhouse_server;
mod collapse;
#[path = "../support/collapsed.rs"]
mod collapsed;
mod command;
mod confined;
mod diff;
mod documents;
mod examples;
mod filters;
mod fixture;
mod flamegraph;
mod ingest;
#[path = "../support/installed_node.rs"]
mod installed_node;
mod mcp;
mod outputs;
#[path = "../support/own_status.rs"]
mod own_status;
mod packages;
mod perf_data;
#[path = "../support/perf_text.rs"]
mod perf_text;
#[path = "../support/prof_report.rs"]
mod prof_report;
mod query;
mod reports;
mod routes;
#[allow(dead_code, reason = "`tests/live` uses the rest")]
#[path = "../support/run.rs"]
mod run;
#[allow(dead_code, reason = "`tests/live` uses the rest")]
#[path = "../support/scratch.rs"]
mod scratch;
mod serve;
mod serve_page;
#[allow(dead_code, reason = "`tests/live` uses the rest")]
#[path = "../support/serving.rs"]
mod serving;
#[path = "../support/skip.rs"]
mod skip;
mod sources;
mod tls;
mod troubleshooting;
mod v8_log_report;
mod viewer;
#[path = "../support/webdriver.rs"]
mod webdriver;
mod webhook;
