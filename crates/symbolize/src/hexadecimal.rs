//! Numbers as the kernel and V8 write addresses.

/// The number that 1 to 16 hexadecimal digits stand for; none if anything else is among them.
pub(crate) fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_make_a_number() {
        assert_eq!(hexadecimal(b"fF09"), Some(0xff09));
        assert_eq!(hexadecimal(b"ffffffffffffffff"), Some(u64::MAX));
        for bad in ["", "10000000000000000", "0x1", "+1", "g"] {
            assert_eq!(hexadecimal(bad.as_bytes()), None, "{bad}");
        }
    }
}
