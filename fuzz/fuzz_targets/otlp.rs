//! No bytes may crash, hang or exhaust the reader of OTLP profiles. The first byte says whether the rest is gzipped.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let encoding = (first & 1 == 1).then_some("gzip");
    if let Ok(nodespy_otlp::Decoded { batch, .. }) = nodespy_otlp::decode(rest, encoding) {
        let packed = nodespy_otlp::encode(&batch);
        let again = nodespy_otlp::decode(&packed, Some("gzip")).expect("what was written is read");
        assert!(again.batch.windows.len() <= batch.windows.len());
    }
});
