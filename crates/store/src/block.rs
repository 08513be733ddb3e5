//! Counts as bytes: windows as they arrive, and hours of them.
//!
//! A *key* is a stack id and the role of a thread, `id << 3 | role`. Ids are dense and in the order of arrival, so that
//! differences of ascending keys are small; numbers are LEB128. A window is
//! `[n]` and n times `[key - previous key << 1 | count > 1][count - 2, where that bit is set]`, uncompressed: zstd makes
//! so few bytes longer. An hour has three parts, each a zstd frame that says its size:
//! - sums: `[n][n differences of keys][n totals]`; what merges of whole hours read;
//! - times: `[bytes of occurrences][bytes of gaps]`, then occurrences (windows per key), gaps
//!   (`(window - previous - 1) << 1 | count > 1`, of the first the window itself) and `count - 2` where that bit is set;
//! - counts: the total of each window.

use crate::error::StoreError;
use crate::window::WINDOWS_AN_HOUR;

/// zstd's first level: more of them save a hundredth of the bytes for twice the time.
const ZSTD_LEVEL: i32 = 1;
/// The largest part of an hour. 360 windows of 65,536 counts are less than half of it.
const MAX_PART_BYTES: u64 = 256 << 20;

/// A stack and the role of the thread it was on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(pub(crate) u64);

impl Key {
    pub(crate) fn new(stack: u32, role: u8) -> Self {
        Self(u64::from(stack) << 3 | u64::from(role & 7))
    }

    pub(crate) fn stack(self) -> u64 {
        self.0 >> 3
    }

    /// The number of its role.
    pub(crate) fn role(self) -> usize {
        (self.0 & 7) as usize
    }

    /// The bit of its role in a mask.
    pub(crate) fn role_bit(self) -> u8 {
        1 << (self.0 & 7)
    }
}

pub(crate) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads numbers one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Numbers<'a> {
    bytes: &'a [u8],
}

