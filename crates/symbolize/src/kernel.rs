//! Names of kernel addresses, from `/proc/kallsyms`.
//!
//! A recording of another boot has the same functions at other addresses, all moved by as much;
//! where its modules were is told by the recording alone.

use std::io::{BufRead, BufReader, Read};

use nodespy_model::Mapping;

/// No more of a symbol table is read than this (Linux 6.18 has 12 MB with all modules).
const TABLE_LIMIT_BYTES: u64 = 256 << 20;

/// The kernel's functions.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    entries: Vec<KernelSymbol>,
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

#[derive(Debug, Clone, PartialEq, Eq)]
struct KernelSymbol {
    address: u64,
    name: Box<str>,
    module: Option<Box<str>>,
}

impl KernelSymbols {
    /// Reads lines of `address type name [module]`.
    pub(crate) fn read(input: Box<dyn Read>) -> Self {
        let mut symbols = Self::default();
        let mut reader = BufReader::with_capacity(1 << 18, input.take(TABLE_LIMIT_BYTES));
        let mut line = Vec::new();
        let mut seen = 0usize;
        loop {
            line.clear();
            match reader.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let Ok(text) = std::str::from_utf8(&line) else {
                continue;
            };
            seen += 1;
            if let Some(symbol) = parse(text) {
                symbols.entries.push(symbol);
            }
        }
        symbols.entries.sort_by_key(|symbol| symbol.address);
        symbols.is_hidden = seen > 0 && symbols.entries.is_empty();
        symbols
    }

    /// Moves the functions to where they were in a recorded kernel with these mappings.
    pub(crate) fn move_to(&mut self, recorded: &[Mapping]) {
        let Some((kernel, symbol)) = recorded.iter().find_map(|mapping| {
            let symbol = mapping.path.strip_prefix("[kernel.kallsyms]")?;
            (!symbol.is_empty()).then_some((mapping, symbol))
        }) else {
            return;
        };
        // The offset of this mapping is where the symbol in its name was.
        let here = self.entries.iter().find(|entry| &*entry.name == symbol);
        if let Some(here) = here {
            self.shift = kernel.file_offset.wrapping_sub(here.address);
        }
        let modules = recorded.iter().map(|mapping| ModuleRange {
            start: mapping.start,
            end: mapping.end,
            name: module_name(&mapping.path),
        });
        self.modules = Some(modules.collect());
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
        let recorded = address;
        let address = address.wrapping_sub(self.shift);
        let after = self
            .entries
            .partition_point(|symbol| symbol.address <= address);
        let symbol = &self.entries[after.checked_sub(1)?];
        // Past the last function of a module lies nothing: kernel functions are under 1 MiB.
        let is_near = address - symbol.address < 1 << 20;
        let module = symbol.module.as_deref();
        let is_there = module.is_none_or(|module| self.was_at(module, recorded));
        (is_near && is_there).then_some((&*symbol.name, module))
    }
}

/// `nf_tables` for `[nf_tables]` and `/lib/modules/6.18/kernel/net/nf-tables.ko.xz`.
fn module_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.split(".ko").next().unwrap_or(name);
    name.trim_matches(['[', ']']).replace('-', "_")
}

fn parse(line: &str) -> Option<KernelSymbol> {
    let mut words = line.split_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let name = words.next()?;
    let module = words
        .next()
        .and_then(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let is_code = matches!(kind, "t" | "T" | "w" | "W" | "i");
    (is_code && address != 0).then(|| KernelSymbol {
        address,
        name: name.into(),
        module: module.map(Into::into),
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
    fn hidden_addresses_are_noticed() {
        let text = "0000000000000000 T _stext\n0000000000000000 t f\n";
        assert!(KernelSymbols::read(Box::new(text.as_bytes())).is_hidden);
    }
}
