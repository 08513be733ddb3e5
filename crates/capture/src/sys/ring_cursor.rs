//! Where in a ring the next record is. No memory of its own but a scratch for wrapped records, so a
//! test can do without the kernel.

use nodespy_perf_abi::{RawRecord, RecordError, RecordHeader};

/// Records of one ring, in the order they were written.
pub(crate) trait RecordRing {
    /// Fixes how far is read until the next call: up to what is written now.
    fn load_head(&mut self);

    /// Ends before this position until the next call of [`Self::load_head`], if it is not too far behind: the ring must
    /// not run full.
    fn limit_head(&mut self, position: u64);

    /// The next record before the head. It stays in the ring until [`Self::consume`].
    fn peek(&mut self) -> Result<Option<RawRecord<'_>>, RingError>;

    /// Moves past what [`Self::peek`] returned. After an error that is everything up to the head:
    /// nothing says where the next record starts.
    fn consume(&mut self);
}

/// Why the next record can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RingError {
    #[error("{written} bytes were written into a ring of {size}: the oldest are overwritten")]
    Lapped { written: u64, size: usize },
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// The position in a ring.
#[derive(Debug)]
pub(crate) struct RingCursor {
    data_len: usize,
    /// Up to where records are consumed.
    tail: u64,
    head: u64,
    /// Bytes that [`Self::consume`] moves past.
    peeked: u64,
    /// Where a record that wraps around the end is put together, once.
    scratch: Vec<u8>,
    /// The position of the record in `scratch`.
    scratch_at: Option<u64>,
}

impl RingCursor {
    /// The start of a ring with `data_len` bytes for records.
    pub(crate) fn new(data_len: usize) -> Self {
        Self {
            data_len,
            tail: 0,
            head: 0,
            peeked: 0,
            scratch: Vec::new(),
            scratch_at: None,
        }
    }

    pub(crate) fn data_len(&self) -> usize {
        self.data_len
    }

    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }

    pub(crate) fn set_head(&mut self, head: u64) {
        self.head = head;
    }

    pub(crate) fn limit_head(&mut self, position: u64) {
        let (seen, written) = (
            position.wrapping_sub(self.tail),
            self.head.wrapping_sub(self.tail),
        );
        if seen < written && written - seen <= self.data_len as u64 / 2 {
            self.head = position;
        }
    }

    /// The next record. `data(start, len)` are bytes of the ring that lie between tail and head.
    pub(crate) fn peek<'a>(
        &'a mut self,
        data: impl Fn(usize, usize) -> &'a [u8],
    ) -> Result<Option<RawRecord<'a>>, RingError> {
        let available = self.head.wrapping_sub(self.tail);
        self.peeked = available;
        if available == 0 {
            return Ok(None);
        }
        if available > self.data_len as u64 {
            return Err(RingError::Lapped {
                written: available,
                size: self.data_len,
            });
        }
        let available = available as usize;
        let start = (self.tail % self.data_len as u64) as usize;
        let before_end = self.data_len - start;
        let mut bytes = [0; RecordHeader::BYTES];
        let bytes = &mut bytes[..available.min(RecordHeader::BYTES)];
        let first = bytes.len().min(before_end);
        bytes[..first].copy_from_slice(data(start, first));
        let wrapped = bytes.len() - first;
        bytes[first..].copy_from_slice(data(0, wrapped));
        let header = RecordHeader::read(bytes)?;
        let size = usize::from(header.size);
        if size > available {
            return Err(RingError::Record(RecordError::Short {
                at: RecordHeader::BYTES,
                field: "the record's body",
                needed: header.body_len() as u64,
                left: available - RecordHeader::BYTES,
            }));
        }
        let record = if size <= before_end {
            data(start, size)
        } else {
            if self.scratch_at != Some(self.tail) {
                self.scratch.clear();
                self.scratch.extend_from_slice(data(start, before_end));
                self.scratch.extend_from_slice(data(0, size - before_end));
                self.scratch_at = Some(self.tail);
            }
            &self.scratch
        };
        self.peeked = size as u64;
        Ok(Some(RawRecord::read(record)?))
    }

    pub(crate) fn consume(&mut self) {
        self.tail = self.tail.wrapping_add(self.peeked);
        self.peeked = 0;
    }
}

/// A ring of bytes without a kernel.
#[cfg(test)]
pub(crate) mod stand_in {
    use super::{RawRecord, RecordRing, RingCursor, RingError};

    /// A ring in a `Vec`, written by the test.
    #[derive(Debug)]
    pub(crate) struct VecRing {
        pub(crate) data: Vec<u8>,
        pub(crate) written: u64,
        cursor: RingCursor,
    }

    impl VecRing {
        pub(crate) fn new(data_len: usize) -> Self {
            Self {
                data: vec![0xee; data_len],
                written: 0,
                cursor: RingCursor::new(data_len),
            }
        }

        /// Writes a record, around the end where it has to.
        pub(crate) fn write(&mut self, kind: u32, misc: u16, body: &[u8]) {
            let size = (body.len() + 8) as u16;
            let header = u64::from(kind) | u64::from(misc) << 32 | u64::from(size) << 48;
            self.write_bytes(&[&header.to_le_bytes(), body].concat());
        }

