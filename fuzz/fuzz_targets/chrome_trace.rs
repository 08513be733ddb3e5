//! No bytes may crash, hang or exhaust the chrome-trace importer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_fuzz::feed("chrome-trace", bytes);
});
