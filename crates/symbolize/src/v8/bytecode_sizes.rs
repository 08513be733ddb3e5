//! How long each bytecode is, in a file that has no symbol for V8's table of it: Node 24 and later when
//! stripped, Deno.
//!
//! The table (`Bytecodes::kBytecodeSizes`) has a row for each width of operands. All rows start with the
//! same bytecodes, prefixes and breakpoints of every length, so that they are known by their first bytes.

use memchr::memmem;
use nodespy_model::ImageBytes;

use crate::elf::{Elf, search_extents};

/// How the three rows start, in V8 13 to 15.
const ROWS: [&[u8]; 3] = [
    &[1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6, 2],
    &[1, 1, 1, 1, 1, 3, 5, 7, 9, 7, 9, 3],
    &[1, 1, 1, 1, 1, 5, 9, 13, 17, 11, 15, 5],
];
/// How many bytecodes there can be: their numbers have a byte. V8 13 has 208.
const COUNTS: std::ops::RangeInclusive<usize> = 128..=256;

/// The table; empty when it is not found.
pub(crate) fn find(elf: &Elf, bytes: &ImageBytes) -> Vec<u8> {
    let overlap = ROWS.len() * COUNTS.end();
    let read = |address, size| elf.read_at(bytes, address, size);
    let table = |_, chunk: &[u8]| table_in(chunk).map(<[u8]>::to_vec);
    search_extents(elf.extents(), read, overlap, table).unwrap_or_default()
}

fn table_in(chunk: &[u8]) -> Option<&[u8]> {
    memmem::find_iter(chunk, ROWS[0]).find_map(|start| {
        let table = &chunk[start..];
        let is_row =
            |row: usize, at: usize| table.get(at..).is_some_and(|at| at.starts_with(ROWS[row]));
        let count = COUNTS
            .into_iter()
            .find(|count| is_row(1, *count) && is_row(2, 2 * count))?;
        table.get(..ROWS.len() * count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_known_by_how_its_rows_start() {
        let row = |start: &[u8]| [start, &vec![3; 200 - start.len()]].concat();
        let table = ROWS.map(row).concat();
        let file = [&[0; 77][..], &table, &[9; 500]].concat();
        assert_eq!(table_in(&file), Some(&table[..]));
        // Cut, or with a row of another length.
        assert_eq!(table_in(&file[..77 + 599]), None);
        assert_eq!(
            table_in(&[&table[..300], &[3], &table[300..]].concat()),
            None
        );
    }
}
