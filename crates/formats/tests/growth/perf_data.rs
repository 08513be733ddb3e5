//! perf.data files, written byte by byte.

/// What a sample holds: its address, process and thread, and time; with or without a chain.
const IP_TID_TIME: u64 = 1 | 1 << 1 | 1 << 2;
const CALLCHAIN: u64 = 1 << 5;
const SAMPLE_ID_ALL: u64 = 1 << 18;

const COMM: u32 = 3;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP: u32 = 1;
const CALLCHAIN_DEFERRED: u32 = 22;
const FINISHED_ROUND: u32 = 68;
/// In a chain: what follows is the cookie of a chain that comes later.
const USER_DEFERRED: u64 = (-640i64) as u64;

/// A file with one event and these records.
fn file(sample_type: u64, records: &[u8]) -> Vec<u8> {
    const ATTR_BYTES: u64 = 136;
    let mut bytes = b"PERFILE2".to_vec();
    let records_at = 104 + ATTR_BYTES + 16;
    let head = [
        104,
        ATTR_BYTES + 16,
        104,
        ATTR_BYTES + 16,
        records_at,
        records.len() as u64,
    ];
    words(&mut bytes, &head);
    bytes.resize(104, 0);
    // The attributes of a software event, which has a fixed period.
    bytes.extend(1u32.to_le_bytes());
    bytes.extend((ATTR_BYTES as u32).to_le_bytes());
    words(&mut bytes, &[0, 1000, sample_type, 0, SAMPLE_ID_ALL]);
    bytes.resize(records_at as usize, 0);
    bytes.extend_from_slice(records);
    bytes
}

fn words(bytes: &mut Vec<u8>, words: &[u64]) {
    words
        .iter()
        .for_each(|word| bytes.extend(word.to_le_bytes()));
}

fn record(bytes: &mut Vec<u8>, kind: u32, misc: u16, body: &[u8]) {
    bytes.extend(kind.to_le_bytes());
    bytes.extend(misc.to_le_bytes());
    bytes.extend((8 + body.len() as u16).to_le_bytes());
    bytes.extend_from_slice(body);
}

/// Two 32-bit numbers as one word.
fn pair(first: usize, second: usize) -> u64 {
    first as u64 | (second as u64) << 32
}

/// Appends what every sideband record ends with.
fn ids(body: &mut Vec<u8>, task: usize, time: u64) {
    words(body, &[pair(task, task), time]);
}

fn sample(bytes: &mut Vec<u8>, task: usize, time: u64, chain: Option<&[u64]>) {
    let mut body = Vec::new();
    words(&mut body, &[0x40_1000, pair(task, task), time]);
    if let Some(chain) = chain {
        words(&mut body, &[chain.len() as u64]);
        words(&mut body, chain);
    }
    record(bytes, SAMPLE, 2, &body);
}

/// A round after each sample, whose times no round reaches before the end.
pub(crate) fn rounds_of_the_future(count: usize) -> Vec<u8> {
    let mut records = Vec::new();
    for number in 0..count {
        // Each is older than the one before, so that all but the newest wait.
        sample(&mut records, 7, 1 << 40, None);
        sample(&mut records, 7, (1 << 41) - number as u64, None);
        record(&mut records, FINISHED_ROUND, 0, &[]);
    }
    file(IP_TID_TIME, &records)
}

/// Samples whose user stack never comes, or at the end.
pub(crate) fn deferred(count: usize) -> Vec<u8> {
    let mut records = Vec::new();
    for number in 0..count as u64 {
        sample(
            &mut records,
            7,
            1000 + number,
            Some(&[USER_DEFERRED, number / 2]),
        );
        record(&mut records, FINISHED_ROUND, 0, &[]);
    }
    for number in 0..count as u64 / 4 {
        let mut body = Vec::new();
        words(&mut body, &[number, 2, (-512i64) as u64, 0x40_2000]);
        ids(&mut body, 7, 10_000_000 + number);
        record(&mut records, CALLCHAIN_DEFERRED, 2, &body);
    }
    file(IP_TID_TIME | CALLCHAIN, &records)
}

/// Each process forks the next and is named.
pub(crate) fn forks(count: usize) -> Vec<u8> {
    let mut records = Vec::new();
    for number in 0..count {
        let (task, time) = (10 + number, 1000 + number as u64);
        let mut body = Vec::new();
        words(
            &mut body,
            &[pair(task, task - 1), pair(task, task - 1), time],
        );
        ids(&mut body, task, time);
        record(&mut records, FORK, 0, &body);
        let mut body = Vec::new();
        words(&mut body, &[pair(task, task)]);
        body.extend(format!("{number:07}\0").bytes());
        ids(&mut body, task, time);
        record(&mut records, COMM, 0, &body);
        sample(&mut records, task, time, None);
    }
    file(IP_TID_TIME, &records)
}

/// Mappings that are called as jitdumps are, each of which is worth a remark.
pub(crate) fn jitdumps(count: usize) -> Vec<u8> {
    let mut records = Vec::new();
    sample(&mut records, 7, 1, None);
    for number in 0..count {
        let mut body = Vec::new();
        words(&mut body, &[pair(7, 7), 0x1000, 0x1000, 0]);
        body.extend(format!("/tmp/jit-{number:09}.dump\0").bytes());
        body.resize(body.len().next_multiple_of(8), 0);
        ids(&mut body, 7, 2 + number as u64);
        record(&mut records, MMAP, 2, &body);
    }
    file(IP_TID_TIME, &records)
}
