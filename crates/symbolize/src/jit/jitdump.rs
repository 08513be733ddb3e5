//! `jit-PID.dump`: binary records with times, written by `node --perf-prof`.
//!
//! Layout: tools/perf/Documentation/jitdump-specification.txt of the Linux sources, version 1.
//! The code bytes in it are skipped; only what was asked for is kept.

use std::io;

use nodespy_model::{FastMap, ReadAt};

use super::window::Window;
use super::{Code, JitReader, Reach, Span};

const MAGIC: u32 = 0x4a69_5444;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
const DEBUG_INFO: u32 = 2;
const CODE_CLOSE: u32 = 3;
/// The head of the file, at least.
const FILE_HEAD: u64 = 40;
/// The head of every record, and what follows it where code is loaded and where it is moved.
const RECORD_HEAD: u64 = 16;
const LOAD_HEAD: u64 = 40;
const MOVE_HEAD: u64 = 48;
/// No more of a dump than this is read at once.
const DUMP_LIMIT_BYTES: u64 = 8 << 30;
/// Longer names are cut.
const NAME_LIMIT_BYTES: u64 = 16 << 10;
/// Code that is kept to be found again when it moves.
const MAX_LOADED: usize = 1 << 20;
/// Debug information of one function beyond this is skipped.
const DEBUG_LIMIT_BYTES: u64 = 16 << 20;

/// Reads a jitdump.
#[derive(Debug, Default)]
pub(super) struct DumpReader {
    next: u64,
    /// The lines of the function that is loaded next.
    lines: Span,
    /// Size and name of code that was loaded, by its index, to be found again when it moves.
    loaded: FastMap<u64, (u64, Span)>,
    /// Whether nothing follows that can be trusted.
    has_ended: bool,
}

