//! A pull parser: the caller says what it expects next and gets it, or learns where it is not.
//!
//! Objects and arrays are entered and then asked for their next key or element, in whatever order
//! the file has them. A comma too many is overlooked, because traces that were cut short by a
//! crash have one. Text that is not UTF-8 gets replacement characters.

use std::borrow::Cow;

use memchr::memchr2;

use nodespy_model::ProfileBuilder;

use super::error::{JsonError, Problem};
use crate::budget::{Excess, Meter};

/// What kind of value comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Number,
    /// `true`, `false` or `null`.
    Word,
}

/// A number as it is written: whole ones are exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Whole(i64),
    Fraction(f64),
}

impl Number {
    /// The number without what is behind its point; the nearest there is when it is too large.
    pub(crate) fn as_i64(self) -> i64 {
        match self {
            Self::Whole(value) => value,
            Self::Fraction(value) => value as i64,
        }
    }

    /// This many thousandths of the number, rounded: nanoseconds of microseconds.
    pub(crate) fn thousandths(self) -> i64 {
        match self {
            Self::Whole(value) => value.saturating_mul(1000),
            Self::Fraction(value) => (value * 1000.0).round() as i64,
        }
    }
}

/// So many keys and elements count as a row.
const VALUES_PER_ROW: u8 = 16;
/// A string of fewer bytes than this is looked through byte by byte.
const SHORT_STRING: usize = 16;

