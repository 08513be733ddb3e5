//! Names of kernel addresses, from `/proc/kallsyms`.
//!
//! A recording of another boot has the same functions at other addresses, all moved by as much;
//! where its modules were is in the recording alone.

use std::io::Read;
use std::ops::Range;

use nodespy_model::Mapping;

use crate::hexadecimal::hexadecimal;

/// No more of a symbol table is read than this (Linux 6.18 has 12 MB with all modules).
const TABLE_LIMIT_BYTES: u64 = 256 << 20;

/// The kernel's functions.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    /// Sorted by address.
    entries: Vec<KernelSymbol>,
    /// The table as it was read: names are parts of it.
    text: String,
    /// Whether the kernel hides its addresses from us.
    pub(crate) is_hidden: bool,
    /// How much higher the recorded kernel was than the one of the table.
    shift: u64,
    /// Where the modules of a recorded kernel were; none for the running kernel.
    modules: Option<Vec<ModuleRange>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ModuleRange {
    start: u64,
    end: u64,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KernelSymbol {
    address: u64,
    /// Where its name, and what is behind it in the line, start and end in the text.
    name: u32,
    name_end: u32,
    line_end: u32,
}

impl KernelSymbols {
    /// Reads lines of `address type name [module]`.
    pub(crate) fn read(input: Box<dyn Read>) -> Self {
        let mut bytes = Vec::with_capacity(1 << 20);
        // What could be read is used.
        let _ = input.take(TABLE_LIMIT_BYTES).read_to_end(&mut bytes);
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let mut entries = Vec::with_capacity(text.len() / 45);
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', text.as_bytes()).chain([text.len()]) {
            entries.extend(parse(&text, start..end));
            start = (end + 1).min(text.len());
        }
        entries.sort_by_key(|symbol: &KernelSymbol| symbol.address);
        Self {
            is_hidden: !text.trim().is_empty() && entries.is_empty(),
            entries,
            text,
            ..Self::default()
        }
    }

    /// The same without what modules brought along: they may have come after a copy was made.
    pub(crate) fn without_modules(mut self) -> Self {
        let mut entries = std::mem::take(&mut self.entries);
        entries.retain(|symbol| self.module_of(symbol).is_none());
        self.entries = entries;
        self
    }

    /// Whether an address is between two functions of the kernel itself, which is where it was.
    pub(crate) fn is_sure_of(&self, address: u64) -> bool {
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else {
            return false;
        };
        let modules = self.modules.iter().flatten();
        let mut modules = modules.filter(|known| !known.name.starts_with("kernel.kallsyms"));
        let here = address.wrapping_sub(self.shift);
        (first.address..last.address).contains(&here)
            && !modules.any(|known| (known.start..known.end).contains(&address))
    }

    fn name_of(&self, symbol: &KernelSymbol) -> &str {
        &self.text[symbol.name as usize..symbol.name_end as usize]
    }

    fn module_of(&self, symbol: &KernelSymbol) -> Option<&str> {
        if symbol.name_end == symbol.line_end {
            return None;
        }
        let rest = self.text[symbol.name_end as usize..symbol.line_end as usize].trim();
        rest.strip_prefix('[')?.strip_suffix(']')
    }

    /// Moves the functions to where they were in a recorded kernel with these mappings; false if
    /// these don't show where that was.
    pub(crate) fn move_to(&mut self, recorded: &[Mapping]) -> bool {
        let Some((kernel, symbol)) = recorded.iter().find_map(|mapping| {
            let symbol = mapping.path.strip_prefix("[kernel.kallsyms]")?;
            (!symbol.is_empty()).then_some((mapping, symbol))
        }) else {
            return false;
        };
        // The offset of this mapping is where the symbol in its name was.
        let is_it = |entry: &&KernelSymbol| self.name_of(entry) == symbol;
        let here = self.entries.iter().find(is_it).copied();
        if let Some(here) = here {
            self.shift = kernel.file_offset.wrapping_sub(here.address);
        }
        let modules = recorded.iter().map(|mapping| ModuleRange {
            start: mapping.start,
            end: mapping.end,
            name: module_name(&mapping.path),
        });
        self.modules = Some(modules.collect());
        here.is_some()
    }

    /// Whether a module was at an address of a recorded kernel.
    fn was_at(&self, module: &str, address: u64) -> bool {
        let Some(modules) = &self.modules else {
            return true;
        };
        self.shift == 0
            && modules.iter().any(|known| {
                (known.start..known.end).contains(&address) && known.name == module_name(module)
            })
    }

    /// Function and module at an address.
    pub(crate) fn at(&self, address: u64) -> Option<(&str, Option<&str>)> {
        let symbol = self.symbol_at(address)?;
        Some((self.name_of(symbol), self.module_of(symbol)))
    }

    /// Where the function at an address starts.
    pub(crate) fn start_of(&self, address: u64) -> Option<u64> {
        let symbol = self.symbol_at(address)?;
        Some(symbol.address.wrapping_add(self.shift))
    }

    fn symbol_at(&self, recorded: u64) -> Option<&KernelSymbol> {
        let address = recorded.wrapping_sub(self.shift);
        let after = self
            .entries
            .partition_point(|symbol| symbol.address <= address);
        let symbol = &self.entries[after.checked_sub(1)?];
        // Past the last function of a module lies nothing: kernel functions are under 1 MiB.
        let is_near = address - symbol.address < 1 << 20;
        let module = self.module_of(symbol);
        let is_there = module.is_none_or(|module| self.was_at(module, recorded));
        (is_near && is_there).then_some(symbol)
    }
}

