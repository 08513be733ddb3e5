//! No bytes may crash, hang or exhaust the bpftrace importer. The importers that go through
//! inferno have no target: inferno panics on some bytes, which they catch and a fuzzer would not.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_fuzz::feed("bpftrace", bytes);
});
