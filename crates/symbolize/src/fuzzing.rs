//! Each byte parser of this crate on any bytes: what `fuzz/` and the short version below feed.

use nodespy_model::{ImageBytes, JitFileKind};

use crate::elf::{Elf, Symbols, data_symbols};
use crate::image_budget::ImageBudget;
use crate::kernel::KernelSymbols;
use crate::unwind::cfi::Cfi;

/// Reads a perf map.
pub fn perf_map(bytes: &[u8]) {
    crate::jit::read_any(JitFileKind::PerfMap, bytes);
}

/// Reads a jitdump.
pub fn jitdump(bytes: &[u8]) {
    crate::jit::read_any(JitFileKind::Jitdump, bytes);
}

/// Reads an ELF file: its head, symbols, and the unwind rules of some addresses.
pub fn elf(bytes: &[u8]) {
    let mut image = ImageBytes::Memory(bytes.to_vec());
    let budget = ImageBudget::default();
    let symbols = Symbols::read(&mut image, &budget.tables);
    data_symbols(&mut image, |_| true);
    let Some(elf) = Elf::read(&mut image) else {
        return;
    };
    let mut cfi = Elf::read_unwind(&mut image, &budget.tables).map(Cfi::new);
    for address in (0..0x20_000).step_by(997) {
        let _ = symbols.at(address).and_then(|symbol| symbols.name(symbol));
        elf.address_of_offset(address);
        elf.offset_of_address(address);
        if let Some(cfi) = &mut cfi {
            cfi.rule_at(address);
            let registers = nodespy_model::Registers([address; 17]);
            cfi.evaluate(address, &registers, None, &mut |at| Some(at ^ address));
        }
    }
}

/// Reads the names of a WebAssembly module.
pub fn wasm_names(bytes: &[u8]) {
    crate::v8::parse_any_wasm(bytes);
}

/// Walks JavaScript frames of a heap with these words changed.
#[cfg(any(test, feature = "fuzzing"))]
pub fn heap(changes: &[u8]) {
    crate::v8::hostile::walk_damaged(changes);
}

/// Reads a source map.
pub fn source_map(bytes: &[u8]) {
    crate::source_map::read_any(&String::from_utf8_lossy(bytes));
}

/// Reads the notes of probes.
pub fn usdt_notes(bytes: &[u8]) {
    crate::usdt::read_any(bytes);
}

/// Reads a Go program's table of functions.
pub fn go_functions(bytes: &[u8]) {
    crate::go_functions::read_any(bytes);
}

/// Reads the debug information of an ELF file, and the functions inlined at some addresses.
pub fn dwarf_inlines(bytes: &[u8]) {
    crate::inlines::read_any(bytes);
}

/// Reads the kernel's symbol table.
pub fn kallsyms(bytes: &[u8]) {
    let symbols = KernelSymbols::read(Box::new(std::io::Cursor::new(bytes.to_vec())));
    symbols.at(0xffff_ffff_8100_0000);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `rounds` damaged copies of `whole`: flipped bits, cut ends, repeated chunks.
    fn damage(whole: &[u8], rounds: u64, feed: impl Fn(&[u8])) {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below.max(1) as u64) as usize
        };
        feed(whole);
        for round in 0..rounds {
            let mut bytes = whole.to_vec();
            for _ in 0..=round % 8 {
                // The head of a file is where lengths and offsets are.
                let reach = if round % 2 == 0 { 256 } else { bytes.len() };
                let at = random(reach.min(bytes.len()));
                bytes[at] ^= 1 << random(8);
            }
            if round % 5 == 0 {
                bytes.truncate(random(whole.len()));
            }
            if round % 7 == 0 {
                let chunk = bytes[random(bytes.len())..].to_vec();
                bytes.extend_from_slice(&chunk[..chunk.len().min(512)]);
            }
            feed(&bytes);
        }
    }

    #[test]
    fn a_heap_that_lies_is_walked_without_a_crash() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..4000usize {
            let changes: Vec<u8> = std::iter::repeat_with(|| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .take(10 * (round % 200))
            .collect();
            heap(&changes);
        }
    }

    #[test]
    fn damaged_text_and_dumps_are_read_without_a_crash() {
        let map = b"1000 100 JS:*f /a.js:1:2\n2000 80 RegExp:a\nb\n7fff00000000 ff Builtin:X\n";
        damage(map, 4000, perf_map);
        let table = b"ffffffff81000000 T _stext\nffffffffc0000000 t nf_hook\t[nf_tables]\n";
        damage(table, 4000, kallsyms);
        let mut dump = 0x4a69_5444u32.to_ne_bytes().to_vec();
        dump.extend_from_slice(&[1, 0, 0, 0, 40, 0, 0, 0]);
        dump.resize(40, 0);
        for kind in [2u8, 0, 1, 3] {
            dump.extend_from_slice(&[kind, 0, 0, 0, 96, 0, 0, 0]);
            dump.extend(std::iter::repeat_n(kind + 1, 88));
        }
        damage(&dump, 4000, jitdump);
    }

    #[test]
    fn damaged_source_maps_are_read_without_a_crash() {
        let fixtures = "../../fixtures/source_map";
        for name in ["esbuild.map", "terser.map", "sections.map"] {
            let whole = std::fs::read(format!("{fixtures}/{name}")).unwrap();
            damage(&whole, 4000, source_map);
        }
    }

    #[test]
    fn damaged_binaries_are_read_without_a_crash() {
        // A small real file that every machine has.
        let whole = std::fs::read("/bin/true").expect("every Linux has it");
        damage(&whole, 1500, elf);
    }
}
