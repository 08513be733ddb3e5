//! No bytes bring a reader down.

use crate::fixture::fixture;
use crate::mutate::{collapse_survives, shortened_perf_data, survive};
use crate::sample::{small, with_timelines, written};

#[test]
fn no_packed_bytes_bring_the_nspy_reader_down() {
    survive("nspy", &written(&small(), "nspy"), <[u8]>::to_vec);
}

#[test]
fn no_content_brings_the_nspy_reader_down() {
    use flate2::{Compression, read::GzDecoder, write::GzEncoder};
    use std::io::{Read, Write};

    let file = written(&with_timelines(), "nspy");
    let (header, stream) = file.split_at(16);
    let mut content = Vec::new();
    GzDecoder::new(stream).read_to_end(&mut content).unwrap();
    survive("nspy", &content, |content| {
        let mut packer = GzEncoder::new(header.to_vec(), Compression::none());
        packer.write_all(content).unwrap();
        packer.finish().unwrap()
    });
}

#[test]
fn no_text_brings_the_folded_reader_down() {
    survive("folded", &written(&small(), "folded"), <[u8]>::to_vec);
}

#[test]
fn no_text_brings_the_cpuprofile_reader_down() {
    survive(
        "cpuprofile",
        &written(&small(), "cpuprofile"),
        <[u8]>::to_vec,
    );
    let nested = fixture("cpuprofile/node20-nested.cpuprofile");
    survive("cpuprofile", &nested[..4000], <[u8]>::to_vec);
}

#[test]
fn no_text_brings_the_heapprofile_reader_down() {
    let file = fixture("heapprofile/node20.heapprofile");
    survive("heapprofile", &file[..2000], <[u8]>::to_vec);
}

#[test]
fn no_text_brings_the_chrome_trace_reader_down() {
    survive(
        "chrome-trace",
        &written(&small(), "chrome-trace"),
        <[u8]>::to_vec,
    );
    for name in ["begin-end", "stack-frames"] {
        let file = fixture(&format!("chrome_trace/{name}.json"));
        survive("chrome-trace", &file, <[u8]>::to_vec);
    }
}

#[test]
fn no_page_brings_the_html_reader_down() {
    let first = b"<!doctype html><p>nodespy<script type=\"application/nspy\" id=\"recording\">\
        TlNQWQ0KGgoBAAAAAAAAAB+LCAAAAAAAAP8DAAAAAAAAAAAA</script></html>";
    survive("html", first, <[u8]>::to_vec);
    let of_today = crate::html::page_of_today(&written(&small(), "nspy"));
    survive("html", &of_today, <[u8]>::to_vec);
}

#[test]
fn no_bytes_bring_the_pprof_reader_down() {
    use std::io::Read;

    let mut content = Vec::new();
    flate2::read::GzDecoder::new(&written(&small(), "pprof")[..])
        .read_to_end(&mut content)
        .unwrap();
    survive("pprof", &content, <[u8]>::to_vec);
}

#[test]
fn no_text_brings_the_firefox_reader_down() {
    let text = crate::firefox::unpacked(&small());
    survive("firefox", &text, <[u8]>::to_vec);
}

#[test]
fn no_text_brings_the_speedscope_reader_down() {
    survive(
        "speedscope",
        &written(&small(), "speedscope"),
        <[u8]>::to_vec,
    );
    let events = fixture("speedscope/evented.speedscope.json");
    survive("speedscope", &events, <[u8]>::to_vec);
}

#[test]
fn no_bytes_bring_the_perf_data_reader_down() {
    let good = shortened_perf_data(fixture("perf_data/node20.perf.data"));
    survive("perf.data", &good, <[u8]>::to_vec);
}

#[test]
fn no_text_brings_the_v8_log_reader_down() {
    survive("v8-log", crate::v8_log::SMALL.as_bytes(), <[u8]>::to_vec);
}

#[test]
fn no_text_brings_the_perf_script_reader_down() {
    let ours = written(&small(), "perf-script");
    survive("perf-script", &ours, <[u8]>::to_vec);
    let perf = fixture("perf_script/dd.txt.gz");
    survive("perf-script", &perf[..3000], <[u8]>::to_vec);
}

#[test]
fn no_text_brings_collapse_down() {
    collapse_survives(&fixture("perf_script/dd.txt.gz")[..6000]);
}

#[test]
fn no_text_of_other_profilers_brings_their_readers_down() {
    use crate::stack_text::{BPFTRACE, DTRACE, SAMPLE, VTUNE, XCTRACE};

    survive("bpftrace", BPFTRACE.as_bytes(), <[u8]>::to_vec);
    survive("dtrace", DTRACE.as_bytes(), <[u8]>::to_vec);
    survive("sample", SAMPLE.as_bytes(), <[u8]>::to_vec);
    survive("vtune", VTUNE.as_bytes(), <[u8]>::to_vec);
    survive("xctrace", XCTRACE.as_bytes(), <[u8]>::to_vec);
}

#[test]
fn no_text_brings_the_reader_of_preprocessed_logs_down() {
    let log = crate::sample::read(crate::v8_log::SMALL.as_bytes()).unwrap();
    survive(
        "v8-preprocessed",
        &written(&log, "v8-preprocessed"),
        <[u8]>::to_vec,
    );
}
