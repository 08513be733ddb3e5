//! perf.data: what a file must not do to its reader.

use nodespy_formats::{ImportOptions, import};

use crate::fixture::{fixture, fixture_text};
use crate::perf_data_claims::{
    Chain, a_lie_about_a_size_is_named_by_its_byte, chains, cut_off_it_gives_what_comes_before,
    of_aarch64, other_machines_are_refused_with_a_sentence, read,
};

const FILE: &str = "perf_data/node20.perf.data";

/// How many samples `perf script` prints of a file.
fn printed_samples(name: &str) -> usize {
    let text = fixture_text(&format!("perf_data/{name}.perf-script.txt.gz"));
    let is_head = |line: &&str| !line.is_empty() && !line.starts_with(char::is_whitespace);
    text.lines().filter(is_head).count()
}

#[test]
fn every_sample_is_handed_over_in_order_of_time() {
    for name in ["node16", "node20", "node26", "pipe", "zstd", "buildid"] {
        let file = fixture(&format!("perf_data/{name}.perf.data"));
        let (samples, remarks) = read(file).unwrap();
        assert_eq!(
            (samples, remarks),
            (printed_samples(name), vec![]),
            "{name}"
        );
        assert!(samples > 4, "{name}: {samples}");
    }
}

#[test]
fn a_file_that_is_cut_off_gives_what_comes_before() {
    cut_off_it_gives_what_comes_before(&fixture(FILE), printed_samples("node20"));
}

#[test]
fn a_record_that_lies_about_its_size_is_named_by_its_byte() {
    a_lie_about_a_size_is_named_by_its_byte(fixture(FILE), printed_samples("node20"));
}

#[test]
fn other_machines_are_refused() {
    other_machines_are_refused_with_a_sentence(&fixture(FILE));
}

#[test]
fn chains_of_another_architecture_are_kept_and_its_stack_copies_are_not_unwound() {
    let here = fixture(FILE);
    let (ours, remarks) = chains(here.clone());
    assert!(remarks.is_empty());
    assert_eq!(chains(of_aarch64(here)), (ours, vec![]));

    let copies = fixture("perf_data/dwarf.perf.data.gz");
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
    let error = import(fixture(FILE).into(), &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no \"cycles\" in the file; it holds cpu-clock"
    );
}
