//! WebAssembly: from a frame to the function of its module.
//!
//! A frame of WebAssembly holds its instance, an object of the heap, which leads to the module's
//! script (its url) and to V8's `NativeModule`, an object of C++ with all code of the module and
//! the module's own bytes. V8 exports nothing of those, so where things are in them is learned in
//! each process from what must fit together, and nothing is believed that does not: code points
//! back to its module, its number is its place in the table of code (jump tables have -1), code objects
//! don't overlap. Seen to work with V8 9.4 to 14.6.
//!
//! Functions inlined into others are not restored.

use std::collections::BTreeMap;

use nodespy_model::{FastMap, FastSet, Tier};

use super::functions::{FunctionId, Functions};
use super::heap::{Heap, is_pointer, small_integer};
use super::wasm_learn::{CodeOffsets, learn_code};
use super::wasm_names::{MODULE_START, ModuleNames};
use crate::x86_64::is_data_address;

/// How many words of an instance and of a module object are looked at.
const OBJECT_WORDS: u64 = 48;
/// How many words of a `NativeModule` are looked at (the last one needed is the 60th in V8 12.4).
const MODULE_WORDS: u64 = 112;
/// How many words of what leads to a `NativeModule` are looked at.
const HOLDER_WORDS: u64 = 24;
/// How many code objects are looked through where they are in no order.
const SCAN_LIMIT: usize = 4096;
/// How often it is tried to learn where things are before it is tried only now and then.
const ATTEMPT_LIMIT: u32 = 32;
const BATCHES_PER_ATTEMPT: u64 = 64;
/// How many modules are looked at in one such attempt; the right one is the first in V8 9.4 to 14.6.
const CANDIDATE_LIMIT: usize = 4;
/// How many places of a table of code are looked at.
const TABLE_LIMIT: u32 = 1 << 16;
/// How deep a tree of code may be.
const TREE_DEPTH: usize = 64;
/// Modules larger than this have no names (V8 refuses them too).
const MODULE_LIMIT_BYTES: u64 = 1 << 30;
/// How many bytes of modules are read for names at first, and how many more with each batch: a
/// process that shows another module each time costs little, one that loads modules for months has
/// names.
const NAMES_LIMIT_BYTES: u64 = 1 << 30;
const BATCH_NAMES_BYTES: u64 = 4 << 20;
/// How many code objects and how many modules are remembered.
const KNOWN_CODE_LIMIT: usize = 1 << 16;
const KNOWN_MODULE_LIMIT: usize = 4096;
/// The type of a script that belongs to a WebAssembly module (V8 9.4 to 14.6; not exported).
const SCRIPT_TYPE_WASM: i64 = 3;
/// Where the type of a script is.
const SCRIPT_TYPE: u64 = 48;

/// A function that was found, or other code of its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// None in jump tables and wrappers.
    pub(crate) function: Option<FunctionId>,
    pub(crate) tier: Tier,
    /// Where its code starts.
    pub(crate) start: u64,
}

/// Where things are in V8's C++ objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offsets {
    /// From what the script holds to the module: a pointer to a pointer to it.
    holder: (u64, u64),
    code: CodeOffsets,
}

/// A `WasmCode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WasmCode {
    object: u64,
    native: u64,
    start: u64,
    end: u64,
    /// Negative where it is no function.
    index: i32,
    tier: Tier,
}

#[derive(Debug)]
struct KnownCode {
    code: WasmCode,
    function: Option<FunctionId>,
    batch: u64,
}

#[derive(Debug)]
struct Module {
    /// Address and length of its bytes.
    bytes: (u64, u64),
    url: String,
    names: ModuleNames,
}

/// The WebAssembly of one process.
#[derive(Debug)]
pub(crate) struct Wasm {
    offsets: Option<Offsets>,
    attempts: u32,
    codes: BTreeMap<u64, KnownCode>,
    modules: FastMap<u64, Module>,
    /// Addresses without code, in this batch.
    nothing: FastSet<u64>,
    batch: u64,
    /// How much may still be read for names.
    bytes_left: u64,
}

impl Default for Wasm {
    fn default() -> Self {
        Self {
            offsets: None,
            attempts: 0,
            codes: BTreeMap::new(),
            modules: FastMap::default(),
            nothing: FastSet::default(),
            batch: 0,
            bytes_left: NAMES_LIMIT_BYTES,
        }
    }
}

impl Wasm {
    /// From now on what is known has to be confirmed before it is used.
    pub(crate) fn start_batch(&mut self) {
        self.batch += 1;
        self.nothing.clear();
        self.bytes_left = (self.bytes_left + BATCH_NAMES_BYTES).min(NAMES_LIMIT_BYTES);
        if self.batch.is_multiple_of(BATCHES_PER_ATTEMPT) {
            self.attempts = self.attempts.saturating_sub(1);
        }
    }

