//! Fields taken off the front of little-endian bytes.

use crate::error::RecordError;
use crate::sample::Words;

/// Reads field after field. Each names itself, so that an error says which one did not fit.
#[derive(Debug, Clone, Copy)]
pub struct FieldReader<'a> {
    rest: &'a [u8],
    /// The offset of the first byte after `rest`.
    end: usize,
}

impl<'a> FieldReader<'a> {
    /// Reads `bytes`, whose first one has offset 0.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::starting_at(0, bytes)
    }

    /// Reads `bytes`, whose first one has offset `at`.
    #[inline]
    pub fn starting_at(at: usize, bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            end: at.saturating_add(bytes.len()),
        }
    }

    /// The offset of the next field.
    #[inline]
    pub fn at(&self) -> usize {
        self.end - self.rest.len()
    }

    /// What is not read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Bytes as they are.
    #[inline]
    pub fn bytes(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], RecordError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.short(field, count as u64));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// A 16-bit number.
    #[inline]
    pub fn u16(&mut self, field: &'static str) -> Result<u16, RecordError> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// A 32-bit number.
    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Result<u32, RecordError> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// A 64-bit number.
    #[inline]
    pub fn u64(&mut self, field: &'static str) -> Result<u64, RecordError> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// A 64-bit number that is there only if `is_present`.
    #[inline]
    pub(crate) fn u64_if(
        &mut self,
        is_present: bool,
        field: &'static str,
    ) -> Result<Option<u64>, RecordError> {
        match is_present {
            true => self.u64(field).map(Some),
            false => Ok(None),
        }
    }

    /// `count` chunks of `N` bytes.
    #[inline]
    pub(crate) fn chunks<const N: usize>(
        &mut self,
        count: u64,
        field: &'static str,
    ) -> Result<&'a [[u8; N]], RecordError> {
        let needed = count.saturating_mul(N as u64);
        // A record has at most 64 KiB, so a count that does not fit `usize` does not fit it either.
        match usize::try_from(needed) {
            Ok(length) => Ok(self.bytes(length, field)?.as_chunks().0),
            Err(_) => Err(self.short(field, needed)),
        }
    }

    /// `count` 64-bit numbers.
    #[inline]
    pub(crate) fn words(
        &mut self,
        count: u64,
        field: &'static str,
    ) -> Result<Words<'a>, RecordError> {
        self.chunks(count, field).map(Words)
    }

    #[inline]
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RecordError> {
        let Some((taken, rest)) = self.rest.split_first_chunk() else {
            return Err(self.short(field, N as u64));
        };
        self.rest = rest;
        Ok(*taken)
    }

    #[cold]
    fn short(&self, field: &'static str, needed: u64) -> RecordError {
        RecordError::Short {
            at: self.at(),
            field,
            needed,
            left: self.rest.len(),
        }
    }
}

/// The number at an offset; none where the bytes end before it.
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|word| u64::from_le_bytes(*word))
}

/// The bytes before the first zero; all where there is none.
#[inline]
pub fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_little_endian_and_offsets_go_on() {
        let bytes = [1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9];
        let mut fields = FieldReader::starting_at(8, &bytes);
        assert_eq!(fields.u16("a"), Ok(1));
        assert_eq!(fields.u32("b"), Ok(2));
        assert_eq!(fields.at(), 14);
        assert_eq!(fields.u64("c"), Ok(3));
        assert_eq!(fields.rest(), [9]);
    }

    #[test]
    fn a_field_that_does_not_fit_is_named_with_its_offset() {
        let mut fields = FieldReader::starting_at(8, &[0; 7]);
        let error = fields.u64("the time").unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 8: the time needs 8 bytes, 7 are left"
        );
        assert_eq!(error.at(), 8);
        // Nothing is taken by what did not fit.
        assert_eq!(fields.u32("the pid"), Ok(0));
    }

    #[test]
    fn a_count_that_overflows_does_not_fit() {
        let mut fields = FieldReader::new(&[0; 64]);
        let error = fields.words(u64::MAX, "the chain").unwrap_err();
        let RecordError::Short { needed, left, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((needed, left), (u64::MAX, 64));
    }

    #[test]
    fn text_ends_at_the_first_zero_or_with_the_bytes() {
        assert_eq!(until_nul(b"node\0\0x"), b"node");
        assert_eq!(until_nul(b"node"), b"node");
        assert_eq!(until_nul(b""), b"");
    }

    #[test]
    fn a_number_past_the_end_is_none() {
        let bytes = 7u64.to_le_bytes();
        assert_eq!(u64_at(&bytes, 0), Some(7));
        assert_eq!(u64_at(&bytes, 1), None);
        assert_eq!(u64_at(&bytes, usize::MAX), None);
    }
}
