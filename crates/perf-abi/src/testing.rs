//! Bodies of records for tests.

/// Numbers as the bytes of a record.
pub(crate) fn words(values: impl IntoIterator<Item = u64>) -> Vec<u8> {
    values.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Two 32-bit numbers that share a word.
pub(crate) fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A text with its zero, padded to whole words as the kernel does.
pub(crate) fn text(value: &str) -> Vec<u8> {
    let mut bytes = value.as_bytes().to_vec();
    bytes.resize((value.len() + 1).next_multiple_of(8), 0);
    bytes
}