/// Reads one JSON text from its start to its end.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether a comma must come before the next key or element: a value has just ended.
    needs_comma: bool,
    /// What keys and elements are drawn from, and how many are not paid for yet.
    meter: Option<&'a Meter>,
    unpaid: u8,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` at the cost of `meter`.
    pub(crate) fn metered(bytes: &'a [u8], meter: &'a Meter) -> Self {
        Self {
            meter: Some(meter),
            ..Self::new(bytes)
        }
    }

    /// Reads a part of this text on its own, at the cost of the same meter.
    pub(crate) fn part(&self, bytes: &'a [u8]) -> Self {
        Self {
            meter: self.meter,
            ..Self::new(bytes)
        }
    }

    /// Pays for what a profile got of what was read.
    pub(crate) fn pay_for(&self, builder: &ProfileBuilder) -> Result<(), JsonError> {
        let paid = self.meter.map_or(Ok(()), |meter| meter.row_into(builder));
        paid.map_err(|excess| self.exceeded(excess))
    }

    #[cold]
    fn exceeded(&self, excess: Excess) -> JsonError {
        JsonError {
            at: self.at,
            problem: Problem::Exceeded(excess),
        }
    }

    /// Reads `bytes`, after a byte order mark if there is one.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let at = match bytes.starts_with(b"\xef\xbb\xbf") {
            true => 3,
            false => 0,
        };
        Self {
            bytes,
            at,
            needs_comma: false,
            meter: None,
            unpaid: 0,
        }
    }

    /// The byte that comes next.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// An error about the place that is read next.
    pub(crate) fn expected(&self, what: &'static str) -> JsonError {
        JsonError {
            at: self.at,
            problem: match self.at < self.bytes.len() {
                true => Problem::Expected(what),
                false => Problem::Cut,
            },
        }
    }

    /// The next byte that is not white space.
    #[inline]
    fn next(&mut self) -> Option<u8> {
        loop {
            match *self.bytes.get(self.at)? {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// What kind of value comes next.
    #[inline]
    pub(crate) fn kind(&mut self) -> Result<Kind, JsonError> {
        match self.next() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::String),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            Some(b't' | b'f' | b'n') => Ok(Kind::Word),
            _ => Err(self.expected("a value")),
        }
    }

    /// Whether nothing but white space is left.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.next().is_none()
    }

    /// Goes into an object; then ask for [`Self::key`] until there is none.
    pub(crate) fn enter_object(&mut self) -> Result<(), JsonError> {
        self.enter(b'{', "an object")
    }

    /// Goes into an array; then ask for [`Self::element`] until there is none.
    pub(crate) fn enter_array(&mut self) -> Result<(), JsonError> {
        self.enter(b'[', "an array")
    }

    fn enter(&mut self, bracket: u8, what: &'static str) -> Result<(), JsonError> {
        if self.next() != Some(bracket) {
            return Err(self.expected(what));
        }
        self.at += 1;
        self.needs_comma = false;
        Ok(())
    }

    /// The next key of the object that was entered; none when it ends here.
    pub(crate) fn key(&mut self) -> Result<Option<Cow<'a, str>>, JsonError> {
        if !self.has_more(b'}', "a comma or the end of the object")? {
            return Ok(None);
        }
        let key = self.string()?;
        if self.next() != Some(b':') {
            return Err(self.expected("a colon"));
        }
        self.at += 1;
        self.needs_comma = false;
        Ok(Some(key))
    }

    /// Whether the array that was entered goes on: its next element must then be read.
    pub(crate) fn element(&mut self) -> Result<bool, JsonError> {
        self.has_more(b']', "a comma or the end of the array")
    }

    #[inline]
    fn has_more(&mut self, bracket: u8, what: &'static str) -> Result<bool, JsonError> {
        let mut byte = self.next();
        if byte == Some(b',') {
            self.at += 1;
            byte = self.next();
        } else if self.needs_comma && byte != Some(bracket) {
            return Err(self.expected(what));
        }
        if byte == Some(bracket) {
            self.at += 1;
            self.needs_comma = true;
            return Ok(false);
        }
        self.unpaid += 1;
        if self.unpaid == VALUES_PER_ROW {
            self.unpaid = 0;
            let paid = self.meter.map_or(Ok(()), Meter::row);
            paid.map_err(|excess| self.exceeded(excess))?;
        }
        Ok(true)
    }

    /// A string.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        if self.next() != Some(b'"') {
            return Err(self.expected("a string"));
        }
        let start = self.at + 1;
        let (end, has_escapes) = self.end_of_string(start)?;
        let content = &self.bytes[start..end];
        let text = match has_escapes {
            true => Cow::Owned(unescaped(content).map_err(|at| JsonError {
                at: start + at,
                problem: Problem::Expected("an escape of JSON"),
            })?),
            false => match std::str::from_utf8(content) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => String::from_utf8_lossy(content),
            },
        };
        self.at = end + 1;
        self.needs_comma = true;
        Ok(text)
    }

    /// Where the string that starts at `start` has its closing quote, and whether it has escapes.
    #[inline]
    fn end_of_string(&self, start: usize) -> Result<(usize, bool), JsonError> {
        // Keys are short, and so are most names: a search over many bytes at once does not pay.
        let short = self
            .bytes
            .get(start..start + SHORT_STRING)
            .unwrap_or_default();
        for (length, byte) in short.iter().enumerate() {
            match byte {
                b'"' => return Ok((start + length, false)),
                b'\\' => break,
                _ => {}
            }
        }
        self.end_of_long_string(start)
    }

    fn end_of_long_string(&self, start: usize) -> Result<(usize, bool), JsonError> {
        let mut at = start;
        let mut has_escapes = false;
        loop {
            match memchr2(b'"', b'\\', self.bytes.get(at..).unwrap_or_default()) {
                Some(found) if self.bytes[at + found] == b'"' => {
                    return Ok((at + found, has_escapes));
                }
                Some(found) => {
                    has_escapes = true;
                    at += found + 2;
                }
                None => {
                    return Err(JsonError {
                        at: self.bytes.len(),
                        problem: Problem::Cut,
                    });
                }
            }
        }
    }

    /// A number.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<Number, JsonError> {
        let is_negative = self.next() == Some(b'-');
        let start = self.at;
        let mut at = start + usize::from(is_negative);
        let digits = at;
        let mut value = 0i64;
        while let Some(digit) = self.digit(at) {
            value = value.wrapping_mul(10).wrapping_add(digit);
            at += 1;
        }
        if at == digits {
            return Err(match at < self.bytes.len() {
                true => self.expected("a number"),
                false => JsonError {
                    at,
                    problem: Problem::Cut,
                },
            });
        }
        let goes_on = matches!(self.bytes.get(at), Some(b'.' | b'e' | b'E'));
        // Eighteen digits always fit; what is longer or has a point is left to the library.
        let number = if goes_on || at - digits > 18 {
            while let Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') = self.bytes.get(at) {
                at += 1;
            }
            self.long_number(&self.bytes[start..at])?
        } else {
            Number::Whole(if is_negative { -value } else { value })
        };
        if at == self.bytes.len() {
            // No file ends with a number: this one goes on where the file is cut off.
            return Err(JsonError {
                at,
                problem: Problem::Cut,
            });
        }
        self.at = at;
        self.needs_comma = true;
        Ok(number)
    }

    fn digit(&self, at: usize) -> Option<i64> {
        let byte = *self.bytes.get(at)?;
        byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
    }

    fn long_number(&self, text: &[u8]) -> Result<Number, JsonError> {
        let text = std::str::from_utf8(text).map_err(|_| self.expected("a number"))?;
        if let Ok(value) = text.parse() {
            return Ok(Number::Whole(value));
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Number::Fraction(value)),
            _ => Err(self.expected("a number")),
        }
    }

    /// A number, which some writers put into quotes; none when it is something else.
    pub(crate) fn any_number(&mut self) -> Result<Option<Number>, JsonError> {
        match self.kind()? {
            Kind::Number => self.number().map(Some),
            Kind::String => {
                let text = self.string()?;
                let text = text.trim();
                let whole = text.parse().ok().map(Number::Whole);
                Ok(whole.or_else(|| {
                    let fraction = text.parse().ok().filter(|value: &f64| value.is_finite())?;
                    Some(Number::Fraction(fraction))
                }))
            }
            _ => self.skip().map(|()| None),
        }
    }

    /// A string, or the digits of a number; empty when it is something else.
    pub(crate) fn any_text(&mut self) -> Result<Cow<'a, str>, JsonError> {
        match self.kind()? {
            Kind::String => self.string(),
            Kind::Number => self.raw().map(String::from_utf8_lossy),
            _ => self.skip().map(|()| Cow::Borrowed("")),
        }
    }

    /// Goes over a value, whatever it is and however deep.
    pub(crate) fn skip(&mut self) -> Result<(), JsonError> {
        self.raw().map(|_| ())
    }

    /// The bytes of a value, whatever it is. Its brackets are counted, not matched.
    pub(crate) fn raw(&mut self) -> Result<&'a [u8], JsonError> {
        let kind = self.kind()?;
        let start = self.at;
        match kind {
            Kind::String => self.at = self.end_of_string(start + 1)?.0 + 1,
            Kind::Number => {
                self.number()?;
            }
            Kind::Word => self.word()?,
            Kind::Object | Kind::Array => self.at = self.end_of_container(start)?,
        }
        self.needs_comma = true;
        Ok(&self.bytes[start..self.at])
    }

    fn end_of_container(&self, start: usize) -> Result<usize, JsonError> {
        let mut depth = 0usize;
        let mut at = start;
        while let Some(byte) = self.bytes.get(at) {
            match byte {
                b'"' => at = self.end_of_string(at + 1)?.0,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        Err(JsonError {
            at,
            problem: Problem::Cut,
        })
    }

    fn word(&mut self) -> Result<(), JsonError> {
        let rest = &self.bytes[self.at..];
        for word in ["true", "false", "null"] {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(());
            }
            if word.as_bytes().starts_with(rest) {
                self.at = self.bytes.len();
                break;
            }
        }
        Err(self.expected("true, false or null"))
    }
}

/// The text that escapes stand for, or the position of one that stands for nothing.
fn unescaped(content: &[u8]) -> Result<String, usize> {
    let mut text = String::with_capacity(content.len());
    let mut at = 0;
    while at < content.len() {
        let plain = memchr::memchr(b'\\', &content[at..]).unwrap_or(content.len() - at);
        text.push_str(&String::from_utf8_lossy(&content[at..at + plain]));
        at += plain;
        if at == content.len() {
            break;
        }
        let (character, length) = escape(&content[at..]).ok_or(at)?;
        text.push(character);
        at += length;
    }
    Ok(text)
}

/// The character that `content` starts with as an escape, and how long that is.
fn escape(content: &[u8]) -> Option<(char, usize)> {
    let character = match content.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode_escape(content),
        _ => return None,
    };
    Some((character, 2))
}

/// `\uXXXX`, or two of them that make one character. Half of a pair is what JavaScript can hold
/// and UTF-8 can't: it becomes a replacement character.
fn unicode_escape(content: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = content.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |value, digit| {
            Some(value << 4 | char::from(*digit).to_digit(16)?)
        })
    };
    let first = unit(0)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 6));
    }
    let second = unit(6).filter(|second| (0xdc00..0xe000).contains(second));
    Some(match second {
        Some(second) if first < 0xdc00 => {
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            (char::from_u32(code)?, 12)
        }
        _ => (char::REPLACEMENT_CHARACTER, 6),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Result<String, JsonError> {
        Reader::new(text.as_bytes()).string().map(Cow::into_owned)
    }

    #[test]
    fn keys_come_in_any_order_and_unknown_ones_are_skipped() {
        let text = br#" { "deep": [[{"a": "]}\""}], 1e5, true], "b" : [1, -2, 3,], "a":"x" } "#;
        let mut reader = Reader::new(text);
        let mut numbers = Vec::new();
        let mut name = String::new();
        reader.enter_object().unwrap();
        while let Some(key) = reader.key().unwrap() {
            match &*key {
                "a" => name = reader.string().unwrap().into_owned(),
                "b" => {
                    reader.enter_array().unwrap();
                    while reader.element().unwrap() {
                        numbers.push(reader.number().unwrap().as_i64());
                    }
                }
                _ => reader.skip().unwrap(),
            }
        }
        assert!(reader.is_at_end());
        assert_eq!((&*name, &numbers[..]), ("x", &[1, -2, 3][..]));
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(string(r#""a\n\"\\\/\u00e9""#).unwrap(), "a\n\"\\/é");
        assert_eq!(string(r#""\ud83d\ude00|\ud83d""#).unwrap(), "😀|\u{fffd}");
        assert_eq!(string(r#""\udc00\ud83dx""#).unwrap(), "\u{fffd}\u{fffd}x");
        let error = string(r#""ab\x""#).unwrap_err();
        assert_eq!(error.to_string(), "byte 3: expected an escape of JSON");
    }

    #[test]
    fn numbers_are_exact_as_long_as_they_are_whole() {
        let number = |text: &str| Reader::new(format!("{text},").as_bytes()).number();
        assert_eq!(number("-12"), Ok(Number::Whole(-12)));
        assert_eq!(number("9223372036854775807"), Ok(Number::Whole(i64::MAX)));
        assert_eq!(number("1.5e3"), Ok(Number::Fraction(1500.0)));
        assert_eq!(number("12345678901234567890").unwrap().as_i64(), i64::MAX);
        assert_eq!(number("0.25").unwrap().thousandths(), 250);
        let cut = Reader::new(b"-12").number().unwrap_err();
        assert_eq!((cut.at, cut.problem), (3, Problem::Cut));
        assert!(number("1e999").is_err() && number("1-2e").is_ok() && number("-").is_err());
        let mut quoted = Reader::new(br#"["11", "x", null]"#);
        quoted.enter_array().unwrap();
        let mut found = Vec::new();
        while quoted.element().unwrap() {
            found.push(quoted.any_number().unwrap());
        }
        assert_eq!(found, [Some(Number::Whole(11)), None, None]);
    }

    #[test]
    fn an_error_names_the_byte_and_a_cut_is_told_apart() {
        let mut reader = Reader::new(br#"{"a":1 "b":2}"#);
        reader.enter_object().unwrap();
        reader.key().unwrap();
        reader.number().unwrap();
        let error = reader.key().unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 7: expected a comma or the end of the object"
        );
        for text in [
            "{",
            "{\"a",
            "{\"a\":",
            "{\"a\":[1,",
            "{\"a\":tr",
            "{\"a\":-",
        ] {
            let mut reader = Reader::new(text.as_bytes());
            let error = (|| {
                reader.enter_object()?;
                reader.key()?;
                reader.skip()
            })();
            let error = error.unwrap_err();
            assert_eq!((error.at, error.problem), (text.len(), Problem::Cut));
        }
    }

    #[test]
    fn a_million_brackets_need_no_stack() {
        let text = [vec![b'['; 1 << 20], vec![b']'; 1 << 20]].concat();
        let mut reader = Reader::new(&text);
        reader.skip().unwrap();
        assert!(reader.is_at_end());
    }
}
