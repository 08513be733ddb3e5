//! No bytes may crash, hang or exhaust the perf script importer or `nodespy collapse`.
#![no_main]

use nodespy_formats::{CollapseOptions, collapse};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_fuzz::feed("perf-script", bytes);
    for has_source_lines in [false, true] {
        let options = CollapseOptions {
            has_source_lines,
            ..CollapseOptions::default()
        };
        drop(collapse([bytes], &options, None).write(&mut std::io::sink()));
    }
});