        pub(crate) fn write_bytes(&mut self, bytes: &[u8]) {
            for &byte in bytes {
                let at = (self.written % self.data.len() as u64) as usize;
                self.data[at] = byte;
                self.written += 1;
            }
        }
    }

    impl RecordRing for VecRing {
        fn load_head(&mut self) {
            self.cursor.set_head(self.written);
        }

        fn limit_head(&mut self, position: u64) {
            self.cursor.limit_head(position);
        }

        fn peek(&mut self) -> Result<Option<RawRecord<'_>>, RingError> {
            let data = &self.data;
            self.cursor.peek(|start, len| &data[start..start + len])
        }

        fn consume(&mut self) {
            self.cursor.consume();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stand_in::VecRing;
    use super::*;

    #[test]
    fn records_come_in_the_order_they_were_written() {
        let mut ring = VecRing::new(64);
        ring.write(1, 2, &[10; 8]);
        ring.write(3, 4, &[]);
        assert_eq!(ring.peek(), Ok(None), "nothing before the head is loaded");
        ring.load_head();
        let first = ring.peek().unwrap().unwrap();
        assert_eq!((first.kind, first.misc, first.body), (1, 2, &[10; 8][..]));
        ring.consume();
        assert_eq!(ring.peek().unwrap().unwrap().kind, 3);
        ring.consume();
        assert_eq!(ring.peek(), Ok(None));
        ring.consume();
        assert_eq!(ring.peek(), Ok(None));
    }

    #[test]
    fn records_are_held_back_unless_the_ring_would_run_full() {
        let mut ring = VecRing::new(64);
        ring.write(1, 0, &[0; 8]);
        ring.write(2, 0, &[0; 8]);
        ring.load_head();
        ring.limit_head(16);
        assert_eq!(ring.peek().unwrap().unwrap().kind, 1);
        ring.consume();
        assert_eq!(ring.peek(), Ok(None));
        // What is beyond the head, or behind what was consumed, holds nothing back.
        for position in [u64::MAX, 0] {
            ring.load_head();
            ring.limit_head(position);
            assert_eq!(ring.peek().unwrap().unwrap().kind, 2);
        }
        ring.write(3, 0, &[0; 24]);
        ring.load_head();
        ring.limit_head(16);
        assert_eq!(ring.peek().unwrap().unwrap().kind, 2);
    }

    #[test]
    fn a_wrapped_record_is_whole_wherever_it_wraps() {
        for filler in (0..=56).step_by(4) {
            let mut ring = VecRing::new(64);
            ring.write(1, 0, &vec![0; filler]);
            ring.load_head();
            ring.peek().unwrap().unwrap();
            ring.consume();
            let body: Vec<u8> = (0..40).collect();
            ring.write(9, 0, &body);
            ring.load_head();
            assert_eq!(ring.peek().unwrap().unwrap().body, body, "{filler}");
        }
    }

    #[test]
    fn a_wrapped_record_is_copied_once() {
        let mut ring = VecRing::new(64);
        ring.write(1, 0, &[0; 32]);
        ring.load_head();
        ring.peek().unwrap();
        ring.consume();
        ring.write(9, 0, &[7; 40]);
        ring.load_head();
        assert_eq!(ring.peek().unwrap().unwrap().body, [7; 40]);
        // A second copy would see this.
        ring.data[48..].fill(1);
        assert_eq!(ring.peek().unwrap().unwrap().body, [7; 40]);
        ring.consume();
        // The next record that wraps is another one.
        ring.write(9, 0, &[3; 48]);
        ring.load_head();
        assert_eq!(ring.peek().unwrap().unwrap().body, [3; 48]);
    }

    #[test]
    fn a_size_that_lies_gives_up_what_is_there() {
        for (size, at) in [(0u64, 6), (7, 6), (4096, 8)] {
            let mut ring = VecRing::new(64);
            ring.write_bytes(&(9 | size << 48).to_le_bytes());
            ring.write(1, 0, &[0; 8]);
            ring.load_head();
            let Err(RingError::Record(error)) = ring.peek() else {
                panic!("a record of {size} bytes was read");
            };
            assert_eq!(error.at(), at);
            ring.consume();
            assert_eq!(ring.peek(), Ok(None));
            // What is written later is read again.
            ring.write(2, 0, &[]);
            ring.load_head();
            assert_eq!(ring.peek().unwrap().unwrap().kind, 2);
        }
    }

    #[test]
    fn a_ring_that_was_lapped_goes_on_at_its_head() {
        let mut ring = VecRing::new(32);
        for _ in 0..3 {
            ring.write(9, 0, &[5; 8]);
        }
        ring.load_head();
        let lapped = RingError::Lapped {
            written: 48,
            size: 32,
        };
        assert_eq!(ring.peek(), Err(lapped));
        ring.consume();
        ring.write(1, 0, &[]);
        ring.load_head();
        assert_eq!(ring.peek().unwrap().unwrap().kind, 1);
    }
}
