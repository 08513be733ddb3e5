//! perf.data: what a file must not do to its reader.

use std::io::Read;

use nodespy_formats::{ImportError, ImportOptions, import};
use nodespy_model::{Contents, Event, UserStack};

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

/// The same file as if an aarch64 machine had written it.
fn of_aarch64(mut bytes: Vec<u8>) -> Vec<u8> {
    let at = memchr::memmem::rfind(&bytes, b"x86_64\0").unwrap();
    bytes[at..at + 8].copy_from_slice(b"aarch64\0");
    bytes
}

/// User and kernel addresses of a sample.
type Chain = (Vec<u64>, Vec<u64>);

/// The addresses of each sample, and what is remarked before any is read.
fn chains(bytes: Vec<u8>) -> (Vec<Chain>, Vec<String>) {
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

#[test]
fn chains_of_another_architecture_are_kept_and_its_stack_copies_are_not_unwound() {
    let here = corpus("node20.perf.data");
    let (ours, remarks) = chains(here.clone());
    assert!(remarks.is_empty());
    assert_eq!(chains(of_aarch64(here)), (ours, vec![]));

    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/perf_data/dwarf.perf.data.gz"
    );
    let mut copies = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(fixture).unwrap())
        .read_to_end(&mut copies)
        .unwrap();
    let is_copy = |chain: &Chain| chain.0 == [u64::MAX];
    assert!(chains(copies.clone()).0.iter().any(is_copy));
    let (foreign, remarks) = chains(of_aarch64(copies));
    assert!(!foreign.is_empty() && !foreign.iter().any(is_copy));
    assert_eq!(
        remarks,
        ["stack copies of aarch64 can't be unwound: record with --call-graph fp there"]
    );
}

/// A file of one event with these records.
fn file_of(sample_type: u64, branch_type: u64, records: &[Vec<u8>]) -> Vec<u8> {
    const HEAD: u64 = 104;
    const ATTRIBUTE: u64 = 128;
    let records = records.concat();
    let mut words: Vec<u64> = vec![u64::from_le_bytes(*b"PERFILE2"), HEAD, ATTRIBUTE + 16];
    words.extend([HEAD, ATTRIBUTE + 16]); // where the event is
    words.extend([HEAD + ATTRIBUTE + 16, records.len() as u64, 0, 0]);
    words.extend([0; 4]); // no features
    words.extend([
        ATTRIBUTE << 32,
        0,
        4000,
        sample_type,
        0,
        1 << 10,
        0,
        0,
        0,
        branch_type,
    ]);
    words.extend([0; 6]); // the rest of the event
    words.extend([0, 0]); // no ids
    let head = words.iter().flat_map(|word| word.to_le_bytes());
    head.chain(records).collect()
}

fn record(kind: u32, flags: u16, words: &[u64]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(flags.to_le_bytes());
    bytes.extend((8 + words.len() as u16 * 8).to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

/// `perf record --call-graph lbr`: the kernel writes the user's leaf alone, and the processor's own
/// list of calls tells the callers, each by where it called from.
#[test]
fn callers_come_from_the_branches_that_the_processor_kept() {
    const SAMPLE: u32 = 9;
    const IN_KERNEL: u16 = 1;
    const IN_PROCESS: u16 = 2;
    const KERNEL: u64 = -128i64 as u64;
    const USER: u64 = -512i64 as u64;
    // Address, thread, time, chain and branches.
    let sample_type = 1 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 11;
    let who = 7 | 7 << 32;
    let branches = [0x4100, 0x5000, 0, 0x3200, 0x4000, 0];
    let chain_of_process = [2, USER, 0x5008];
    let chain_of_kernel = [4, KERNEL, 0xffff_8000, USER, 0x5010];
    let samples = [
        (IN_PROCESS, 0x5008, &chain_of_process[..], &branches[..]),
        (IN_KERNEL, 0xffff_8000, &chain_of_kernel, &branches),
        (IN_PROCESS, 0x6000, &[2, USER, 0x6000], &[]),
    ];
    let records: Vec<Vec<u8>> = samples
        .iter()
        .zip(1..)
        .map(|((mode, address, chain, branches), time)| {
            let mut words = vec![*address, who, time];
            words.extend_from_slice(chain);
            words.push(branches.len() as u64 / 3);
            words.extend_from_slice(branches);
            record(SAMPLE, *mode, &words)
        })
        .collect();
    const CALL_STACK: u64 = 1 << 11;
    let (stacks, _) = chains(file_of(sample_type, CALL_STACK, &records));
    assert_eq!(
        stacks,
        [
            (vec![0x5008, 0x4101, 0x3201], vec![]),
            (vec![0x5010, 0x4101, 0x3201], vec![0xffff_8000]),
            (vec![0x6000], vec![]),
        ]
    );
    // Jumps of any kind (`perf record -b`) are no callers.
    let (stacks, _) = chains(file_of(sample_type, 1 << 3, &records));
    assert_eq!(stacks[0].0, [0x5008]);
}

#[test]
fn the_first_record_that_makes_no_sense_is_named_by_its_byte() {
    const COMM: u32 = 3;
    const SAMPLE: u32 = 9;
    // Address, thread, time, chain.
    let sample_type = 1 | 1 << 1 | 1 << 2 | 1 << 5;
    let who = 7 | 7 << 32;
    let good = record(SAMPLE, 2, &[0x5000, who, 1, 0]);
    let lying = record(SAMPLE, 2, &[0x5000, who, 2, 99, 0x5000]);
    let short = record(COMM, 0, &[]);
    // One without a time is read when it comes, before the samples, which are sorted first.
    let bytes = file_of(sample_type, 0, &[good.clone(), lying.clone()]);
    let at = bytes.len() - lying.len();
    let expected = format!(
        "1 records make no sense and are left out; the first at byte {at}: \
         byte 40: the call chain needs 792 bytes, 8 are left"
    );
    assert_eq!(read(bytes).unwrap(), (1, vec![expected]));
    let bytes = file_of(sample_type, 0, &[good, lying, short]);
    let at = bytes.len() - 8;
    let expected = format!(
        "2 records make no sense and are left out; the first at byte {at}: \
         byte 8: the process needs 4 bytes, 0 are left"
    );
    assert_eq!(read(bytes).unwrap(), (1, vec![expected]));
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
