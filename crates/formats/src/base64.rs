//! Base64 as RFC 4648 has it, as far as an HTML page needs it: decoding, spaces allowed.

/// The bytes that `text` stands for, or the position of the first character that cannot be.
pub(crate) fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut pending = 0u32;
    let mut pending_bits = 0;
    for (position, &character) in text.iter().enumerate() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            b' ' | b'\t' | b'\r' | b'\n' => continue,
            _ => return Err(position),
        };
        pending = pending << 6 | u32::from(value);
        pending_bits += 6;
        if pending_bits >= 8 {
            pending_bits -= 8;
            bytes.push((pending >> pending_bits) as u8);
            pending &= (1 << pending_bits) - 1;
        }
    }
    Ok(bytes)
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
}
