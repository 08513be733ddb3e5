//! Numbers as the kernel and V8 write addresses.

/// The number that 1 to 16 hexadecimal digits stand for; none if anything else is among them.
pub(crate) fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let mut number = 0;
    // Of values above 15 a bit stays set: whether all were digits is asked once.
    let mut seen = 0;
    for digit in digits {
        let value = VALUES[usize::from(*digit)];
        seen |= value;
        number = number << 4 | u64::from(value & 0xf);
    }
    (seen <= 0xf).then_some(number)
}

/// The value of every hexadecimal digit, and one above 15 for what is none: a list of the kernel's
/// functions has two million digits.
const VALUES: [u8; 256] = {
    let mut values = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        values[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    values
};

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
