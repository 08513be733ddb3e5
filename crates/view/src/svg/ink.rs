//! Writing parts of SVG into one buffer: numbers without `format!`, text that stays text.

use super::palette::Rgb;

/// The bytes of a picture.
#[derive(Debug, Default)]
pub(super) struct Ink {
    pub(super) bytes: Vec<u8>,
    /// Whether characters beyond ASCII are written as numbers, which every encoding can read.
    pub(super) is_ascii: bool,
}

impl Ink {
    /// Markup, as it is.
    pub(super) fn raw(&mut self, markup: &str) -> &mut Self {
        self.bytes.extend_from_slice(markup.as_bytes());
        self
    }

    /// Bytes that were markup already.
    pub(super) fn ready(&mut self, markup: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(markup);
        self
    }

    /// Text, which can't become markup.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        let is_plain =
            |byte: u8| !matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'') && byte >= 0x20;
        if text.bytes().all(|byte| is_plain(byte) && byte.is_ascii()) {
            return self.raw(text);
        }
        for character in text.chars() {
            self.character(character);
        }
        self
    }

    pub(super) fn character(&mut self, character: char) {
        let mut buffer = [0; 4];
        let written = match character {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            '\'' => "&#39;",
            // XML has no place for these, not even as references.
            '\0'..'\u{20}' | '\u{fffe}' | '\u{ffff}' => " ",
            character if self.is_ascii && !character.is_ascii() => {
                self.raw("&#").whole(u64::from(u32::from(character)));
                ";"
            }
            character => character.encode_utf8(&mut buffer),
        };
        self.bytes.extend_from_slice(written.as_bytes());
    }

    /// A whole number.
    pub(super) fn whole(&mut self, number: u64) -> &mut Self {
        self.digits(number, usize::MAX)
    }

    /// A whole number with its thousands apart.
    pub(super) fn grouped(&mut self, number: u64) -> &mut Self {
        self.digits(number, 3)
    }

    fn digits(&mut self, mut number: u64, group: usize) -> &mut Self {
        let mut buffer = [0u8; 27];
        let mut at = buffer.len();
        let mut written = 0;
        loop {
            if written > 0 && written % group == 0 {
                at -= 1;
                buffer[at] = b',';
            }
            at -= 1;
            buffer[at] = b'0' + (number % 10) as u8;
            number /= 10;
            written += 1;
            if number == 0 {
                return self.ready(&buffer[at..]);
            }
        }
    }

    /// A number with as many decimals as it needs, up to four.
    pub(super) fn number(&mut self, number: f64) -> &mut Self {
        let scaled = (number.abs() * 1e4).round() as u64;
        if number < 0.0 && scaled > 0 {
            self.raw("-");
        }
        self.whole(scaled / 10_000);
        let mut rest = scaled % 10_000;
        if rest > 0 {
            let mut digits = *b".0000";
            for place in (1..5).rev() {
                digits[place] = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            let end = digits.iter().rposition(|digit| *digit != b'0');
            self.ready(&digits[..=end.unwrap_or(0)]);
        }
        self
    }

    /// A number with two decimals.
    pub(super) fn hundredths(&mut self, number: f64) -> &mut Self {
        let scaled = (number.abs() * 100.0).round() as u64;
        if number < 0.0 && scaled > 0 {
            self.raw("-");
        }
        let rest = (scaled % 100) as u8;
        self.whole(scaled / 100)
            .ready(&[b'.', b'0' + rest / 10, b'0' + rest % 10])
    }

    /// A colour.
    pub(super) fn color(&mut self, Rgb(red, green, blue): Rgb) -> &mut Self {
        self.raw("rgb(").whole(red.into()).raw(",");
        self.whole(green.into()).raw(",");
        self.whole(blue.into()).raw(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Ink) -> &mut Ink) -> String {
        let mut ink = Ink::default();
        write(&mut ink);
        String::from_utf8(ink.bytes).unwrap()
    }

    #[test]
    fn numbers_are_written_as_people_read_them() {
        let all = written(|ink| {
            ink.whole(0)
                .raw(" ")
                .whole(u64::MAX)
                .raw(" ")
                .grouped(1_234_567);
            ink.raw(" ").grouped(u64::MAX).raw(" ").grouped(999)
        });
        assert_eq!(
            all,
            "0 18446744073709551615 1,234,567 18,446,744,073,709,551,615 999"
        );
        for (number, text) in [
            (0.0, "0"),
            (12.5, "12.5"),
            (100.0, "100"),
            (0.0001, "0.0001"),
            (0.00001, "0"),
            (-3.25, "-3.25"),
            (1.99999, "2"),
        ] {
            assert_eq!(written(|ink| ink.number(number)), text);
        }
        assert_eq!(written(|ink| ink.hundredths(3.456)), "3.46");
        assert_eq!(written(|ink| ink.hundredths(-0.999)), "-1.00");
    }

    #[test]
    fn text_cannot_become_markup() {
        let evil = "</text><script>alert('1')</script>\u{1b}&é\u{ffff}";
        assert_eq!(
            written(|ink| ink.text(evil)),
            "&lt;/text&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp;é "
        );
        let mut ink = Ink {
            is_ascii: true,
            ..Ink::default()
        };
        ink.text("é<");
        assert_eq!(ink.bytes, b"&#233;&lt;");
    }
}
