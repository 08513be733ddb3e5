//! The symbol tables of an ELF file: names of functions for frames, and of the constants that V8 exports.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use nodespy_model::{FastMap, ImageBytes};
use object::elf::{STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, SymbolType};
use object::read::elf::ElfFile64;
use object::{Endianness, ReadCache, ReadRef};

use crate::image_budget::{Paid, Pool};

use super::{SYMBOL_BYTES, SYMBOL_LIMIT, is_debug_file_of, rewound, section, section_range};
use crate::demangle::demangle;

/// The names of an ELF file's functions.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// Sorted by address, one per address.
    entries: Vec<SymbolEntry>,
    /// The string table of each symbol table.
    names: Vec<StringTable>,
    /// The names that were asked for: each slice asks for mostly the same.
    known: RefCell<KnownNames>,
    /// Whether they are all that the linker had: no one has stripped the file.
    pub(crate) is_whole: bool,
    /// For the entries.
    paid: Vec<Paid>,
}

/// One of the [`Symbols`] of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SymbolIndex(u32);

/// Names as people write them.
#[derive(Debug, Default)]
struct KnownNames {
    by_symbol: FastMap<SymbolIndex, Rc<str>>,
    bytes: usize,
}

impl KnownNames {
    fn insert(&mut self, symbol: SymbolIndex, name: Rc<str>) {
        if self.bytes > KNOWN_NAMES_BYTES {
            *self = Self::default();
        }
        self.bytes += name.len();
        self.by_symbol.insert(symbol, name);
    }
}