impl<'a> Numbers<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<u64, StoreError> {
        // Most are one byte.
        if let [byte @ 0..0x80, rest @ ..] = self.bytes {
            self.bytes = rest;
            return Ok(u64::from(*byte));
        }
        self.next_long()
    }

    fn next_long(&mut self) -> Result<u64, StoreError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte, rest @ ..] = self.bytes else {
                return Err(StoreError::Damaged("a block ends too early"));
            };
            self.bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(StoreError::Damaged("a number of a block is too long"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Divides what is left at so many bytes.
    fn split(self, at: u64) -> Result<(Self, Self), StoreError> {
        let at = usize::try_from(at).ok();
        let (before, after) = at
            .and_then(|at| self.bytes.split_at_checked(at))
            .ok_or(StoreError::Damaged("a part of a block ends too early"))?;
        Ok((Self::new(before), Self::new(after)))
    }
}

fn next_key(previous: u64, difference: u64) -> Result<u64, StoreError> {
    previous
        .checked_add(difference)
        .ok_or(StoreError::Damaged("a key of a block is too large"))
}

/// Writes a count after what says whether it is more than one.
fn put_marked(marks: &mut Vec<u8>, extras: Option<&mut Vec<u8>>, value: u64, count: u64) {
    put(marks, value << 1 | u64::from(count > 1));
    if count > 1 {
        put(extras.unwrap_or(marks), count - 2);
    }
}

/// The bytes of a window; its counts are sorted, and those of one key added up. None weighs nothing.
pub(crate) fn encode_window(counts: &mut Vec<(Key, u64)>) -> Vec<u8> {
    counts.retain(|(_, count)| *count > 0);
    counts.sort_unstable_by_key(|(key, _)| *key);
    counts.dedup_by(|later, earlier| {
        let is_same = later.0 == earlier.0;
        if is_same {
            earlier.1 = earlier.1.saturating_add(later.1);
        }
        is_same
    });
    let mut bytes = Vec::with_capacity(counts.len() * 3 + 2);
    put(&mut bytes, counts.len() as u64);
    let mut previous = 0;
    for (key, count) in counts {
        put_marked(&mut bytes, None, key.0 - previous, *count);
        previous = key.0;
    }
    bytes
}

/// Hands out the counts of a window.
pub(crate) fn decode_window(
    bytes: &[u8],
    mut each: impl FnMut(Key, u64),
) -> Result<(), StoreError> {
    let mut numbers = Numbers::new(bytes);
    let mut key = 0;
    for _ in 0..numbers.next()? {
        let marked = numbers.next()?;
        key = next_key(key, marked >> 1)?;
        let count = match marked & 1 {
            0 => 1,
            _ => numbers.next()?.saturating_add(2),
        };
        each(Key(key), count);
    }
    Ok(())
}

/// A count in an hour: key, window of the hour, count.
pub(crate) type Entry = (Key, u16, u64);

/// An hour of a series.
#[derive(Debug, Default)]
pub(crate) struct HourBlock {
    pub(crate) counts: Vec<u8>,
    pub(crate) sums: Vec<u8>,
    pub(crate) times: Vec<u8>,
    /// All counts together.
    pub(crate) total: u64,
}

/// The bytes of an hour; what is of one key and window is added up.
pub(crate) fn encode_hour(entries: &mut Vec<Entry>) -> Result<HourBlock, StoreError> {
    entries.sort_unstable();
    entries.dedup_by(|later, earlier| {
        let is_same = (later.0, later.1) == (earlier.0, earlier.1);
        if is_same {
            earlier.2 = earlier.2.saturating_add(later.2);
        }
        is_same
    });
    let mut sums: Vec<(Key, u64)> = Vec::new();
    let (mut occurrences, mut gaps, mut extras) = (Vec::new(), Vec::new(), Vec::new());
    let mut windows = vec![0_u64; WINDOWS_AN_HOUR as usize];
    for of_key in entries.chunk_by(|left, right| left.0 == right.0) {
        let mut next = 0;
        let mut total = 0_u64;
        for (_, window, count) in of_key {
            put_marked(
                &mut gaps,
                Some(&mut extras),
                u64::from(*window - next),
                *count,
            );
            next = window + 1;
            total = total.saturating_add(*count);
            let sum = &mut windows[usize::from(*window)];
            *sum = sum.saturating_add(*count);
        }
        put(&mut occurrences, of_key.len() as u64);
        sums.push((of_key[0].0, total));
    }
    let mut times = Vec::with_capacity(occurrences.len() + gaps.len() + extras.len() + 8);
    put(&mut times, occurrences.len() as u64);
    put(&mut times, gaps.len() as u64);
    times.extend_from_slice(&occurrences);
    times.extend_from_slice(&gaps);
    times.extend_from_slice(&extras);
    let mut counts = Vec::new();
    windows.iter().for_each(|window| put(&mut counts, *window));
    Ok(HourBlock {
        counts: compress(&counts)?,
        sums: encode_sums(&sums)?,
        times: compress(&times)?,
        total: windows
            .iter()
            .fold(0, |sum, window| sum.saturating_add(*window)),
    })
}

/// The bytes of totals, whose keys ascend.
pub(crate) fn encode_sums(sums: &[(Key, u64)]) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(sums.len() * 3 + 4);
    put(&mut bytes, sums.len() as u64);
    let mut previous = 0;
    for (key, _) in sums {
        put(&mut bytes, key.0 - previous);
        previous = key.0;
    }
    sums.iter().for_each(|(_, total)| put(&mut bytes, *total));
    compress(&bytes)
}

/// Hands out the totals of an hour.
pub(crate) fn decode_sums(bytes: &[u8], mut each: impl FnMut(Key, u64)) -> Result<(), StoreError> {
    let bytes = decompress(bytes)?;
    let mut keys = Numbers::new(&bytes);
    let length = keys.next()?;
    let mut totals = keys.clone();
    for _ in 0..length {
        totals.next()?;
    }
    let mut key = 0;
    for _ in 0..length {
        key = next_key(key, keys.next()?)?;
        each(Key(key), totals.next()?);
    }
    Ok(())
}

/// Hands out every count of an hour.
pub(crate) fn decode_hour(
    sums: &[u8],
    times: &[u8],
    mut each: impl FnMut(Key, u16, u64),
) -> Result<(), StoreError> {
    let (sums, times) = (decompress(sums)?, decompress(times)?);
    let mut keys = Numbers::new(&sums);
    let mut numbers = Numbers::new(&times);
    let (occurrence_bytes, gap_bytes) = (numbers.next()?, numbers.next()?);
    let (mut occurrences, rest) = numbers.split(occurrence_bytes)?;
    let (mut gaps, mut extras) = rest.split(gap_bytes)?;
    let mut key = 0;
    for _ in 0..keys.next()? {
        key = next_key(key, keys.next()?)?;
        let mut next = 0_u64;
        for _ in 0..occurrences.next()? {
            let marked = gaps.next()?;
            let window = next.saturating_add(marked >> 1);
            if window >= WINDOWS_AN_HOUR {
                return Err(StoreError::Damaged("a window is outside of its hour"));
            }
            next = window + 1;
            let count = match marked & 1 {
                0 => 1,
                _ => extras.next()?.saturating_add(2),
            };
            each(Key(key), window as u16, count);
        }
    }
    Ok(())
}

