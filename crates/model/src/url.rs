//! Addresses of scripts, as V8 and source maps write them.

use std::borrow::Cow;

/// The path in a `file:` address; any other address as it is.
pub fn file_of_url(url: &str) -> Cow<'_, str> {
    let Some(path) = url.strip_prefix("file://") else {
        return Cow::Borrowed(url);
    };
    // Windows: file:///C:/folder/file.js
    let path = match path.as_bytes() {
        [b'/', letter, b':', b'/', ..] if letter.is_ascii_alphabetic() => &path[1..],
        _ => path,
    };
    percent_decoded(path)
}

/// The text with `%2F` and the like replaced; unchanged where that would not be UTF-8.
pub fn percent_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high << 4 | low) as u8);
                at += 3;
            }
            (byte, ..) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).map_or(Cow::Borrowed(text), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_address_is_a_path_and_any_other_stays() {
        for (url, file) in [
            ("file:///app/a.js", "/app/a.js"),
            ("file:///app/a%20b%C3%A9.js", "/app/a bé.js"),
            ("file:///C:/app/a.js", "C:/app/a.js"),
            ("node:fs", "node:fs"),
            ("/app/100%25.js", "/app/100%25.js"),
            ("", ""),
        ] {
            assert_eq!(file_of_url(url), file);
        }
    }

    #[test]
    fn only_two_hexadecimal_digits_are_an_escape() {
        for (text, decoded) in [
            ("%41%6a", "Aj"),
            ("100%", "100%"),
            ("%4", "%4"),
            ("%zz%+5", "%zz%+5"),
            ("%é1", "%é1"),
            ("%ff", "%ff"),
        ] {
            assert_eq!(percent_decoded(text), decoded);
        }
    }
}
