//! The parts of a binary that hold no machine code. Node has 22 to 46 MB of it before the text that says
//! which version it is: most of what there is to search.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use nodespy_model::SmallSort;

/// Node has 40 sections.
const SECTION_LIMIT: usize = 1024;
/// The size of a header of a section, and where in it are its flags, offset and size.
const HEADER_BYTES: usize = 64;
const FLAGS: usize = 8;
const OFFSET: usize = 24;
const SIZE: usize = 32;
/// Where in an ELF file it says where the headers are, how large one is, and how many there are.
const TABLE_OFFSET: usize = 40;
const TABLE_ENTRY_BYTES: usize = 58;
const TABLE_COUNT: usize = 60;
const FILE_HEADER_BYTES: usize = 64;
const MAGIC: &[u8] = b"\x7fELF\x02\x01";
/// The flag of a section with instructions.
const EXECUTABLE: u64 = 4;

/// What is before, between and after the sections of code, up to `limit`; everything when the file
/// has no table of sections.
pub(super) fn parts_without_code(file: &mut (impl Read + Seek), limit: u64) -> Vec<Range<u64>> {
    let mut code = code_sections(file).unwrap_or_default();
    code.small_sort_by_key(|section| section.start);
    let mut parts = Vec::new();
    let mut start = 0;
    for section in code {
        if section.start > start {
            parts.push(start..section.start.min(limit));
        }
        start = start.max(section.end);
    }
    parts.push(start..limit);
    parts.retain(|part| part.start < part.end);
    parts
}

fn code_sections(file: &mut (impl Read + Seek)) -> Option<Vec<Range<u64>>> {
    let mut header = [0; FILE_HEADER_BYTES];
    file.seek(SeekFrom::Start(0)).ok()?;
    file.read_exact(&mut header).ok()?;
    let is_known =
        header.starts_with(MAGIC) && usize::from(half(&header, TABLE_ENTRY_BYTES)) == HEADER_BYTES;
    if !is_known {
        return None;
    }
    let count = usize::from(half(&header, TABLE_COUNT)).min(SECTION_LIMIT);
    let mut table = vec![0; count * HEADER_BYTES];
    file.seek(SeekFrom::Start(word(&header, TABLE_OFFSET)))
        .ok()?;
    file.read_exact(&mut table).ok()?;
    let sections = table.chunks_exact(HEADER_BYTES);
    let code = sections.filter(|section| word(section, FLAGS) & EXECUTABLE != 0);
    code.map(|section| {
        let start = word(section, OFFSET);
        Some(start..start.checked_add(word(section, SIZE))?)
    })
    .collect()
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// An ELF file of nothing but a table of sections: flags, offset and size of each.
    fn file(sections: &[(u64, u64, u64)]) -> Cursor<Vec<u8>> {
        let mut bytes = MAGIC.to_vec();
        bytes.resize(FILE_HEADER_BYTES, 0);
        bytes[TABLE_OFFSET..TABLE_OFFSET + 8].copy_from_slice(&64u64.to_le_bytes());
        bytes[TABLE_ENTRY_BYTES] = HEADER_BYTES as u8;
        bytes[TABLE_COUNT] = sections.len() as u8;
        for (flags, offset, size) in sections {
            let mut section = [0; HEADER_BYTES];
            for (at, value) in [(FLAGS, flags), (OFFSET, offset), (SIZE, size)] {
                section[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            bytes.extend(section);
        }
        Cursor::new(bytes)
    }

    fn parts(sections: &[(u64, u64, u64)]) -> Vec<Range<u64>> {
        parts_without_code(&mut file(sections), 10_000)
    }

    #[test]
    fn code_is_left_out_wherever_it_is() {
        let init = (6, 4000, 100);
        let text = (6, 1000, 2000);
        let constants = (2, 3000, 1000);
        let found = parts(&[init, constants, text]);
        assert_eq!(found, [0..1000, 3000..4000, 4100..10_000]);
        // Sections that overlap, and one that goes on behind the limit.
        let found = parts(&[text, (4, 2000, 500), (4, 9000, 5000)]);
        assert_eq!(found, [0..1000, 3000..9000]);
    }

    #[test]
    fn what_has_no_sections_or_lies_about_them_is_searched_whole() {
        let whole = std::slice::from_ref(&(0..10_000));
        assert_eq!(parts(&[]), whole);
        assert_eq!(parts(&[(4, u64::MAX, 2)]), whole);
        for bytes in [&b"#!/bin/sh\n"[..], &[0; 100], MAGIC] {
            let found = parts_without_code(&mut Cursor::new(bytes), 10_000);
            assert_eq!(found, whole);
        }
        let mut cut = file(&[(4, 100, 200)]).into_inner();
        cut.truncate(100);
        assert_eq!(parts_without_code(&mut Cursor::new(cut), 10_000), whole);
    }
}
