use super::*;
use crate::v8::stand_in::{Words, with_heap};

const BASE: u64 = 0x20_0000;
const SIZE: usize = 3 << 12;
/// Where the instructions of jump table, first and second function start.
const CODE: [u64; 3] = [0x7000_0000, 0x7000_0040, 0x7000_00a0];

/// A process with one module: `helper` and an exported function without a name, after one
/// import. Nothing in it is where any V8 has it.
#[derive(Clone)]
struct Fake {
    memory: Words,
}

const INSTANCE: u64 = BASE + 0x200;
const SCRIPT: u64 = BASE + 0x400;
const HOLDER: u64 = BASE + 0x500;
const NATIVE: u64 = BASE + 0x600;
const CODES: u64 = BASE + 0x1000;
const TABLE: u64 = BASE + 0x1800;
const WIRE: u64 = BASE + 0x2000;

impl Fake {
    fn new() -> Self {
        let mut fake = Self {
            memory: Words::new(BASE, SIZE),
        };
        let (module, foreign, url) = (BASE + 0x380, BASE + 0x3c0, BASE + 0x3e0);
        fake.memory.object(INSTANCE, 2154);
        fake.memory.object(module, 2156);
        fake.memory.object(SCRIPT, 167);
        fake.memory.object(foreign, 70);
        fake.memory.object(url, 40);
        fake.put(INSTANCE + 0x50, module | 1);
        fake.put(module + 0x18, SCRIPT | 1);
        fake.put(SCRIPT + 16, url | 1);
        fake.put(SCRIPT + 48, 3 << 32);
        fake.put(SCRIPT + 80, foreign | 1);
        fake.put(url + 8, 8 << 32);
        fake.put_bytes(url + 16, b"wasm://a");
        fake.put(foreign + 8, HOLDER);
        fake.put(HOLDER + 32, HOLDER + 0x80);
        fake.put(HOLDER + 0x80, NATIVE);
        fake.put(NATIVE + 0x58, HOLDER + 0xa0);
        fake.put(HOLDER + 0xa0, WIRE);
        fake.put(HOLDER + 0xa8, wire().len() as u64);
        fake.put_bytes(WIRE, &wire());
        // The jump table is held directly, the functions in the table.
        fake.put(NATIVE + 0x70, CODES);
        fake.put(NATIVE + 0x90, TABLE);
        for (position, start) in CODE.into_iter().enumerate() {
            let code = CODES + position as u64 * 0x100;
            fake.put(code, NATIVE);
            fake.put(code + 8, start);
            let size = [0x40, 0x60, 0x80][position];
            fake.put(code + 40, size | ((position as u64).wrapping_sub(1) << 32));
            // Its number is 1 or 2: one function is imported.
            let index = [-1i32, 1, 2][position];
            fake.put(code + 48, u64::from(index as u32));
            fake.put(code + 56, [3, 4, 8][position]);
            if position > 0 {
                fake.put(TABLE + (position as u64 - 1) * 8, code);
            }
        }
        fake
    }

    fn put(&mut self, address: u64, word: u64) {
        self.memory.put(address, word);
    }

    fn put_bytes(&mut self, address: u64, bytes: &[u8]) {
        self.memory.put_bytes(address, bytes);
    }

    /// What is found at an address: name, url and tier; none when nothing is.
    fn find(&self, wasm: &mut Wasm, address: u64) -> Option<(String, String, Tier)> {
        let mut functions = Functions::default();
        wasm.start_batch();
        let found = with_heap(&self.memory, |heap| {
            wasm.find(heap, &mut functions, address, Some(INSTANCE | 1))
        })?;
        let facts = functions.get(found.function?);
        Some((facts.name.to_string(), facts.url.to_string(), found.tier))
    }
}

/// A module with an import, two functions, an export of the second and a name for the first.
fn wire() -> Vec<u8> {
    let mut bytes = MODULE_START.to_vec();
    bytes.extend(b"\x02\x07\x01\x01e\x01f\x00\x00");
    bytes.extend(b"\x03\x03\x02\x00\x00");
    bytes.extend(b"\x07\x07\x01\x03run\x00\x02");
    bytes.extend(b"\x00\x10\x04name\x01\x09\x01\x01\x06helper");
    bytes
}

#[test]
fn where_things_are_is_learned_from_what_fits_together() {
    let fake = Fake::new();
    let mut wasm = Wasm::default();
    let found = |name: &str, tier| Some((name.to_owned(), "wasm://a".to_owned(), tier));
    let helper = found("helper", Tier::Baseline);
    assert_eq!(fake.find(&mut wasm, CODE[1] + 3), helper);
    let offsets = CodeOffsets {
        table: 0x90,
        index: 48,
        size: 40,
        tier: Some((56, 2)),
    };
    assert_eq!(wasm.offsets.unwrap().code, offsets);
    let run = found("run", Tier::Optimized);
    assert_eq!(fake.find(&mut wasm, CODE[2] + 0x7f), run);
    assert_eq!(fake.find(&mut wasm, CODE[2] + 0x80), None);
    // A jump table is code without a function.
    assert_eq!(fake.find(&mut wasm, CODE[0] + 1), None);
}

#[test]
fn code_that_is_gone_is_not_believed_again() {
    let mut fake = Fake::new();
    let mut wasm = Wasm::default();
    assert!(fake.find(&mut wasm, CODE[1]).is_some());
    fake.put(CODES + 0x100, 0);
    fake.put(TABLE, 0);
    assert_eq!(fake.find(&mut wasm, CODE[1]), None);
}

#[test]
fn budgets_that_were_used_up_fill_again() {
    let fake = Fake::new();
    let mut wasm = Wasm {
        bytes_left: 0,
        attempts: ATTEMPT_LIMIT,
        ..Default::default()
    };
    assert_eq!(fake.find(&mut wasm, CODE[1]), None);
    let found = (0..2 * BATCHES_PER_ATTEMPT).find_map(|_| fake.find(&mut wasm, CODE[1]));
    assert!(found.is_some());
}

#[test]
fn no_damage_makes_it_panic() {
    let whole = Fake::new();
    for at in (0..SIZE as u64).step_by(8) {
        let old = whole.memory.bytes[at as usize..at as usize + 8].try_into();
        let old = u64::from_ne_bytes(old.expect("eight bytes"));
        if old == 0 {
            continue;
        }
        for new in [0, u64::MAX, old ^ 1 << 40, NATIVE, (BASE + at) | 1] {
            let mut fake = whole.clone();
            fake.put(BASE + at, new);
            let mut wasm = Wasm::default();
            for address in CODE {
                fake.find(&mut wasm, address + 1);
            }
        }
    }
}
