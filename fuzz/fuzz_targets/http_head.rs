//! No bytes may crash, hang or exhaust the reader of the heads of requests to `nodespy view` and `nodespy serve`.
#![no_main]

// By its path: the crate would bring TLS along.
#[allow(dead_code)]
#[path = "../../crates/http/src/head.rs"]
mod head;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes;
    let _ = head::read_head(&mut bytes);
});
