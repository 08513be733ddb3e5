//! Protocol buffers: the fields of a message, read where they lie and written as they come.
//!
//! Only what formats made of small messages need: no schema, no groups. A reader skips the
//! fields it does not know, and a repeated number may come packed or one by one. The wire
//! format is described at <https://protobuf.dev/programming-guides/encoding/>.

use crate::import::ImportError;
use crate::varint;

/// The longest a variable-length number can be.
const NUMBER_BYTES: usize = 10;

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Field<'a> {
    /// Its number in the schema.
    pub(crate) number: u64,
    /// Where it starts.
    pub(crate) at: usize,
    /// What it holds.
    pub(crate) value: Value<'a>,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    /// A number of variable length.
    Number(u64),
    /// A number of four or eight bytes.
    Fixed(u64),
    /// A message, a string, or numbers one after the other.
    Bytes(Message<'a>),
}

/// A message somewhere in a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Message<'a> {
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
    /// Where in the file they start.
    pub(crate) at: usize,
}

/// Where the bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The byte.
    pub(crate) at: usize,
    /// What is wrong with it.
    pub(crate) what: &'static str,
}

impl From<Problem> for ImportError {
    fn from(problem: Problem) -> Self {
        Self::BadContent {
            at: problem.at as u64,
            what: problem.what.to_owned(),
        }
    }
}

impl<'a> Message<'a> {
    /// The whole of a file.
    pub(crate) fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Its fields in the order they were written. The first problem ends them.
    pub(crate) fn fields(self) -> Fields<'a> {
        Fields {
            message: self,
            next: 0,
        }
    }
}

impl Value<'_> {
    /// Hands over the numbers of a repeated field, packed or not.
    pub(crate) fn each_number(self, mut take: impl FnMut(u64)) -> Result<(), Problem> {
        match self {
            Self::Number(number) | Self::Fixed(number) => take(number),
            Self::Bytes(message) => {
                let mut fields = message.fields();
                while fields.next < message.bytes.len() {
                    take(fields.number()?);
                }
            }
        }
        Ok(())
    }

    /// The number it is; none for bytes.
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) | Self::Fixed(number) => Some(number),
            Self::Bytes(_) => None,
        }
    }
}

/// The fields of a message, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    message: Message<'a>,
    next: usize,
}

impl<'a> Fields<'a> {
    /// Where in the file the next field starts.
    pub(crate) fn place(&self) -> usize {
        self.message.at + self.next
    }

    fn problem(&self, what: &'static str) -> Problem {
        Problem {
            at: self.place(),
            what,
        }
    }

    fn number(&mut self) -> Result<u64, Problem> {
        let mut number = 0;
        for place in 0..NUMBER_BYTES {
            let Some(&byte) = self.message.bytes.get(self.next + place) else {
                return Err(self.problem("a number is cut off"));
            };
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                self.next += place + 1;
                return Ok(number);
            }
        }
        Err(self.problem("a number is longer than ten bytes"))
    }

    fn take(&mut self, length: u64) -> Result<Message<'a>, Problem> {
        let rest = &self.message.bytes[self.next..];
        let taken = usize::try_from(length).ok().and_then(|end| rest.get(..end));
        let Some(bytes) = taken else {
            return Err(self.problem("a field is longer than what is left"));
        };
        let at = self.place();
        self.next += bytes.len();
        Ok(Message { bytes, at })
    }

    fn fixed(&mut self, length: u64) -> Result<Value<'a>, Problem> {
        let mut bytes = [0; 8];
        let taken = self.take(length)?.bytes;
        bytes[..taken.len()].copy_from_slice(taken);
        Ok(Value::Fixed(u64::from_le_bytes(bytes)))
    }

    fn field(&mut self) -> Result<Field<'a>, Problem> {
        let start = self.next;
        let at = self.place();
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => self.fixed(8)?,
            2 => {
                let length = self.number()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.fixed(4)?,
            _ => {
                self.next = start;
                return Err(self.problem("a field is of a kind that does not exist"));
            }
        };
        if tag >> 3 == 0 {
            self.next = start;
            return Err(self.problem("a field has the number zero"));
        }
        Ok(Field {
            number: tag >> 3,
            at,
            value,
        })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.message.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.message.bytes = &[];
        }
        Some(field)
    }
}

/// Appends a field that holds a number; zero is what a missing field means.
pub(crate) fn put_field(output: &mut Vec<u8>, field: u64, number: u64) {
    if number != 0 {
        varint::put(output, field << 3);
        varint::put(output, number);
    }
}

/// Appends a field that holds bytes.
pub(crate) fn put_bytes(output: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint::put(output, field << 3 | 2);
    varint::put(output, bytes.len() as u64);
    output.extend_from_slice(bytes);
}

/// Appends a repeated field of numbers, packed.
pub(crate) fn put_numbers(output: &mut Vec<u8>, field: u64, numbers: impl Iterator<Item = u64>) {
    let mut packed = Vec::new();
    numbers.for_each(|number| varint::put(&mut packed, number));
    if !packed.is_empty() {
        put_bytes(output, field, &packed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(bytes: &[u8]) -> Result<Vec<u64>, Problem> {
        let mut found = Vec::new();
        for field in Message::whole(bytes).fields() {
            field?.value.each_number(|number| found.push(number))?;
        }
        Ok(found)
    }

    #[test]
    fn what_was_written_reads_back_packed_or_not() {
        let mut bytes = Vec::new();
        put_numbers(&mut bytes, 1, [0, 1, 300, u64::MAX].into_iter());
        put_field(&mut bytes, 1, 127);
        put_field(&mut bytes, 1, 0);
        assert_eq!(numbers(&bytes).unwrap(), [0, 1, 300, u64::MAX, 127]);
        bytes.extend([1 << 3 | 5, 9, 0, 0, 0, 1 << 3 | 1, 8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(numbers(&bytes).unwrap()[5..], [9, 8]);
    }

    #[test]
    fn a_problem_names_its_byte() {
        let at = |bytes: &[u8]| numbers(bytes).unwrap_err().at;
        assert_eq!(at(&[8, 1, 8, 0x80]), 3);
        assert_eq!(at(&[8, 1, 10, 5, 1, 2]), 4);
        assert_eq!(at(&[8, 1, 11]), 2);
        assert_eq!(at(&[8, 1, 0, 0]), 2);
        assert_eq!(at(&[10, 2, 1, 0x80]), 3);
        assert_eq!(at(&[[8].as_slice(), &[0xff; 11]].concat()), 1);
        let lie = [
            10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        ];
        assert_eq!(at(&lie), 11);
    }
}
