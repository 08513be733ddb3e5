//! V8's embedded builtins in a file without symbols for them, such as Debian's `libnode.so`.
//!
//! V8 keeps where each builtin is (the embedded blob's table of offsets and lengths) and what each is
//! called (`Builtins::name`'s table) for itself, in its own order of builtins. Up to Node 22 both are
//! found by the functions that return them, which are a few instructions long and exported; later
//! ones, and Deno, export none of them, and the tables are found by what they look like ([`search`]). How
//! long a row of the first table is differs by version, and is the only length for which all builtins
//! lie one behind the other.

use nodespy_model::{FastMap, ImageBytes};

use crate::elf::{Elf, Extent, function_symbols, relative_pointers};
use crate::little_endian::u32_at;
use crate::x86_64::{Returned, indexed_table, returned};

mod search;

/// What the symbols of builtins start with, where there are any.
const PREFIX: &str = "Builtins_";
const BLOB_CODE: &str = "_ZN2v88internal23DefaultEmbeddedBlobCodeEv";
const BLOB_DATA: &str = "_ZN2v88internal23DefaultEmbeddedBlobDataEv";
const NAME: &str = "_ZN2v88internal8Builtins4nameENS0_7BuiltinE";

/// How much of a function is read.
const FUNCTION_BYTES: usize = 64;
/// V8 14 has 2,400 builtins.
const COUNT_LIMIT: usize = 1 << 14;
/// A row of the table of names: name, kind, and what belongs to the kind.
const NAME_ROW_BYTES: u64 = 24;
/// Where the kind is, and how many there are at most: V8 has ten.
const NAME_KIND: u64 = 8;
const KIND_LIMIT: u64 = 32;
/// The longest name is `KeyedLoadICTrampoline_Megamorphic`'s like; none is near this.
const NAME_LIMIT_BYTES: usize = 128;
/// What comes before the table of offsets: hashes of data, code and heap, of 8 bytes each.
const HASH_BYTES: usize = 24;
/// How long a row of it may be.
const PLACE_ROW_BYTES: std::ops::RangeInclusive<usize> = 8..=48;
/// Builtins start at multiples of this, at least.
const ALIGNMENT: u64 = 16;
/// How much code all of them, and one of them, may have: V8 15 has 2.3 MB.
const CODE_LIMIT_BYTES: u64 = 1 << 26;
const BUILTIN_LIMIT_BYTES: u64 = 1 << 20;

/// A builtin: its symbol, address and size.
pub(crate) type Builtin = (String, u64, u64);

/// A file's memory as it is linked.
pub(crate) trait Linked {
    /// So many bytes at an address, or fewer where it ends.
    fn bytes(&self, address: u64, size: usize) -> Option<Vec<u8>>;
    /// The pointer at an address.
    fn pointer(&self, address: u64) -> Option<u64>;
    /// Where the loader writes pointers to an address.
    fn pointers_to(&self, target: u64) -> Vec<u64>;
    /// What the file holds.
    fn extents(&self) -> Vec<Extent>;
}

/// The builtins of the V8 in a file; none when it does not show them.
pub(crate) fn read(elf: &Elf, bytes: &mut ImageBytes) -> Option<Vec<Builtin>> {
    let functions = function_symbols(bytes, |name| [BLOB_CODE, BLOB_DATA, NAME].contains(&name));
    let functions: FastMap<String, u64> = functions
        .into_iter()
        .map(|(name, address, _)| (name, address))
        .collect();
    let linked = FileMemory {
        pointers: relative_pointers(bytes),
        elf,
        bytes,
    };
    exported(&linked, &|name| functions.get(name).copied()).or_else(|| search::builtins(&linked))
}

struct FileMemory<'a> {
    elf: &'a Elf,
    bytes: &'a ImageBytes,
    /// What the loader writes, by address.
    pointers: FastMap<u64, u64>,
}

impl Linked for FileMemory<'_> {
    fn bytes(&self, address: u64, size: usize) -> Option<Vec<u8>> {
        self.elf.read_at(self.bytes, address, size)
    }

    fn pointer(&self, address: u64) -> Option<u64> {
        self.pointers.get(&address).copied().or_else(|| {
            let bytes = self.bytes(address, 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        })
    }

    fn pointers_to(&self, target: u64) -> Vec<u64> {
        let pointers = self.pointers.iter();
        let mut found: Vec<u64> = pointers
            .filter(|(_, to)| **to == target)
            .map(|(at, _)| *at)
            .collect();
        found.sort_unstable();
        found
    }

    fn extents(&self) -> Vec<Extent> {
        self.elf.extents()
    }
}

/// The builtins by the functions that return where their tables are.
fn exported(linked: &dyn Linked, function: &dyn Fn(&str) -> Option<u64>) -> Option<Vec<Builtin>> {
    let code_of = |name: &str| {
        let start = function(name)?;
        Some((start, linked.bytes(start, FUNCTION_BYTES)?))
    };
    let address = |name: &str| {
        let (start, code) = code_of(name)?;
        match returned(start, &code)? {
            Returned::Value(address) => Some(address),
            Returned::At(address) => linked.pointer(address),
        }
    };
    let code = address(BLOB_CODE)?;
    let data = address(BLOB_DATA)?;
    let (start, code_of_name) = code_of(NAME)?;
    let names = names(linked, indexed_table(start, &code_of_name)?);
    let rows = linked.bytes(
        data.checked_add(HASH_BYTES as u64)?,
        names.len() * PLACE_ROW_BYTES.end(),
    )?;
    let places = places(&rows, names.len())?;
    Some(at_places(code, names, places))
}

