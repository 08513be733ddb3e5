//! No bytes may crash, hang or exhaust the firefox importer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_fuzz::feed("firefox", bytes);
});
