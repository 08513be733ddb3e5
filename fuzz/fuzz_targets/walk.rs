//! The walk at a sample, on memory that lies.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_capture::fuzzing::walk(bytes);
});
