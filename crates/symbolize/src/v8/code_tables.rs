//! The tables of compiled code: the functions that were compiled into it, its bytecode, and where in
//! their source an instruction came from.

use std::cell::RefCell;

use nodespy_model::FastMap;

use super::code::{Code, CodeKind};
use super::heap::{Heap, small_integer};
use super::layout::PositionEncoding;
use super::maglev::{Function, Maglev, safepoints_length};
use super::positions::{SourcePosition, bytecode_offset_at, position_at};

/// Tables larger than this are not read.
const TABLE_LIMIT_BYTES: i64 = 16 << 20;
/// How many words of exits are read of Maglev's code, and how many functions inlined into it.
const EXIT_LIMIT: usize = 1 << 16;
const INLINED_LIMIT: usize = 1024;
/// How deep functions may be inlined into one another (V8 stops at far less).
const INLINING_LIMIT: usize = 64;
/// How many positions of a code object are remembered.
const ASKED_LIMIT: usize = 1024;

/// What has been read of a code's tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) positions: Vec<u8>,
    pub(super) inlining: Vec<u8>,
    /// Of baseline code: the bytecodes and where they came from.
    pub(super) bytecodes: Vec<u8>,
    pub(super) bytecode_positions: Vec<u8>,
    /// Of Maglev's code: what its positions don't tell.
    pub(super) maglev: Option<Maglev>,
    /// Positions that were asked for, by the offset of their instruction: a table is read from its start, and callers are
    /// asked for again in each batch.
    pub(super) asked: RefCell<FastMap<u64, Option<SourcePosition>>>,
}

impl Tables {
    /// Where an instruction of optimized code came from.
    pub(super) fn position(
        &self,
        offset: u64,
        encoding: PositionEncoding,
    ) -> Option<SourcePosition> {
        let mut asked = self.asked.borrow_mut();
        if asked.len() >= ASKED_LIMIT {
            asked.clear();
        }
        *asked.entry(offset).or_insert_with(|| {
            let known = position_at(&self.positions, offset, encoding)?;
            Some(match &self.maglev {
                Some(maglev) => maglev.place(known, offset, &self.positions, encoding),
                None => known,
            })
        })
    }
}

/// A function at a place of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its `SharedFunctionInfo`.
    pub(super) shared: u64,
    /// Where in its script it was; none when not known.
    pub(super) offset: Option<u32>,
    pub(super) is_inlined: bool,
}

/// The `SharedFunctionInfo` a code object was compiled from.
pub(super) fn code_function(heap: &mut Heap<'_>, code: &Code) -> Option<u64> {
    if !matches!(code.kind, CodeKind::Maglev | CodeKind::Turbofan) {
        return None;
    }
    let index = heap.layout.deopt_function;
    let object = element(heap, code.deopt, index)?;
    unwrap_shared(heap, object)
}

/// The `BytecodeArray` of baseline code.
pub(super) fn baseline_bytecode(heap: &mut Heap<'_>, code: &Code) -> Option<u64> {
    if code.kind != CodeKind::Baseline {
        return None;
    }
    bytecode_of(heap, code.deopt)
}

/// The `BytecodeArray` behind the data of a function: itself, interpreter data or baseline code.
pub(super) fn bytecode_of(heap: &mut Heap<'_>, data: u64) -> Option<u64> {
    let kind = heap.type_of(data)?;
    if kind == heap.layout.type_bytecode_array {
        return Some(data);
    }
    if kind == heap.layout.type_interpreter_data {
        let inner = heap.field(data, 8)?;
        return heap
            .is(inner, heap.layout.type_bytecode_array)
            .then_some(inner);
    }
    if kind == heap.layout.type_code {
        let inner = heap.field(data, heap.layout.code_deopt)?;
        if heap.is(inner, heap.layout.type_interpreter_data) {
            return heap.field(inner, 8);
        }
        return heap
            .is(inner, heap.layout.type_bytecode_array)
            .then_some(inner);
    }
    if heap.layout.has_baseline_data {
        // `BaselineData`: the code, then the bytecode or interpreter data.
        let inner = heap.field(data, 16)?;
        if heap.is(inner, heap.layout.type_interpreter_data) {
            return heap.field(inner, 8);
        }
        return heap
            .is(inner, heap.layout.type_bytecode_array)
            .then_some(inner);
    }
    None
}

