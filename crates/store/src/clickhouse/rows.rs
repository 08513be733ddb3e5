//! Rows as ClickHouse's `RowBinary` has them: columns one after the other, numbers in little-endian order, texts and arrays
//! after their length. A reply is read like any other input: every length is checked.

use crate::error::StoreError;

/// Rows that are to be inserted.
#[derive(Debug, Default)]
pub(super) struct Rows(pub(super) Vec<u8>);

impl Rows {
    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Bytes of a column whose values are all as long.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.length(text.len()).bytes(text.as_bytes())
    }

    /// How many values of an array, or pairs of a map, follow.
    pub(super) fn length(&mut self, length: usize) -> &mut Self {
        let mut rest = length as u64;
        while rest >= 0x80 {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.u8(rest as u8)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Rows of a reply.
#[derive(Debug)]
pub(super) struct RowReader<'a>(&'a [u8]);

impl<'a> RowReader<'a> {
    pub(super) fn new(reply: &'a [u8]) -> Self {
        Self(reply)
    }

    /// Whether another row follows.
    pub(super) fn has_more(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], StoreError> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array_of<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        Ok(self
            .bytes(N)?
            .try_into()
            .expect("as many bytes as asked for"))
    }

    pub(super) fn u8(&mut self) -> Result<u8, StoreError> {
        Ok(self.array_of::<1>()?[0])
    }

    pub(super) fn u32(&mut self) -> Result<u32, StoreError> {
        Ok(u32::from_le_bytes(self.array_of()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, StoreError> {
        Ok(u64::from_le_bytes(self.array_of()?))
    }

    /// 128 bits of a hash.
    pub(super) fn hash(&mut self) -> Result<[u8; 16], StoreError> {
        self.array_of()
    }

    /// How many values follow, each of at least a byte: no more than there are bytes.
    pub(super) fn length(&mut self) -> Result<usize, StoreError> {
        let mut length = 0_u64;
        for shift in (0..63).step_by(7) {
            let byte = self.u8()?;
            length |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let length = usize::try_from(length).ok();
                return length.filter(|it| *it <= self.0.len()).ok_or(CUT);
            }
        }
        Err(CUT)
    }

    pub(super) fn text(&mut self) -> Result<String, StoreError> {
        let length = self.length()?;
        // Whoever else writes the tables may write what is no text.
        Ok(String::from_utf8_lossy(self.bytes(length)?).into_owned())
    }
}

const CUT: StoreError = StoreError::Reply("it ends in the middle of a row");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut rows = Rows::default();
        rows.u8(7).u32(70_000).u64(u64::MAX).text("näm'e\0");
        rows.length(300).bytes(&[1; 300]);
        let mut reader = RowReader::new(&rows.0);
        assert_eq!(reader.u8().unwrap(), 7);
        assert_eq!(reader.u32().unwrap(), 70_000);
        assert_eq!(reader.u64().unwrap(), u64::MAX);
        assert_eq!(reader.text().unwrap(), "näm'e\0");
        assert_eq!(reader.length().unwrap(), 300);
        assert_eq!(reader.bytes(300).unwrap(), [1; 300]);
        assert!(!reader.has_more());
    }

    #[test]
    fn lengths_that_lie_are_errors() {
        for reply in [&[0x80][..], &[5, 1, 2], &[0xff; 12], &[]] {
            assert!(RowReader::new(reply).text().is_err(), "{reply:?}");
        }
        assert!(RowReader::new(&[1, 2, 3]).u32().is_err());
    }
}
