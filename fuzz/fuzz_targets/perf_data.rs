//! No bytes may crash, hang or exhaust the perf.data reader.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_fuzz::feed("perf.data", bytes);
});
