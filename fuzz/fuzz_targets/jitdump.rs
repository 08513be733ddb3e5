//! No bytes may crash, hang or exhaust the jitdump reader.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_symbolize::fuzzing::jitdump(bytes);
});
