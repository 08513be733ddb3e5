//! `perf-PID.map`: lines of `start size name`, both numbers in hexadecimal.
//!
//! The file can be gigabytes and holds no times. Only what was asked for is kept, and a line is
//! dated by how large the file was when. A line that does not start with two numbers continues
//! the name before it: regular expressions may hold newlines.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use nodespy_model::{JitFile, NameSource, Nanoseconds};

use super::live_index::Entry;
use super::{GrowthMarks, JitNames};
use crate::hexadecimal::hexadecimal;

/// No more of a map than this is read; a process needs days to write it.
const MAP_LIMIT_BYTES: u64 = 2 << 30;
/// Longer lines are cut.
const LINE_LIMIT_BYTES: u64 = 16 << 10;

pub(super) fn read(
    file: &mut JitFile,
    wanted: &[u64],
    marks: &GrowthMarks,
) -> io::Result<JitNames> {
    file.file.seek(SeekFrom::Start(0))?;
    let size = file.file.metadata()?.len();
    let input = file.file.by_ref().take(size.min(MAP_LIMIT_BYTES));
    let mut names = JitNames::new(NameSource::PerfMap, wanted);
    parse(input, wanted, marks, &mut names)?;
    if !marks.is_empty() {
        // It was watched: what was written before the recording is in order, and what was written
        // since is dated.
        names.undated.clear();
    }
    if size > MAP_LIMIT_BYTES {
        names.remarks.push(format!(
            "{} has {} GiB; only the first {} were read",
            file.path,
            size >> 30,
            MAP_LIMIT_BYTES >> 30
        ));
    }
    Ok(names)
}

/// An entry whose name may go on in the next line.
struct Open {
    start: u64,
    end: u64,
    since: Nanoseconds,
}

fn parse(
    input: impl Read,
    wanted: &[u64],
    marks: &GrowthMarks,
    names: &mut JitNames,
) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 18, input);
    let mut line = Vec::new();
    let mut offset = 0u64;
    let mut open: Option<Open> = None;
    // Of the open entry.
    let mut name = Vec::new();
    let mut clock = Clock::new(marks);
    loop {
        line.clear();
        let read = reader
            .by_ref()
            .take(LINE_LIMIT_BYTES)
            .read_until(b'\n', &mut line)? as u64;
        if read == 0 {
            break;
        }
        let starts_at = offset;
        offset += read;
        if line.last() != Some(&b'\n') && read == LINE_LIMIT_BYTES {
            offset += skip_line(&mut reader)?;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        match split_line(text) {
            Some((start, size, text)) => {
                flush(open.take(), &name, wanted, names);
                let end = start.saturating_add(size);
                let since = clock.at(starts_at);
                // Most code was never seen: its name is not looked at.
                let is_wanted = is_any_between(wanted, start, end);
                open = is_wanted.then_some(Open { start, end, since });
                name.clear();
                name.extend_from_slice(text);
            }
            None => {
                if open.is_some() && (name.len() as u64) < LINE_LIMIT_BYTES {
                    name.push(b'\n');
                    name.extend_from_slice(text);
                }
            }
        }
    }
    flush(open, &name, wanted, names);
    Ok(())
}

fn is_any_between(wanted: &[u64], start: u64, end: u64) -> bool {
    let first = wanted.partition_point(|&address| address < start);
    wanted.get(first).is_some_and(|address| *address < end)
}

fn flush(entry: Option<Open>, name: &[u8], wanted: &[u64], names: &mut JitNames) {
    if let Some(Open { start, end, since }) = entry {
        let name = String::from_utf8_lossy(name);
        names.add(wanted, start, end, since, &name, |_| 0);
    }
}

fn skip_line(reader: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(skipped);
        }
        let (length, is_end) = match memchr::memchr(b'\n', buffer) {
            Some(at) => (at + 1, true),
            None => (buffer.len(), false),
        };
        reader.consume(length);
        skipped += length as u64;
        if is_end {
            return Ok(skipped);
        }
    }
}

/// `start size name` of a line that begins an entry.
fn split_line(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (start, rest) = split_at_space(line)?;
    let (size, name) = split_at_space(rest)?;
    let number = |text: &[u8]| hexadecimal(text.strip_prefix(b"0x").unwrap_or(text));
    Some((number(start)?, number(size)?, name))
}

/// The entry a line begins that stands at an offset of the file.
pub(super) fn entry_of(line: &[u8], at: u64) -> Option<Entry> {
    let (start, size, name) = split_line(line)?;
    Some(Entry {
        start,
        end: start.saturating_add(size),
        name: (at + (line.len() - name.len()) as u64, name.len()),
    })
}

fn split_at_space(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = text.iter().position(|byte| *byte == b' ')?;
    Some((&text[..space], &text[space + 1..]))
}

/// Tells when a part of the file was written at the earliest.
struct Clock<'a> {
    marks: &'a GrowthMarks,
    next: usize,
}

impl<'a> Clock<'a> {
    fn new(marks: &'a GrowthMarks) -> Self {
        Self { marks, next: 0 }
    }

