//! No bytes may crash, hang or exhaust the reader of what a receiver of OTLP profiles answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = nodespy_otlp::rejected(bytes);
    let _ = nodespy_otlp::failure_message(bytes);
});
