//! Objects as they were at the sampled instruction: read of what was copied there, and of nothing else where there is any;
//! or of a thread that stands still. What lives only for moments must not be read later: another object may be in its place.

use super::async_layout::AsyncLayout;
use super::heap::{Heap, is_pointer, small_integer};

/// How many parts of a concatenation are read.
const MAX_PARTS: usize = 8;
/// How many strings may stand in for one another.
const STRING_DEPTH: usize = 4;
/// A context with more slots is not looked into.
const MAX_SLOTS: u64 = 16;
/// How many characters of a string are read.
const MAX_CHARACTERS: usize = 256;

/// The objects of a sample.
pub(super) struct Sampled<'a, 'heap> {
    pub(super) heap: &'a mut Heap<'heap>,
}

/// The characters of a string.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SampledText {
    pub(super) text: String,
    /// Whether more of it was not copied.
    pub(super) is_cut: bool,
}

impl Sampled<'_, '_> {
    /// A word of memory.
    pub(super) fn word(&mut self, address: u64) -> Option<u64> {
        match self.heap.copied.is_empty() {
            true => self.heap.word(address),
            false => self.heap.copied.word(address),
        }
    }

    /// A field of an object.
    pub(super) fn field(&mut self, object: u64, offset: u64) -> Option<u64> {
        if !is_pointer(object) {
            return None;
        }
        self.word((object & !3).checked_add(offset)?)
    }

    /// The object a pointer leads to, where the collector may just have moved it.
    pub(super) fn current(&mut self, object: u64) -> Option<u64> {
        let map = self.field(object, 0)?;
        if is_pointer(map) {
            return Some(object);
        }
        let moved = map | 1;
        (map & 1 == 0 && is_pointer(moved)).then_some(moved)
    }

    /// The instance type of an object. Maps stay where they are.
    pub(super) fn type_of(&mut self, object: u64) -> Option<u16> {
        let map = self.field(object, 0)?;
        self.heap.type_of_map(map)
    }

    pub(super) fn is(&mut self, object: u64, kind: u16) -> bool {
        self.type_of(object) == Some(kind)
    }

    /// How many slots a context has; none where that is no context, or a large one: that of a realm, or of a module.
    pub(super) fn slots(&mut self, layout: &AsyncLayout, context: u64) -> Option<u64> {
        let kind = self.type_of(context)?;
        if !layout.contexts.contains(&kind) {
            return None;
        }
        let length = self.field(context, AsyncLayout::CONTEXT_LENGTH)?;
        let slots = u64::try_from(small_integer(length)?).ok()?;
        (2..=MAX_SLOTS).contains(&slots).then_some(slots)
    }

    /// The text of a string, as far as it was copied.
    pub(super) fn text(&mut self, object: u64) -> Option<SampledText> {
        let mut parts = vec![object];
        let mut whole: Option<SampledText> = None;
        for _ in 0..MAX_PARTS {
            let Some(part) = parts.pop() else { break };
            if let Some((first, second)) = self.concatenated(part) {
                parts.extend([second, first]);
                continue;
            }
            let text = self.part(part);
            match &mut whole {
                None => whole = Some(text?),
                Some(whole) => {
                    whole.is_cut |= text.as_ref().is_none_or(|text| text.is_cut);
                    whole.text += text.as_ref().map_or("", |text| &text.text);
                }
            }
            if whole.as_ref().is_some_and(|whole| whole.is_cut) {
                break;
            }
        }
        let mut whole = whole?;
        whole.is_cut |= !parts.is_empty();
        Some(whole)
    }

    /// The two strings of a concatenation. Once it is flat the first has all of it.
    fn concatenated(&mut self, object: u64) -> Option<(u64, u64)> {
        let kind = self.type_of(object)?;
        if kind >= self.heap.layout.first_nonstring_type || kind & 7 != 1 {
            return None;
        }
        let (first, second) = (self.field(object, 16)?, self.field(object, 24)?);
        let is_flat = self.field(first, 8)? >> 32 == self.field(object, 8)? >> 32;
        (!is_flat).then_some((first, second))
    }

    /// The text of a string that is no concatenation, or a flat one.
    fn part(&mut self, object: u64) -> Option<SampledText> {
        let (mut object, mut start) = (object, 0);
        let mut wanted = None;
        for _ in 0..STRING_DEPTH {
            let kind = self.type_of(object)?;
            if kind >= self.heap.layout.first_nonstring_type {
                return None;
            }
            let length = (self.field(object, 8)? >> 32) as usize;
            let characters = *wanted.get_or_insert(length);
            match kind & 7 {
                0 => {
                    let is_wide = kind & 8 == 0;
                    let available = length.saturating_sub(start).min(characters);
                    let data = (object & !3).checked_add(16)?;
                    return Some(self.characters(data, (start, available), is_wide));
                }
                // An external one, whose characters are outside of the heap; where it says so itself.
                2 if kind & 0x18 == 8 => {
                    let available = length.saturating_sub(start).min(characters);
                    let data = self.field(object, 24)?;
                    return Some(self.characters(data, (start, available), false));
                }
                // A slice, which starts somewhere in its parent.
                3 => {
                    start += usize::try_from(small_integer(self.field(object, 24)?)?).ok()?;
                    object = self.field(object, 16)?;
                }
                // The first part of a concatenation, which is all of it once it is flat; a string that another stands for.
                1 | 5 => object = self.field(object, 16)?,
                _ => return None,
            }
        }
        None
    }

    /// The characters from an address on.
    fn characters(
        &mut self,
        data: u64,
        (start, length): (usize, usize),
        is_wide: bool,
    ) -> SampledText {
        let width = if is_wide { 2 } else { 1 };
        let mut units = Vec::new();
        for position in start..start.saturating_add(length.min(MAX_CHARACTERS)) {
            let at = position as u64 * width;
            let Some(word) = self.word(data.saturating_add(at & !7)) else {
                break;
            };
            let unit = word >> (8 * (at & 7));
            units.push(if is_wide {
                unit as u16
            } else {
                unit as u16 & 0xff
            });
        }
        SampledText {
            is_cut: units.len() < length,
            text: String::from_utf16_lossy(&units),
        }
    }
}