    /// Forgets which functions code belongs to: their numbers are not good any more.
    pub(crate) fn forget_functions(&mut self) {
        self.codes.clear();
    }

    /// Whether any has been seen.
    pub(crate) fn is_in_use(&self) -> bool {
        self.offsets.is_some()
    }

    /// The code an instruction belongs to, if it belongs to code that is known or, where the
    /// instance of its frame is given, to that of its module.
    pub(crate) fn find(
        &mut self,
        heap: &mut Heap<'_>,
        functions: &mut Functions,
        address: u64,
        instance: Option<u64>,
    ) -> Option<Found> {
        if let Some(found) = self.find_known(heap, address) {
            return Some(found);
        }
        let instance = instance?;
        if self.nothing.contains(&address) {
            return None;
        }
        let found = self.find_anew(heap, functions, address, instance);
        if found.is_none() {
            self.nothing.insert(address);
        }
        found
    }

    /// A function of which only the module is known, if that.
    pub(crate) fn unknown(
        heap: &mut Heap<'_>,
        functions: &mut Functions,
        instance: u64,
    ) -> FunctionId {
        let url = script_of_instance(heap, instance)
            .and_then(|script| script_url(heap, script))
            .unwrap_or_default();
        functions.of_wasm("wasm-function[?]", &url)
    }

    fn find_known(&mut self, heap: &mut Heap<'_>, address: u64) -> Option<Found> {
        let offsets = self.offsets?;
        let (_, known) = self.codes.range_mut(..=address).next_back()?;
        if address >= known.code.end {
            return None;
        }
        if known.batch != self.batch {
            let fresh = read_code(heap, &offsets.code, known.code.native, known.code.object);
            let module = self.modules.get(&known.code.native)?;
            let is_same_module = module_bytes(heap, known.code.native) == Some(module.bytes);
            if fresh != Some(known.code) || !is_same_module {
                let start = known.code.start;
                self.codes.remove(&start);
                return None;
            }
            known.batch = self.batch;
        }
        Some(Found {
            function: known.function,
            tier: known.code.tier,
            start: known.code.start,
        })
    }

    fn find_anew(
        &mut self,
        heap: &mut Heap<'_>,
        functions: &mut Functions,
        address: u64,
        instance: u64,
    ) -> Option<Found> {
        let script = script_of_instance(heap, instance)?;
        let foreign = heap.field(script, heap.layout.script_native_module)?;
        // Whatever kind of object it is, it holds one raw pointer.
        heap.type_of(foreign)?;
        let holder = heap.field(foreign, 8).filter(|&word| is_address(word))?;
        let code = match self.offsets {
            Some(offsets) => {
                let native = follow(heap, holder, offsets.holder)?;
                let declared = self.module(heap, native, script)?.names.declared;
                search(heap, &offsets.code, native, declared, address)?
            }
            None => self.learn(heap, holder, address)?,
        };
        let function = match u32::try_from(code.index) {
            Ok(index) => {
                let module = self.module(heap, code.native, script)?;
                let name = module.names.name(index);
                Some(functions.of_wasm(&name, &module.url))
            }
            Err(_) => None,
        };
        self.remember(code, function);
        Some(Found {
            function,
            tier: code.tier,
            start: code.start,
        })
    }

    /// Looks for the module behind `holder` that has code at an address, and learns from it.
    fn learn(&mut self, heap: &mut Heap<'_>, holder: u64, address: u64) -> Option<WasmCode> {
        if self.attempts >= ATTEMPT_LIMIT {
            return None;
        }
        self.attempts += 1;
        let mut seen = FastSet::default();
        let mut candidates = 0;
        for first in 0..HOLDER_WORDS {
            // A shared pointer: the object, then its counts.
            for second in 0..2 {
                let path = (first * 8, second * 8);
                let Some(native) = follow(heap, holder, path) else {
                    continue;
                };
                if !seen.insert(native) || module_bytes(heap, native).is_none() {
                    continue;
                }
                candidates += 1;
                if candidates > CANDIDATE_LIMIT {
                    return None;
                }
                let Some((code, declared)) = learn_code(heap, native, &mut self.bytes_left) else {
                    continue;
                };
                if let Some(found) = search(heap, &code, native, declared, address) {
                    log::debug!("WebAssembly: module at {path:?}, {code:?}");
                    self.offsets = Some(Offsets { holder: path, code });
                    return Some(found);
                }
            }
        }
        log::debug!("WebAssembly: no module found for an instruction at {address:x}");
        None
    }