fn unwrap_shared(heap: &mut Heap<'_>, object: u64) -> Option<u64> {
    let object = object & !2;
    let kind = heap.type_of(object)?;
    if kind == heap.layout.type_shared {
        return Some(object);
    }
    if Some(kind) == heap.layout.type_shared_wrapper {
        let inner = heap.field(object, 8)?;
        return heap.is(inner, heap.layout.type_shared).then_some(inner);
    }
    None
}

pub(super) fn read_tables(heap: &mut Heap<'_>, code: &Code) -> Tables {
    let mut tables = Tables {
        positions: byte_array(heap, code.positions).unwrap_or_default(),
        ..Default::default()
    };
    match code.kind {
        CodeKind::Maglev | CodeKind::Turbofan => {
            let index = heap.layout.deopt_inlining;
            tables.inlining = element(heap, code.deopt, index)
                .and_then(|array| byte_array(heap, array))
                .unwrap_or_default();
            if code.kind == CodeKind::Maglev {
                tables.maglev = read_maglev(heap, code, &tables.inlining);
            }
        }
        CodeKind::Baseline => {
            if let Some(bytecode) = baseline_bytecode(heap, code) {
                tables.bytecodes = bytecodes(heap, bytecode).unwrap_or_default();
                tables.bytecode_positions = bytecode_positions(heap, bytecode).unwrap_or_default();
            }
        }
        CodeKind::RegExp | CodeKind::Other => {}
    }
    tables
}

/// Reads where Maglev's code can be left, and the loops of the functions in it.
fn read_maglev(heap: &mut Heap<'_>, code: &Code, inlining: &[u8]) -> Option<Maglev> {
    // The offset of the first exit, how many there are of either kind, and the exits.
    let first = heap.layout.deopt_inlining + 1;
    let mut exits = Vec::new();
    while exits.len() < EXIT_LIMIT
        && let Some(word) = element(heap, code.deopt, first + exits.len() as u64)
    {
        exits.push(small_integer(word)?);
    }
    let length = i64::try_from(code.end - code.start).ok()?;
    let instructions = bounded(heap, code.start, length)?;
    let header = bounded(heap, code.end, 16)?;
    let safepoints = bounded(heap, code.end, safepoints_length(&header)? as i64)?;
    let shared = code_function(heap, code)?;
    let mut functions = vec![function_loops(heap, Some(shared))];
    for entry in inlining.chunks_exact(16).take(INLINED_LIMIT) {
        let shared = inlined_function(heap, code, entry);
        functions.push(function_loops(heap, shared));
    }
    Some(Maglev::new(&exits, &instructions, &safepoints, functions))
}

fn function_loops(heap: &mut Heap<'_>, shared: Option<u64>) -> Function {
    let found = shared
        .and_then(|shared| heap.field(shared, heap.layout.shared_data))
        .and_then(|data| bytecode_of(heap, data))
        .and_then(|array| Some((bytecodes(heap, array)?, bytecode_positions(heap, array)?)));
    let Some((bytecodes, positions)) = found else {
        return Function::default();
    };
    let layout = heap.layout;
    let size_of = |bytes: &[u8]| bytecode_size(&layout.bytecode_sizes, bytes);
    Function::new(
        &bytecodes,
        positions,
        layout.positions,
        layout.bytecode_loop,
        size_of,
    )
}

/// The places of an instruction of optimized code.
pub(super) fn inlined_places(
    heap: &mut Heap<'_>,
    code: &Code,
    tables: &Tables,
    position: Option<SourcePosition>,
    shared: u64,
) -> Vec<Place> {
    let mut places = Vec::new();
    let mut position = position;
    while let Some(current) = position
        && current.inlining != 0
        && places.len() < INLINING_LIMIT
    {
        let at = (current.inlining as usize - 1) * 16;
        let Some(entry) = tables.inlining.get(at..at + 16) else {
            break;
        };
        let caller = u64::from_ne_bytes(entry[..8].try_into().expect("eight bytes"));
        if let Some(inlined) = inlined_function(heap, code, entry) {
            places.push(Place {
                shared: inlined,
                offset: Some(current.offset),
                is_inlined: true,
            });
        }
        // A caller's id is always lower: V8 adds inlinings from the outside in.
        position = SourcePosition::unpack(caller).filter(|next| next.inlining < current.inlining);
    }
    places.push(Place {
        shared,
        offset: position
            .filter(|position| position.inlining == 0)
            .map(|position| position.offset),
        is_inlined: false,
    });
    places
}

