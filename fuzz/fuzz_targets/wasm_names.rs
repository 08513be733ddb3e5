//! No bytes may crash, hang or exhaust the reader of WebAssembly names.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_symbolize::fuzzing::wasm_names(bytes);
});
