//! The functions of a Go program, which has its own table of them (`.gopclntab`), also when stripped.
//!
//! The layout is that of Go 1.20 and later (`runtime/symtab.go`, `pcHeader`); older ones are left alone.

use nodespy_model::ImageBytes;

use crate::elf::{read_section, section_address};
use crate::little_endian::{u32_at, u64_at};

const TABLE: &str = ".gopclntab";
const CODE: &str = ".text";
/// Magic, padding, the least length of an instruction, and the length of a pointer.
const HEAD: [u8; 8] = [0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
/// Where the header has the number of functions, where their code starts (0 where that is the start of
/// the section), where names are, and where the table of functions is.
const COUNT: usize = 8;
const CODE_START: usize = 24;
const NAMES: usize = 32;
const FUNCTIONS: usize = 64;
/// A row: where a function starts in the code, and where more of it is in the table.
const ROW_BYTES: usize = 8;
/// Where in that its name is.
const FUNCTION_NAME: usize = 4;
/// esbuild has 9,000 functions.
const COUNT_LIMIT: u64 = 1 << 18;
const NAME_LIMIT_BYTES: usize = 512;

/// Name, address and size of each function; none when this is no Go program.
pub(crate) fn read(bytes: &mut ImageBytes) -> Option<Vec<(String, u64, u64)>> {
    let table = read_section(bytes, TABLE)?;
    functions(&table.bytes, section_address(bytes, CODE)?)
}

/// Reads a table, wherever it comes from.
pub(crate) fn read_any(table: &[u8]) {
    functions(table, 0x1000);
}

fn functions(table: &[u8], code_section: u64) -> Option<Vec<(String, u64, u64)>> {
    if !table.starts_with(&HEAD) {
        return None;
    }
    let count = u64_at(table, COUNT)?;
    if count > COUNT_LIMIT {
        return None;
    }
    let code = match u64_at(table, CODE_START)? {
        0 => code_section,
        start => start,
    };
    let names = part(table, u64_at(table, NAMES)?)?;
    let rows = part(table, u64_at(table, FUNCTIONS)?)?;
    let function = |number: usize| {
        let row = number * ROW_BYTES;
        let start = u32_at(rows, row)?;
        // Behind the last function is a row that says where it ends.
        let end = u32_at(rows, row + ROW_BYTES)?;
        let more = usize::try_from(u32_at(rows, row + 4)?).ok()?;
        let name_at = u32_at(rows, more.checked_add(FUNCTION_NAME)?)?;
        let name = part(names, name_at)?;
        let name = &name[..name.len().min(NAME_LIMIT_BYTES)];
        let length = memchr::memchr(0, name)?;
        let name = String::from_utf8_lossy(&name[..length]).into_owned();
        let size = end.checked_sub(start).filter(|size| *size > 0)?;
        Some((name, code.checked_add(start)?, size))
    };
    Some((0..count as usize).filter_map(function).collect())
}

fn part(bytes: &[u8], start: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(start).ok()?..)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of three functions, of which the last has no name.
    fn table(code_start: u64) -> Vec<u8> {
        let mut table = HEAD.to_vec();
        for number in [3, 0, code_start, 72, 0, 0, 0, 100] {
            table.extend(u64::to_le_bytes(number));
        }
        table.extend(b"main.main\0js.(*parser).parse\0");
        table.resize(100, b'x');
        // Rows, the end of the code, and what there is more of each function.
        for [start, more] in [[0u32, 32], [0x40, 40], [0x90, 48], [0xa0, 0]] {
            table.extend([start, more].map(u32::to_le_bytes).concat());
        }
        for [start, name] in [[0u32, 0], [0x40, 10], [0x90, u32::MAX]] {
            table.extend([start, name].map(u32::to_le_bytes).concat());
        }
        table
    }

    #[test]
    fn functions_have_the_names_of_the_programs_own_table() {
        for (code_start, first) in [(0, 0x1000), (0x40_0000, 0x40_0000)] {
            let found = functions(&table(code_start), 0x1000).unwrap();
            assert_eq!(
                found,
                [
                    ("main.main".to_owned(), first, 0x40),
                    ("js.(*parser).parse".to_owned(), first + 0x40, 0x50),
                ]
            );
        }
    }

    #[test]
    fn no_damage_makes_it_panic() {
        let whole = table(0);
        for at in 0..whole.len() {
            functions(&whole[..at], 0);
            for value in [0, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                functions(&damaged, u64::MAX);
            }
        }
        assert_eq!(functions(b"\xfb\xff\xff\xff", 0), None);
    }
}