/// The builtins of the code at an address.
fn at_places(code: u64, names: Vec<String>, places: Vec<(u64, u64)>) -> Vec<Builtin> {
    let found = names.into_iter().zip(places);
    found
        .filter(|(_, (_, size))| *size > 0)
        .map(|(name, (offset, size))| (format!("{PREFIX}{name}"), code.wrapping_add(offset), size))
        .collect()
}

/// The names from the start of their table to what is no name.
fn names(linked: &dyn Linked, table: u64) -> Vec<String> {
    let name = |number: usize| {
        let row = table.checked_add(number as u64 * NAME_ROW_BYTES)?;
        // Another table with names may follow.
        let kind = linked.pointer(row.checked_add(NAME_KIND)?)? & u64::from(u32::MAX);
        if kind >= KIND_LIMIT {
            return None;
        }
        let bytes = linked.bytes(linked.pointer(row)?, NAME_LIMIT_BYTES)?;
        let end = memchr::memchr(0, &bytes).filter(|end| *end > 0)?;
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let name = std::str::from_utf8(&bytes[..end]).ok()?;
        name.bytes()
            .all(|byte| is_name(&byte))
            .then(|| name.to_owned())
    };
    (0..COUNT_LIMIT).map_while(name).collect()
}

/// Offset and length of so many builtins.
fn places(rows: &[u8], count: usize) -> Option<Vec<(u64, u64)>> {
    PLACE_ROW_BYTES.step_by(4).find_map(|row_bytes| {
        let place = |number: usize| {
            let row = number * row_bytes;
            let place = (u32_at(rows, row)?, u32_at(rows, row + 4)?);
            can_be_place(place).then_some(place)
        };
        let found: Vec<(u64, u64)> = (0..count).map_while(place).collect();
        (found.len() == count && fill(&found)).then_some(found)
    })
}

fn can_be_place((offset, size): (u64, u64)) -> bool {
    offset % ALIGNMENT == 0 && offset < CODE_LIMIT_BYTES && size < BUILTIN_LIMIT_BYTES
}

/// Whether functions lie one behind the other from the first byte on, with little between.
fn fill(places: &[(u64, u64)]) -> bool {
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    let is_apart = |pair: &[(u64, u64)]| pair[0].0 + pair[0].1 <= pair[1].0;
    let starts = sorted.first().is_some_and(|(offset, _)| *offset == 0);
    let end = sorted.last().map_or(0, |(offset, size)| offset + size);
    let used: u64 = places.iter().map(|(_, size)| size).sum();
    starts && sorted.windows(2).all(is_apart) && used > end / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: u64 = 0x9000;
    const NAMES: [&str; 3] = ["DeoptimizationEntry_Eager", "JSEntry", "ArrayMap"];

    /// A file whose rows of the table of places take so many bytes.
    struct StandIn {
        row_bytes: usize,
    }

    /// `lea rax, [rip + distance]`, `mov rax, [rax]`
    fn function(at: u64, target: u64) -> Vec<u8> {
        let mut code = vec![0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8d, 0x05];
        code.extend(((target - at - 11) as u32).to_le_bytes());
        code.extend([0x48, 0x8b, 0x00, 0xc3]);
        code
    }

    impl Linked for StandIn {
        fn bytes(&self, address: u64, size: usize) -> Option<Vec<u8>> {
            let mut bytes = match address {
                0x100 => function(0x100, 0x1000),
                0x200 => function(0x200, 0x1010),
                0x400 => function(0x400, 0x2000),
                0x3000..=0x3002 => [NAMES[address as usize - 0x3000].as_bytes(), &[0]].concat(),
                0x5018 => {
                    let mut rows = Vec::new();
                    for (offset, length) in [(0u32, 0x30u32), (0x40, 0x7e), (0xc0, 0x40)] {
                        let mut row = [offset.to_le_bytes(), length.to_le_bytes()].concat();
                        // What else is known of a builtin.
                        row.resize(self.row_bytes, 0x77);
                        rows.extend(row);
                    }
                    rows.extend([0; 200]);
                    rows
                }
                _ => return None,
            };
            bytes.truncate(size);
            Some(bytes)
        }

        fn pointer(&self, address: u64) -> Option<u64> {
            match address {
                0x1000 => Some(CODE),
                0x1010 => Some(0x5000),
                0x2000 | 0x2018 | 0x2030 => Some(0x3000 + (address - 0x2000) / 24),
                // The kinds of builtins.
                0x2008 | 0x2020 | 0x2038 => Some(7),
                _ => None,
            }
        }

        fn pointers_to(&self, _: u64) -> Vec<u64> {
            Vec::new()
        }

        fn extents(&self) -> Vec<Extent> {
            Vec::new()
        }
    }

    fn read(row_bytes: usize) -> Option<Vec<Builtin>> {
        exported(&StandIn { row_bytes }, &|name| {
            Some(match name {
                BLOB_CODE => 0x100,
                BLOB_DATA => 0x200,
                NAME => 0x400,
                _ => return None,
            })
        })
    }

    #[test]
    fn builtins_are_found_whatever_the_length_of_a_row() {
        for row_bytes in [8, 12, 16, 28, 32] {
            let found = read(row_bytes).unwrap();
            assert_eq!(
                found,
                [
                    ("Builtins_DeoptimizationEntry_Eager".to_owned(), CODE, 0x30),
                    ("Builtins_JSEntry".to_owned(), CODE + 0x40, 0x7e),
                    ("Builtins_ArrayMap".to_owned(), CODE + 0xc0, 0x40),
                ]
            );
        }
        // Rows longer than any V8 has: nothing fits, and nothing is guessed.
        assert_eq!(read(64), None);
    }
}
