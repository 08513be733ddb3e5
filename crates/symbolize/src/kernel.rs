//! Names of kernel addresses, from `/proc/kallsyms`.

use std::io::{BufRead, BufReader, Read};

/// No more of a symbol table is read than this (Linux 6.18 has 12 MB with all modules).
const TABLE_LIMIT_BYTES: u64 = 256 << 20;

/// The kernel's functions.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    entries: Vec<KernelSymbol>,
    /// Whether the kernel hides its addresses from us.
    pub(crate) is_hidden: bool,
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

    /// Function and module at an address.
    pub(crate) fn at(&self, address: u64) -> Option<(&str, Option<&str>)> {
        let after = self
            .entries
            .partition_point(|symbol| symbol.address <= address);
        let symbol = &self.entries[after.checked_sub(1)?];
        // Past the last function of a module lies nothing: kernel functions are under 1 MiB.
        (address - symbol.address < 1 << 20).then_some((&*symbol.name, symbol.module.as_deref()))
    }
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
    fn hidden_addresses_are_noticed() {
        let text = "0000000000000000 T _stext\n0000000000000000 t f\n";
        assert!(KernelSymbols::read(Box::new(text.as_bytes())).is_hidden);
    }
}
