//! No bytes may crash, hang or exhaust the elf reader.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_symbolize::fuzzing::elf(bytes);
});
