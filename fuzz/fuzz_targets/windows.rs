//! No bytes may crash, hang or exhaust the reader of windows that agents send to `nodespy serve`. The first byte says whether the
//! rest is what was sent, or what is in it once it is unpacked.
#![no_main]

use nodespy_store::{batch_from_bytes, batch_to_bytes, hashes_from_bytes};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let packed = match first & 1 {
        0 => rest.to_vec(),
        _ => zstd::bulk::compress(rest, 1).expect("it fits into memory"),
    };
    let _ = hashes_from_bytes(rest);
    if let Ok(batch) = batch_from_bytes(&packed) {
        let again = batch_from_bytes(&batch_to_bytes(&batch)).expect("what was written is read");
        assert_eq!(again.windows, batch.windows);
        let _ = batch.symbols.checked_hashes();
    }
});
