//! Lines of a V8 log, taken apart: fields between commas, numbers, escaped text.
//!
//! V8 writes `\x2C` for a comma inside a field, `\n`, `\\`, and `\xHH` or `\uHHHH` for what is not
//! plain ASCII. Up to V8 6.2 names stand in double quotes instead.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

/// The fields of one line.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    has_quotes: bool,
}

impl<'a> Fields<'a> {
    /// The fields of `line`, in which quotes hold a field together if `has_quotes`.
    pub(super) fn new(line: &'a [u8], has_quotes: bool) -> Self {
        Self {
            rest: Some(line),
            has_quotes,
        }
    }

    /// The next field that is an address, a size or a count.
    pub(super) fn number(&mut self) -> Option<u64> {
        parse_number(self.next()?)
    }

    /// What comes after the fields that were taken, as it is in the line.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest.unwrap_or_default()
    }

    /// Up to which comma the field at the start of `text` goes, when it is in quotes.
    fn end_of_quoted(text: &[u8]) -> Option<usize> {
        memchr_iter(b'"', text)
            .skip(1)
            .find(|at| matches!(text.get(at + 1), None | Some(b',')))
            .map(|at| at + 1)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let quoted = match (self.has_quotes, rest) {
            (true, [b'"', ..]) => Self::end_of_quoted(rest),
            _ => None,
        };
        let end = quoted.or_else(|| match rest.len() {
            // Addresses are short: a loop beats the start of a vector search.
            0..=24 => rest.iter().position(|byte| *byte == b','),
            _ => memchr(b',', rest),
        });
        let (field, rest) = match end {
            Some(end) if end < rest.len() => (&rest[..end], Some(&rest[end + 1..])),
            _ => (rest, None),
        };
        self.rest = rest;
        Some(match quoted {
            Some(_) => &field[1..field.len() - 1],
            None => field,
        })
    }
}

/// A number, hexadecimal after `0x`.
pub(super) fn parse_number(text: &[u8]) -> Option<u64> {
    match leading_number(text)? {
        (number, None) => Some(number),
        _ => None,
    }
}

/// The number that a list starts with, and what comes after its comma. Most of a log are lists of
/// addresses, so the digits are looked at once, by table.
pub(super) fn leading_number(list: &[u8]) -> Option<(u64, Option<&[u8]>)> {
    let (number, digits, after) = match list {
        [b'0', b'x', after @ ..] => {
            let mut number = 0u64;
            let digits = count_digits(after, 16, |digit| number = number << 4 | digit);
            (Some(number).filter(|_| digits <= 16), digits, after)
        }
        after => {
            let mut number = Some(0u64);
            let digits = count_digits(after, 10, |digit| {
                number = number.and_then(|number| number.checked_mul(10)?.checked_add(digit));
            });
            (number, digits, after)
        }
    };
    let number = number.filter(|_| digits > 0)?;
    match &after[digits..] {
        [] => Some((number, None)),
        [b',', rest @ ..] => Some((number, Some(rest))),
        _ => None,
    }
}

/// How many digits `text` starts with; `take` hears of each.
fn count_digits(text: &[u8], base: u8, mut take: impl FnMut(u64)) -> usize {
    text.iter()
        .map(|byte| DIGITS[usize::from(*byte)])
        .take_while(|digit| *digit < base)
        .map(|digit| take(u64::from(digit)))
        .count()
}

/// What each byte is worth as a hexadecimal digit; 255 where it is none.
const DIGITS: [u8; 256] = {
    let mut digits = [u8::MAX; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value] as usize] = value as u8;
        digits[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    digits
};

fn hex_digit(digit: u8) -> Option<u8> {
    Some(DIGITS[usize::from(digit)]).filter(|value| *value < 16)
}