    fn remember(&mut self, code: WasmCode, function: Option<FunctionId>) {
        if self.codes.len() >= KNOWN_CODE_LIMIT {
            self.codes.clear();
        }
        // Whatever was there before is gone.
        let overlapped: Vec<u64> = self
            .codes
            .range(..code.end)
            .rev()
            .take_while(|(_, known)| known.code.end > code.start)
            .map(|(&start, _)| start)
            .collect();
        for start in overlapped {
            self.codes.remove(&start);
        }
        let known = KnownCode {
            code,
            function,
            batch: self.batch,
        };
        self.codes.insert(code.start, known);
    }

    fn module(&mut self, heap: &mut Heap<'_>, native: u64, script: u64) -> Option<&Module> {
        let bytes = module_bytes(heap, native)?;
        if self.modules.len() >= KNOWN_MODULE_LIMIT {
            self.modules.clear();
        }
        let url = script_url(heap, script).unwrap_or_default();
        let is_known = self
            .modules
            .get(&native)
            .is_some_and(|known| known.bytes == bytes && known.url == url);
        if !is_known {
            let names = read_names(heap, bytes, &mut self.bytes_left)?;
            self.modules.insert(native, Module { bytes, url, names });
        }
        self.modules.get(&native)
    }
}

/// A pointer C++ may use.
fn is_address(word: u64) -> bool {
    word.is_multiple_of(8) && is_data_address(word)
}

/// The script of the module an instance belongs to.
fn script_of_instance(heap: &mut Heap<'_>, instance: u64) -> Option<u64> {
    if !is_pointer(instance) {
        return None;
    }
    let instance = heap.current(instance)?;
    let module_type = heap.layout.type_wasm_module?;
    let instance_type = heap.layout.type_wasm_instance;
    // Until V8 11 the instance has its module; since 12 it holds what scripts see, which has it.
    let module = field_of_type(heap, instance, module_type).or_else(|| {
        let visible = field_of_type(heap, instance, instance_type?)?;
        field_of_type(heap, visible, module_type)
    })?;
    let script = field_of_type(heap, module, heap.layout.type_script)?;
    let kind = small_integer(heap.field(script, SCRIPT_TYPE)?)?;
    (kind == SCRIPT_TYPE_WASM).then_some(script)
}

/// The first field of an object that holds an object of a type.
fn field_of_type(heap: &mut Heap<'_>, object: u64, kind: u16) -> Option<u64> {
    (1..OBJECT_WORDS).find_map(|word| {
        let field = heap.field(object, word * 8)?;
        (is_pointer(field) && heap.is(field, kind)).then_some(field)
    })
}

fn script_url(heap: &mut Heap<'_>, script: u64) -> Option<String> {
    let name = heap.field(script, 16)?;
    heap.string(name)
}

fn follow(heap: &mut Heap<'_>, holder: u64, path: (u64, u64)) -> Option<u64> {
    let pointer = heap
        .word(holder + path.0)
        .filter(|&word| is_address(word))?;
    heap.word(pointer + path.1).filter(|&word| is_address(word))
}

/// The words of a `NativeModule`, as many as can be read.
pub(super) fn module_words(heap: &mut Heap<'_>, native: u64) -> Vec<u64> {
    (0..MODULE_WORDS)
        .map_while(|word| heap.word(native + word * 8))
        .collect()
}

/// Address and length of the bytes a module was made from. The module shares them with others, so
/// it holds a pointer to a pointer and a length.
pub(super) fn module_bytes(heap: &mut Heap<'_>, native: u64) -> Option<(u64, u64)> {
    let words = module_words(heap, native);
    words.iter().find_map(|&word| {
        if !is_address(word) {
            return None;
        }
        let bytes = heap.word(word)?;
        let length = heap.word(word + 8)?;
        let is_sane = is_data_address(bytes)
            && (MODULE_START.len() as u64..=MODULE_LIMIT_BYTES).contains(&length);
        let mut start = [0; MODULE_START.len()];
        (is_sane && heap.read(bytes, &mut start) && start == MODULE_START)
            .then_some((bytes, length))
    })
}

pub(super) fn read_names(
    heap: &mut Heap<'_>,
    (bytes, length): (u64, u64),
    bytes_left: &mut u64,
) -> Option<ModuleNames> {
    ModuleNames::read(length, &mut |at, wanted| {
        *bytes_left = bytes_left.checked_sub(wanted as u64)?;
        let address = bytes.checked_add(at)?;
        if wanted <= 64 {
            let mut buffer = vec![0; wanted];
            return heap.read(address, &mut buffer).then_some(buffer);
        }
        heap.read_bulk(address, wanted)
    })
}

