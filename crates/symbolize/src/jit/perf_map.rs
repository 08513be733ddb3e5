//! `perf-PID.map`: lines of `start size name`, both numbers in hexadecimal.
//!
//! The file can be gigabytes and holds no times. A line that does not start with two numbers
//! continues the name before it: regular expressions may hold newlines.

use std::io;

use nodespy_model::ReadAt;

use super::window::{WINDOW_BYTES, Window};
use super::{Code, JitReader, Reach, Span};
use crate::hexadecimal::hexadecimal;

/// No more of a map than this is read at once; a process needs days to write it.
const MAP_LIMIT_BYTES: u64 = 2 << 30;
/// Longer names are cut.
const NAME_LIMIT_BYTES: usize = 16 << 10;

/// Reads a perf map.
#[derive(Debug, Default)]
pub(super) struct MapReader {
    next: u64,
}

impl JitReader for MapReader {
    fn read_on(
        &mut self,
        bytes: &dyn ReadAt,
        reach: Reach,
        take: &mut dyn FnMut(&Code<'_>),
    ) -> io::Result<()> {
        let stop = self.next.saturating_add(reach.max_bytes);
        if bytes.size()? <= self.next {
            return Ok(());
        }
        let mut window = Window::new(bytes);
        while self.next < stop {
            let chunk = window.fill(self.next)?;
            let end = match (chunk.len() < WINDOW_BYTES, reach.is_complete) {
                (false, _) => End::Chunk,
                (true, false) => End::Growing,
                (true, true) => End::Nothing,
            };
            self.next += take_lines(chunk, self.next, end, take) as u64;
            if end != End::Chunk {
                break;
            }
        }
        Ok(())
    }

    fn position(&self) -> u64 {
        self.next
    }

    fn step_bytes(&self) -> u64 {
        1 << 20
    }

    fn limit_bytes(&self) -> u64 {
        MAP_LIMIT_BYTES
    }
}

/// What follows some lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// More lines, which may continue the last name.
    Chunk,
    /// Nothing yet: the last line may be half written.
    Growing,
    Nothing,
}

/// Hands on the entries of some lines of a file that start at an offset; returns how many bytes
/// are done with.
fn take_lines(lines: &[u8], offset: u64, end: End, take: &mut dyn FnMut(&Code<'_>)) -> usize {
    let whole = match (memchr::memrchr(b'\n', lines), end) {
        (_, End::Nothing) | (None, End::Chunk) => lines.len(),
        (last, _) => last.map_or(0, |newline| newline + 1),
    };
    let lines = &lines[..whole];
    let mut open: Option<Open> = None;
    let mut line = 0;
    for end in memchr::memchr_iter(b'\n', lines).chain([whole]) {
        if let Some((start, size, name)) = lines.get(line..end).and_then(split_line) {
            if let Some(open) = open.take() {
                open.close(lines, line - 1, offset, take);
            }
            open = Some(Open {
                line,
                start,
                end: start.saturating_add(size),
                name: end - name.len(),
            });
        }
        line = end + 1;
    }
    match open {
        // Its name may go on in the next chunk.
        Some(open) if end == End::Chunk && open.line > 0 => open.line,
        open => {
            let last = lines.strip_suffix(b"\n").unwrap_or(lines).len();
            open.into_iter()
                .for_each(|open| open.close(lines, last, offset, take));
            whole
        }
    }
}

/// An entry whose name may go on in the next line.
struct Open {
    /// Where its line starts.
    line: usize,
    start: u64,
    end: u64,
    /// Where its name starts.
    name: usize,
}

impl Open {
    fn close(self, lines: &[u8], end: usize, offset: u64, take: &mut dyn FnMut(&Code<'_>)) {
        let end = end.min(self.name + NAME_LIMIT_BYTES);
        let text = &lines[self.name..end];
        take(&Code {
            offset: offset + self.line as u64,
            start: self.start,
            end: self.end,
            time: None,
            name: Span {
                offset: offset + self.name as u64,
                length: text.len() as u32,
            },
            text: Some(text),
            lines: Span::default(),
        });
    }
}

/// `start size name` of a line that begins an entry.
fn split_line(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (start, rest) = split_at_space(line)?;
    let (size, name) = split_at_space(rest)?;
    let number = |text: &[u8]| hexadecimal(text.strip_prefix(b"0x").unwrap_or(text));
    Some((number(start)?, number(size)?, name))
}

fn split_at_space(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = text.iter().position(|byte| *byte == b' ')?;
    Some((&text[..space], &text[space + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jit::stand_in::{CountedFile, map_file};
    use crate::jit::{GrowthMarks, Index, JitNames};
    use nodespy_model::Tier;

    fn names_of(text: &str, wanted: &[u64], marks: &GrowthMarks) -> JitNames {
        let file = map_file(&CountedFile::new(text.as_bytes()));
        Index::new(file.kind)
            .read(&file, wanted, marks, true)
            .unwrap()
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
    fn a_name_that_lies_across_two_chunks_is_whole() {
        let line = b"1000 10 Builtin:A\n";
        let filler = line.repeat(WINDOW_BYTES / line.len() - 1);
        // Each of these starts in the first chunk and ends in the second, the last with lines.
        for entry in ["2000 10 JS:*long /a.js:1:2\n", "2000 10 RegExp:a\nb\nc\n"] {
            for cut in 1..entry.len() {
                let mut text = filler.clone();
                text.resize(WINDOW_BYTES - cut - 1, b'.');
                text.push(b'\n');
                text.extend_from_slice(entry.as_bytes());
                text.extend_from_slice(line);
                let text = String::from_utf8(text).unwrap();
                let names = names_of(&text, &[0x2000], &[]);
                let (name, _) = names.at(0x2000, 0).unwrap();
                assert!(matches!(name.name.as_str(), "long" | "a\nb\nc"), "{name:?}");
                assert_eq!(names.names.len(), 1);
            }
        }
    }

    #[test]
    fn a_line_without_an_end_is_passed_over() {
        let mut text = "x".repeat(3 * WINDOW_BYTES);
        text.push_str("\n2000 10 JS:*f /a.js:1:2\n");
        let names = names_of(&text, &[0x2001], &[]);
        assert_eq!(names.at(0x2001, 0).unwrap().0.name, "f");
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
