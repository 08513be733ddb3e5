//! Files that name code, of any size.

use std::fmt::Write;

fn lines(count: usize, line: impl Fn(usize) -> String) -> Vec<u8> {
    (0..count).map(line).collect::<String>().into_bytes()
}

pub(crate) fn perf_map(count: usize) -> Vec<u8> {
    lines(count, |number| {
        format!(
            "{:x} 40 JS:*f{number} /app/a.js:{number}:1\n",
            0x1000 + number * 64
        )
    })
}

pub(crate) fn perf_map_of_one_place(count: usize) -> Vec<u8> {
    lines(count, |number| {
        format!("1000 40 JS:*f{number} /app/a.js:{number}:1\n")
    })
}

pub(crate) fn perf_map_nested(count: usize) -> Vec<u8> {
    lines(count, |number| {
        let (start, size) = (0x1000 + number, 0x10_0000 - 2 * number);
        format!("{start:x} {size:x} JS:*f{number} /app/a.js:{number}:1\n")
    })
}

fn words(bytes: &mut Vec<u8>, words: &[u64]) {
    words
        .iter()
        .for_each(|word| bytes.extend(word.to_le_bytes()));
}

fn jit_record(bytes: &mut Vec<u8>, kind: u32, time: u64, body: &[u8]) {
    bytes.extend(kind.to_le_bytes());
    bytes.extend((16 + body.len() as u32).to_le_bytes());
    words(bytes, &[time]);
    bytes.extend_from_slice(body);
}

fn jit_load(bytes: &mut Vec<u8>, number: u64) {
    let start = 0x1000 + number * 64;
    let mut body = 7u64.to_le_bytes().to_vec();
    words(&mut body, &[start, start, 8, number]);
    body.extend(format!("JS:*f{number} /a.js:1:1\0").bytes());
    body.extend([0x90; 8]);
    jit_record(bytes, 0, number, &body);
}

fn jit_head() -> Vec<u8> {
    let mut bytes = 0x4a69_5444u32.to_le_bytes().to_vec();
    bytes.extend([1, 0, 0, 0, 40, 0, 0, 0]);
    bytes.resize(40, 0);
    bytes
}

pub(crate) fn jitdump_loads(count: usize) -> Vec<u8> {
    let mut bytes = jit_head();
    (0..count as u64).for_each(|number| jit_load(&mut bytes, number));
    bytes
}

/// One function that moves on and on.
pub(crate) fn jitdump_moves(count: usize) -> Vec<u8> {
    let mut bytes = jit_head();
    jit_load(&mut bytes, 0);
    for number in 0..count as u64 {
        jit_move(&mut bytes, 1 + number, 0x1000 + number * 64);
    }
    bytes
}

/// The same to and from an address that was seen, under a name that grows too.
pub(crate) fn jitdump_moves_of_a_long_name(count: usize) -> Vec<u8> {
    let mut bytes = jit_head();
    let mut body = 7u64.to_le_bytes().to_vec();
    words(&mut body, &[0x1000, 0x1000, 8, 0]);
    body.resize(body.len() + count * 8, b'x');
    body.extend([0; 9]);
    jit_record(&mut bytes, 0, 0, &body);
    for number in 0..count as u64 {
        jit_move(&mut bytes, 1 + number, 0x1000 + number % 2 * 64);
    }
    bytes
}

fn jit_move(bytes: &mut Vec<u8>, time: u64, start: u64) {
    let mut body = 7u64.to_le_bytes().to_vec();
    words(&mut body, &[start, start, start + 64, 8, 0]);
    jit_record(bytes, 1, time, &body);
}

