//! No bytes may crash, hang or exhaust the source_map reader.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_symbolize::fuzzing::source_map(bytes);
});
