//! The procedure linkage table: code by which a file calls functions of other files. No symbol
//! covers it; its entries are named after what they call, as perf and objdump do.

use nodespy_model::{FastMap, ImageBytes};

use super::symbols::{NAME_LIMIT_BYTES, section_bytes};
use super::{SYMBOL_BYTES, SYMBOL_LIMIT, read_section};
use crate::little_endian::{u32_at, u64_at};
use crate::x86_64::plt::{ENTRY_BYTES, got_slot};

/// Sections with such code. `.plt.got` has entries for functions that are bound at the start.
const SECTIONS: [&str; 3] = [".plt", ".plt.sec", ".plt.got"];

/// Where an `Elf64_Rela` has the number of its symbol.
const SYMBOL_NUMBER: usize = 12;

/// The entries: `memcpy@plt`, or the section's name where it is not known what is called. The first
/// of `.plt` is such a one: it calls the loader, for the others.
pub(crate) fn plt_entries(bytes: &mut ImageBytes) -> Vec<(String, u64, u64)> {
    let mut entries = Vec::new();
    let mut names = None;
    for name in SECTIONS {
        let Some(section) = read_section(bytes, name) else {
            continue;
        };
        let names = names.get_or_insert_with(|| names_by_slot(bytes));
        for (number, code) in section.bytes.chunks(ENTRY_BYTES).enumerate() {
            let offset = (number * ENTRY_BYTES) as u64;
            let Some(address) = section.address.checked_add(offset) else {
                break;
            };
            let called = got_slot(code, address).and_then(|slot| names.get(&slot));
            let name = called.map_or_else(|| name.to_owned(), |called| format!("{called}@plt"));
            entries.push((name, address, code.len() as u64));
        }
    }
    entries
}

/// The functions of other files, by the slot of the global offset table that the loader writes
/// their addresses to.
fn names_by_slot(bytes: &mut ImageBytes) -> FastMap<u64, String> {
    let relocations = read_section(bytes, ".rela.plt").unwrap_or_default().bytes;
    let [symbols, strings] = section_bytes(bytes, [".dynsym", ".dynstr"]).unwrap_or_default();
    let name_of = |row: &[u8]| {
        let symbol = u32_at(row, SYMBOL_NUMBER)? as usize * SYMBOL_BYTES;
        let name = strings.get(u32_at(&symbols, symbol)? as usize..)?;
        let name = &name[..name.len().min(NAME_LIMIT_BYTES)];
        let name = &name[..memchr::memchr(0, name)?];
        (!name.is_empty()).then(|| String::from_utf8(name.to_vec()).ok())?
    };
    let rows = relocations.chunks_exact(SYMBOL_BYTES).take(SYMBOL_LIMIT);
    rows.filter_map(|row| Some((u64_at(row, 0)?, name_of(row)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::demangle::demangle;
    use crate::elf::Symbols;
    use crate::image_budget::ImageBudget;

    /// Every library of this process: libgcc calls libc.
    #[test]
    fn calls_into_other_libraries_have_names() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let paths = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5));
        let files: BTreeSet<&str> = paths.filter(|path| path.starts_with('/')).collect();
        let mut named = 0;
        for file in files {
            let mut bytes = ImageBytes::File(std::fs::File::open(file).unwrap());
            let entries = plt_entries(&mut bytes);
            let mut symbols = Symbols::read(&mut bytes, &ImageBudget::default().tables);
            symbols.add_functions(&entries);
            for (name, address, size) in &entries {
                let found = symbols.at(address + size - 1).unwrap();
                assert_eq!(*symbols.name(found).unwrap(), *demangle(name), "{file}");
                named += usize::from(name.ends_with("@plt"));
            }
        }
        assert!(named > 0);
    }

    #[test]
    fn what_is_no_elf_file_has_no_entries() {
        assert!(plt_entries(&mut ImageBytes::Memory(b"\x7fELF".to_vec())).is_empty());
    }
}
