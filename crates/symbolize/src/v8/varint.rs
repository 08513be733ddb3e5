//! Unsigned LEB128: seven bits a byte, the lowest first. V8's tables and WebAssembly have it.

/// The longest that a number of 64 bits takes.
pub(super) const MAX_BYTES: usize = 10;

/// Takes a number of at most `max_bytes` off the front. None where the bytes end, or the number
/// does not.
pub(super) fn take_varint(bytes: &mut &[u8], max_bytes: usize) -> Option<u64> {
    let mut value = 0u64;
    for position in 0..max_bytes.min(MAX_BYTES) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
pub(super) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_one_after_the_other() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut bytes = Vec::new();
        for number in numbers {
            put_varint(&mut bytes, number);
        }
        let mut rest = bytes.as_slice();
        for number in numbers {
            assert_eq!(take_varint(&mut rest, MAX_BYTES), Some(number));
        }
        assert_eq!(take_varint(&mut rest, MAX_BYTES), None);
    }

    #[test]
    fn a_number_that_is_cut_or_too_long_is_none() {
        assert_eq!(take_varint(&mut &[0x80, 0x80][..], MAX_BYTES), None);
        assert_eq!(take_varint(&mut &[0x80, 0x80, 1][..], 2), None);
        assert_eq!(take_varint(&mut &[0xff; 11][..], usize::MAX), None);
    }
}
