//! No bytes may crash, hang or exhaust the importer of preprocessed V8 logs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_fuzz::feed("v8-preprocessed", bytes);
});
