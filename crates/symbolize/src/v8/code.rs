//! Compiled code: from an instruction to its `Code` object, whose tables (`code_tables`) lead to the
//! functions that were compiled into it.
//!
//! A function does not lead to its code (since 13.x it holds only a handle), and after a change
//! of tier it leads to the wrong one. But all machine code starts with a header that is a heap
//! object, so the code of an address is found by looking backwards for that header.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::code_tables::{
    Place, Tables, baseline_offset, bytecode_positions, bytecodes, code_function, inlined_places,
    read_tables,
};
use super::heap::{Heap, is_pointer};
use super::layout::CodeStart;
use nodespy_model::{FastMap, FastSet, Tier};

/// How much is read at once when a header is looked for, where so much can be read.
const CHUNK_BYTES: u64 = 64 << 10;
const PAGE: u64 = 4096;
/// How far back a header is looked for.
const SEARCH_LIMIT_BYTES: u64 = 8 << 20;
/// The code of an isolate is in a range of at most this (V8 14.6, x86-64).
const CODE_RANGE_BYTES: u64 = 512 << 20;
/// How much is searched in one batch of samples, so that memory made to mislead us costs little.
const BATCH_SEARCH_BYTES: u64 = 64 << 20;
const BATCH_HEADERS: u32 = 20_000;
/// Each isolate may have a map of its own for machine code; a process has few isolates.
const HEADER_MAP_LIMIT: usize = 1024;
/// How much code is remembered.
const KNOWN_LIMIT: usize = 1 << 18;

/// What machine code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeKind {
    Baseline,
    Maglev,
    Turbofan,
    RegExp,
    /// Trampolines, wrappers, stubs.
    Other,
}

impl CodeKind {
    pub(crate) fn tier(self) -> Tier {
        match self {
            Self::Baseline => Tier::Baseline,
            Self::Maglev => Tier::Maglev,
            Self::Turbofan => Tier::Optimized,
            Self::RegExp | Self::Other => Tier::None,
        }
    }
}

/// The machine code of a function, or other code.
#[derive(Debug, Clone)]
pub(crate) struct Code {
    pub(crate) start: u64,
    pub(super) end: u64,
    object: u64,
    pub(crate) kind: CodeKind,
    pub(super) deopt: u64,
    pub(super) positions: u64,
    tables: Option<Rc<Tables>>,
}

#[derive(Debug)]
struct Cached {
    code: Code,
    /// The map of its header.
    map: u64,
    /// The last batch in which it was confirmed, and whether all of it was looked at since the slice began.
    batch: u64,
    is_confirmed: bool,
    /// Whether it was seen since the last sweep.
    is_used: bool,
}

/// The code seen in a process.
#[derive(Debug)]
pub(crate) struct Codes {
    known: BTreeMap<u64, Cached>,
    /// Addresses without code, in this batch.
    nothing: FastSet<u64>,
    /// What code addresses are in, in this batch: most callers of a sample are those of the one before.
    kinds: FastMap<u64, CodeKind>,
    batch: u64,
    /// Maps that headers of machine code have.
    header_maps: Vec<u64>,
    /// How many bytes and headers may still be looked at in this batch.
    search_bytes_left: u64,
    headers_left: u32,
}

impl Default for Codes {
    /// Ready for a batch: a process may turn up in the middle of one.
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            nothing: FastSet::default(),
            kinds: FastMap::default(),
            batch: 0,
            header_maps: Vec::new(),
            search_bytes_left: BATCH_SEARCH_BYTES,
            headers_left: BATCH_HEADERS,
        }
    }
}

