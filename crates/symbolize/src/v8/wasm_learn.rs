//! Where things are in V8's C++ objects of WebAssembly, learned in each process from what must fit
//! together: code points back to its module, its number is its place in the table of code (jump
//! tables have -1), and no code reaches into other code.

use nodespy_model::SmallSort;

use super::heap::Heap;
use super::wasm::{is_code_of, module_bytes, module_words, read_names, table_entries};

/// How many bytes of a `WasmCode` are looked at (the last one needed is the 121st in V8 14.6).
const CODE_BYTES: usize = 160;
/// How many code objects things are learned from.
const LEARNING_LIMIT: usize = 64;

/// Where things are in a `NativeModule` and in a `WasmCode`, which starts with its module and the
/// address of its instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CodeOffsets {
    /// The table of code in the module.
    pub(super) table: u64,
    /// The number of its function in a code object.
    pub(super) index: u64,
    /// The size of its instructions.
    pub(super) size: u64,
    /// The byte with its tier, and how many bits come before it.
    pub(super) tier: Option<(u64, u32)>,
}

/// A code object while things are learned from it.
struct Specimen {
    start: u64,
    bytes: [u8; CODE_BYTES],
}

impl Specimen {
    fn read(heap: &mut Heap<'_>, object: u64) -> Option<Self> {
        let mut bytes = [0; CODE_BYTES];
        let start = heap.word(object + 8)?;
        heap.read(object, &mut bytes)
            .then_some(Self { start, bytes })
    }

    fn integer(&self, at: usize) -> i32 {
        let bytes = self.bytes[at..at + 4].try_into().expect("four bytes");
        i32::from_ne_bytes(bytes)
    }
}

/// Learns where things are from a module, and how many functions it has; none when this is no
/// module, or it has no code yet.
pub(super) fn learn_code(
    heap: &mut Heap<'_>,
    native: u64,
    bytes_left: &mut u64,
) -> Option<(CodeOffsets, u32)> {
    let bytes = module_bytes(heap, native)?;
    let names = read_names(heap, bytes, bytes_left)?;
    let words = module_words(heap, native);
    // Jump tables are held directly; so are other things that know their module.
    let mut held = Vec::new();
    for &word in &words {
        if is_code_of(heap, native, word) {
            held.extend(Specimen::read(heap, word));
        }
    }
    let mut best: Option<(u64, usize, Vec<Specimen>)> = None;
    for (position, &word) in words.iter().enumerate() {
        let Some(entries) = table_entries(heap, native, word, names.declared, LEARNING_LIMIT)
        else {
            continue;
        };
        let specimens: Option<Vec<(i32, Specimen)>> = entries
            .into_iter()
            .map(|(place, object)| {
                let number = i32::try_from(place.checked_add(names.imported)?).ok()?;
                Some((number, Specimen::read(heap, object)?))
            })
            .collect();
        let Some(specimens) = specimens.filter(|specimens| !specimens.is_empty()) else {
            continue;
        };
        let index = integers().find(|&at| {
            held.iter().any(|held| held.integer(at) == -1)
                && specimens
                    .iter()
                    .all(|(number, code)| code.integer(at) == *number)
        });
        if let Some(index) = index
            && best
                .as_ref()
                .is_none_or(|(_, _, known)| known.len() < specimens.len())
        {
            let specimens = specimens.into_iter().map(|(_, code)| code).collect();
            best = Some((position as u64 * 8, index, specimens));
        }
    }
    let (table, index, mut codes) = best?;
    held.retain(|held| held.integer(index) == -1);
    let tier = learn_tier(&held, &codes, heap.layout.wasm_kind_bits);
    codes.append(&mut held);
    let offsets = CodeOffsets {
        table,
        index: index as u64,
        size: learn_size(codes)? as u64,
        tier,
    };
    Some((offsets, names.declared))
}

/// Where in a code object its integers can be.
fn integers() -> impl Iterator<Item = usize> {
    (16..CODE_BYTES - 4).step_by(4)
}

/// The first number that can be the size of every code object without one reaching into the
/// next. Other numbers that can are offsets inside the code and come later.
fn learn_size(mut codes: Vec<Specimen>) -> Option<usize> {
    codes.small_sort_by_key(|code| code.start);
    codes.dedup_by_key(|code| code.start);
    integers().find(|&at| {
        let is_sane = |code: &Specimen| code.integer(at) > 0 && code.integer(at) % 16 == 0;
        codes.iter().all(is_sane)
            && codes.windows(2).all(|pair| {
                pair[0].start.saturating_add(pair[0].integer(at) as u64) <= pair[1].start
            })
    })
}

/// The byte that says what a code object is and, above that, its tier. Jump tables are kind 3,
/// or 4 since V8 kept a further kind (seen in 14.6), and have no tier.
fn learn_tier(jumps: &[Specimen], codes: &[Specimen], kind_bits: u32) -> Option<(u64, u32)> {
    integers().find_map(|at| {
        let kind = jumps.first()?.bytes[at];
        let shift = match kind {
            3 => kind_bits,
            4 => 3,
            _ => return None,
        };
        let fits = jumps.iter().all(|jump| jump.bytes[at] == kind)
            && codes.iter().all(|code| {
                let byte = code.bytes[at];
                byte & ((1 << shift) - 1) == 0 && matches!(byte >> shift & 3, 1 | 2)
            });
        fits.then_some((at as u64, shift))
    })
}