/// An ELF file with a table of symbols, each the start of its name in `names` and an address.
fn elf(symbols: &[(u32, u64)], names: &[u8]) -> Vec<u8> {
    let section_names = b"\0.symtab\0.strtab\0.shstrtab\0";
    let mut body = vec![0; 64];
    let mut place = |bytes: &[u8]| {
        let start = body.len() as u64;
        body.extend_from_slice(bytes);
        body.resize(body.len().next_multiple_of(8), 0);
        (start, bytes.len() as u64)
    };
    let mut table = vec![0; 24];
    for (name, address) in symbols {
        table.extend(name.to_le_bytes());
        // A global object of the first section.
        table.extend([0x11, 0, 1, 0]);
        words(&mut table, &[*address, 8]);
    }
    let sections = [
        (1u32, 2u32, place(&table)),
        (9, 3, place(names)),
        (17, 3, place(section_names)),
    ];
    let headers_at = body.len() as u64;
    body.extend([0; 64]);
    for (name, kind, (start, size)) in sections {
        body.extend([name, kind].map(u32::to_le_bytes).concat());
        words(&mut body, &[0, 0, start, size]);
        // The table's names are in the second section.
        body.extend([2u32, 1].map(u32::to_le_bytes).concat());
        words(&mut body, &[8, if kind == 2 { 24 } else { 0 }]);
    }
    let mut head = b"\x7fELF\x02\x01\x01".to_vec();
    head.resize(16, 0);
    head.extend([3u16, 62].map(u16::to_le_bytes).concat());
    head.extend(1u32.to_le_bytes());
    words(&mut head, &[0, 0, headers_at]);
    head.extend(0u32.to_le_bytes());
    head.extend([64u16, 56, 0, 64, 4, 3].map(u16::to_le_bytes).concat());
    body[..64].copy_from_slice(&head);
    body
}

pub(crate) fn elf_symbols(count: usize) -> Vec<u8> {
    let mut names = vec![0];
    let symbols: Vec<(u32, u64)> = (0..count)
        .map(|number| {
            let start = names.len() as u32;
            names.extend(format!("f{number}\0").bytes());
            (start, 0x1000 + number as u64 * 8)
        })
        .collect();
    elf(&symbols, &names)
}

/// Every symbol is called by all that is left of a text without an end.
pub(crate) fn elf_one_endless_name(count: usize) -> Vec<u8> {
    let symbols: Vec<(u32, u64)> = (0..count)
        .map(|number| (1 + number as u32 % 8, 0x1000 + number as u64 * 8))
        .collect();
    elf(&symbols, &vec![b'x'; count * 24])
}

pub(crate) fn source_map(count: usize) -> Vec<u8> {
    let mappings: Vec<&str> = (0..count)
        .map(|number| if number % 3 == 0 { "AAAA" } else { "CAACA" })
        .collect();
    format!(
        "{{\"version\":3,\"sources\":[\"a.ts\"],\"names\":[\"f\"],\"mappings\":\"{}\"}}",
        mappings.join(",")
    )
    .into_bytes()
}

pub(crate) fn source_map_sections(count: usize) -> Vec<u8> {
    let mut text = "{\"version\":3,\"sections\":[".to_owned();
    for line in 0..count {
        let comma = if line == 0 { "" } else { "," };
        write!(
            text,
            "{comma}{{\"offset\":{{\"line\":{line},\"column\":0}},\"map\":{{\"version\":3,\"sources\":[\"a{line}.ts\"],\
             \"names\":[],\"mappings\":\"AAAA\"}}}}"
        )
        .unwrap();
    }
    text.push_str("]}");
    text.into_bytes()
}

pub(crate) fn kallsyms(count: usize) -> Vec<u8> {
    lines(count, |number| {
        format!(
            "{:016x} T f{number}\n",
            0xffff_ffff_8100_0000u64 + number as u64 * 16
        )
    })
}

fn leb128(bytes: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A module with nothing but a section of names.
pub(crate) fn wasm_names(count: usize) -> Vec<u8> {
    let mut names = Vec::new();
    leb128(&mut names, count);
    for number in 0..count {
        let name = format!("function_{number}");
        leb128(&mut names, number);
        leb128(&mut names, name.len());
        names.extend(name.bytes());
    }
    let mut section = b"\x04name\x01".to_vec();
    leb128(&mut section, names.len());
    section.extend(names);
    let mut module = b"\0asm\x01\0\0\0\0".to_vec();
    leb128(&mut module, section.len());
    module.extend(section);
    module
}

/// A table of functions that all have the same name, the longest that is read.
pub(crate) fn go_functions(count: usize) -> Vec<u8> {
    let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    let names_at = 72;
    let name = "x".repeat(400) + "\0";
    let functions_at = names_at + name.len();
    words(
        &mut table,
        &[
            count as u64,
            0,
            0,
            names_at as u64,
            0,
            0,
            0,
            functions_at as u64,
        ],
    );
    table.extend(name.bytes());
    let rows_bytes = (count + 1) * 8;
    for number in 0..=count {
        table.extend((number as u32 * 16).to_le_bytes());
        table.extend((rows_bytes as u32).to_le_bytes());
    }
    table.extend([0; 8]);
    table
}
