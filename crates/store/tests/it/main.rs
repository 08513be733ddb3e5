//! What every store promises, on each engine; and what the embedded one does when it is killed or damaged.

#![allow(clippy::print_stderr, reason = "a test that skips says so")]

mod agreement;
mod clickhouse;
#[path = "../../../nodespy/tests/support/clickhouse.rs"]
mod clickhouse_server;
mod crash;
mod damage;
mod fleet;
mod large;
mod plain;
mod promises;
mod retention;
mod round_trip;
#[path = "../../../nodespy/tests/support/skip.rs"]
mod skip;
