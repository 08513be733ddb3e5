//! The properties of objects that have them in a dictionary: those without a prototype, and those with very many.

use super::heap::{is_pointer, small_integer};
use super::sampled::Sampled;

/// Where a dictionary has its number of words after this, and how many entries it has room for.
const LENGTH: u64 = 8;
const CAPACITY: u64 = 32;
const OWN_WORDS_START: u64 = 16;
/// How many words it has of its own before the entries: versions of V8 differ.
const OWN_WORDS: std::ops::RangeInclusive<i64> = 5..=6;
/// Of an entry: its name, its value, and what kind of property it is.
const ENTRY_WORDS: i64 = 3;
/// A larger one is not copied.
const MAX_CAPACITY: i64 = 64;

/// The names and values of a dictionary, as they were at the sample; none where it is no dictionary, or a large one.
pub(super) fn entries(sampled: &mut Sampled<'_, '_>, dictionary: u64) -> Option<Vec<(u64, u64)>> {
    let length = small_integer(sampled.field(dictionary, LENGTH)?)?;
    let capacity = small_integer(sampled.field(dictionary, CAPACITY)?)?;
    if !(1..=MAX_CAPACITY).contains(&capacity) {
        return None;
    }
    let own_words = length.checked_sub(ENTRY_WORDS * capacity)?;
    if !OWN_WORDS.contains(&own_words) {
        return None;
    }
    let start = OWN_WORDS_START + 8 * own_words as u64;
    let entry = |position: i64| {
        let at = start + 8 * (ENTRY_WORDS * position) as u64;
        let (name, value) = (
            sampled.field(dictionary, at)?,
            sampled.field(dictionary, at + 8)?,
        );
        is_pointer(name).then_some((name, value))
    };
    Some((0..capacity).filter_map(entry).collect())
}