impl JitReader for DumpReader {
    fn read_on(
        &mut self,
        bytes: &dyn ReadAt,
        reach: Reach,
        take: &mut dyn FnMut(&Code<'_>),
    ) -> io::Result<()> {
        if bytes.size()? <= self.next {
            return Ok(());
        }
        let stop = self.next.saturating_add(reach.max_bytes);
        let mut window = Window::new(bytes);
        if self.next == 0 && !self.read_head(&mut window, reach.is_complete)? {
            return Ok(());
        }
        while self.next < stop && !self.has_ended && self.read_record(&mut window, take)? {}
        Ok(())
    }

    fn position(&self) -> u64 {
        self.next
    }

    fn step_bytes(&self) -> u64 {
        // Most of it is code, which is skipped.
        16 << 20
    }

    fn limit_bytes(&self) -> u64 {
        DUMP_LIMIT_BYTES
    }
}

impl DumpReader {
    /// Whether the head of the file is there.
    fn read_head(&mut self, window: &mut Window<'_>, is_complete: bool) -> io::Result<bool> {
        let foreign = "it is not a jitdump of this machine";
        match window.get(0, FILE_HEAD as usize)? {
            Some(head) if u32_at(head, 0) == MAGIC => {
                self.next = u64::from(u32_at(head, 8)).max(FILE_HEAD);
                Ok(true)
            }
            None if !is_complete => Ok(false),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, foreign)),
        }
    }

    /// Reads the next record; no where there is none yet.
    fn read_record(
        &mut self,
        window: &mut Window<'_>,
        take: &mut dyn FnMut(&Code<'_>),
    ) -> io::Result<bool> {
        let Some(head) = window.get(self.next, RECORD_HEAD as usize)? else {
            return Ok(false);
        };
        let (kind, time) = (u32_at(head, 0), u64_at(head, 8));
        let size = u64::from(u32_at(head, 4)).max(RECORD_HEAD);
        let record = Record {
            body: self.next + RECORD_HEAD,
            size: size - RECORD_HEAD,
            time,
        };
        let is_there = match kind {
            CODE_LOAD if record.size >= LOAD_HEAD => self.read_load(&record, window, take)?,
            CODE_MOVE if record.size >= MOVE_HEAD => self.read_move(&record, window, take)?,
            DEBUG_INFO if record.size <= DEBUG_LIMIT_BYTES => {
                self.lines = Span {
                    offset: record.body,
                    length: record.size as u32,
                };
                true
            }
            CODE_CLOSE => {
                self.has_ended = true;
                true
            }
            _ => {
                // Not a record of any runtime: the rest of the file can't be trusted.
                self.has_ended = kind > CODE_CLOSE && record.size == 0;
                true
            }
        };
        if is_there {
            self.next += size;
        }
        Ok(is_there)
    }

    fn read_load(
        &mut self,
        record: &Record,
        window: &mut Window<'_>,
        take: &mut dyn FnMut(&Code<'_>),
    ) -> io::Result<bool> {
        let Some(fixed) = window.get(record.body, LOAD_HEAD as usize)? else {
            return Ok(false);
        };
        let (start, size, index) = (u64_at(fixed, 16), u64_at(fixed, 24), u64_at(fixed, 32));
        let offset = record.body + LOAD_HEAD;
        let length = (record.size - LOAD_HEAD).saturating_sub(size);
        let length = length.min(NAME_LIMIT_BYTES) as usize;
        let Some(text) = window.get(offset, length)? else {
            return Ok(false);
        };
        let text = &text[..memchr::memchr(0, text).unwrap_or(length)];
        let length = text.len() as u32;
        let name = Span { offset, length };
        take(&Code {
            offset: record.body,
            start,
            end: start.saturating_add(size),
            time: Some(record.time),
            name,
            text: Some(text),
            lines: std::mem::take(&mut self.lines),
        });
        if self.loaded.len() < MAX_LOADED {
            self.loaded.insert(index, (size, name));
        }
        Ok(true)
    }

    fn read_move(
        &mut self,
        record: &Record,
        window: &mut Window<'_>,
        take: &mut dyn FnMut(&Code<'_>),
    ) -> io::Result<bool> {
        let Some(fixed) = window.get(record.body, MOVE_HEAD as usize)? else {
            return Ok(false);
        };
        let (start, index) = (u64_at(fixed, 24), u64_at(fixed, 40));
        if let Some(&(size, name)) = self.loaded.get(&index) {
            take(&Code {
                offset: record.body,
                start,
                end: start.saturating_add(size),
                time: Some(record.time),
                name,
                text: None,
                lines: Span::default(),
            });
        }
        Ok(true)
    }
}

/// Where a record's body is, and how large.
struct Record {
    body: u64,
    size: u64,
    time: u64,
}

/// Address and line of each position of a function, sorted by address.
pub(super) fn parse_lines(body: &[u8]) -> Vec<(u64, u32)> {
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

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jit::stand_in::CountedFile;
    use crate::jit::{Index, JitNames};
    use nodespy_model::{JitFile, JitFileKind};

    fn file(bytes: &[u8]) -> JitFile {
        JitFile {
            kind: JitFileKind::Jitdump,
            bytes: Box::new(bytes.to_vec()),
            path: "/tmp/jit-1.dump".to_owned(),
        }
    }

    fn names_of(bytes: &[u8], wanted: &[u64]) -> io::Result<JitNames> {
        Index::new(JitFileKind::Jitdump).read(&file(bytes), wanted, &[], true)
    }

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
        bytes.extend(record(CODE_MOVE, 95, &moved(0x2000, 1)));
        bytes
    }

    fn moved(start: u64, index: u64) -> Vec<u8> {
        let mut body = vec![0; 8];
        for number in [0x1000, 0x1000, start, 16, index] {
            body.extend_from_slice(&number.to_ne_bytes());
        }
        body
    }

    #[test]
    fn code_is_named_by_time_with_its_line() {
        let names = names_of(&dump(), &[0x1009, 0x2001]).unwrap();
        let (name, line) = names.at(0x1009, 50).unwrap();
        assert_eq!((name.name.as_str(), line), ("f", 4));
        assert_eq!(names.at(0x1009, 92).unwrap().0.name, "g");
        assert_eq!(names.at(0x2001, 99).unwrap().0.name, "g");
    }

    #[test]
    fn a_dump_is_read_on_record_by_record() {
        let whole = dump();
        let mut index = Index::new(JitFileKind::Jitdump);
        for length in 0..=whole.len() {
            index.advance(&file(&whole[..length]));
        }
        let whole = file(&whole);
        let name = |address| index.name(index.function_at(address)?, &whole);
        assert_eq!(name(0x1009).as_deref(), Some("g"));
        assert_eq!(name(0x2001).as_deref(), Some("g"));
        assert_eq!(name(0x2010), None);
    }

    #[test]
    fn lines_are_known_in_the_next_slice_too() {
        let whole = file(&dump()[..dump().len() - 64 - 56 - 16 - 16]);
        let mut index = Index::new(JitFileKind::Jitdump);
        for _ in 0..2 {
            let names = index.read(&whole, &[0x1003, 0x1009], &[], false).unwrap();
            let at = |address| {
                names
                    .at(address, 50)
                    .map(|(name, line)| (&*name.name, line))
            };
            assert_eq!([at(0x1003), at(0x1009)], [Some(("f", 3)), Some(("f", 4))]);
        }
    }

    #[test]
    fn another_file_is_refused_once_it_is_complete() {
        let error = names_of(b"1000 10 JS:*f /a.js:1:2\n", &[0x1000]).unwrap_err();
        assert_eq!(error.to_string(), "it is not a jitdump of this machine");
        let mut index = Index::new(JitFileKind::Jitdump);
        assert!(
            index
                .read(&file(&dump()[..20]), &[0x1009], &[], false)
                .is_ok()
        );
        assert!(index.read(&file(&dump()), &[0x1009], &[], false).is_ok());
    }

    #[test]
    fn code_that_moves_a_hundred_thousand_times_is_found_at_once() {
        // Each move names the code that was loaded first: a search from either end is quadratic.
        let count = 100_000u64;
        let timed = |bytes: &[u8], wanted: &[u64]| {
            let started = std::time::Instant::now();
            let names = names_of(bytes, wanted).unwrap();
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
        // A move costs some times what a load does; with a search it took hundreds of times that.
        let is_linear = with_moves < without_moves * 30;
        assert!(is_linear, "{with_moves:?}, {without_moves:?} without moves");
    }

    /// A file that counts what is read of it.
    fn counted(bytes: &[u8]) -> (CountedFile, JitFile) {
        let counted = CountedFile::new(bytes);
        let file = JitFile {
            bytes: Box::new(counted.clone()),
            ..file(&[])
        };
        (counted, file)
    }

    #[test]
    fn a_long_name_is_not_read_again_at_every_move() {
        let mut bytes = dump()[..40].to_vec();
        let name = format!("JS:*{} /a.js:2:1", "f".repeat(16_000));
        bytes.extend(record(CODE_LOAD, 1, &load(0x1000, 0, &name, &[0xcc; 16])));
        for number in 0..2_000 {
            // Each is at an address that was seen.
            bytes.extend(record(CODE_MOVE, 2 + number, &moved(0x7000, 0)));
        }
        let (counted, file) = counted(&bytes);
        Index::new(JitFileKind::Jitdump).advance(&file);
        let mut index = Index::new(JitFileKind::Jitdump);
        let names = index.read(&file, &[0x7004], &[], true).unwrap();
        assert_eq!(names.at(0x7004, 9_000).unwrap().0.name.len(), 16_000);
        assert_eq!(names.names.len(), 1);
        let read = counted.bytes_read();
        assert!(read < 3 * bytes.len() as u64, "{read} of {}", bytes.len());
    }

    #[test]
    fn lines_are_read_up_to_a_budget_in_every_slice() {
        // Functions with a mebibyte of debug information each, which a sparse file has for nothing.
        const COUNT: u64 = 40;
        let mut bytes = dump()[..40].to_vec();
        let mut lines = vec![0; 1 << 20];
        lines[8..16].copy_from_slice(&1u64.to_ne_bytes());
        lines[16..28].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
        for index in 0..COUNT {
            bytes.extend(record(DEBUG_INFO, 1, &lines));
            let body = load(index << 8, index, "JS:*f /a.js:2:1", &[0xcc; 16]);
            bytes.extend(record(CODE_LOAD, 1, &body));
        }
        let wanted: Vec<u64> = (0..COUNT).map(|index| (index << 8) + 4).collect();
        let (counted, file) = counted(&bytes);
        let mut index = Index::new(JitFileKind::Jitdump);
        index.advance(&file);
        for is_last in [false, true] {
            let before = counted.bytes_read();
            let names = index.read(&file, &wanted, &[], is_last).unwrap();
            let read = counted.bytes_read() - before;
            assert!(read < 64 << 20, "{} MiB", read >> 20);
            let of = |at: usize| {
                names
                    .at(wanted[at], 9)
                    .map(|(name, line)| (&*name.name, line))
            };
            // All have their names, and those that come first their lines.
            assert_eq!(
                [of(0), of(COUNT as usize - 1)],
                [Some(("f", 7)), Some(("f", 0))]
            );
            let remark = &names.remarks[0];
            assert!(
                remark.contains("entries of /tmp/jit-1.dump were read without"),
                "{remark}"
            );
        }
    }

    #[test]
    fn code_whose_name_is_not_read_does_not_have_that_of_what_was_there_before() {
        let mut bytes = dump()[..40].to_vec();
        // Longer together than what is read.
        let loads = 2_200;
        for time in 0..loads {
            let name = format!("JS:*f{time} {}:2:1", "a".repeat(16_000));
            bytes.extend(record(CODE_LOAD, time, &load(0, time, &name, &[0xcc; 16])));
        }
        let names = names_of(&bytes, &[4]).unwrap();
        assert_eq!(names.at(4, 7).unwrap().0.name, "f7");
        assert_eq!(names.at(4, loads), None);
        assert!(names.names_some_code_at(4));
    }

    #[test]
    fn lines_of_code_that_was_partly_written_over_are_read_once() {
        let mut bytes = dump()[..40].to_vec();
        bytes.extend(record(DEBUG_INFO, 1, &[0; 100_000]));
        bytes.extend(record(
            CODE_LOAD,
            1,
            &load(0, 0, "JS:*f /a.js:2:1", &[0xcc; 64_000]),
        ));
        for index in 1..60 {
            let body = load(index << 10, index, "JS:*g /a.js:3:1", &[0xcc; 16]);
            bytes.extend(record(CODE_LOAD, 2, &body));
        }
        let wanted: Vec<u64> = (0..60).map(|index| (index << 10) + 32).collect();
        let (counted, file) = counted(&bytes);
        let mut index = Index::new(JitFileKind::Jitdump);
        index.advance(&file);
        let before = counted.bytes_read();
        let names = index.read(&file, &wanted, &[], false).unwrap();
        assert!(
            wanted
                .iter()
                .all(|&at| names.at(at, 9).unwrap().0.name == "f")
        );
        let read = counted.bytes_read() - before;
        assert!(read < 2 * 100_000, "{read}");
    }

    #[test]
    fn any_cut_of_a_dump_is_read_as_far_as_it_goes() {
        let whole = dump();
        for length in 0..whole.len() {
            let _ = names_of(&whole[..length], &[0x1000, 0x2000]);
        }
    }
}
