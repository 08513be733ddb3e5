//! Bytes that were made to hurt: a short, repeatable stand-in for the fuzz targets.

use std::time::{Duration, Instant};

use nodespy_formats::{CollapseOptions, ImportOptions, Limits, collapse, import};
use nodespy_model::{Contents, Recording};

/// Random numbers that are the same in every run.
pub(crate) struct Xorshift(u64);

impl Xorshift {
    pub(crate) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

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

/// Bits flipped, a part cut out or doubled, or the end missing.
pub(crate) fn mutate(bytes: &mut Vec<u8>, random: &mut Xorshift) {
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
                let part = bytes[at..at + length].to_vec();
                let target = random.below(bytes.len());
                bytes.splice(target..target, part);
            }
        }
    }
}

/// Feeds the importer `from` with 20 000 variations of `good`, each `wrap`ped.
pub(crate) fn survive(from: &str, good: &[u8], wrap: impl Fn(&[u8]) -> Vec<u8>) {
    let mut random = Xorshift::new();
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

/// Collapses 5000 variations of `good`: every line of what comes out is a stack of its own, in order.
pub(crate) fn collapse_survives(good: &[u8]) {
    let options = CollapseOptions {
        has_source_lines: true,
        with_addresses: true,
        skip_after: vec!["runtime.main".to_owned()],
        ..CollapseOptions::default()
    };
    let mut random = Xorshift::new();
    for turn in 0..5000 {
        let mut bytes = good.to_vec();
        mutate(&mut bytes, &mut random);
        let options = match turn % 2 {
            0 => &CollapseOptions::default(),
            _ => &options,
        };
        let mut folded = Vec::new();
        let collapsed = collapse([&bytes[..]], options, None);
        collapsed.write(&mut folded).unwrap();
        let mut keys: Vec<&[u8]> = (folded.split(|byte| *byte == b'\n'))
            .filter_map(|line| Some(&line[..line.iter().rposition(|byte| *byte == b' ')?]))
            .collect();
        let written = keys.len();
        keys.dedup();
        assert!(keys.is_sorted() && keys.len() == written);
    }
}

/// A perf.data file short enough to be hit everywhere: the features behind its records, and of the
/// records the first 12 000 bytes.
pub(crate) fn shortened_perf_data(mut good: Vec<u8>) -> Vec<u8> {
    const KEEP: u64 = 12_000;
    let number =
        |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (start, size) = (number(&good, 40), number(&good, 48));
    let mut features = good.split_off((start + size) as usize);
    good.truncate((start + KEEP) as usize);
    good[48..56].copy_from_slice(&KEEP.to_le_bytes());
    let count: u32 = good[72..104].iter().map(|byte| byte.count_ones()).sum();
    for entry in features[..count as usize * 16].chunks_exact_mut(16) {
        let offset = number(entry, 0) - (size - KEEP);
        entry[..8].copy_from_slice(&offset.to_le_bytes());
    }
    good.extend(features);
    good
}
