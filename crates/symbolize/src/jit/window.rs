//! A part of a file in memory, moved on where bytes behind it are asked for.

use std::io;

use nodespy_model::ReadAt;

/// How much is read at a time.
pub(super) const WINDOW_BYTES: usize = 1 << 18;

/// Some bytes of a file that is read from its start to its end.
pub(super) struct Window<'a> {
    bytes: &'a dyn ReadAt,
    offset: u64,
    buffer: Vec<u8>,
    length: usize,
}

impl<'a> Window<'a> {
    pub(super) fn new(bytes: &'a dyn ReadAt) -> Self {
        Self {
            bytes,
            offset: 0,
            buffer: vec![0; WINDOW_BYTES],
            length: 0,
        }
    }

    /// As many bytes from an offset on as the window holds; fewer only at the end of the file.
    pub(super) fn fill(&mut self, offset: u64) -> io::Result<&[u8]> {
        self.offset = offset;
        self.length = self.bytes.read_at(&mut self.buffer, offset)?;
        Ok(&self.buffer[..self.length])
    }

    /// A few bytes, no more than the window holds; none where the file ends before them.
    pub(super) fn get(&mut self, offset: u64, length: usize) -> io::Result<Option<&[u8]>> {
        let is_inside = offset
            .checked_sub(self.offset)
            .is_some_and(|skipped| skipped.saturating_add(length as u64) <= self.length as u64);
        if !is_inside {
            self.fill(offset)?;
        }
        let start = (offset - self.offset) as usize;
        Ok(self.buffer[..self.length].get(start..start + length))
    }
}