impl Codes {
    /// From now on what is known has to be confirmed before it is used.
    pub(crate) fn start_batch(&mut self) {
        self.batch += 1;
        self.nothing.clear();
        self.kinds.clear();
        self.search_bytes_left = BATCH_SEARCH_BYTES;
        self.headers_left = BATCH_HEADERS;
        if self.known.len() >= KNOWN_LIMIT {
            self.known.clear();
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    /// From now on all of what is known has to be looked at again, not only its header.
    pub(super) fn end_slice(&mut self) {
        self.kinds.clear();
        self.known
            .values_mut()
            .for_each(|cached| cached.is_confirmed = false);
    }

    /// Forgets code that was not seen since the last sweep, with its tables.
    pub(super) fn sweep(&mut self) {
        self.known
            .retain(|_, cached| std::mem::take(&mut cached.is_used));
    }

    /// The code an instruction belongs to.
    pub(crate) fn find(&mut self, heap: &mut Heap<'_>, address: u64) -> Option<Code> {
        let known = self.known(heap, address).cloned();
        known.or_else(|| self.find_anew(heap, address))
    }

    /// The code of an instruction that was found before and is still there.
    pub(super) fn known(&mut self, heap: &mut Heap<'_>, address: u64) -> Option<&Code> {
        let (_, cached) = self.known.range_mut(..=address).next_back()?;
        if address >= cached.code.end {
            return None;
        }
        cached.is_used = true;
        if cached.batch != self.batch {
            let is_there = has_header(heap, &cached.code, cached.map)
                && (cached.is_confirmed || is_unchanged(heap, &cached.code));
            if !is_there {
                return None;
            }
            cached.batch = self.batch;
            cached.is_confirmed = true;
        }
        Some(&cached.code)
    }

    /// What the code of an instruction is that was found before and is still there.
    pub(super) fn known_kind(&mut self, heap: &mut Heap<'_>, address: u64) -> Option<CodeKind> {
        if let Some(&kind) = self.kinds.get(&address) {
            return Some(kind);
        }
        let kind = self.known(heap, address)?.kind;
        if self.kinds.len() >= KNOWN_LIMIT {
            self.kinds.clear();
        }
        self.kinds.insert(address, kind);
        Some(kind)
    }

    /// The code a word of the stack may point into. Most point elsewhere, and a search in vain takes long: V8 reserves one range
    /// for the code of an isolate, so what is far from all that is known is none.
    pub(super) fn find_near(&mut self, heap: &mut Heap<'_>, address: u64) -> Option<Code> {
        let before = self.known.range(..=address).next_back();
        let after = self.known.range(address..).next();
        let is_near = [before, after]
            .into_iter()
            .flatten()
            .any(|(&start, _)| start.abs_diff(address) < CODE_RANGE_BYTES);
        match is_near || self.known.is_empty() {
            true => self.find(heap, address),
            false => None,
        }
    }

    /// The code an instruction belongs to, whatever was thought of it before: dead code can look
    /// alive until its memory is written over.
    pub(crate) fn find_anew(&mut self, heap: &mut Heap<'_>, address: u64) -> Option<Code> {
        if self.nothing.contains(&address) {
            return None;
        }
        let Some((code, map)) = self.search(heap, address) else {
            self.nothing.insert(address);
            return None;
        };
        // Whatever was there before is gone.
        let overlapped: Vec<u64> = self
            .known
            .range(..code.end)
            .rev()
            .take_while(|(_, cached)| cached.code.end > code.start)
            .map(|(&start, _)| start)
            .collect();
        if !overlapped.is_empty() {
            self.kinds.clear();
        }
        for start in overlapped {
            self.known.remove(&start);
        }
        let cached = Cached {
            code: code.clone(),
            map,
            batch: self.batch,
            // Dead code can look alive: how much of it is whole is asked when it is next found.
            is_confirmed: false,
            is_used: true,
        };
        self.known.insert(code.start, cached);
        Some(code)
    }

    /// Looks backwards from an instruction for the header of its code, which starts with a map.
    fn search(&mut self, heap: &mut Heap<'_>, address: u64) -> Option<(Code, u64)> {
        let mut end = address & !7;
        let lowest = address.saturating_sub(SEARCH_LIMIT_BYTES);
        let mut chunk = PAGE;
        while end > lowest {
            // Whole pages, the first alone: there may be nothing mapped before it.
            let start = (end - 1).saturating_sub(chunk - PAGE) & !(PAGE - 1);
            self.search_bytes_left = self.search_bytes_left.checked_sub(end - start)?;
            let length = usize::try_from(end - start).ok()? + 8;
            let Some(bytes) = heap.read_bulk(start, length) else {
                if chunk == PAGE {
                    return None;
                }
                chunk = PAGE;
                continue;
            };
            let words: Vec<u64> = bytes
                .chunks_exact(8)
                .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
                .collect();
            for position in (0..words.len()).rev() {
                let header = start + position as u64 * 8;
                let next = words.get(position + 1).copied();
                let Some(code) = self.code_at_header(heap, header, words[position], next) else {
                    continue;
                };
                if (code.start..code.end).contains(&address) {
                    return Some((code, words[position]));
                }
                // Code does not overlap, and what came after this has no header: nothing is at the address any more.
                if has_own_header(heap) && code.end <= address {
                    return None;
                }
            }
            end = start;
            chunk = CHUNK_BYTES;
        }
        None
    }

    /// The code whose header is at this address, if `map` is the map of one.
    fn code_at_header(
        &mut self,
        heap: &mut Heap<'_>,
        header: u64,
        map: u64,
        next: Option<u64>,
    ) -> Option<Code> {
        if !is_pointer(map) {
            return None;
        }
        if !self.header_maps.contains(&map) {
            // Two tagged words in a row are rare in machine code: only then is the type looked up.
            if !next.is_none_or(is_pointer) {
                return None;
            }
            let wanted = heap
                .layout
                .type_instruction_stream
                .unwrap_or(heap.layout.type_code);
            if heap.type_of_map(map) != Some(wanted) {
                return None;
            }
            // Those of isolates that have ended are as many as there were workers.
            if self.header_maps.len() >= HEADER_MAP_LIMIT {
                self.header_maps.clear();
            }
            self.header_maps.push(map);
        }
        self.headers_left = self.headers_left.checked_sub(1)?;
        let object = match heap.layout.code_start {
            CodeStart::Inline(_) => header | 1,
            CodeStart::Pointer { .. } => heap.field(header | 1, 8)?,
        };
        let code = read_code(heap, object)?;
        // Forwards and backwards must agree.
        let expected = match heap.layout.code_start {
            CodeStart::Inline(at) => header + at,
            CodeStart::Pointer { header: length, .. } => header + length,
        };
        (code.start == expected).then_some(code)
    }

    /// Where in its script an instruction of baseline code came from.
    pub(crate) fn baseline_place(
        &mut self,
        heap: &mut Heap<'_>,
        code: &Code,
        address: u64,
        bytecode: Option<u64>,
    ) -> Option<u32> {
        let mut tables = self.tables(heap, code);
        if tables.bytecodes.is_empty()
            && let Some(bytecode) = bytecode
        {
            // The code of V8 9.x does not lead to its bytecode; the frame does.
            tables = Rc::new(Tables {
                positions: tables.positions.clone(),
                bytecodes: bytecodes(heap, bytecode).unwrap_or_default(),
                bytecode_positions: bytecode_positions(heap, bytecode).unwrap_or_default(),
                ..Default::default()
            });
            if let Some(cached) = self.known.get_mut(&code.start) {
                cached.code.tables = Some(Rc::clone(&tables));
            }
        }
        baseline_offset(heap, &tables, address.saturating_sub(code.start))
    }

    /// The functions an instruction of optimized code belongs to, the innermost first. V8 takes the
    /// deoptimization data, and with it the function, from code that was deoptimized since the sample;
    /// then it is that of the frame, and the position table is still there.
    pub(crate) fn places(
        &mut self,
        heap: &mut Heap<'_>,
        code: &Code,
        address: u64,
        frame_function: Option<u64>,
    ) -> Vec<Place> {
        let tables = self.tables(heap, code);
        let Some(shared) = code_function(heap, code).or(frame_function) else {
            return Vec::new();
        };
        let offset = address.saturating_sub(code.start);
        let position = tables.position(offset, heap.layout.positions);
        inlined_places(heap, code, &tables, position, shared)
    }

    fn tables(&mut self, heap: &mut Heap<'_>, code: &Code) -> Rc<Tables> {
        if let Some(cached) = self.known.get(&code.start)
            && let Some(tables) = &cached.code.tables
        {
            return Rc::clone(tables);
        }
        let tables = Rc::new(read_tables(heap, code));
        if let Some(cached) = self.known.get_mut(&code.start) {
            cached.code.tables = Some(Rc::clone(&tables));
        }
        tables
    }
}

/// Whether the header of code and its object lead to one another, so that few words can look like one that is none.
fn has_own_header(heap: &Heap<'_>) -> bool {
    matches!(heap.layout.code_start, CodeStart::Pointer { .. })
}

/// Whether the header of code that was found before still leads to its object, and that to its own table. Code that was freed and
/// written over has another, so within a slice this is enough.
fn has_header(heap: &mut Heap<'_>, code: &Code, map: u64) -> bool {
    let (header, points_back) = match heap.layout.code_start {
        CodeStart::Inline(at) => (code.start.wrapping_sub(at), true),
        CodeStart::Pointer { header: length, .. } => {
            let header = code.start.wrapping_sub(length);
            let object = heap.word(header.wrapping_add(8));
            (header, object == Some(code.object))
        }
    };
    points_back
        && heap.word(header) == Some(map)
        && heap.field(code.object, heap.layout.code_deopt) == Some(code.deopt)
}

/// Whether the object of code that was found before is still the same, and, where it was compiled from a function, that
/// function.
fn is_unchanged(heap: &mut Heap<'_>, code: &Code) -> bool {
    let Some(fresh) = read_code(heap, code.object) else {
        return false;
    };
    let key = |code: &Code| (code.start, code.end, code.deopt, code.positions);
    key(&fresh) == key(code) && is_whole(heap, code)
}

/// Whether optimized code still leads to its function; that of dead code often does not.
fn is_whole(heap: &mut Heap<'_>, code: &Code) -> bool {
    !matches!(code.kind, CodeKind::Maglev | CodeKind::Turbofan)
        || code_function(heap, code).is_some()
}

fn read_code(heap: &mut Heap<'_>, object: u64) -> Option<Code> {
    if !heap.is(object, heap.layout.type_code) {
        return None;
    }
    let base = object & !3;
    let start = match heap.layout.code_start {
        CodeStart::Inline(at) => base + at,
        CodeStart::Pointer { at, .. } => heap.word(base + at)?,
    };
    let size = heap.half(base + heap.layout.code_size)?;
    let flags = heap.half(base + heap.layout.code_flags)?;
    Some(Code {
        start,
        end: start.checked_add(size.into())?,
        object,
        kind: kind_of(heap, flags & 15),
        deopt: heap.field(object, heap.layout.code_deopt)?,
        positions: heap.field(object, heap.layout.code_positions)?,
        tables: None,
    })
}

fn kind_of(heap: &Heap<'_>, kind: u32) -> CodeKind {
    let layout = heap.layout;
    if kind == layout.kind_baseline {
        CodeKind::Baseline
    } else if kind == layout.kind_turbofan {
        CodeKind::Turbofan
    } else if kind == layout.kind_maglev && layout.kind_maglev != 0 {
        CodeKind::Maglev
    } else if kind == layout.kind_regexp {
        CodeKind::RegExp
    } else {
        CodeKind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v8::code_tables::{baseline_bytecode, bytecode_of};
    use crate::v8::layout::Layout;
    use crate::v8::stand_in::{Words, node20_layout, with_heap, with_heap_of};

    const BASE: u64 = 0x20_0000;
    const CODE: u64 = BASE + 0x600;
    const DEOPT: u64 = BASE + 0x800;
    const POSITIONS: u64 = BASE + 0x900;
    const SHARED: u64 = BASE + 0xa00;
    /// The object that holds the instructions, and where these start in it.
    const STREAM: u64 = BASE + 0x1000;
    const START: u64 = STREAM + 16;
    const TURBOFAN: u64 = 13;
    const BASELINE: u64 = 11;

    /// A process of node 20 with one function that was compiled.
    fn process(kind: u64) -> Words {
        let mut memory = Words::new(BASE, 0x4000);
        memory.object(STREAM, 252);
        memory.object(CODE, 245);
        memory.object(DEOPT, 179);
        memory.object(POSITIONS, 179);
        memory.object(SHARED, 262);
        memory.put(STREAM + 8, CODE | 1);
        memory.put(CODE + 16, DEOPT | 1);
        memory.put(CODE + 24, POSITIONS | 1);
        memory.put(CODE + 40, START);
        memory.put(CODE + 48, kind);
        memory.put(CODE + 56, 0x100);
        memory.put(DEOPT + 8, 9 << 32);
        memory.put(DEOPT + 16 + 6 * 8, SHARED | 1);
        memory
    }

    #[test]
    fn the_code_of_an_instruction_is_found_by_the_header_before_it() {
        let memory = process(TURBOFAN);
        let mut codes = Codes::default();
        with_heap(&memory, |heap| {
            let code = codes.find(heap, START + 0x42).unwrap();
            assert_eq!((code.start, code.kind), (START, CodeKind::Turbofan));
            assert_eq!(code_function(heap, &code), Some(SHARED | 1));
            assert!(codes.find(heap, START + 0xff).is_some());
            assert!(codes.find(heap, START + 0x100).is_none());
            assert!(codes.find(heap, 0x10).is_none());
        });
    }

    #[test]
    fn an_instruction_without_a_position_still_has_its_function() {
        let memory = process(TURBOFAN);
        let mut codes = Codes::default();
        with_heap(&memory, |heap| {
            let code = codes.find(heap, START).unwrap();
            let place = |shared| Place {
                shared,
                offset: None,
                is_inlined: false,
            };
            assert_eq!(codes.places(heap, &code, START, None), [place(SHARED | 1)]);
        });
        // V8 has taken the function from code that it deoptimized: the frame has it.
        let mut memory = process(TURBOFAN);
        let mut codes = Codes::default();
        let code = with_heap(&memory, |heap| codes.find(heap, START).unwrap());
        memory.put(DEOPT + 16 + 6 * 8, 0);
        with_heap(&memory, |heap| {
            assert!(codes.places(heap, &code, START, None).is_empty());
            let places = codes.places(heap, &code, START, Some(0x1001));
            assert_eq!(places[0].shared, 0x1001);
        });
    }

    #[test]
    fn code_that_was_freed_is_not_found_in_the_next_batch() {
        let mut memory = process(TURBOFAN);
        let mut codes = Codes::default();
        assert!(with_heap(&memory, |heap| codes.find(heap, START)).is_some());
        memory.put(STREAM, 0);
        // Within a batch all answers agree.
        assert!(with_heap(&memory, |heap| codes.find(heap, START)).is_some());
        codes.start_batch();
        assert!(with_heap(&memory, |heap| codes.find(heap, START)).is_none());
    }

    /// Where code and its instructions are one object, as up to Node 18, what takes its place has the same header.
    #[test]
    fn other_code_in_the_same_place_is_found_in_the_next_batch() {
        const INSTRUCTIONS: u64 = 64;
        let mut layout = node20_layout(Vec::new());
        layout.code_start = CodeStart::Inline(INSTRUCTIONS);
        layout.type_instruction_stream = None;
        let mut memory = process(TURBOFAN);
        memory.put(CODE + 8, POSITIONS | 1);
        assert_other_code_is_found(&layout, memory, CODE + INSTRUCTIONS + 8);
    }

    /// Other code whose object and instructions are where those of the last were.
    #[test]
    fn other_code_at_the_same_two_addresses_is_found_in_the_next_batch() {
        let layout = node20_layout(Vec::new());
        assert_other_code_is_found(&layout, process(TURBOFAN), START + 8);
    }

    fn assert_other_code_is_found(layout: &Layout, mut memory: Words, address: u64) {
        const OTHER: u64 = BASE + 0xc00;
        memory.object(OTHER, 179);
        memory.put(OTHER + 8, 9 << 32);
        memory.put(OTHER + 16 + 6 * 8, SHARED | 1);
        let mut codes = Codes::default();
        let mut found = |memory: &Words, is_next: bool| {
            if is_next {
                codes.start_batch();
            }
            let find = |heap: &mut Heap<'_>| codes.find(heap, address);
            with_heap_of(layout, memory, find).unwrap().deopt
        };
        // Twice, so that all of it was looked at.
        assert_eq!(found(&memory, false), DEOPT | 1);
        assert_eq!(found(&memory, true), DEOPT | 1);
        memory.put(CODE + 16, OTHER | 1);
        assert_eq!(found(&memory, true), OTHER | 1);
    }

    #[test]
    fn baseline_code_leads_to_its_bytecode() {
        let mut memory = process(BASELINE);
        let bytecode = memory.object(BASE + 0xb00, 191);
        memory.put(CODE + 16, bytecode);
        let mut codes = Codes::default();
        with_heap(&memory, |heap| {
            let code = codes.find(heap, START).unwrap();
            assert_eq!(code.kind, CodeKind::Baseline);
            assert_eq!(baseline_bytecode(heap, &code), Some(bytecode));
            assert_eq!(code_function(heap, &code), None);
            assert_eq!(bytecode_of(heap, CODE | 1), Some(bytecode));
        });
    }

    #[test]
    fn a_search_for_code_that_is_gone_ends_at_the_code_before_it() {
        let mut memory = process(TURBOFAN);
        let searched = |memory: &Words| {
            let mut codes = Codes::default();
            let found = with_heap(memory, |heap| codes.find(heap, START + 0x400));
            assert!(found.is_none());
            BATCH_SEARCH_BYTES - codes.search_bytes_left
        };
        assert!(searched(&memory) <= PAGE);
        memory.put(STREAM, 0);
        assert!(searched(&memory) > CHUNK_BYTES);
    }

    #[test]
    fn what_searching_costs_is_bounded_in_a_batch() {
        let memory = process(TURBOFAN);
        let mut codes = Codes {
            search_bytes_left: 8,
            ..Default::default()
        };
        with_heap(&memory, |heap| {
            assert!(codes.find(heap, START + 0x42).is_none());
            codes.start_batch();
            assert!(codes.find(heap, START + 0x42).is_some());
        });
    }
}
