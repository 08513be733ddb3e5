//! No bytes may crash, hang or exhaust the reader of windows and hours of a store.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_store::fuzzing::block(bytes);
});
