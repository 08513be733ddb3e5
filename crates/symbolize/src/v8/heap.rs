//! Objects of V8's heap, read from outside while the process runs on.
//!
//! Every pointer is checked for its tag and every object for its type before it is believed; the
//! memory may change between two reads, and may be anything. Pages are kept only as long as one
//! batch of samples is looked at, so within a batch all answers agree.

use nodespy_model::{FastMap, Origin};

use super::layout::Layout;
use crate::copied::CopiedMemory;
use crate::x86_64::is_data_address;

const PAGE: u64 = 4096;
/// A batch that needs more pages than this starts afresh.
const PAGE_LIMIT: usize = 4096;
/// How many pages keep their room from batch to batch.
const SPARE_PAGES: usize = 256;
/// Longer strings are cut.
const NAME_LIMIT: usize = 1024;
/// How many parts of a string are put together.
const PART_LIMIT: usize = 512;
/// How many strings may stand in for one another.
const STRING_DEPTH: usize = 32;

/// A tagged pointer to a heap object.
pub(crate) fn is_pointer(word: u64) -> bool {
    word & 3 == 1 && is_data_address(word)
}

/// The value of a small integer.
pub(crate) fn small_integer(word: u64) -> Option<i64> {
    (word & 0xffff_ffff == 0).then_some((word as i64) >> 32)
}

/// The memory of one process and what is known of its objects.
#[derive(Debug, Default)]
pub(crate) struct HeapCache {
    pages: FastMap<u64, Option<Box<[u8]>>>,
    /// The room of pages that were forgotten.
    spare: Vec<Box<[u8]>>,
    types: FastMap<u64, u16>,
}

impl HeapCache {
    /// Forgets the memory: from now on it is read anew.
    pub(crate) fn start_batch(&mut self) {
        self.forget_pages();
        if self.types.len() > 1 << 16 {
            self.types.clear();
        }
    }

    fn forget_pages(&mut self) {
        let pages = self.pages.drain().filter_map(|(_, page)| page);
        self.spare.extend(pages);
        self.spare.truncate(SPARE_PAGES);
    }

    /// Forgets the types of maps: another map may be in the place of one that died.
    pub(crate) fn end_slice(&mut self) {
        self.types.clear();
    }
}

/// Where memory is read.
#[derive(Clone, Copy)]
struct Memory<'a> {
    pid: u32,
    copy_of: Option<u32>,
    origin: &'a dyn Origin,
}

impl Memory<'_> {
    /// Fills a buffer. A child that has ended, or runs another program by now, is read in its parent, whose
    /// memory it had.
    fn read(self, address: u64, buffer: &mut [u8]) -> bool {
        let mut fills = |pid| self.origin.read_memory(pid, address, buffer) == buffer.len();
        fills(self.pid) || self.copy_of.is_some_and(fills)
    }
}

/// A view of the heap during one batch.
pub(crate) struct Heap<'a> {
    pub(crate) pid: u32,
    /// The process that it was forked off and still is a copy of.
    pub(crate) copy_of: Option<u32>,
    pub(crate) origin: &'a dyn Origin,
    pub(crate) layout: &'a Layout,
    pub(crate) cache: &'a mut HeapCache,
    /// What was copied for the sample that is looked at: newer memory may be another function's.
    pub(crate) copied: CopiedMemory<'a>,
}

impl<'a> Heap<'a> {
    fn page(&mut self, address: u64) -> Option<&[u8]> {
        let start = address & !(PAGE - 1);
        if self.cache.pages.len() > PAGE_LIMIT {
            self.cache.forget_pages();
        }
        let memory = self.memory();
        let HeapCache { pages, spare, .. } = &mut *self.cache;
        pages
            .entry(start)
            .or_insert_with(|| {
                let mut bytes = spare
                    .pop()
                    .unwrap_or_else(|| vec![0; PAGE as usize].into_boxed_slice());
                memory.read(start, &mut bytes).then_some(bytes)
            })
            .as_deref()
    }