/// The names of a symbol table. Node's have 13 MB, of which a recording needs a few hundred: they
/// are read one by one.
#[derive(Debug)]
enum StringTable {
    InFile { file: File, start: u64, size: u64 },
    InMemory(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SymbolEntry {
    address: u64,
    size: u64,
    name_start: u32,
    /// Which string table the name is in.
    table: u8,
    rank: u8,
}

/// The fields of an `Elf64_Sym` we use.
#[derive(Debug, Clone, Copy)]
struct RawSymbol {
    name: u32,
    info: u8,
    section: u16,
    address: u64,
    size: u64,
}

/// No longer name is looked at: all symbols of a file can point into one text without an end.
pub(super) const NAME_LIMIT_BYTES: usize = 16 << 10;
/// How much of a name is read at first: few are longer.
const NAME_STEP_BYTES: u64 = 256;
/// How many bytes of names are remembered; with more, they are forgotten and read again.
const KNOWN_NAMES_BYTES: usize = 4 << 20;
/// The table that `strip` takes away.
const WHOLE_TABLE: &str = ".symtab";
/// Tables of symbols and their names.
const SYMBOL_SECTIONS: [(&str, &str); 2] = [(WHOLE_TABLE, ".strtab"), (".dynsym", ".dynstr")];

impl RawSymbol {
    /// Reads a little-endian symbol of [`SYMBOL_BYTES`].
    fn read(bytes: &[u8]) -> Self {
        let wide =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Self {
            name: u32::from_le_bytes(bytes[0..4].try_into().expect("four bytes")),
            info: bytes[4],
            section: u16::from_le_bytes(bytes[6..8].try_into().expect("two bytes")),
            address: wide(8),
            size: wide(16),
        }
    }
}

/// Constants and variables of a file, by name: address and size.
pub(crate) fn data_symbols(
    bytes: &mut ImageBytes,
    wanted: impl Fn(&str) -> bool,
) -> Vec<(String, u64, u64)> {
    symbols_of(&[STT_OBJECT], bytes, wanted)
}

/// Functions of a file, by name: address and size.
pub(crate) fn function_symbols(
    bytes: &mut ImageBytes,
    wanted: impl Fn(&str) -> bool,
) -> Vec<(String, u64, u64)> {
    symbols_of(&[STT_FUNC], bytes, wanted)
}

/// Both of these, by name: address and size.
pub(crate) fn data_and_function_symbols(
    bytes: &mut ImageBytes,
    wanted: impl Fn(&str) -> bool,
) -> Vec<(String, u64, u64)> {
    symbols_of(&[STT_OBJECT, STT_FUNC], bytes, wanted)
}

fn symbols_of(
    kinds: &[SymbolType],
    bytes: &mut ImageBytes,
    wanted: impl Fn(&str) -> bool,
) -> Vec<(String, u64, u64)> {
    let mut found = Vec::new();
    for (table, strings) in [(".dynsym", ".dynstr"), (WHOLE_TABLE, ".strtab")] {
        if let Some([table, strings]) = section_bytes(bytes, [table, strings]) {
            collect_symbols(kinds, (&table, &strings), &wanted, &mut found);
        }
    }
    found
}

/// The bytes of two sections, if a file has both. They are read where they are to be: those of Node's
/// names have 18 MB.
pub(super) fn section_bytes(bytes: &ImageBytes, names: [&str; 2]) -> Option<[Vec<u8>; 2]> {
    let read = match bytes {
        ImageBytes::File(file) => {
            let cache = ReadCache::new(rewound(file)?);
            let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
            names.map(|name| {
                let (start, size) = section_range(&elf, name, file.metadata().ok()?.len())?;
                let mut bytes = vec![0; size as usize];
                file.read_exact_at(&mut bytes, start).ok()?;
                Some(bytes)
            })
        }
        ImageBytes::Memory(bytes) => {
            let elf = ElfFile64::<Endianness, _>::parse(bytes.as_slice()).ok()?;
            names.map(|name| Some(section(&elf, name)?.bytes))
        }
    };
    let [first, second] = read;
    Some([first?, second?])
}

fn collect_symbols(
    kinds: &[SymbolType],
    (table, strings): (&[u8], &[u8]),
    wanted: &impl Fn(&str) -> bool,
    found: &mut Vec<(String, u64, u64)>,
) {
    for bytes in table.chunks_exact(SYMBOL_BYTES).take(SYMBOL_LIMIT) {
        let symbol = RawSymbol::read(bytes);
        if symbol.section == 0 || !kinds.contains(&SymbolType(symbol.info & 0xf)) {
            continue;
        }
        let Some(name) = strings.get(symbol.name as usize..) else {
            continue;
        };
        let name = &name[..name.len().min(NAME_LIMIT_BYTES)];
        let end = memchr::memchr(0, name).unwrap_or(name.len());
        if let Ok(name) = std::str::from_utf8(&name[..end])
            && wanted(name)
        {
            found.push((name.to_owned(), symbol.address, symbol.size));
        }
    }
}

impl Symbols {
    /// The symbols of a file: `.symtab` where it was not stripped, and `.dynsym`.
    pub(crate) fn read(bytes: &mut ImageBytes, pool: &Pool) -> Self {
        let mut symbols = Self::default();
        match bytes {
            ImageBytes::File(file) => {
                symbols.add_file(file, pool);
            }
            ImageBytes::Memory(bytes) => symbols.add(bytes.as_slice()),
        }
        symbols.finish();
        symbols
    }

    /// The symbols of a separate debug file with this build-id; empty when it has another.
    pub(crate) fn read_debug_file(file: File, build_id: &[u8], pool: &Pool) -> Self {
        let mut symbols = Self::default();
        if is_debug_file_of(&file, build_id) {
            symbols.add_file(&file, pool);
            symbols.finish();
        }
        symbols
    }

    /// Adds functions that no table has; where one starts that is known, the known one stays.
    pub(crate) fn add_functions(&mut self, functions: &[(String, u64, u64)]) {
        let table = self.names.len() as u8;
        let mut strings = vec![0];
        for (name, address, size) in functions {
            self.entries.push(SymbolEntry {
                address: *address,
                size: *size,
                name_start: strings.len() as u32,
                table,
                rank: 0,
            });
            strings.extend(name.bytes().chain([0]));
        }
        self.names.push(StringTable::InMemory(strings));
        self.finish();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds the symbols of a file, whose names stay there.
    fn add_file(&mut self, file: &File, pool: &Pool) -> Option<()> {
        let cache = ReadCache::new(rewound(file)?);
        let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let end = file.metadata().ok()?.len();
        let range = |name: &str| section_range(&elf, name, end);
        for (name, strings) in SYMBOL_SECTIONS {
            let (Some(table), Some((start, size))) = (range(name), range(strings)) else {
                continue;
            };
            let Some(paid) = pool.draw(table.1) else {
                continue;
            };
            self.paid.push(paid);
            self.is_whole |= name == WHOLE_TABLE;
            let mut bytes = vec![0; table.1 as usize];
            file.read_exact_at(&mut bytes, table.0).ok()?;
            let file = file.try_clone().ok()?;
            self.add_table(&bytes, StringTable::InFile { file, start, size });
        }
        Some(())
    }

    fn add<'data, R: ReadRef<'data>>(&mut self, data: R) {
        let Ok(file) = ElfFile64::<'data, Endianness, R>::parse(data) else {
            return;
        };
        for (table, strings) in SYMBOL_SECTIONS {
            if let (Some(table), Some(strings)) = (section(&file, table), section(&file, strings)) {
                self.add_table(&table.bytes, StringTable::InMemory(strings.bytes));
            }
        }
    }

    /// Adds the functions of a table of `Elf64_Sym`.
    fn add_table(&mut self, table: &[u8], strings: StringTable) {
        let table_number = self.names.len() as u8;
        for bytes in table.chunks_exact(SYMBOL_BYTES).take(SYMBOL_LIMIT) {
            let symbol = RawSymbol::read(bytes);
            let rank = match SymbolType(symbol.info & 0xf) {
                STT_FUNC | STT_GNU_IFUNC => 2,
                // Assembly without types; V8's embedded builtins are of this kind in some builds.
                STT_NOTYPE => 1,
                _ => continue,
            };
            let is_defined = symbol.section != 0 && symbol.address != 0;
            let is_named = symbol.name != 0 && u64::from(symbol.name) < strings.size();
            if !is_defined || !is_named {
                continue;
            }
            let is_global = symbol.info >> 4 != 0;
            self.entries.push(SymbolEntry {
                address: symbol.address,
                size: symbol.size,
                name_start: symbol.name,
                table: table_number,
                rank: rank * 2 + u8::from(is_global),
            });
        }
        self.names.push(strings);
    }

    fn finish(&mut self) {
        // Symbols get other indexes.
        self.known = RefCell::default();
        // Of several names for one address keep a sized, typed, global one.
        self.entries.sort_unstable_by_key(|entry| {
            (
                entry.address,
                std::cmp::Reverse((entry.size > 0, entry.rank)),
                entry.table,
                entry.name_start,
            )
        });
        self.entries.dedup_by_key(|entry| entry.address);
        self.entries.shrink_to_fit();
    }

    /// The symbol that covers `address`.
    pub(crate) fn at(&self, address: u64) -> Option<SymbolIndex> {
        let after = self
            .entries
            .partition_point(|entry| entry.address <= address);
        // A label inside a function (size 0) hides nothing: look a few entries back for one
        // whose size says it covers the address.
        let nearby = after.saturating_sub(16)..after;
        let covers = |at: &usize| address - self.entries[*at].address < self.entries[*at].size;
        let is_label = |at: &usize| {
            let entry = &self.entries[*at];
            entry.size == 0 && address - entry.address < 1 << 20
        };
        let covering = nearby.clone().rev().find(covers);
        let found = covering.or_else(|| nearby.last().filter(is_label))?;
        Some(SymbolIndex(found as u32))
    }

    /// The symbol that starts at `address`.
    pub(crate) fn starting_at(&self, address: u64) -> Option<SymbolIndex> {
        let found = self
            .entries
            .binary_search_by_key(&address, |entry| entry.address);
        Some(SymbolIndex(found.ok()? as u32))
    }

    /// Where a symbol starts that does not say where it ends.
    pub(crate) fn label_address(&self, symbol: SymbolIndex) -> Option<u64> {
        let entry = self.entries.get(symbol.0 as usize)?;
        (entry.size == 0).then_some(entry.address)
    }

    /// The name of a symbol, as people write it.
    pub(crate) fn name(&self, symbol: SymbolIndex) -> Option<Rc<str>> {
        let mut known = self.known.borrow_mut();
        if let Some(name) = known.by_symbol.get(&symbol) {
            return Some(Rc::clone(name));
        }
        let entry = self.entries.get(symbol.0 as usize)?;
        let mangled = self.names[usize::from(entry.table)].at(entry.name_start)?;
        let name: Rc<str> = demangle(&mangled).into();
        known.insert(symbol, Rc::clone(&name));
        Some(name)
    }
}

impl StringTable {
    fn size(&self) -> u64 {
        match self {
            Self::InFile { size, .. } => *size,
            Self::InMemory(bytes) => bytes.len() as u64,
        }
    }

    /// The name that starts at an offset.
    fn at(&self, offset: u32) -> Option<String> {
        match self {
            Self::InMemory(bytes) => {
                let name = bytes.get(offset as usize..)?;
                let end = memchr::memchr(0, name).unwrap_or(name.len());
                String::from_utf8(name[..end].to_vec()).ok()
            }
            Self::InFile { file, start, size } => {
                let mut name = Vec::new();
                let left = size.checked_sub(u64::from(offset))?;
                loop {
                    let known = name.len();
                    let more = NAME_STEP_BYTES.max(known as u64).min(left - known as u64);
                    name.resize(known + more as usize, 0);
                    let at = start + u64::from(offset) + known as u64;
                    file.read_exact_at(&mut name[known..], at).ok()?;
                    let end = memchr::memchr(0, &name[known..]);
                    if let Some(end) = end {
                        name.truncate(known + end);
                    }
                    if end.is_some() || name.len() as u64 == left {
                        return String::from_utf8(name).ok();
                    }
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    /// Symbols with these names, addresses and sizes.
    pub(crate) fn symbols(of: &[(&str, u64, u64)]) -> Symbols {
        let mut symbols = Symbols::default();
        let mut strings = vec![0];
        let mut table = Vec::new();
        for (name, address, size) in of {
            table.extend((strings.len() as u32).to_le_bytes());
            // A local function of some section.
            table.extend([STT_FUNC.0, 0, 1, 0]);
            table.extend(address.to_le_bytes());
            table.extend(size.to_le_bytes());
            strings.extend(name.bytes().chain([0]));
        }
        symbols.add_table(&table, StringTable::InMemory(strings));
        symbols.finish();
        symbols
    }

    #[test]
    fn names_are_read_from_the_file_however_long_they_are() {
        let long = "x".repeat(3000);
        let bytes = format!("head\0short\0{long}\0last");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes.as_bytes()).unwrap();
        let (start, size) = (4, bytes.len() as u64 - 4);
        let in_file = StringTable::InFile { file, start, size };
        let in_memory = StringTable::InMemory(bytes.as_bytes()[4..].to_vec());
        for table in [in_file, in_memory] {
            assert_eq!(table.at(1).as_deref(), Some("short"));
            assert_eq!(table.at(7), Some(long.clone()));
            assert_eq!(table.at(3008).as_deref(), Some("last"));
            assert_eq!(table.at(9000), None);
        }
    }
}
