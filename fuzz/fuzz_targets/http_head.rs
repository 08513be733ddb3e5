//! No bytes may crash, hang or exhaust the reader of the heads of requests to `nodespy view`.
#![no_main]

// The command is a binary, which nothing can depend on.
#[allow(dead_code)]
#[path = "../../crates/nodespy/src/commands/view/head.rs"]
mod head;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes;
    let _ = head::read_head(&mut bytes);
});