    fn memory(&self) -> Memory<'a> {
        Memory {
            pid: self.pid,
            copy_of: self.copy_of,
            origin: self.origin,
        }
    }

    /// Copies memory; false when some of it can't be read.
    pub(crate) fn read(&mut self, address: u64, buffer: &mut [u8]) -> bool {
        if self.copied.read(address, buffer) {
            return true;
        }
        let mut done = 0;
        while done < buffer.len() {
            let Some(at) = address.checked_add(done as u64) else {
                return false;
            };
            let inside = (at % PAGE) as usize;
            let Some(page) = self.page(at) else {
                return false;
            };
            let length = (page.len() - inside).min(buffer.len() - done);
            buffer[done..done + length].copy_from_slice(&page[inside..inside + length]);
            done += length;
        }
        true
    }

    /// Whether the memory of the process at an address can't be read any more, whatever was copied of it.
    pub(crate) fn is_gone(&mut self, address: u64) -> bool {
        self.page(address).is_none()
    }

    /// Memory too large to keep pages of.
    pub(crate) fn read_bulk(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.memory().read(address, &mut bytes).then_some(bytes)
    }

    /// Words as they are now, whatever was copied or read of them before.
    pub(crate) fn current_words(&mut self, address: u64, count: usize) -> Option<Vec<u64>> {
        let bytes = self.read_bulk(address, 8 * count)?;
        let words = bytes.chunks_exact(8);
        let words = words.map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
        Some(words.collect())
    }

    /// A word.
    pub(crate) fn word(&mut self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)
            .then(|| u64::from_ne_bytes(bytes))
    }

    /// Half a word.
    pub(crate) fn half(&mut self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)
            .then(|| u32::from_ne_bytes(bytes))
    }

    /// A field of an object.
    pub(crate) fn field(&mut self, object: u64, offset: u64) -> Option<u64> {
        if !is_pointer(object) {
            return None;
        }
        self.word((object & !3).checked_add(offset)?)
    }

    /// The instance type of an object. Type 0 is a legal one (internalized two-byte strings).
    pub(crate) fn type_of(&mut self, object: u64) -> Option<u16> {
        let map = self.field(object, 0)?;
        self.type_of_map(map)
    }

    /// The instance type of objects with this map.
    pub(crate) fn type_of_map(&mut self, map: u64) -> Option<u16> {
        if !is_pointer(map) {
            return None;
        }
        if let Some(&known) = self.cache.types.get(&map) {
            return Some(known);
        }
        let mut bytes = [0; 2];
        if !self.read((map & !3) + 12, &mut bytes) {
            return None;
        }
        // A map's own map is the map of maps, whose map is itself: proof that this is a map.
        let meta = self.field(map, 0)?;
        if self.field(meta, 0)? != meta {
            return None;
        }
        let kind = u16::from_ne_bytes(bytes);
        self.cache.types.insert(map, kind);
        Some(kind)
    }

    /// Whether an object has this type.
    pub(crate) fn is(&mut self, object: u64, kind: u16) -> bool {
        self.type_of(object) == Some(kind)
    }

    /// The object a pointer leads to: itself, or where the garbage collector has moved it, which
    /// shows as an untagged address in place of its map.
    pub(crate) fn current(&mut self, object: u64) -> Option<u64> {
        let map = self.field(object, 0)?;
        if is_pointer(map) {
            return Some(object);
        }
        let moved = map | 1;
        (map & 1 == 0 && is_pointer(moved)).then_some(moved)
    }

    /// The text of a string object, cut to a bearable length.
    pub(crate) fn string(&mut self, object: u64) -> Option<String> {
        let mut units = Vec::new();
        // A cons string is a tree of parts; one made to tire us out is cut.
        let mut parts = vec![object];
        for _ in 0..PART_LIMIT {
            let Some(part) = parts.pop() else { break };
            if units.len() >= NAME_LIMIT {
                break;
            }
            let kind = self.type_of(part)?;
            if kind < self.layout.first_nonstring_type && kind & 7 == 1 {
                parts.push(self.field(part, 24)?);
                parts.push(self.field(part, 16)?);
                continue;
            }
            let (data, length, is_wide) = self.flat_string(part)?;
            let length = length.min(NAME_LIMIT - units.len());
            self.append_units(data, length, is_wide, &mut units)?;
        }
        Some(String::from_utf16_lossy(&units))
    }

    fn append_units(
        &mut self,
        data: u64,
        length: usize,
        is_wide: bool,
        units: &mut Vec<u16>,
    ) -> Option<()> {
        let mut bytes = vec![0; length * if is_wide { 2 } else { 1 }];
        if !self.read(data, &mut bytes) {
            return None;
        }
        if is_wide {
            units.extend(
                bytes
                    .chunks_exact(2)
                    .map(|pair| u16::from_ne_bytes([pair[0], pair[1]])),
            );
        } else {
            units.extend(bytes.iter().map(|&byte| u16::from(byte)));
        }
        Some(())
    }

    /// Whether an object is a string.
    pub(crate) fn is_string(&mut self, object: u64) -> bool {
        let first_other = self.layout.first_nonstring_type;
        self.type_of(object).is_some_and(|kind| kind < first_other)
    }

    /// The length of a string in characters.
    pub(crate) fn string_length(&mut self, object: u64) -> Option<usize> {
        let mut bytes = [0; 4];
        self.read((object & !3).checked_add(12)?, &mut bytes)
            .then(|| u32::from_ne_bytes(bytes) as usize)
    }

    /// Where the characters of a flat string are, and whether they take two bytes each.
    pub(crate) fn flat_string(&mut self, object: u64) -> Option<(u64, usize, bool)> {
        self.flat_part(object, true)
    }

    /// `may_be_slice` is false for what a slice is a slice of: V8 never nests them.
    fn flat_part(&mut self, object: u64, may_be_slice: bool) -> Option<(u64, usize, bool)> {
        let mut object = object;
        for _ in 0..STRING_DEPTH {
            let kind = self.type_of(object)?;
            if kind >= self.layout.first_nonstring_type {
                return None;
            }
            let length = self.string_length(object)?;
            let is_wide = kind & 8 == 0;
            match kind & 7 {
                0 => return Some(((object & !3) + 16, length, is_wide)),
                2 => {
                    // An external string without a cached data pointer can't be read.
                    if kind & 0x10 != 0 {
                        return None;
                    }
                    let data = self.field(object, 24)?;
                    return Some((data, length, is_wide));
                }
                3 if may_be_slice => {
                    let start = small_integer(self.field(object, 24)?)?;
                    let parent = self.field(object, 16)?;
                    let (data, parent_length, is_wide) = self.flat_part(parent, false)?;
                    let start = usize::try_from(start).ok()?;
                    if start.checked_add(length)? > parent_length {
                        return None;
                    }
                    let skip = start as u64 * if is_wide { 2 } else { 1 };
                    return Some((data.checked_add(skip)?, length, is_wide));
                }
                5 => object = self.field(object, 16)?,
                // A flattened cons string has everything in its first part.
                1 => {
                    let first = self.field(object, 16)?;
                    if self.string_length(first)? != length {
                        return None;
                    }
                    object = first;
                }
                _ => return None,
            }
        }
        None
    }
}
