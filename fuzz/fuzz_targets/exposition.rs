//! No bytes may crash, hang or exhaust the reader of pages of metrics, by which `nodespy agent` counts requests.
#![no_main]

// By its path: the crate would bring everything along that samples.
#[path = "../../crates/agent/src/requests/exposition.rs"]
mod exposition;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let page = String::from_utf8_lossy(bytes);
    if let Some(total) = exposition::total_of(&page, "http_requests_total") {
        assert!(total <= 1 << 53);
    }
});
