//! The tables of builtins in a file that says nowhere where they are: by what they look like.
//!
//! V8's first builtin has a name that nothing else has, so what points to it is the first row of the table
//! of names. The table of places is the one with as many rows whose builtins lie one behind the other
//! from offset 0 on. Their code is where everything between them is filled with `int3`. Each of the
//! three is found once in Node 18 to 26 and in Deno 2.9, or not at all.

use memchr::memmem;

use super::{
    Builtin, COUNT_LIMIT, Linked, PLACE_ROW_BYTES, at_places, can_be_place, names, places,
};
use crate::elf::{Extent, search_extents};
use crate::little_endian::u32_at;
use crate::x86_64::PADDING;

/// V8's first builtin since 9.5, between the ends of the strings around it.
const FIRST_NAME: &[u8] = b"\0DeoptimizationEntry_Eager\0";
/// Fewer builtins are none of V8's, and too few to tell their tables from other bytes.
const COUNT_LEAST: usize = 256;
/// The blob's data is aligned to this, and its code.
const DATA_ALIGNMENT: usize = 8;
const CODE_ALIGNMENT: usize = 32;
/// How many rows, and how many gaps between builtins, are looked at before the rest is.
const FIRST_ROWS: usize = 16;
const FIRST_GAPS: usize = 16;

pub(super) fn builtins(linked: &dyn Linked) -> Option<Vec<Builtin>> {
    let name = address_of(linked, FIRST_NAME)?;
    let table = table_of_names(linked, name.checked_add(1)?)?;
    let names = names(linked, table);
    let places = table_of_places(linked, names.len())?;
    let code = code(linked, &places)?;
    Some(at_places(code, names, places))
}

/// The table whose first row has the name at an address: the loader writes its pointers, or the file
/// has them.
fn table_of_names(linked: &dyn Linked, name: u64) -> Option<u64> {
    let is_table = |table: &u64| names(linked, *table).len() >= COUNT_LEAST;
    let written = linked.pointers_to(name).into_iter().find(is_table);
    written.or_else(|| address_of(linked, &name.to_le_bytes()).filter(is_table))
}

/// Offset and length of so many builtins.
fn table_of_places(linked: &dyn Linked, count: usize) -> Option<Vec<(u64, u64)>> {
    let most = count.min(COUNT_LIMIT) * PLACE_ROW_BYTES.end();
    search(
        linked,
        |_| true,
        most,
        |_, chunk| {
            (0..chunk.len()).step_by(DATA_ALIGNMENT).find_map(|at| {
                let rows = &chunk[at..];
                let is_likely = starts_like_places(rows);
                is_likely.then(|| places(&rows[..rows.len().min(most)], count))?
            })
        },
    )
}

/// Whether the first rows can be places, for some length of a row.
fn starts_like_places(rows: &[u8]) -> bool {
    let can_be = |at: usize| {
        let place = (u32_at(rows, at), u32_at(rows, at + 4));
        matches!(place, (Some(offset), Some(size)) if can_be_place((offset, size)) && size > 0)
    };
    can_be(0)
        && PLACE_ROW_BYTES
            .step_by(4)
            .any(|row_bytes| (1..FIRST_ROWS).all(|number| can_be(number * row_bytes)))
}

/// Where the code of builtins is that have these places.
fn code(linked: &dyn Linked, places: &[(u64, u64)]) -> Option<u64> {
    let gaps = gaps(places);
    let size = places.iter().map(|(offset, size)| offset + size).max()? as usize;
    let first = gaps.get(..FIRST_GAPS)?;
    let reach = first.last()?.1;
    let is_padding = |code: &[u8], &(from, to): &(usize, usize)| {
        code.get(from..to)
            .is_some_and(|gap| gap.iter().all(|byte| *byte == PADDING))
    };
    let is_all_padding = |address: u64| {
        let code = linked.bytes(address, size);
        code.is_some_and(|code| gaps.iter().all(|gap| is_padding(&code, gap)))
    };
    let is_code = |extent: &Extent| extent.is_code;
    search(linked, is_code, reach, |start, chunk| {
        let skipped = start.next_multiple_of(CODE_ALIGNMENT as u64) - start;
        (skipped as usize..chunk.len())
            .step_by(CODE_ALIGNMENT)
            .filter(|at| first.iter().all(|gap| is_padding(&chunk[*at..], gap)))
            .map(|at| start + at as u64)
            .find(|address| is_all_padding(*address))
    })
}

/// What is between builtins.
fn gaps(places: &[(u64, u64)]) -> Vec<(usize, usize)> {
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    let between = |pair: &[(u64, u64)]| ((pair[0].0 + pair[0].1) as usize, pair[1].0 as usize);
    let gaps = sorted.windows(2).map(between);
    gaps.filter(|(from, to)| from < to).collect()
}

/// Searches all segments, or those with code.
fn search<T>(
    linked: &dyn Linked,
    is_wanted: impl Fn(&Extent) -> bool,
    overlap: usize,
    find: impl FnMut(u64, &[u8]) -> Option<T>,
) -> Option<T> {
    let extents = linked.extents().into_iter().filter(is_wanted);
    search_extents(extents, |at, size| linked.bytes(at, size), overlap, find)
}