/// Hands out the totals of the windows of an hour.
pub(crate) fn decode_counts(
    bytes: &[u8],
    mut each: impl FnMut(u64, u64),
) -> Result<(), StoreError> {
    let bytes = decompress(bytes)?;
    let mut numbers = Numbers::new(&bytes);
    for window in 0..WINDOWS_AN_HOUR {
        if numbers.is_empty() {
            break;
        }
        each(window, numbers.next()?);
    }
    Ok(())
}

fn compress(bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    zstd::bulk::compress(bytes, ZSTD_LEVEL)
        .map_err(|_| StoreError::Refused("an hour is too large to be compressed"))
}

fn decompress(bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    let size = zstd::zstd_safe::get_frame_content_size(bytes)
        .ok()
        .flatten();
    let size = size
        .filter(|size| *size <= MAX_PART_BYTES)
        .ok_or(StoreError::Damaged("a block has no size, or a wrong one"))?;
    zstd::bulk::decompress(bytes, size as usize)
        .map_err(|_| StoreError::Damaged("a block can't be decompressed"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    fn keys() -> impl Strategy<Value = Key> {
        prop_oneof![0_u64..2_000, 0_u64..1 << 35].prop_map(Key)
    }

    proptest! {
        #[test]
        fn a_window_is_read_as_it_was_written(counts in vec((keys(), 0_u64..5), 0..200)) {
            let mut expected: BTreeMap<Key, u64> = BTreeMap::new();
            for (key, count) in counts.iter().filter(|(_, count)| *count > 0) {
                *expected.entry(*key).or_default() += count;
            }
            let mut found = Vec::new();
            let bytes = encode_window(&mut counts.clone());
            decode_window(&bytes, |key, count| found.push((key, count))).unwrap();
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn an_hour_is_read_as_it_was_written(
            entries in btree_map((keys(), 0_u16..360), prop_oneof![1_u64..4, Just(u64::MAX / 100_000)], 0..500),
        ) {
            let mut entries: Vec<Entry> =
                entries.into_iter().map(|((key, window), count)| (key, window, count)).collect();
            let block = encode_hour(&mut entries).unwrap();
            let mut found = Vec::new();
            decode_hour(&block.sums, &block.times, |key, window, count| found.push((key, window, count))).unwrap();
            prop_assert_eq!(&found, &entries);
            let mut sums: BTreeMap<Key, u64> = BTreeMap::new();
            let mut windows = vec![0; 360];
            for (key, window, count) in entries {
                *sums.entry(key).or_default() += count;
                windows[usize::from(window)] += count;
            }
            let mut found = Vec::new();
            decode_sums(&block.sums, |key, total| found.push((key, total))).unwrap();
            prop_assert_eq!(found, sums.into_iter().collect::<Vec<_>>());
            let mut found = Vec::new();
            decode_counts(&block.counts, |_, count| found.push(count)).unwrap();
            prop_assert_eq!(block.total, windows.iter().sum::<u64>());
            prop_assert_eq!(found, windows);
        }

        #[test]
        fn bytes_that_mean_nothing_are_refused_or_read(bytes in vec(any::<u8>(), 0..300)) {
            let _ = decode_window(&bytes, |_, _| {});
            let _ = decode_counts(&bytes, |_, _| {});
            let packed = compress(&bytes).unwrap();
            let _ = decode_sums(&packed, |_, _| {});
            let _ = decode_counts(&packed, |_, _| {});
            let _ = decode_hour(&packed, &packed, |_, _, _| {});
        }
    }

    #[test]
    fn a_block_that_claims_to_be_huge_is_not_given_the_memory() {
        // A frame whose header says 8 EiB.
        let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
        bytes.extend_from_slice(&(1_u64 << 63).to_le_bytes());
        assert!(matches!(decompress(&bytes), Err(StoreError::Damaged(_))));
    }
}
