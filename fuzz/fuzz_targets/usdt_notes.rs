//! No bytes may crash what reads the notes of probes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nodespy_symbolize::fuzzing::usdt_notes(bytes));
