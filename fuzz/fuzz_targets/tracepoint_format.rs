//! No format file of a tracepoint may crash what reads it, whatever its samples carry.
#![no_main]

use nodespy_perf_abi::TracepointFormat;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // The file ends where the raw bytes of a sample start.
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (file, raw) = bytes.split_at(end);
    let format = TracepointFormat::parse(&String::from_utf8_lossy(file));
    for field in format.fields() {
        let _ = field.value(raw);
    }
});
