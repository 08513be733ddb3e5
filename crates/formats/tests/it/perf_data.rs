//! perf.data: what a file must not do to its reader.

use nodespy_formats::{ImportError, ImportOptions, import};
use nodespy_model::{Contents, Event};

fn corpus(name: &str) -> Vec<u8> {
    let root = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/corpus/perf-data/"
    );
    std::fs::read(format!("{root}{name}")).unwrap()
}

/// How many samples are handed over, and what is remarked.
fn read(bytes: Vec<u8>) -> Result<(usize, Vec<String>), ImportError> {
    let recording = import(bytes.into(), &ImportOptions::from(Some("perf.data")))?;
    let Contents::Events(events) = recording.contents else {
        panic!("events are expected");
    };
    let mut samples = 0;
    let mut last = 0;
    let notes = events.replay(&mut |event| {
        if let Event::Sample(sample) = event {
            assert!(sample.time >= last, "samples come in order of time");
            last = sample.time;
            samples += 1;
        }
    });
    Ok((samples, notes.remarks))
}

#[test]
fn every_sample_is_handed_over_in_order_of_time() {
    for (name, count) in [("node18", 293), ("node20", 261), ("node24", 354)] {
        let (samples, remarks) = read(corpus(&format!("{name}.perf.data"))).unwrap();
        assert_eq!((samples, remarks), (count, vec![]), "{name}");
    }
}

#[test]
fn a_file_that_is_cut_off_gives_what_comes_before() {
    let whole = corpus("node20.perf.data");
    let mut most = 0;
    for length in (0..whole.len()).step_by(997) {
        match read(whole[..length].to_vec()) {
            Ok((samples, remarks)) => {
                assert!(samples >= most, "{length}: more bytes never give less");
                most = samples;
                let is_cut = remarks
                    .iter()
                    .any(|remark| remark.contains("cut off at byte"));
                // What is behind the records is missing at the end: names of events, build-ids.
                assert!(is_cut || samples == 261, "{length}: {remarks:?}");
            }
            Err(error) => {
                assert_eq!(most, 0, "{length}");
                let text = error.to_string();
                assert!(
                    text.contains("byte") || text.contains("empty"),
                    "{length}: {text}"
                );
            }
        }
    }
    assert_eq!(most, 261);
}

#[test]
fn a_record_that_lies_about_its_size_is_named_by_its_byte() {
    let mut bytes = corpus("node20.perf.data");
    // Past the first samples.
    let at = 424 + record_sizes(&bytes[424..], 40);
    bytes[at + 6..at + 8].copy_from_slice(&3u16.to_le_bytes());
    let (samples, remarks) = read(bytes).unwrap();
    assert!(samples < 261);
    assert!(
        remarks
            .iter()
            .any(|remark| remark.contains(&format!("damaged at byte {at}"))),
        "{remarks:?}"
    );
}

fn record_sizes(bytes: &[u8], count: usize) -> usize {
    let mut at = 0;
    for _ in 0..count {
        at += usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
    }
    at
}

#[test]
fn other_machines_are_refused_with_a_sentence() {
    let mut bytes = corpus("node20.perf.data");
    bytes[..8].reverse();
    let error = read(bytes).unwrap_err().to_string();
    assert!(error.contains("big-endian"), "{error}");
    let mut bytes = corpus("node20.perf.data");
    let at = memchr::memmem::rfind(&bytes, b"x86_64\0").unwrap();
    bytes[at..at + 6].copy_from_slice(b"s390xx");
    let error = read(bytes).unwrap_err().to_string();
    assert!(
        error.contains("s390xx") && error.contains("x86_64"),
        "{error}"
    );
}

#[test]
fn an_event_that_is_not_there_is_answered_with_those_that_are() {
    let options = ImportOptions {
        event: Some("cycles".to_owned()),
        ..ImportOptions::default()
    };
    let error = import(corpus("node20.perf.data").into(), &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no \"cycles\" in the file; it holds cpu-clock"
    );
}
