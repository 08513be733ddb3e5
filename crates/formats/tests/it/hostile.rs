//! Bytes that were made to hurt: a short, repeatable stand-in for the fuzz targets.

use std::time::{Duration, Instant};

use nodespy_formats::{ImportOptions, Limits, import};
use nodespy_model::{Contents, Recording};

use crate::sample::{small, written};

/// Random numbers that are the same in every run.
struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Bits flipped, a piece cut out or doubled, or the end missing.
fn mutate(bytes: &mut Vec<u8>, random: &mut Xorshift) {
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        let length = random.below(bytes.len() - at).min(200);
        match random.below(6) {
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = random.next() as u8,
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..at + length)),
            _ => {
                let piece = bytes[at..at + length].to_vec();
                let target = random.below(bytes.len());
                bytes.splice(target..target, piece);
            }
        }
    }
}

/// Feeds the importer `from` with 20 000 variations of `good`, each `wrap`ped.
fn survive(from: &str, good: &[u8], wrap: impl Fn(&[u8]) -> Vec<u8>) {
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    let options = ImportOptions {
        limits: Limits {
            unpacked_bytes: 1 << 20,
            ..Limits::default()
        },
        ..ImportOptions::from(Some(from))
    };
    let start = Instant::now();
    let mut slowest = Duration::ZERO;
    for _ in 0..20_000 {
        let mut bytes = good.to_vec();
        mutate(&mut bytes, &mut random);
        let bytes = wrap(&bytes);
        let before = start.elapsed();
        drop(import(bytes.into(), &options).map(replay));
        slowest = slowest.max(start.elapsed() - before);
    }
    assert!(slowest < Duration::from_secs(5), "one took {slowest:?}");
}

/// Raw events are read only when they are handed over.
fn replay(recording: Recording) {
    if let Contents::Events(events) = recording.contents {
        events.replay(&mut |_| {});
    }
}

#[test]
fn no_packed_bytes_bring_the_nspy_reader_down() {
    survive("nspy", &written(&small(), "nspy"), <[u8]>::to_vec);
}

#[test]
fn no_content_brings_the_nspy_reader_down() {
    use flate2::{Compression, read::GzDecoder, write::GzEncoder};
    use std::io::{Read, Write};

    let file = written(&small(), "nspy");
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
    let nested = crate::corpus::corpus("cpuprofile/node10-example.cpuprofile");
    survive("cpuprofile", &nested, <[u8]>::to_vec);
}

#[test]
fn no_text_brings_the_heapprofile_reader_down() {
    let file = crate::corpus::corpus("heapprofile/node10.heapprofile");
    survive("heapprofile", &file[..2000], <[u8]>::to_vec);
}

#[test]
fn no_text_brings_the_chrome_trace_reader_down() {
    survive(
        "chrome-trace",
        &written(&small(), "chrome-trace"),
        <[u8]>::to_vec,
    );
    for name in ["event-simple", "event-simple-with-samples"] {
        let file = crate::corpus::corpus(&format!("chrome-trace/{name}.json"));
        survive("chrome-trace", &file, <[u8]>::to_vec);
    }
}

#[test]
fn no_page_brings_the_html_reader_down() {
    let page = b"<!doctype html><p>nodespy<script type=\"application/nspy\" id=\"recording\">\
        TlNQWQ0KGgoBAAAAAAAAAB+LCAAAAAAAAP8DAAAAAAAAAAAA</script></html>";
    survive("html", page, <[u8]>::to_vec);
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
    let events = crate::sample::corpus("speedscope/simple.speedscope.json");
    survive("speedscope", &events, <[u8]>::to_vec);
}

#[test]
fn no_bytes_bring_the_perf_data_reader_down() {
    let root = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/corpus/perf-data"
    );
    let mut good = std::fs::read(format!("{root}/node20.perf.data")).unwrap();
    // The features behind the records, then a few records: short enough to be hit everywhere.
    let records = 424..424 + 63_560;
    let keep = 12_000;
    let features = good.split_off(records.end);
    good.truncate(records.start + keep);
    let moved = (records.len() - keep) as u64;
    good[48..56].copy_from_slice(&(keep as u64).to_le_bytes());
    let mut features = features;
    let count: u32 = good[72..104].iter().map(|byte| byte.count_ones()).sum();
    for entry in features[..count as usize * 16].chunks_exact_mut(16) {
        let offset = u64::from_le_bytes(entry[..8].try_into().unwrap()) - moved;
        entry[..8].copy_from_slice(&offset.to_le_bytes());
    }
    good.extend(features);
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
    let perf = crate::corpus::corpus("perf-script/perf-js-stacks-01.txt");
    survive("perf-script", &perf, <[u8]>::to_vec);
}

#[test]
fn no_text_brings_collapse_down() {
    let good = crate::corpus::corpus("perf-script/inferno-go-stacks.txt");
    let options = nodespy_formats::CollapseOptions {
        has_source_lines: true,
        with_addresses: true,
        skip_after: vec!["runtime.main".to_owned()],
        ..nodespy_formats::CollapseOptions::default()
    };
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    for turn in 0..5000 {
        let mut bytes = good.clone();
        mutate(&mut bytes, &mut random);
        let options = match turn % 2 {
            0 => &nodespy_formats::CollapseOptions::default(),
            _ => &options,
        };
        let mut folded = Vec::new();
        let collapsed = nodespy_formats::collapse([&bytes[..]], options, None);
        collapsed.write(&mut folded).unwrap();
        let mut keys: Vec<&[u8]> = (folded.split(|byte| *byte == b'\n'))
            .filter_map(|line| Some(&line[..line.iter().rposition(|byte| *byte == b' ')?]))
            .collect();
        let written = keys.len();
        keys.dedup();
        assert!(keys.is_sorted() && keys.len() == written);
    }
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
