//! The base64 of an HTML page: whitespace is skipped, padding ends it.

use std::sync::LazyLock;

use data_encoding::{DecodeKind, Encoding, Specification};

static PAGE_BASE64: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification
        .symbols
        .push_str("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    specification.ignore.push_str(" \t\r\n");
    specification.check_trailing_bits = false;
    specification.encoding().expect("64 distinct symbols")
});

/// The bytes that `text` stands for, or the position of the first character that is not base64.
pub(crate) fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let text = &text[..memchr::memchr(b'=', text).unwrap_or(text.len())];
    let decoded = PAGE_BASE64.decode(text).or_else(|error| match error.kind {
        // A lone last character is less than a byte: the page was cut there. Filled up to one.
        DecodeKind::Length => {
            let mut bytes = PAGE_BASE64.decode(&[text, b"A"].concat())?;
            bytes.pop();
            Ok(bytes)
        }
        _ => Err(error),
    });
    decoded.map_err(|error| error.position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc_decode() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9v\nYmFy", "foobar"),
        ] {
            assert_eq!(decode(text.as_bytes()).unwrap(), bytes.as_bytes());
        }
        assert_eq!(decode(b"Zm9v<"), Err(4));
    }

    #[test]
    fn a_page_cut_in_the_middle_decodes_up_to_there() {
        assert_eq!(decode(b"Zm9v\nY").unwrap(), b"foo");
        assert_eq!(decode(b"Zm9v Ym").unwrap(), b"foob");
        assert_eq!(decode(b"Zm9vYm9=<").unwrap(), b"foobo");
        assert_eq!(decode(b"Zm<vYm9vY"), Err(2));
        assert_eq!(decode(b"Zm9v\n<"), Err(5));
    }
}
