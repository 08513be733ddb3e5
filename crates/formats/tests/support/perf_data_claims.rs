//! What must be true of any perf.data file of this machine's kind.

use nodespy_formats::{ImportError, ImportOptions, import};
use nodespy_model::{Contents, Event, UserStack};

/// How many samples are handed over, and what is remarked.
pub(crate) fn read(bytes: Vec<u8>) -> Result<(usize, Vec<String>), ImportError> {
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

/// However short a file of `count` samples is cut, it gives what comes before.
pub(crate) fn cut_off_it_gives_what_comes_before(whole: &[u8], count: usize) {
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
                assert!(is_cut || samples == count, "{length}: {remarks:?}");
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
    assert_eq!(most, count);
}

/// A record in the middle of a file of `count` samples that claims to be 3 bytes long.
pub(crate) fn a_lie_about_a_size_is_named_by_its_byte(mut bytes: Vec<u8>, count: usize) {
    // Past the first samples.
    let records = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let at = records + record_sizes(&bytes[records..], 40);
    bytes[at + 6..at + 8].copy_from_slice(&3u16.to_le_bytes());
    let (samples, remarks) = read(bytes).unwrap();
    assert!(samples < count);
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

/// The other byte order, and an architecture that is none.
pub(crate) fn other_machines_are_refused_with_a_sentence(file: &[u8]) {
    let mut bytes = file.to_vec();
    bytes[..8].reverse();
    let error = read(bytes).unwrap_err().to_string();
    assert!(error.contains("big-endian"), "{error}");
    let mut bytes = file.to_vec();
    let at = memchr::memmem::rfind(&bytes, b"x86_64\0").unwrap();
    bytes[at..at + 6].copy_from_slice(b"s390xx");
    let error = read(bytes).unwrap_err().to_string();
    assert!(
        error.contains("s390xx") && error.contains("x86_64"),
        "{error}"
    );
}

/// The same file as if an aarch64 machine had written it.
pub(crate) fn of_aarch64(mut bytes: Vec<u8>) -> Vec<u8> {
    let at = memchr::memmem::rfind(&bytes, b"x86_64\0").unwrap();
    bytes[at..at + 8].copy_from_slice(b"aarch64\0");
    bytes
}

/// User and kernel addresses of a sample.
pub(crate) type Chain = (Vec<u64>, Vec<u64>);

/// The addresses of each sample, and what is remarked before any is read.
pub(crate) fn chains(bytes: Vec<u8>) -> (Vec<Chain>, Vec<String>) {
    let recording = import(bytes.into(), &ImportOptions::default()).unwrap();
    let Contents::Events(events) = recording.contents else {
        panic!("events are expected");
    };
    let mut chains = Vec::new();
    events.replay(&mut |event| {
        if let Event::Sample(sample) = event {
            let user = match sample.user {
                UserStack::Absent => Vec::new(),
                UserStack::Chain(addresses) => addresses.into_owned(),
                UserStack::Copy { .. } => vec![u64::MAX],
            };
            chains.push((user, sample.kernel.into_owned()));
        }
    });
    (chains, recording.notes.remarks)
}