/// Where some bytes are.
fn address_of(linked: &dyn Linked, bytes: &[u8]) -> Option<u64> {
    search(
        linked,
        |_| true,
        bytes.len(),
        |address, chunk| address.checked_add(memmem::find(chunk, bytes)? as u64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 300;
    const DATA: u64 = 0x10_0000;
    const CODE: u64 = 0x40_0000;
    const CODE_AT: usize = 0x2460;
    const NAMES_AT: usize = 0x100;
    const TABLE_AT: usize = 0x8000;
    const PLACES_AT: usize = 0x1_2348;

    /// A file with names, a table of them whose pointers are in it or written by the loader, places and
    /// code, among bytes that are none of it.
    struct File {
        data: Vec<u8>,
        code: Vec<u8>,
        written: Vec<(u64, u64)>,
    }

    fn name(number: usize) -> String {
        match number {
            0 => "DeoptimizationEntry_Eager".to_owned(),
            number => format!("Builtin{number}"),
        }
    }

    fn file(is_written: bool) -> File {
        let mut data: Vec<u8> = (0..0x2_0000u32).map(|at| (at * 7 % 251) as u8).collect();
        let mut code = vec![0x90; 0x4_0000];
        let mut written = Vec::new();
        let mut name_at = NAMES_AT;
        let mut code_at = 0;
        for number in 0..COUNT {
            let text = name(number);
            data[name_at..][..text.len() + 2].copy_from_slice(format!("\0{text}\0").as_bytes());
            let (row, pointer) = (TABLE_AT + number * 24, DATA + name_at as u64 + 1);
            data[row..][..24].fill(0);
            match is_written {
                true => written.push((DATA + row as u64, pointer)),
                false => data[row..][..8].copy_from_slice(&pointer.to_le_bytes()),
            }
            name_at += text.len() + 1;
            let size = 70 + number % 5 * 20;
            let place = [code_at as u32, size as u32, 0x7777].map(u32::to_le_bytes);
            data[PLACES_AT + number * 12..][..12].copy_from_slice(&place.concat());
            let next = (code_at + size + 1).next_multiple_of(32);
            code[CODE_AT + code_at + size..CODE_AT + next].fill(PADDING);
            code_at = next;
        }
        // What follows has a name too, and no kind.
        let row = TABLE_AT + COUNT * 24;
        let pointer = (DATA + NAMES_AT as u64 + 1).to_le_bytes();
        data[row..][..16].copy_from_slice(&[pointer, pointer].concat());
        File {
            data,
            code,
            written,
        }
    }

    impl Linked for File {
        fn bytes(&self, address: u64, size: usize) -> Option<Vec<u8>> {
            let (bytes, start) = match address >= CODE {
                true => (&self.code, CODE),
                false => (&self.data, DATA),
            };
            let from = bytes.get(address.checked_sub(start)? as usize..)?;
            Some(from[..size.min(from.len())].to_vec())
        }

        fn pointer(&self, address: u64) -> Option<u64> {
            let written = self.written.iter().find(|(at, _)| *at == address);
            written.map(|(_, to)| *to).or_else(|| {
                let bytes = self.bytes(address, 8)?;
                Some(u64::from_le_bytes(bytes.try_into().ok()?))
            })
        }

        fn pointers_to(&self, target: u64) -> Vec<u64> {
            let written = self.written.iter().filter(|(_, to)| *to == target);
            written.map(|(at, _)| *at).collect()
        }

        fn extents(&self) -> Vec<Extent> {
            let extent = |address, bytes: &[u8], is_code| Extent {
                address,
                size: bytes.len() as u64,
                is_code,
            };
            vec![
                extent(DATA, &self.data, false),
                extent(CODE, &self.code, true),
            ]
        }
    }

    #[test]
    fn builtins_are_found_where_no_function_says_where_they_are() {
        for is_written in [false, true] {
            let found = builtins(&file(is_written)).unwrap();
            assert_eq!(found.len(), COUNT);
            let first = ("Builtins_DeoptimizationEntry_Eager".to_owned(), 70);
            assert_eq!((found[0].0.clone(), found[0].2), first);
            assert_eq!(found[0].1, CODE + CODE_AT as u64);
            assert_eq!(found[1].0, "Builtins_Builtin1");
            assert_eq!(found[1].1, CODE + CODE_AT as u64 + 96);
        }
    }

    #[test]
    fn nothing_is_guessed_where_one_table_or_the_code_does_not_fit() {
        let mut overlapping = file(false);
        overlapping.data[PLACES_AT + 200 * 12 + 4..][..4].copy_from_slice(&5000u32.to_le_bytes());
        assert_eq!(builtins(&overlapping), None);
        let mut other_code = file(false);
        let middle = other_code.code.len() / 20;
        let padding = other_code.code[middle..]
            .iter()
            .position(|byte| *byte == PADDING);
        other_code.code[middle + padding.unwrap()] = 0x90;
        assert_eq!(builtins(&other_code), None);
        let mut without_names = file(false);
        without_names.data[NAMES_AT + 3] = b'?';
        assert_eq!(builtins(&without_names), None);
    }
}
