//! Memory of a process as it was when a sample was taken: what an engine has copied at the sampled instruction.

use std::cell::Cell;

/// The address is in the lower bits of the word before a chunk, the number of words above them.
const ADDRESS_BITS: u32 = 48;
const WORD: usize = 8;
/// Where in the list a chunk is, is below its address.
const INDEX_BITS: u32 = 64 - ADDRESS_BITS;
const MAX_CHUNKS: usize = 1 << INDEX_BITS;

/// A chunk of memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    start: u64,
    /// Where it is in the bytes of the sample.
    at: usize,
    length: usize,
}

/// Where the chunks of one sample are; kept from sample to sample for its room.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    list: Vec<Chunk>,
    /// The address of each, and below that which it is, in order: one number is sorted faster than a chunk.
    order: Vec<u64>,
    /// A bit for the pages that chunks are in: most memory that is asked for was not copied.
    pages: PageBits,
    /// The length of the longest.
    longest: u64,
    /// The chunk that was read last: fields of an object are read one after the other.
    last: Cell<usize>,
}

/// The memory that was copied for one sample. Nothing is believed of it that is not believed of memory that is read later.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CopiedMemory<'a> {
    bytes: &'a [u8],
    /// None where nothing was copied.
    chunks: Option<&'a Chunks>,
    is_all: bool,
}

/// A set of pages that may say yes to others too.
#[derive(Debug, Clone, Copy, Default)]
struct PageBits([u64; 8]);

impl PageBits {
    const PAGE_SHIFT: u32 = 12;

    fn place(address: u64) -> (usize, u64) {
        // Neighbours are apart, and pages of one size of heap pages (256 KiB) too.
        let hash = (address >> Self::PAGE_SHIFT).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55;
        (hash as usize / 64, 1 << (hash % 64))
    }

    fn add(&mut self, start: u64, length: usize) {
        let end = start.saturating_add(length as u64 - 1);
        for page in start >> Self::PAGE_SHIFT..=end >> Self::PAGE_SHIFT {
            let (word, bit) = Self::place(page << Self::PAGE_SHIFT);
            self.0[word] |= bit;
        }
    }

    fn may_have(&self, address: u64) -> bool {
        let (word, bit) = Self::place(address);
        self.0[word] & bit != 0
    }
}

impl Chunk {
    /// Where in the bytes of the sample memory is that lies within the chunk.
    fn place(&self, address: u64, length: usize) -> Option<usize> {
        let inside = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let is_within = inside.checked_add(length)? <= self.length;
        is_within.then(|| self.at + inside)
    }
}

impl Chunks {
    fn read(&mut self, bytes: &[u8]) {
        self.list.clear();
        self.order.clear();
        self.pages = PageBits::default();
        self.last = Cell::default();
        self.longest = 0;
        let mut at = 0;
        while let Some(header) = word_at(bytes, at) {
            let length = (header >> ADDRESS_BITS) as usize * WORD;
            at += WORD;
            if length == 0 || bytes.len() - at < length || self.list.len() == MAX_CHUNKS {
                break;
            }
            let start = header & ((1 << ADDRESS_BITS) - 1);
            self.pages.add(start, length);
            self.order
                .push(start << INDEX_BITS | self.list.len() as u64);
            self.list.push(Chunk { start, at, length });
            self.longest = self.longest.max(length as u64);
            at += length;
        }
        self.order.sort_unstable();
    }

    /// Where in the bytes of the sample some memory is.
    fn find(&self, address: u64, length: usize) -> Option<usize> {
        let last = self.list.get(self.last.get())?;
        if let Some(place) = last.place(address, length) {
            return Some(place);
        }
        if !self.pages.may_have(address) {
            return None;
        }
        let after = self
            .order
            .partition_point(|place| place >> INDEX_BITS <= address);
        // Chunks may overlap: frames lie within parts of the stack.
        for place in self.order[..after].iter().rev() {
            let index = *place as usize % MAX_CHUNKS;
            let chunk = &self.list[index];
            if address - chunk.start >= self.longest {
                break;
            }
            if let Some(place) = chunk.place(address, length) {
                self.last.set(index);
                return Some(place);
            }
        }
        None
    }
}

impl<'a> CopiedMemory<'a> {
    /// Finds the chunks in the bytes of a sample.
    pub(crate) fn of(bytes: &'a [u8], chunks: &'a mut Chunks) -> Self {
        chunks.read(bytes);
        let chunks = (!chunks.list.is_empty()).then_some(&*chunks);
        Self {
            bytes,
            chunks,
            is_all: chunks.is_some(),
        }
    }

    /// The same of a sample whose engine copies what a stack needs, though it may have copied nothing.
    pub(crate) fn or_nothing(self, is_copied_at_sample: bool) -> Self {
        Self {
            is_all: self.is_all || is_copied_at_sample,
            ..self
        }
    }

    /// Whether there is no more of the stack than was copied.
    pub(crate) fn is_all(&self) -> bool {
        self.is_all
    }

    /// Whether nothing was copied.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_none()
    }

    /// The memory at an address; none where not all of it was copied in one chunk.
    fn get(&self, address: u64, length: usize) -> Option<&'a [u8]> {
        let at = self.chunks?.find(address, length)?;
        self.bytes.get(at..at + length)
    }

    /// Copies memory; false where it was not copied.
    pub(crate) fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let Some(bytes) = self.get(address, buffer.len()) else {
            return false;
        };
        buffer.copy_from_slice(bytes);
        true
    }

    /// A word.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        word_at(self.get(address, WORD)?, 0)
    }
}

fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(WORD)?)?;
    Some(u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn words_are_found_by_their_address() {
        let bytes = bytes_of(&[0x9000 | 2 << 48, 7, 8, 0x1000 | 1 << 48, 9]);
        let mut chunks = Chunks::default();
        let copied = CopiedMemory::of(&bytes, &mut chunks);
        assert_eq!(copied.word(0x9000), Some(7));
        assert_eq!(copied.word(0x9008), Some(8));
        assert_eq!(copied.word(0x9004), Some(8 << 32));
        assert_eq!(copied.word(0x1000), Some(9));
        for missing in [0, 0xff8, 0x1008, 0x8ff8, 0x9010, u64::MAX] {
            assert_eq!(copied.word(missing), None, "{missing:x}");
        }
    }

    #[test]
    fn words_are_found_behind_chunks_that_lie_within_theirs() {
        let mut words = vec![0x1000 | 63 << 48];
        words.extend(0..63);
        for frame in 0..8 {
            words.extend([(0x1008 + 16 * frame) | 1 << 48, 100 + frame]);
        }
        let bytes = bytes_of(&words);
        let mut chunks = Chunks::default();
        let copied = CopiedMemory::of(&bytes, &mut chunks);
        assert_eq!(copied.word(0x1000 + 8 * 62), Some(62));
        assert_eq!(copied.word(0x1000 + 8 * 63), None);
    }

    #[test]
    fn a_chunk_that_is_longer_than_the_sample_ends_it() {
        for words in [
            &[0x1000 | 9 << 48, 7][..],
            &[0x1000, 7],
            &[u64::MAX, 7],
            &[],
        ] {
            let bytes = bytes_of(words);
            let mut chunks = Chunks::default();
            let copied = CopiedMemory::of(&bytes, &mut chunks);
            assert_eq!(copied.word(0x1000), None);
        }
    }
}
