//! `jit-PID.dump`: binary records with times, written by `node --perf-prof`.
//!
//! Layout: tools/perf/Documentation/jitdump-specification.txt of the Linux sources, version 1.
//! The code bytes in it are skipped; only what was asked for is kept.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use nodespy_model::{FastMap, JitFile, NameSource, Nanoseconds};

use super::live_index::Entry;
use super::{GrowthMarks, JitNames};

const MAGIC: u32 = 0x4a69_5444;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
const DEBUG_INFO: u32 = 2;
const CODE_CLOSE: u32 = 3;
/// The head of every record, and what follows it where code is loaded.
const RECORD_HEAD: usize = 16;
const LOAD_HEAD: usize = 40;
/// No dump is read further than this.
const DUMP_LIMIT_BYTES: u64 = 8 << 30;
/// Records with larger fixed parts or names are skipped.
const NAME_LIMIT_BYTES: usize = 16 << 10;
/// Code that is kept to be found again when it moves, and its names all together.
const MAX_LOADED: usize = 1 << 20;
const LOADED_NAMES_LIMIT_BYTES: usize = 128 << 20;
/// Debug information of one function beyond this is skipped.
const DEBUG_LIMIT_BYTES: usize = 16 << 20;

pub(super) fn read(
    file: &mut JitFile,
    wanted: &[u64],
    _marks: &GrowthMarks,
) -> io::Result<JitNames> {
    file.file.seek(SeekFrom::Start(0))?;
    let mut names = JitNames::new(NameSource::Jitdump, wanted);
    let input = BufReader::with_capacity(1 << 18, file.file.by_ref().take(DUMP_LIMIT_BYTES));
    if !parse(input, wanted, &mut names)? {
        names
            .remarks
            .push(format!("{} is not a jitdump of this machine", file.path));
    }
    Ok(names)
}

/// Code that was loaded, by its index, to be found again when it moves.
#[derive(Default)]
struct Loaded {
    code: FastMap<u64, (u64, String)>,
    name_bytes: usize,
}

impl Loaded {
    fn add(&mut self, index: u64, size: u64, name: String) {
        if self.code.len() < MAX_LOADED && self.name_bytes + name.len() <= LOADED_NAMES_LIMIT_BYTES
        {
            self.name_bytes += name.len();
            self.code.insert(index, (size, name));
        }
    }
}

/// Reads records; false when the head is not that of a jitdump.
fn parse(mut input: impl Read, wanted: &[u64], names: &mut JitNames) -> io::Result<bool> {
    let mut head = [0u8; 40];
    if input.read_exact(&mut head).is_err() || u32_at(&head, 0) != MAGIC {
        return Ok(false);
    }
    let extra = u64::from(u32_at(&head, 8)).saturating_sub(head.len() as u64);
    skip(&mut input, extra)?;
    let mut lines: Vec<(u64, u32)> = Vec::new();
    let mut loaded = Loaded::default();
    loop {
        let mut record = [0u8; 16];
        if input.read_exact(&mut record).is_err() {
            return Ok(true);
        }
        let kind = u32_at(&record, 0);
        let size = u64::from(u32_at(&record, 4)).saturating_sub(16);
        let time = u64_at(&record, 8);
        match kind {
            CODE_LOAD => {
                let used = read_load(&mut input, size, time, &lines, wanted, names, &mut loaded)?;
                skip(&mut input, size - used)?;
                lines.clear();
            }
            CODE_MOVE => {
                let used = read_move(&mut input, size, time, wanted, names, &loaded)?;
                skip(&mut input, size - used)?;
            }
            DEBUG_INFO if size <= DEBUG_LIMIT_BYTES as u64 => {
                let mut body = vec![0; size as usize];
                if input.read_exact(&mut body).is_err() {
                    return Ok(true);
                }
                lines = read_lines(&body);
            }
            CODE_CLOSE => return Ok(true),
            _ => skip(&mut input, size)?,
        }
        if size == 0 && kind > CODE_CLOSE {
            // Not a record anybody writes: the rest of the file can't be trusted.
            return Ok(true);
        }
    }
}