    /// Offsets must not fall from call to call.
    fn at(&mut self, offset: u64) -> Nanoseconds {
        while self.next < self.marks.len() && self.marks[self.next].1 <= offset {
            self.next += 1;
        }
        match self.next {
            0 => 0,
            next => self.marks[next - 1].0,
        }
    }
}

/// Runs the parser on any bytes.
pub(crate) fn parse_any(bytes: &[u8]) {
    let wanted = [0x1000, 0x2000, 0x7fff_0000_0000];
    let mut names = JitNames::new(NameSource::PerfMap, &wanted);
    let _ = parse(bytes, &wanted, &[(5, 100)], &mut names);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::Tier;

    fn names_of(text: &str, wanted: &[u64], marks: &GrowthMarks) -> JitNames {
        let mut names = JitNames::new(NameSource::PerfMap, wanted);
        parse(text.as_bytes(), wanted, marks, &mut names).unwrap();
        names.settle("a map");
        names
    }

    #[test]
    fn only_wanted_addresses_are_kept() {
        let names = names_of(
            "1000 100 JS:*f /a.js:1:2\n2000 80 JS:~g /a.js:5:1\n",
            &[0x1010],
            &[],
        );
        let (name, _) = names.at(0x1010, 0).unwrap();
        assert_eq!((name.name.as_str(), name.tier), ("f", Tier::Optimized));
        assert_eq!(names.names.len(), 1);
        assert!(names.at(0x2000, 0).is_none());
    }

    #[test]
    fn a_regexp_with_a_newline_is_one_name() {
        let names = names_of(
            "1000 10 RegExp:a\nb\n1010 10 Builtin:X\n",
            &[0x1001, 0x1011],
            &[],
        );
        assert_eq!(names.at(0x1001, 0).unwrap().0.name, "a\nb");
        assert_eq!(names.at(0x1011, 0).unwrap().0.name, "X");
    }

    #[test]
    fn the_last_write_wins_per_address_and_time() {
        let old = "1000 100 JS:*old /a.js:1:1\n";
        let text = format!("{old}1000 100 JS:*new /a.js:2:1\n");
        // The file was seen with only the first line at 50, so the second is later.
        let names = names_of(&text, &[0x1010], &[(50, old.len() as u64)]);
        assert_eq!(names.at(0x1010, 40).unwrap().0.name, "old");
        assert_eq!(names.at(0x1010, 60).unwrap().0.name, "new");
        assert!(names.is_reused(0x1010));
        // Both were there before the recording: only the last one can have been running.
        let names = names_of(&text, &[0x1010], &[(50, text.len() as u64)]);
        assert_eq!(names.at(0x1010, 40).unwrap().0.name, "new");
    }

    #[test]
    fn addresses_of_several_functions_are_told_and_tiers_of_one_are_not() {
        let text = "1000 200 JS:*old /a.js:1:1\n\
                    1000 80 JS:~new /a.js:2:1\n\
                    1100 80 JS:~kept /a.js:3:1\n\
                    1100 80 JS:*kept /a.js:3:1\n\
                    1180 10 JS:*old /a.js:1:1\n";
        let names = names_of(text, &[0x1010, 0x1090, 0x1110, 0x1188], &[]);
        let name_at = |address| names.at(address, 0).unwrap().0.name.as_str();
        // Written later wins, also over an entry that is larger.
        assert_eq!(
            [0x1010, 0x1090, 0x1110].map(name_at),
            ["new", "old", "kept"]
        );
        assert_eq!(
            [0x1010, 0x1090, 0x1110, 0x1188].map(|address| names.is_undated(address)),
            [true, false, true, false]
        );
        let tiers = names_of(
            "1000 80 JS:~kept /a.js:3:1\n1000 80 JS:*kept /a.js:3:1\n",
            &[0x1010],
            &[],
        );
        assert!(!tiers.is_undated(0x1010));
    }

    #[test]
    fn entries_that_all_cover_everything_cost_no_product() {
        // A hundred thousand addresses, and twenty thousand lines that each cover all of them.
        let wanted: Vec<u64> = (0x1000..0x2_0000).collect();
        let text = "0 ffffffff JS:*f /a.js:1:1\n".repeat(20_000);
        let mut names = names_of(&text, &wanted, &[]);
        assert_eq!(names.at(0x1000, 0).unwrap().0.name, "f");
        let remark = names.remarks.pop().unwrap();
        assert!(remark.ends_with("cover one another too often"), "{remark}");
        // Addresses named: those of the budget, not two billion.
        assert!(names.names.len() < 100, "{}", names.names.len());
    }

    #[test]
    fn broken_lines_cost_nothing_else() {
        let long = "x".repeat(100_000);
        let text = format!(
            "zz\n1000 10 {long}\n\u{0}\n2000 10 JS:*f /a.js:1:2\nffffffffffffffff ffffffffffffffff e"
        );
        let names = names_of(&text, &[0x1001, 0x2001], &[]);
        assert_eq!(names.at(0x2001, 0).unwrap().0.name, "f");
        assert!(names.at(0x1001, 0).unwrap().0.name.len() < 20_000);
    }
}
