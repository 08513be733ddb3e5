//! The heap walk, on memory that lies.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_symbolize::fuzzing::heap(bytes);
});
