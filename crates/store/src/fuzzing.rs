//! Each byte parser of this crate that is not public on any bytes: what `fuzz/` and the short version below feed.

use crate::block::{decode_counts, decode_hour, decode_sums, decode_window};
use crate::clickhouse;

/// Reads a window, and an hour whose parts are packed here: bytes that zstd refuses would show nothing. The first byte says where
/// one part ends and the next begins, in 256ths.
pub fn block(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let (sums, times) = rest.split_at(rest.len() * usize::from(*first) / 256);
    let packed = |part: &[u8]| zstd::bulk::compress(part, 1).expect("it fits into memory");
    let _ = decode_window(rest, |_, _| {});
    let _ = decode_sums(rest, |_, _| {});
    let _ = decode_sums(&packed(sums), |_, _| {});
    let _ = decode_hour(&packed(sums), &packed(times), |_, _, _| {});
    let _ = decode_counts(&packed(times), |_, _| {});
}

/// Reads what ClickHouse answers, as each kind of answer.
pub fn clickhouse_rows(bytes: &[u8]) {
    clickhouse::read_any_rows(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            block(&bytes);
            clickhouse_rows(&bytes);
        }
    }
}
