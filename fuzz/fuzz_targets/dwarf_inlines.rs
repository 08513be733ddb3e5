//! No bytes may crash, hang or exhaust the reader of inlined functions in debug information.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_symbolize::fuzzing::dwarf_inlines(bytes);
});