/// Whether this can be code of a module.
pub(super) fn is_code_of(heap: &mut Heap<'_>, native: u64, object: u64) -> bool {
    is_address(object)
        && object != native
        && heap.word(object) == Some(native)
        && heap.word(object + 8).is_some_and(is_address)
}

/// The code objects a table holds, by place; none when this is no table of code.
pub(super) fn table_entries(
    heap: &mut Heap<'_>,
    native: u64,
    table: u64,
    length: u32,
    limit: usize,
) -> Option<Vec<(u32, u64)>> {
    if !is_address(table) {
        return None;
    }
    let mut entries = Vec::new();
    for place in 0..length.min(TABLE_LIMIT) {
        let object = heap.word(table + u64::from(place) * 8)?;
        if object == 0 {
            continue;
        }
        if !is_code_of(heap, native, object) {
            return None;
        }
        entries.push((place, object));
        if entries.len() >= limit {
            break;
        }
    }
    Some(entries)
}

fn read_code(
    heap: &mut Heap<'_>,
    offsets: &CodeOffsets,
    native: u64,
    object: u64,
) -> Option<WasmCode> {
    if !is_code_of(heap, native, object) {
        return None;
    }
    let start = heap.word(object + 8)?;
    let size = heap.half(object + offsets.size)?;
    let index = heap.half(object + offsets.index)? as i32;
    let tier = offsets.tier.and_then(|(at, shift)| {
        let mut byte = [0];
        heap.read(object + at, &mut byte)
            .then(|| byte[0] >> shift & 3)
    });
    Some(WasmCode {
        object,
        native,
        start,
        end: start.saturating_add(size.into()),
        index,
        tier: match tier {
            Some(1) => Tier::Baseline,
            Some(2) => Tier::Optimized,
            _ => Tier::None,
        },
    })
}

/// The code of a module an instruction belongs to. Code that was replaced by better code is not in
/// the table any more while it still runs, but in a tree of all code, or, until somebody looked
/// for it, in a list of new code.
fn search(
    heap: &mut Heap<'_>,
    offsets: &CodeOffsets,
    native: u64,
    declared: u32,
    address: u64,
) -> Option<WasmCode> {
    let words = module_words(heap, native);
    let covers = |heap: &mut Heap<'_>, object: u64| {
        read_code(heap, offsets, native, object)
            .filter(|code| (code.start..code.end).contains(&address))
    };
    for (position, &word) in words.iter().enumerate() {
        let header = (native + position as u64 * 8).wrapping_sub(8);
        if let Some(object) = search_tree(heap, native, header, word, address)
            && let Some(code) = covers(heap, object)
        {
            return Some(code);
        }
    }
    for list in words.windows(3) {
        if let Some(objects) = list_entries(heap, native, list)
            && let Some(code) = objects.iter().find_map(|&object| covers(heap, object))
        {
            return Some(code);
        }
    }
    let table = heap.word(native + offsets.table)?;
    table_entries(heap, native, table, declared, SCAN_LIMIT)?
        .into_iter()
        .find_map(|(_, object)| covers(heap, object))
}

/// Looks in a `std::map` from the start of code to the code for the last one that starts at or
/// before an address. A node has a colour, its parent, left, right, key and value, and the root's
/// parent is the header inside the module.
fn search_tree(
    heap: &mut Heap<'_>,
    native: u64,
    header: u64,
    root: u64,
    address: u64,
) -> Option<u64> {
    if !is_address(root) || heap.word(root + 8)? != header {
        return None;
    }
    let mut node = root;
    let mut best = None;
    for _ in 0..TREE_DEPTH {
        if !is_address(node) {
            break;
        }
        let start = heap.word(node + 32)?;
        let object = heap.word(node + 40)?;
        if !is_code_of(heap, native, object) || heap.word(object + 8) != Some(start) {
            return None;
        }
        if start <= address {
            best = Some(object);
            node = heap.word(node + 24)?;
        } else {
            node = heap.word(node + 16)?;
        }
    }
    best
}

/// The last entries of a `std::vector` of code: start, end and end of its memory.
fn list_entries(heap: &mut Heap<'_>, native: u64, list: &[u64]) -> Option<Vec<u64>> {
    let &[start, end, limit] = list else {
        return None;
    };
    if ![start, end, limit].into_iter().all(is_address) || start >= end || end > limit {
        return None;
    }
    let first = heap.word(start)?;
    if !is_code_of(heap, native, first) {
        return None;
    }
    let count = ((end - start) / 8).min(SCAN_LIMIT as u64);
    Some(
        (1..=count)
            .filter_map(|back| heap.word(end - back * 8))
            .collect(),
    )
}

#[cfg(test)]
mod tests;