/// The function loaded by the record at an offset of the file, if it loads one, and where the next
/// record is; none at the end of the file, and where it is not a dump.
pub(super) fn record_at(file: &File, at: u64) -> Option<(Option<Entry>, u64)> {
    if at == 0 {
        let mut head = [0u8; 12];
        file.read_exact_at(&mut head, 0).ok()?;
        let size = u64::from(u32_at(&head, 8)).max(40);
        return (u32_at(&head, 0) == MAGIC).then_some((None, size));
    }
    let mut fixed = [0u8; RECORD_HEAD + LOAD_HEAD];
    file.read_exact_at(&mut fixed[..RECORD_HEAD], at).ok()?;
    let (kind, size) = (u32_at(&fixed, 0), u64::from(u32_at(&fixed, 4)));
    let next = at.checked_add(size.max(RECORD_HEAD as u64))?;
    let heads = fixed.len() as u64;
    if kind != CODE_LOAD || size < heads {
        return Some((None, next));
    }
    file.read_exact_at(&mut fixed, at).ok()?;
    let (start, code_size) = (u64_at(&fixed, 32), u64_at(&fixed, 40));
    let name_size = (size - heads).saturating_sub(code_size);
    let entry = Entry {
        start,
        end: start.saturating_add(code_size),
        name: (at + heads, name_size.min(NAME_LIMIT_BYTES as u64) as usize),
    };
    Some((Some(entry), next))
}

fn read_load(
    input: &mut impl Read,
    size: u64,
    time: Nanoseconds,
    lines: &[(u64, u32)],
    wanted: &[u64],
    names: &mut JitNames,
    loaded: &mut Loaded,
) -> io::Result<u64> {
    let mut fixed = [0u8; 40];
    if size < fixed.len() as u64 || input.read_exact(&mut fixed).is_err() {
        return Ok(0);
    }
    let (start, code_size, index) = (u64_at(&fixed, 16), u64_at(&fixed, 24), u64_at(&fixed, 32));
    let name_size = (size - 40)
        .saturating_sub(code_size)
        .min(NAME_LIMIT_BYTES as u64);
    let mut name = vec![0; name_size as usize];
    input.read_exact(&mut name)?;
    let end = memchr::memchr(0, &name).unwrap_or(name.len());
    let text = String::from_utf8_lossy(&name[..end]).into_owned();
    let line_at = |address: u64| {
        let after = lines.partition_point(|(at, _)| *at <= address);
        after.checked_sub(1).map_or(0, |at| lines[at].1)
    };
    names.add(
        wanted,
        start,
        start.saturating_add(code_size),
        time,
        &text,
        line_at,
    );
    loaded.add(index, code_size, text);
    Ok(40 + name_size)
}

fn read_move(
    input: &mut impl Read,
    size: u64,
    time: Nanoseconds,
    wanted: &[u64],
    names: &mut JitNames,
    loaded: &Loaded,
) -> io::Result<u64> {
    let mut fixed = [0u8; 48];
    if size < fixed.len() as u64 || input.read_exact(&mut fixed).is_err() {
        return Ok(0);
    }
    let (start, index) = (u64_at(&fixed, 24), u64_at(&fixed, 40));
    if let Some((size, name)) = loaded.code.get(&index) {
        names.add(
            wanted,
            start,
            start.saturating_add(*size),
            time,
            name,
            |_| 0,
        );
    }
    Ok(48)
}

/// Address and line of each place of the function that is loaded next, sorted by address.
fn read_lines(body: &[u8]) -> Vec<(u64, u32)> {
    let mut lines = Vec::new();
    let count = body.get(8..16).map_or(0, |bytes| u64_at(bytes, 0));
    let mut rest = body.get(16..).unwrap_or_default();
    for _ in 0..count {
        let Some((fixed, after)) = rest.split_at_checked(16) else {
            break;
        };
        let Some(name_end) = memchr::memchr(0, after) else {
            break;
        };
        lines.push((u64_at(fixed, 0), u32_at(fixed, 8)));
        rest = &after[name_end + 1..];
    }
    lines.sort_unstable();
    lines
}

