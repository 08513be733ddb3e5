//! No bytes may crash, hang or exhaust the reader of a Go program's table of functions.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_symbolize::fuzzing::go_functions(bytes);
});