/// `nf_tables` for `[nf_tables]` and `/lib/modules/6.18/kernel/net/nf-tables.ko.xz`.
fn module_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.split(".ko").next().unwrap_or(name);
    name.trim_matches(['[', ']']).replace('-', "_")
}

/// The function in a line of the text, if it is one.
fn parse(text: &str, line: Range<usize>) -> Option<KernelSymbol> {
    let bytes = &text.as_bytes()[line.clone()];
    let space = memchr::memchr(b' ', bytes)?;
    // A kernel may list its variables too.
    if !matches!(bytes.get(space + 1)?, b't' | b'T' | b'w' | b'W' | b'i') {
        return None;
    }
    let address = hexadecimal(&bytes[..space]).filter(|address| *address != 0)?;
    let name = space + 3;
    let name_bytes = bytes.get(name..).filter(|_| bytes[space + 2] == b' ')?;
    let length = memchr::memchr3(b'\t', b' ', b'\r', name_bytes).unwrap_or(name_bytes.len());
    let at = |inside: usize| u32::try_from(line.start + inside).ok();
    (length > 0).then_some(())?;
    Some(KernelSymbol {
        address,
        name: at(name)?,
        name_end: at(name + length)?,
        line_end: at(bytes.len())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_modules_are_found() {
        let text = "ffffffff81000000 T _stext\nffffffff81000100 t do_syscall_64\n\
                    ffffffff82000000 D data\nffffffffc0000000 t nf_hook\t[nf_tables]\n";
        let symbols = KernelSymbols::read(Box::new(text.as_bytes()));
        assert_eq!(
            symbols.at(0xffff_ffff_8100_0142),
            Some(("do_syscall_64", None))
        );
        assert_eq!(
            symbols.at(0xffff_ffff_c000_0001),
            Some(("nf_hook", Some("nf_tables")))
        );
        assert_eq!(symbols.at(0xffff_ffff_80ff_ffff), None);
        assert!(!symbols.is_hidden);
    }

    #[test]
    fn functions_are_where_the_recorded_kernel_had_them() {
        let text = "ffffffff81000000 T _text\nffffffff81000100 t do_syscall_64\n\
                    ffffffffc0000000 t nf_hook\t[nf_tables]\n";
        let mapping = |path: &str, start: u64, file_offset: u64| Mapping {
            pid: Mapping::KERNEL_PID,
            start,
            end: start + 0x1000,
            file_offset,
            path: path.to_owned(),
            file: Default::default(),
            time: 0,
        };
        let moved = 0xffff_ffff_a200_0000;
        let mut symbols = KernelSymbols::read(Box::new(text.as_bytes()));
        symbols.move_to(&[mapping("[kernel.kallsyms]_text", moved, moved)]);
        assert_eq!(symbols.at(moved + 0x142), Some(("do_syscall_64", None)));
        assert_eq!(symbols.at(0xffff_ffff_c000_0001), None);
        // The same boot: a module has a name only where the recording saw it.
        let same = mapping(
            "[kernel.kallsyms]_text",
            0xffff_ffff_8100_0000,
            0xffff_ffff_8100_0000,
        );
        let module = mapping("/lib/modules/6/nf-tables.ko.xz", 0xffff_ffff_c000_0000, 0);
        let mut symbols = KernelSymbols::read(Box::new(text.as_bytes()));
        symbols.move_to(std::slice::from_ref(&same));
        assert_eq!(symbols.at(0xffff_ffff_c000_0001), None);
        symbols.move_to(&[same, module]);
        assert_eq!(
            symbols.at(0xffff_ffff_c000_0001),
            Some(("nf_hook", Some("nf_tables")))
        );
    }

    #[test]
    fn a_copy_is_sure_of_the_kernel_itself_only() {
        let start = 0xffff_ffff_8100_0000;
        let text = "ffffffff81000000 T _text\nffffffff81000100 t f\nffffffff81000800 T _etext\n\
                    ffffffff81000900 t late\t[late]\n";
        let mapping = |path: &str, start: u64| Mapping {
            pid: Mapping::KERNEL_PID,
            start,
            end: start + 0x200,
            file_offset: start,
            path: path.to_owned(),
            file: Default::default(),
            time: 0,
        };
        let mut symbols = KernelSymbols::read(Box::new(text.as_bytes())).without_modules();
        assert!(!symbols.move_to(&[]));
        assert!(!symbols.move_to(&[mapping("[kernel.kallsyms]_other", start)]));
        let kernel = mapping("[kernel.kallsyms]_text", start);
        assert!(symbols.move_to(&[kernel, mapping("[early]", start + 0x400)]));
        assert!(symbols.is_sure_of(start + 0x142));
        assert!(!symbols.is_sure_of(start + 0x442));
        assert!(!symbols.is_sure_of(start + 0x901));
        assert!(!symbols.is_sure_of(start - 1));
    }

    #[test]
    fn hidden_addresses_are_noticed() {
        let text = "0000000000000000 T _stext\n0000000000000000 t f\n";
        assert!(KernelSymbols::read(Box::new(text.as_bytes())).is_hidden);
    }
}
