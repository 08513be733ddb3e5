//! The integers and strings that sections are made of.

use crate::import::ImportError;
pub(super) use crate::varint::put;

/// Adds a string: its length in bytes, then its bytes.
pub(super) fn put_string(section: &mut Vec<u8>, text: &str) {
    put(section, text.len() as u64);
    section.extend_from_slice(text.as_bytes());
}

/// Adds a value that may be absent: 0, or 1 and the value.
pub(super) fn put_option<T>(
    section: &mut Vec<u8>,
    value: Option<T>,
    put_value: impl FnOnce(&mut Vec<u8>, T),
) {
    put(section, u64::from(value.is_some()));
    if let Some(value) = value {
        put_value(section, value);
    }
}

/// A signed integer as an unsigned one, small when it is near zero.
pub(super) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// Reads one section.
pub(super) struct Columns<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the section starts in the unpacked content.
    start: u64,
}

impl<'a> Columns<'a> {
    /// Reads `bytes`, which are found at `start`.
    pub(super) fn new(bytes: &'a [u8], start: u64) -> Self {
        Self {
            bytes,
            at: 0,
            start,
        }
    }

    /// An error about the value that was just read.
    pub(super) fn error(&self, what: impl Into<String>) -> ImportError {
        ImportError::BadContent {
            at: self.start + self.at.saturating_sub(1) as u64,
            what: what.into(),
        }
    }

    /// Where the next value is in the unpacked content.
    pub(super) fn position(&self) -> u64 {
        self.start + self.at as u64
    }

    /// Whether everything was read.
    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// An unsigned integer. Most are one byte long.
    #[inline]
    pub(super) fn number(&mut self) -> Result<u64, ImportError> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_number(),
        }
    }

    #[inline(never)]
    fn long_number(&mut self) -> Result<u64, ImportError> {
        let mut value = 0u64;
        for position in 0..10 {
            let Some(&byte) = self.bytes.get(self.at) else {
                return Err(self.error("the section ends in the middle of a value"));
            };
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if position == 9 && bits > 1 {
                break;
            }
            value |= bits << (7 * position);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.error("a number has more than 64 bits"))
    }

    /// The next number, or 0 where an older writer has ended the section.
    pub(super) fn number_if_any(&mut self) -> Result<u64, ImportError> {
        match self.is_at_end() {
            true => Ok(0),
            false => self.number(),
        }
    }

    /// An unsigned integer of at most 32 bits.
    pub(super) fn small(&mut self) -> Result<u32, ImportError> {
        let value = self.number()?;
        u32::try_from(value).map_err(|_| self.error(format!("{value} has more than 32 bits")))
    }

    /// A signed integer of at most 32 bits.
    pub(super) fn signed(&mut self) -> Result<i32, ImportError> {
        let value = self.small()?;
        Ok((value >> 1) as i32 ^ -((value & 1) as i32))
    }

    /// A signed integer of at most 64 bits.
    pub(super) fn step(&mut self) -> Result<i64, ImportError> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A row number of a table that has `rows` rows so far.
    pub(super) fn index(&mut self, rows: usize, table: &str) -> Result<u32, ImportError> {
        let value = self.number()?;
        match u32::try_from(value) {
            Ok(index) if (index as usize) < rows => Ok(index),
            _ => Err(self.error(format!("row {value} of {rows} {table}"))),
        }
    }

    /// One of the values of `list`.
    pub(super) fn code<T: Copy>(&mut self, list: &[T], what: &str) -> Result<T, ImportError> {
        let value = self.number()?;
        usize::try_from(value)
            .ok()
            .and_then(|position| list.get(position).copied())
            .ok_or_else(|| self.error(format!("there is no {what} {value}")))
    }

    /// How many rows or values follow, when each takes at least `bytes_each`.
    pub(super) fn count(&mut self, bytes_each: usize) -> Result<usize, ImportError> {
        let value = self.number()?;
        let room = (self.bytes.len() - self.at) / bytes_each;
        match usize::try_from(value) {
            Ok(count) if count <= room => Ok(count),
            _ => Err(self.error(format!("{value} rows are announced, {room} would fit"))),
        }
    }

    /// The next `length` bytes as they are.
    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], ImportError> {
        let rest = &self.bytes[self.at..];
        let Some(bytes) = rest.get(..length) else {
            return Err(self.error(format!("{length} bytes do not fit")));
        };
        self.at += length;
        Ok(bytes)
    }

    /// The next `length` bytes as text.
    pub(super) fn text(&mut self, length: usize) -> Result<&'a str, ImportError> {
        let start = self.at;
        let bytes = self.bytes(length)?;
        std::str::from_utf8(bytes).map_err(|error| {
            self.at = start + error.valid_up_to() + 1;
            self.error("a text is not UTF-8")
        })
    }

    /// A string with its length before it.
    pub(super) fn string(&mut self) -> Result<&'a str, ImportError> {
        let length = self.count(1)?;
        self.text(length)
    }

    /// A value that may be absent.
    pub(super) fn option<T>(
        &mut self,
        value: impl FnOnce(&mut Self) -> Result<T, ImportError>,
    ) -> Result<Option<T>, ImportError> {
        match self.number()? {
            0 => Ok(None),
            1 => value(self).map(Some),
            other => Err(self.error(format!("{other} where 0 or 1 was expected"))),
        }
    }

    /// A column: `rows` values of one kind.
    pub(super) fn column<T>(
        &mut self,
        rows: usize,
        mut value: impl FnMut(&mut Self) -> Result<T, ImportError>,
    ) -> Result<Vec<T>, ImportError> {
        let mut column = Vec::with_capacity(rows);
        for _ in 0..rows {
            column.push(value(self)?);
        }
        Ok(column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let mut bytes = Vec::new();
        let numbers = [
            0,
            1,
            127,
            128,
            300,
            u64::from(u32::MAX),
            u64::MAX - 1,
            u64::MAX,
        ];
        for number in numbers {
            put(&mut bytes, number);
        }
        let signed = [0, -1, 1, i32::MIN, i32::MAX];
        for number in signed {
            put(&mut bytes, zigzag(i64::from(number)));
        }
        let steps = [0, -1, 1, i64::MIN, i64::MAX];
        for step in steps {
            put(&mut bytes, zigzag(step));
        }
        let mut columns = Columns::new(&bytes, 0);
        for number in numbers {
            assert_eq!(columns.number().unwrap(), number);
        }
        for number in signed {
            assert_eq!(columns.signed().unwrap(), number);
        }
        for step in steps {
            assert_eq!(columns.step().unwrap(), step);
        }
        assert!(columns.number().is_err());
    }

    #[test]
    fn a_number_of_65_bits_is_refused() {
        let mut bytes = [0x80u8; 10];
        bytes[9] = 2;
        assert!(Columns::new(&bytes, 0).number().is_err());
    }

    #[test]
    fn a_count_that_cannot_fit_is_refused_before_anything_is_reserved() {
        let mut bytes = Vec::new();
        put(&mut bytes, u64::MAX);
        assert!(Columns::new(&bytes, 0).count(1).is_err());
    }
}
