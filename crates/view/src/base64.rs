//! Base64 as RFC 4648 has it: bytes as text that stands anywhere in a page.

use std::io::{self, Write};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// `bytes` as text.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    write(bytes, &mut text).expect("memory takes every byte");
    String::from_utf8(text).expect("base64 is plain text")
}

/// Writes `bytes` as text.
pub(crate) fn write(bytes: &[u8], output: &mut dyn Write) -> io::Result<()> {
    let mut text = Vec::with_capacity(4 << 12);
    // Whole groups of three at a time, so only the last piece needs filling up.
    for piece in bytes.chunks(3 << 12) {
        text.clear();
        let groups = piece.chunks_exact(3);
        let rest = groups.remainder();
        for group in groups {
            text.extend_from_slice(&digits([group[0], group[1], group[2]]));
        }
        match *rest {
            [one] => {
                let [first, second, ..] = digits([one, 0, 0]);
                text.extend_from_slice(&[first, second, b'=', b'=']);
            }
            [one, two] => {
                let [first, second, third, _] = digits([one, two, 0]);
                text.extend_from_slice(&[first, second, third, b'=']);
            }
            _ => {}
        }
        output.write_all(&text)?;
    }
    Ok(())
}

fn digits(group: [u8; 3]) -> [u8; 4] {
    let [one, two, three] = group.map(u32::from);
    let bits = one << 16 | two << 8 | three;
    [18, 12, 6, 0].map(|shift| DIGITS[(bits >> shift & 63) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_the_rfc_has_it() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encoded(bytes.as_bytes()), text);
        }
    }
}