/// The function of an entry of the table of inlined functions.
fn inlined_function(heap: &mut Heap<'_>, code: &Code, entry: &[u8]) -> Option<u64> {
    let index = i32::from_ne_bytes(entry.get(8..12)?.try_into().expect("four bytes"));
    let literals = element(heap, code.deopt, heap.layout.deopt_literals)?;
    let literal = element(heap, literals, u64::try_from(index).ok()?)?;
    unwrap_shared(heap, literal)
}

pub(super) fn baseline_offset(heap: &Heap<'_>, tables: &Tables, offset: u64) -> Option<u32> {
    let sizes = &heap.layout.bytecode_sizes;
    let size_of = |bytes: &[u8]| bytecode_size(sizes, bytes);
    let bytecode = bytecode_offset_at(&tables.positions, offset, &tables.bytecodes, size_of)?;
    position_at(&tables.bytecode_positions, bytecode, heap.layout.positions)
        .map(|position| position.offset)
}

/// How long the first of some bytecodes is, by the table of sizes.
fn bytecode_size(sizes: &[u8], bytes: &[u8]) -> Option<usize> {
    let per_scale = sizes.len() / 3;
    // The first four bytecodes are prefixes that widen the operands of the next one.
    let (scale, prefix) = match bytes.first()? {
        0 | 2 => (1, 1),
        1 | 3 => (2, 1),
        _ => (0, 0),
    };
    let bytecode = usize::from(*bytes.get(prefix)?);
    let size = *sizes.get(scale * per_scale + bytecode)?;
    (size > 0).then_some(prefix + usize::from(size))
}

/// Whether a bytecode array has a bytecode at an offset.
pub(super) fn has_bytecode_at(heap: &mut Heap<'_>, bytecode: u64, offset: u64) -> bool {
    let length = heap.field(bytecode, 8).and_then(small_integer);
    length.is_some_and(|length| i64::try_from(offset).is_ok_and(|offset| offset < length))
}

/// Where in the source the bytecode at an offset came from.
pub(super) fn bytecode_place(heap: &mut Heap<'_>, bytecode: u64, offset: u64) -> Option<u32> {
    let table = bytecode_positions(heap, bytecode)?;
    position_at(&table, offset, heap.layout.positions).map(|position| position.offset)
}

pub(super) fn bytecode_positions(heap: &mut Heap<'_>, bytecode: u64) -> Option<Vec<u8>> {
    let table = heap.field(bytecode, heap.layout.bytecode_positions)?;
    byte_array(heap, table)
}

pub(super) fn bytecodes(heap: &mut Heap<'_>, bytecode: u64) -> Option<Vec<u8>> {
    let length = small_integer(heap.field(bytecode, 8)?)?;
    bounded(heap, (bytecode & !3) + heap.layout.bytecode_data, length)
}

/// An element of an array of tagged words.
pub(super) fn element(heap: &mut Heap<'_>, array: u64, index: u64) -> Option<u64> {
    let length = array_length(heap.field(array, 8)?)?;
    if i64::try_from(index).ok()? >= length {
        return None;
    }
    heap.field(array, index.checked_mul(8)?.checked_add(16)?)
}

/// The bytes of an array of bytes.
fn byte_array(heap: &mut Heap<'_>, array: u64) -> Option<Vec<u8>> {
    let length = array_length(heap.field(array, 8)?)?;
    bounded(heap, (array & !3) + 16, length)
}

/// The length of an array: a small integer, in V8 15 a plain number of 32 bits. The former has nothing in its
/// lower half, the latter nothing in its upper one.
fn array_length(word: u64) -> Option<i64> {
    small_integer(word).or_else(|| u32::try_from(word).ok().map(i64::from))
}

fn bounded(heap: &mut Heap<'_>, address: u64, length: i64) -> Option<Vec<u8>> {
    if !(0..=TABLE_LIMIT_BYTES).contains(&length) {
        return None;
    }
    let mut bytes = vec![0; length as usize];
    heap.read(address, &mut bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_arrays_are_small_integers_or_plain_numbers() {
        assert_eq!(array_length(27 << 32), Some(27));
        assert_eq!(array_length(27), Some(27));
        assert_eq!(array_length(0), Some(0));
        assert_eq!(array_length(27 << 32 | 1), None);
    }
}