/// A field as text, with what V8 escaped put back.
pub(super) fn unescape(field: &[u8], has_quotes: bool) -> Cow<'_, str> {
    let has_doubled_quotes = has_quotes && field.windows(2).any(|pair| pair == b"\"\"");
    if !has_doubled_quotes && memchr(b'\\', field).is_none() {
        return String::from_utf8_lossy(field);
    }
    let mut units = Units::new(field);
    let unescaped = std::iter::from_fn(|| {
        let unit = units.next()?;
        if unit == u16::from(b'"') && has_quotes && units.rest.first() == Some(&b'"') {
            units.rest = &units.rest[1..];
        }
        Some(unit)
    });
    char::decode_utf16(unescaped)
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// The UTF-16 units of an escaped field: what V8 counts positions in a script in.
#[derive(Debug, Clone)]
pub(super) struct Units<'a> {
    rest: &'a [u8],
}

impl<'a> Units<'a> {
    pub(super) fn new(field: &'a [u8]) -> Self {
        Self { rest: field }
    }

    /// Goes to the next unit that is escaped, over how many that are not; none if there is none.
    pub(super) fn skip_to_escape(&mut self) -> Option<usize> {
        let plain = memchr(b'\\', self.rest)?;
        self.rest = &self.rest[plain..];
        Some(plain)
    }
}

impl Iterator for Units<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        let (unit, length) = match *self.rest {
            [] => return None,
            [b'\\', b'n', ..] => (u16::from(b'\n'), 2),
            [b'\\', b'\\', ..] => (u16::from(b'\\'), 2),
            [b'\\', b'x', high, low, ..] => match (hex_digit(high), hex_digit(low)) {
                (Some(high), Some(low)) => (u16::from(high << 4 | low), 4),
                _ => (u16::from(b'\\'), 1),
            },
            [b'\\', b'u', ref digits @ ..] => match unicode(digits) {
                Some(unit) => (unit, 6),
                None => (u16::from(b'\\'), 1),
            },
            [byte, ..] => (u16::from(byte), 1),
        };
        self.rest = &self.rest[length..];
        Some(unit)
    }
}

fn unicode(digits: &[u8]) -> Option<u16> {
    digits.get(..4)?.iter().try_fold(0u16, |value, digit| {
        Some(value << 4 | u16::from(hex_digit(*digit)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str, has_quotes: bool) -> Vec<String> {
        Fields::new(line.as_bytes(), has_quotes)
            .map(|field| unescape(field, has_quotes).into_owned())
            .collect()
    }

    #[test]
    fn fields_are_split_and_unescaped() {
        assert_eq!(
            fields(r"a,,x\x2Cy\\n\n,\u00e9\ud83d\ude00,", false),
            ["a", "", "x,y\\n\n", "é😀", ""]
        );
        assert_eq!(
            fields(r"\x2,\u12,\q,\", false),
            [r"\x2", r"\u12", r"\q", r"\"]
        );
    }

    #[test]
    fn old_logs_put_names_in_quotes() {
        assert_eq!(
            fields(r#"Stub,3,"a,b ""c"" ",0x1"#, true),
            ["Stub", "3", "a,b \"c\" ", "0x1"]
        );
        assert_eq!(
            fields("\"never closed,0x1", true),
            ["\"never closed", "0x1"]
        );
        // A regular expression may start with a quote where quotes mean nothing.
        assert_eq!(fields("\"[^\"]*\"", false), ["\"[^\"]*\""]);
    }

    #[test]
    fn numbers_are_bounded() {
        assert_eq!(parse_number(b"0x1F"), Some(31));
        assert_eq!(parse_number(b"120"), Some(120));
        assert_eq!(parse_number(b"0xffffffffffffffff"), Some(u64::MAX));
        assert_eq!(parse_number(b"0x10000000000000000"), None);
        assert_eq!(parse_number(b"99999999999999999999"), None);
        assert_eq!(parse_number(b"1e3"), None);
        assert_eq!(parse_number(b""), None);
    }
}
