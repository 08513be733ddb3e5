//! Readers that cap size: every decoder of this crate reads through them.

use std::io::{self, BufRead, Read};

/// How much a decoder may take in before it gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the input as it is stored.
    pub input_bytes: u64,
    /// Bytes of compressed input once unpacked. A row of a table takes up to eight times as much
    /// memory as its unpacked bytes.
    pub unpacked_bytes: u64,
    /// Bytes of one line of a text format.
    pub line_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            input_bytes: 64 << 30,
            unpacked_bytes: 8 << 30,
            line_bytes: 16 << 20,
        }
    }
}

/// A buffered reader that knows how far it has come and refuses to go past a limit.
pub(crate) struct Bounded<'a> {
    input: io::BufReader<&'a mut dyn Read>,
    position: u64,
    limit_bytes: u64,
}

impl<'a> Bounded<'a> {
    /// Reads `input` up to `limit_bytes`.
    pub(crate) fn new(input: &'a mut dyn Read, limit_bytes: u64) -> Self {
        Self {
            input: io::BufReader::with_capacity(64 << 10, input),
            position: 0,
            limit_bytes,
        }
    }

    /// How many bytes were taken so far.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let taken = available.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&available[..taken]);
        self.consume(taken);
        Ok(taken)
    }
}

impl BufRead for Bounded<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let left = self.limit_bytes - self.position;
        let available = self.input.fill_buf()?;
        if left == 0 && !available.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                OverLimit {
                    limit_bytes: self.limit_bytes,
                },
            ));
        }
        let shown = usize::try_from(left).map_or(available.len(), |left| available.len().min(left));
        Ok(&available[..shown])
    }

    fn consume(&mut self, amount: usize) {
        self.position += amount as u64;
        self.input.consume(amount);
    }
}

/// The input went past its limit; travels inside an [`io::Error`] through other readers.
#[derive(Debug, thiserror::Error)]
#[error("larger than {limit_bytes} bytes, which is as much as is read")]
pub(crate) struct OverLimit {
    pub(crate) limit_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::ImportError;

    #[test]
    fn a_limit_stops_the_reading_just_past_it() {
        let read = |bytes: &[u8], limit| -> Result<usize, ImportError> {
            let mut taken = Vec::new();
            Ok(Bounded::new(&mut &*bytes, limit).read_to_end(&mut taken)?)
        };
        assert_eq!(read(b"12345", 5).unwrap(), 5);
        assert!(matches!(
            read(b"123456", 5),
            Err(ImportError::TooLarge { limit_bytes: 5 })
        ));
    }
}
