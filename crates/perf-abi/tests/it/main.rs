//! No bytes make the decoder panic, and no error points outside the record.

use nodespy_perf_abi::{
    Addresses, EventAttributes, RawRecord, RecordError, RecordLayout, record_type,
};
use proptest::prelude::*;

/// Whatever an event may ask for, and more.
fn attributes() -> impl Strategy<Value = EventAttributes> {
    let masks = (any::<u64>(), any::<u64>());
    (any::<u64>(), 0u64..64, any::<u64>(), masks, any::<bool>()).prop_map(
        |(sample_type, read_format, branch_sample_type, masks, has_sample_id_all)| {
            EventAttributes {
                sample_type,
                read_format,
                branch_sample_type,
                sample_regs_user: masks.0,
                sample_regs_intr: masks.1,
                has_sample_id_all,
                ..EventAttributes::default()
            }
        },
    )
}

/// Bodies whose lengths and counts are often plausible, and often lies.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        0u64..16,
        any::<u64>(),
        Just(u64::MAX),
        (u64::MAX - 5000)..u64::MAX,
    ];
    let words = prop::collection::vec(word, 0..80);
    (words, 0usize..8).prop_map(|(words, cut)| {
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.truncate(bytes.len().saturating_sub(cut));
        bytes
    })
}

fn check(error: RecordError, length: usize) -> Result<(), TestCaseError> {
    prop_assert!(error.at() <= 8 + length, "{error} in {length} bytes");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_body_makes_a_decoder_panic(
        attributes in attributes(),
        kind in 0u32..24,
        misc in any::<u16>(),
        body in body(),
    ) {
        let layout = RecordLayout::new(&attributes);
        let record = RawRecord { kind, misc, body: &body };
        match layout.sample(&record) {
            Ok(sample) => {
                let mut addresses = Addresses::default();
                addresses.split(sample.callchain, sample.mode);
                let held = addresses.kernel.len() + addresses.user.len();
                prop_assert!(held <= sample.callchain.len());
                prop_assert!(sample.branches().len() * 24 <= body.len());
                prop_assert!(sample.stack_user.len() <= body.len());
                // A field that is read without the rest is the same field.
                prop_assert_eq!(layout.sample_time(&body), sample.time);
                prop_assert_eq!(layout.sample_id(&body), sample.id);
                sample.regs_user.map(|registers| registers.x86_64());
            }
            Err(error) => check(error, body.len())?,
        }
        if let Err(error) = layout.sideband(&record) {
            check(error, body.len())?;
        }
        match layout.trailer(&record) {
            Ok(trailer) => {
                prop_assert_eq!(layout.trailer_time(&body).unwrap_or(0), trailer.time);
            }
            Err(error) => check(error, body.len())?,
        }
    }

    #[test]
    fn no_bytes_make_a_header_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = RawRecord::read(&bytes) {
            check(error, bytes.len())?;
        }
        if let Err(error) = EventAttributes::read(&bytes) {
            check(error, bytes.len())?;
        }
    }

    #[test]
    fn a_record_is_as_long_as_its_header_says(body in body(), rest in 0usize..20) {
        let size = (8 + body.len()) as u16;
        let mut bytes = u64::from(record_type::SAMPLE).to_le_bytes().to_vec();
        bytes[6..8].copy_from_slice(&size.to_le_bytes());
        bytes.extend(&body);
        bytes.resize(bytes.len() + rest, 0xee);
        let record = RawRecord::read(&bytes).unwrap();
        prop_assert_eq!(record.body, &body[..]);
    }
}