fn skip(input: &mut impl Read, length: u64) -> io::Result<()> {
    io::copy(&mut input.take(length), &mut io::sink()).map(|_| ())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Runs the parser on any bytes.
pub(crate) fn parse_any(bytes: &[u8]) {
    let wanted = [0x1000, 0x2000];
    let mut names = JitNames::new(NameSource::Jitdump, &wanted);
    let _ = parse(bytes, &wanted, &mut names);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, time: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(16 + body.len() as u32).to_ne_bytes());
        bytes.extend_from_slice(&time.to_ne_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    fn load(start: u64, index: u64, name: &str, code: &[u8]) -> Vec<u8> {
        let mut body = vec![0; 8];
        for number in [start, start, code.len() as u64, index] {
            body.extend_from_slice(&number.to_ne_bytes());
        }
        body.extend_from_slice(name.as_bytes());
        body.push(0);
        body.extend_from_slice(code);
        body
    }

    fn dump() -> Vec<u8> {
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&1u32.to_ne_bytes());
        bytes.extend_from_slice(&40u32.to_ne_bytes());
        bytes.resize(40, 0);
        let mut lines = vec![0; 8];
        lines.extend_from_slice(&2u64.to_ne_bytes());
        for (address, line) in [(0x1000u64, 3u32), (0x1008, 4)] {
            lines.extend_from_slice(&address.to_ne_bytes());
            lines.extend_from_slice(&line.to_ne_bytes());
            lines.extend_from_slice(&0u32.to_ne_bytes());
            lines.extend_from_slice(b"/a.js\0");
        }
        bytes.extend(record(DEBUG_INFO, 10, &lines));
        bytes.extend(record(
            CODE_LOAD,
            10,
            &load(0x1000, 0, "JS:*f /a.js:2:1", &[0xcc; 16]),
        ));
        bytes.extend(record(
            CODE_LOAD,
            90,
            &load(0x1000, 1, "JS:*g /a.js:9:1", &[0xcc; 16]),
        ));
        let mut moved = vec![0; 8];
        for number in [0x1000, 0x1000, 0x2000, 16, 1u64] {
            moved.extend_from_slice(&number.to_ne_bytes());
        }
        bytes.extend(record(CODE_MOVE, 95, &moved));
        bytes
    }

    #[test]
    fn code_is_named_by_time_with_its_line() {
        let wanted = [0x1009, 0x2001];
        let mut names = JitNames::new(NameSource::Jitdump, &wanted);
        assert!(parse(&dump()[..], &wanted, &mut names).unwrap());
        let (name, line) = names.at(0x1009, 50).unwrap();
        assert_eq!((name.name.as_str(), line), ("f", 4));
        assert_eq!(names.at(0x1009, 92).unwrap().0.name, "g");
        assert_eq!(names.at(0x2001, 99).unwrap().0.name, "g");
    }

    #[test]
    fn records_can_be_read_one_by_one() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &dump()).unwrap();
        let (mut at, mut entries) = (0, Vec::new());
        while let Some((entry, next)) = record_at(&file, at) {
            entries.extend(entry);
            at = next;
        }
        assert_eq!(at, dump().len() as u64);
        let ranges: Vec<_> = entries
            .iter()
            .map(|entry| (entry.start, entry.end))
            .collect();
        assert_eq!(ranges, [(0x1000, 0x1010); 2]);
        let (at, length) = entries[0].name;
        let mut name = vec![0; length];
        file.read_exact_at(&mut name, at).unwrap();
        assert_eq!(name, b"JS:*f /a.js:2:1\0");
    }

    #[test]
    fn code_that_moves_a_hundred_thousand_times_is_found_at_once() {
        // Each move names the code that was loaded first: a search from either end is quadratic.
        let count = 100_000u64;
        let timed = |bytes: &[u8], wanted: &[u64]| {
            let mut names = JitNames::new(NameSource::Jitdump, wanted);
            let started = std::time::Instant::now();
            assert!(parse(bytes, wanted, &mut names).unwrap());
            (names, started.elapsed())
        };
        let mut bytes = dump()[..40].to_vec();
        for index in 0..count {
            let name = format!("JS:*f{index} /a.js:2:1");
            bytes.extend(record(
                CODE_LOAD,
                1,
                &load(index << 8, index, &name, &[0xcc; 1]),
            ));
        }
        let wanted = [0x7000_0000 + 3];
        let (_, without_moves) = timed(&bytes, &wanted);
        for time in 0..count {
            let mut moved = vec![0; 8];
            for number in [0, 0, 0x7000_0000 + time, 1, time * 7 % count] {
                moved.extend_from_slice(&number.to_ne_bytes());
            }
            bytes.extend(record(CODE_MOVE, 2, &moved));
        }
        let (names, with_moves) = timed(&bytes, &wanted);
        assert_eq!(names.at(wanted[0], 9).unwrap().0.name, "f21");
        // A move costs about what a load does; with a search it took hundreds of times that.
        let is_linear = with_moves < without_moves * 30;
        assert!(is_linear, "{with_moves:?}, {without_moves:?} without moves");
    }

    #[test]
    fn any_cut_of_a_dump_is_read_as_far_as_it_goes() {
        let whole = dump();
        for length in 0..whole.len() {
            parse_any(&whole[..length]);
        }
    }
}
