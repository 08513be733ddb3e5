//! A writer that puts commas, quotes and escapes where they belong.

use std::io::{self, Write};

/// How much is gathered before it is handed on.
const CHUNK_BYTES: usize = 64 << 10;
/// The digits of the numbers below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Writes one JSON text. Objects and arrays are opened and closed by the caller, in pairs. What
/// goes wrong with the output is reported at the end, by [`Self::finish`].
pub(crate) struct Writer<'a> {
    output: &'a mut dyn Write,
    written: io::Result<()>,
    text: Vec<u8>,
    needs_comma: bool,
}

impl<'a> Writer<'a> {
    /// Writes to `output`.
    pub(crate) fn new(output: &'a mut dyn Write) -> Self {
        Self {
            output,
            written: Ok(()),
            text: Vec::with_capacity(CHUNK_BYTES + 4096),
            needs_comma: false,
        }
    }

    fn separate(&mut self) {
        if self.needs_comma {
            self.text.push(b',');
        }
        self.needs_comma = true;
    }

    /// `{`; the keys follow.
    pub(crate) fn begin_object(&mut self) {
        self.separate();
        self.text.push(b'{');
        self.needs_comma = false;
    }

    /// `}`.
    pub(crate) fn end_object(&mut self) {
        self.end(b'}');
    }

    /// `[`; the elements follow.
    pub(crate) fn begin_array(&mut self) {
        self.separate();
        self.text.push(b'[');
        self.needs_comma = false;
    }

    /// `]`.
    pub(crate) fn end_array(&mut self) {
        self.end(b']');
    }

    fn end(&mut self, bracket: u8) {
        self.text.push(bracket);
        self.needs_comma = true;
        if self.text.len() >= CHUNK_BYTES {
            if self.written.is_ok() {
                self.written = self.output.write_all(&self.text);
            }
            self.text.clear();
        }
    }

    /// A key; its value follows.
    pub(crate) fn key(&mut self, name: &str) {
        self.string(name);
        self.text.push(b':');
        self.needs_comma = false;
    }

    /// A string.
    pub(crate) fn string(&mut self, text: &str) {
        self.separate();
        self.text.push(b'"');
        let bytes = text.as_bytes();
        let mut written = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            let escape = match byte {
                b'"' => b'"',
                b'\\' => b'\\',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                0..0x20 => b'u',
                _ => continue,
            };
            self.text.extend_from_slice(&bytes[written..at]);
            self.text.extend_from_slice(&[b'\\', escape]);
            if escape == b'u' {
                self.text
                    .extend_from_slice(format!("{byte:04x}").as_bytes());
            }
            written = at + 1;
        }
        self.text.extend_from_slice(&bytes[written..]);
        self.text.push(b'"');
    }

    /// A number.
    #[inline]
    pub(crate) fn number(&mut self, value: i128) {
        // Numbers of 128 bits are divided slowly, and almost none needs them.
        match u64::try_from(value) {
            Ok(value) => self.small_number(value),
            Err(_) => self.any_number(value),
        }
    }

    fn small_number(&mut self, mut value: u64) {
        self.separate();
        let mut digits = [0u8; 20];
        let mut start = digits.len();
        while value >= 100 {
            start -= 2;
            digits[start..start + 2].copy_from_slice(&PAIRS[(value % 100) as usize]);
            value /= 100;
        }
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[value as usize]);
        start += usize::from(value < 10);
        self.text.extend_from_slice(&digits[start..]);
    }

    #[inline(never)]
    fn any_number(&mut self, value: i128) {
        self.separate();
        self.text.extend_from_slice(value.to_string().as_bytes());
    }

    /// So many millionths, exactly: milliseconds of nanoseconds.
    pub(crate) fn millionths(&mut self, value: u64) {
        self.number((value / 1_000_000).into());
        let rest = value % 1_000_000;
        if rest > 0 {
            let digits = format!(".{rest:06}");
            let digits = digits.trim_end_matches('0');
            self.text.extend_from_slice(digits.as_bytes());
        }
    }

    /// A number, or `null`.
    pub(crate) fn optional(&mut self, value: Option<u32>) {
        match value {
            Some(value) => self.number(value.into()),
            None => self.word("null"),
        }
    }

    /// `true`, `false` or `null`.
    pub(crate) fn word(&mut self, word: &'static str) {
        self.separate();
        self.text.extend_from_slice(word.as_bytes());
    }

    /// A key and a string.
    pub(crate) fn string_field(&mut self, name: &str, text: &str) {
        self.key(name);
        self.string(text);
    }

    /// A key and a number.
    pub(crate) fn number_field(&mut self, name: &str, value: impl Into<i128>) {
        self.key(name);
        self.number(value.into());
    }

    /// Hands on what is left, without which the end is missing.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.written?;
        self.output.write_all(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Reader;

    fn written(write: impl FnOnce(&mut Writer<'_>)) -> String {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        write(&mut writer);
        writer.finish().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn commas_stand_between_and_nowhere_else() {
        let text = written(|writer| {
            writer.begin_array();
            writer.begin_object();
            writer.number_field("a", 1);
            writer.key("b");
            writer.begin_array();
            writer.end_array();
            writer.end_object();
            writer.number(-20);
            writer.string("x");
            writer.end_array();
        });
        assert_eq!(text, r#"[{"a":1,"b":[]},-20,"x"]"#);
    }

    #[test]
    fn numbers_of_any_size_are_written_whole() {
        let largest = i128::from(u64::MAX);
        for number in [
            0,
            -1,
            9,
            10,
            99,
            100,
            12_345,
            largest,
            largest + 1,
            i128::MAX,
            i128::MIN,
        ] {
            assert_eq!(written(|writer| writer.number(number)), number.to_string());
        }
    }

    #[test]
    fn every_string_reads_back() {
        let all: String = (0..0x500).filter_map(char::from_u32).collect();
        for text in ["", "a\"b\\c\n\u{1}", "😀\u{2028}</script>", &all] {
            let json = written(|writer| writer.string(text));
            assert_eq!(Reader::new(json.as_bytes()).string().unwrap(), text);
        }
    }
}
