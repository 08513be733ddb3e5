//! No bytes may crash, hang or exhaust the reader of the bodies of requests to `nodespy serve`.
#![no_main]

// By its path: the crate would bring TLS along.
#[allow(dead_code)]
#[path = "../../crates/http/src/body.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for is_chunked in [false, true] {
        let mut bytes = bytes;
        let length = bytes.len() as u64;
        if let Ok(body) = body::read_body(&mut bytes, Some(length / 2), is_chunked, 1 << 16) {
            assert!(body.len() <= 1 << 16);
        }
    }
});
