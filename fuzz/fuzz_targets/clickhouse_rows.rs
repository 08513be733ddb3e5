//! No bytes may crash, hang or exhaust the reader of what ClickHouse answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_store::fuzzing::clickhouse_rows(bytes);
});
