//! No bytes may crash the decoder of perf's records, whatever the event asked for.
#![no_main]

use nodespy_perf_abi::{Addresses, EventAttributes, RawRecord, RecordHeader, RecordLayout};

/// What the bytes start with; the records follow.
const ATTRIBUTES_BYTES: usize = 104;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((attributes, mut records)) = bytes.split_at_checked(ATTRIBUTES_BYTES) else {
        return;
    };
    let attributes = EventAttributes::read(attributes).expect("the structure is whole");
    let layout = RecordLayout::new(&attributes);
    let mut addresses = Addresses::default();
    while let Ok(record) = RawRecord::read(records) {
        if let Ok(sample) = layout.sample(&record) {
            addresses.split(sample.callchain, sample.mode);
            sample.regs_user.map(|registers| registers.x86_64());
            sample.branches().for_each(drop);
            assert_eq!(layout.sample_time(record.body), sample.time);
        }
        let _ = layout.sideband(&record);
        let _ = layout.trailer(&record);
        records = &records[RecordHeader::BYTES + record.body.len()..];
    }
});
