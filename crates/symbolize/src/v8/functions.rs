//! Functions: from a `SharedFunctionInfo` to name, file, line and column.

use nodespy_model::{FastMap, FastSet, LoadedScript, TextMark, printable};

use super::code::{bytecode_of, element};
use super::heap::{Heap, small_integer};

/// No source larger than this is read for its lines, nor one with more lines.
const SOURCE_LIMIT_BYTES: usize = 64 << 20;
const LINE_LIMIT: usize = 4 << 20;
/// No longer address of a source map is read, and no more of all together: a map may be in it.
const MAP_URL_LIMIT_BYTES: usize = 64 << 20;
const ALL_MAP_URL_BYTES: usize = 512 << 20;
/// How many functions and scripts are remembered by their address.
const KNOWN_LIMIT: usize = 1 << 20;
/// A process with more different functions than this is not one of Node's; the rest stay unknown.
const FUNCTION_LIMIT: usize = 4 << 20;
/// How many functions of scripts are looked at in one batch of samples.
const BATCH_SEARCH: u32 = 200_000;
/// From this many context variables on V8 keeps their names in a hash table (10.x and later).
const LOCALS_IN_TABLE: i64 = 75;

/// A function of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FunctionId(pub(crate) u32);

/// What is known of a function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FunctionFacts {
    pub(crate) name: String,
    pub(crate) url: String,
    /// From 1; 0 when not known.
    pub(crate) line: u32,
    /// From 1; 0 when not known.
    pub(crate) column: u32,
    /// Its script in the table; none for V8's own functions.
    script: Option<u32>,
    pub(crate) kind: FunctionKind,
}

/// What a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FunctionKind {
    JavaScript,
    /// V8 itself brings it along.
    Builtin,
    /// A regular expression; the name is its pattern.
    RegExp,
    /// A function of a WebAssembly module; the url is the module's.
    Wasm,
    /// Not known yet: stands in for the function with some bytecode.
    Placeholder,
}

/// A script's lines.
#[derive(Debug)]
struct Script {
    url: String,
    /// Where each line ends; none when the source can't be read.
    line_ends: Option<Vec<u32>>,
    line_offset: u32,
    column_offset: u32,
    map_url: String,
    text: TextMark,
}

#[derive(Debug, Clone, Copy)]
struct KnownShared {
    name_or_scope: u64,
    script: u64,
    function: FunctionId,
}

/// Every function seen in a process, across its isolates.
#[derive(Debug)]
pub(crate) struct Functions {
    facts: Vec<FunctionFacts>,
    ids: FastMap<FunctionFacts, FunctionId>,
    by_shared: FastMap<u64, KnownShared>,
    scripts: Vec<Script>,
    by_script: FastMap<(u64, i64), u32>,
    by_source: FastMap<(String, i64, usize), u32>,
    /// Bytecode that belongs to none of the first so many scripts.
    not_in_scripts: FastMap<u64, usize>,
    search_left: u32,
    /// Functions of which only the bytecode is known, so far.
    placeholders: FastMap<u64, FunctionId>,
    /// Those, and those that are known by now.
    were_placeholders: FastSet<FunctionId>,
    map_url_bytes: usize,
}

impl Default for Functions {
    /// Ready for a batch: a process may turn up in the middle of one.
    fn default() -> Self {
        Self {
            facts: Vec::new(),
            ids: FastMap::default(),
            by_shared: FastMap::default(),
            scripts: Vec::new(),
            by_script: FastMap::default(),
            by_source: FastMap::default(),
            not_in_scripts: FastMap::default(),
            search_left: BATCH_SEARCH,
            placeholders: FastMap::default(),
            were_placeholders: FastSet::default(),
            map_url_bytes: 0,
        }
    }
}

/// What a scope says of its function.
struct Scope {
    name: Option<String>,
    start: Option<u32>,
}

impl Functions {
    pub(crate) fn get(&self, id: FunctionId) -> &FunctionFacts {
        &self.facts[id.0 as usize]
    }

    /// The functions so far, for a process that has started another program: what was known by its
    /// address is forgotten.
    pub(crate) fn after_exec(self) -> Self {
        Self {
            facts: self.facts,
            ids: self.ids,
            were_placeholders: self.were_placeholders,
            ..Self::default()
        }
    }

    /// The function of a `SharedFunctionInfo`; none when it is not one.
    pub(crate) fn of_shared(&mut self, heap: &mut Heap<'_>, shared: u64) -> Option<FunctionId> {
        if !heap.is(shared, heap.layout.type_shared) {
            return None;
        }
        let name_or_scope = heap.field(shared, heap.layout.shared_name)?;
        let script = heap.field(shared, heap.layout.shared_script)?;
        if let Some(known) = self.by_shared.get(&shared)
            && (known.name_or_scope, known.script) == (name_or_scope, script)
        {
            return Some(known.function);
        }
        if self.by_shared.len() >= KNOWN_LIMIT {
            self.by_shared.clear();
        }
        if self.facts.len() >= FUNCTION_LIMIT {
            return None;
        }
        let facts = self.read(heap, shared, name_or_scope, script)?;
        let function = self.intern(facts);
        self.by_shared.insert(
            shared,
            KnownShared {
                name_or_scope,
                script,
                function,
            },
        );
        Some(function)
    }

    /// To be called before each batch of samples.
    pub(crate) fn start_batch(&mut self) {
        self.search_left = BATCH_SEARCH;
        if self.not_in_scripts.len() >= KNOWN_LIMIT {
            self.not_in_scripts.clear();
        }
    }

    /// A function of which only the bytecode is known. A later frame may tell which it is.
    pub(crate) fn placeholder(&mut self, bytecode: u64) -> Option<FunctionId> {
        if let Some(&known) = self.placeholders.get(&bytecode) {
            return Some(known);
        }
        if self.facts.len() >= FUNCTION_LIMIT {
            return None;
        }
        // Its own entry: what it turns out to be takes its place.
        let id = FunctionId(self.facts.len() as u32);
        self.facts.push(FunctionFacts {
            name: "[unknown]".to_owned(),
            url: String::new(),
            line: 0,
            column: 0,
            script: None,
            kind: FunctionKind::Placeholder,
        });
        self.placeholders.insert(bytecode, id);
        self.were_placeholders.insert(id);
        Some(id)
    }

    /// Whether it was not known which function this is, but is by now.
    pub(crate) fn is_named_late(&self, id: FunctionId) -> bool {
        self.were_placeholders.contains(&id) && !self.is_placeholder(id)
    }

    /// Whether it is not known which function this is.
    pub(crate) fn is_placeholder(&self, id: FunctionId) -> bool {
        self.get(id).kind == FunctionKind::Placeholder
    }

    /// Takes note of whose bytecode this is.
    pub(crate) fn learn_bytecode(&mut self, heap: &mut Heap<'_>, bytecode: u64, shared: u64) {
        if self.placeholders.is_empty() {
            return;
        }
        if let Some(placeholder) = self.placeholders.remove(&bytecode)
            && let Some(function) = self.of_shared(heap, shared)
        {
            self.facts[placeholder.0 as usize] = self.get(function).clone();
        }
    }

    /// How many scripts have been seen.
    pub(crate) fn script_count(&self) -> usize {
        self.by_script.len()
    }

    /// The `SharedFunctionInfo` with this bytecode. Bytecode does not lead to its function, but
    /// each script lists what was compiled of it; those seen so far are searched.
    pub(crate) fn shared_with_bytecode(
        &mut self,
        heap: &mut Heap<'_>,
        bytecode: u64,
    ) -> Option<u64> {
        let scripts = self.by_script.len();
        if self.not_in_scripts.get(&bytecode) == Some(&scripts) {
            return None;
        }
        let left = &mut self.search_left;
        let found = self
            .by_script
            .keys()
            .find_map(|&(script, _)| search_script(heap, script, bytecode, left));
        if found.is_none() {
            self.not_in_scripts.insert(bytecode, scripts);
        }
        found
    }

    fn intern(&mut self, facts: FunctionFacts) -> FunctionId {
        if let Some(&known) = self.ids.get(&facts) {
            return known;
        }
        let id = FunctionId(self.facts.len() as u32);
        self.facts.push(facts.clone());
        self.ids.insert(facts, id);
        id
    }

    /// The regular expression with this source, as it is written in JavaScript.
    pub(crate) fn of_regexp(&mut self, source: Option<&str>) -> FunctionId {
        self.intern(FunctionFacts {
            name: source.map_or_else(|| "[regexp]".to_owned(), |source| format!("/{source}/")),
            url: String::new(),
            line: 0,
            column: 0,
            script: None,
            kind: FunctionKind::RegExp,
        })
    }

    /// The function of a WebAssembly module with this name.
    pub(crate) fn of_wasm(&mut self, name: String, url: String) -> FunctionId {
        self.intern(FunctionFacts {
            name,
            url,
            line: 0,
            column: 0,
            script: None,
            kind: FunctionKind::Wasm,
        })
    }

    fn read(
        &mut self,
        heap: &mut Heap<'_>,
        shared: u64,
        name_or_scope: u64,
        script: u64,
    ) -> Option<FunctionFacts> {
        let data = heap.field(shared, heap.layout.shared_data)?;
        let kind = match small_integer(data) {
            Some(_) => FunctionKind::Builtin,
            None => FunctionKind::JavaScript,
        };
        let scope = if heap.is(name_or_scope, heap.layout.type_scope_info) {
            read_scope(heap, name_or_scope)?
        } else if heap.is_string(name_or_scope) {
            Scope {
                name: heap.string(name_or_scope),
                start: None,
            }
        } else {
            Scope {
                name: None,
                start: None,
            }
        };
        let script = self.script(heap, script);
        let place = scope
            .start
            .zip(script)
            .and_then(|(start, script)| self.place(script, start));
        let (line, column) = place.unwrap_or((0, 0));
        Some(FunctionFacts {
            name: scope
                .name
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| "(anonymous)".to_owned()),
            url: script.map_or_else(String::new, |script| {
                self.scripts[script as usize].url.clone()
            }),
            line,
            column,
            script,
            kind,
        })
    }

    /// Line and column of an offset into the source of a function's script.
    pub(crate) fn place_in(&self, function: FunctionId, offset: u32) -> Option<(u32, u32)> {
        self.place(self.get(function).script?, offset)
    }

    fn place(&self, script: u32, offset: u32) -> Option<(u32, u32)> {
        let script = &self.scripts[script as usize];
        let ends = script.line_ends.as_ref()?;
        let line = ends.partition_point(|&end| end < offset);
        let start = line.checked_sub(1).map_or(0, |before| ends[before] + 1);
        let mut column = offset.checked_sub(start)? + 1;
        if line == 0 {
            column = column.saturating_add(script.column_offset);
        }
        Some((
            (line as u32)
                .saturating_add(1)
                .saturating_add(script.line_offset),
            column,
        ))
    }

    /// The script of a function, one hop further where a debugger has been at work.
    fn script(&mut self, heap: &mut Heap<'_>, object: u64) -> Option<u32> {
        let script = if heap.is(object, heap.layout.type_debug_info) {
            (1..8).find_map(|slot| {
                let field = heap.field(object, slot * 8)?;
                heap.is(field, heap.layout.type_script).then_some(field)
            })?
        } else {
            object
        };
        if !heap.is(script, heap.layout.type_script) {
            return None;
        }
        let id = small_integer(heap.field(script, 64)?).unwrap_or(-1);
        if let Some(&known) = self.by_script.get(&(script, id)) {
            return Some(known);
        }
        if self.by_script.len() >= KNOWN_LIMIT || self.scripts.len() >= KNOWN_LIMIT {
            return None;
        }
        let index = self.read_script(heap, script, id)?;
        self.by_script.insert((script, id), index);
        Some(index)
    }

    fn read_script(&mut self, heap: &mut Heap<'_>, script: u64, id: i64) -> Option<u32> {
        // A `//# sourceURL=` comment goes before the name, as in V8's own profiler. Since V8 11 the
        // positions of lazily compiled functions come before it.
        let source_url = if heap.layout.version.0 < 11 { 104 } else { 112 };
        let url = [source_url, 16]
            .into_iter()
            .find_map(|at| {
                let name = heap.field(script, at)?;
                heap.is_string(name).then(|| heap.string(name))?
            })
            .unwrap_or_default();
        let source = heap.field(script, 8)?;
        let length = if heap.is_string(source) {
            heap.string_length(source).unwrap_or(0)
        } else {
            0
        };
        // The collector may have moved a script whose lines are known.
        let key = (url.clone(), id, length);
        if let Some(&known) = self.by_source.get(&key) {
            return Some(known);
        }
        let offset = |heap: &mut Heap<'_>, at| {
            heap.field(script, at)
                .and_then(small_integer)
                .and_then(|offset| u32::try_from(offset).ok())
                .unwrap_or(0)
        };
        let text = read_source(heap, source);
        let entry = Script {
            url,
            line_ends: text.as_ref().map(line_ends_of),
            line_offset: offset(heap, 24),
            column_offset: offset(heap, 32),
            // It follows the field of `//# sourceURL=` (seen in V8 9.4 to 14.x).
            map_url: self.read_map_url(heap, script, source_url + 8),
            text: text.map_or_else(TextMark::default, |text| text.mark()),
        };
        self.scripts.push(entry);
        let index = self.scripts.len() as u32 - 1;
        self.by_source.insert(key, index);
        Some(index)
    }
}

impl Functions {
    /// The scripts of process `pid` that were seen.
    pub(crate) fn loaded_scripts(&self, pid: u32) -> impl Iterator<Item = LoadedScript> {
        self.scripts.iter().map(move |script| LoadedScript {
            pid,
            file: printable(&script.url).into_owned(),
            map_url: script.map_url.clone(),
            text: script.text,
        })
    }

    /// What a script's `//# sourceMappingURL=` comment says; empty when there is none.
    fn read_map_url(&mut self, heap: &mut Heap<'_>, script: u64, at: u64) -> String {
        let left = ALL_MAP_URL_BYTES - self.map_url_bytes;
        let url = heap.field(script, at).and_then(|url| {
            let is_short =
                heap.is_string(url) && heap.string_length(url)? <= MAP_URL_LIMIT_BYTES.min(left);
            let text = is_short.then(|| read_source(heap, url))??;
            text.into_ascii()
        });
        let url = url.unwrap_or_default();
        self.map_url_bytes += url.len();
        url
    }
}

/// The function with this bytecode in the list of a script.
fn search_script(heap: &mut Heap<'_>, script: u64, bytecode: u64, left: &mut u32) -> Option<u64> {
    if !heap.is(script, heap.layout.type_script) {
        return None;
    }
    let list = heap.field(script, heap.layout.script_functions)?;
    for index in 0.. {
        *left = left.checked_sub(1)?;
        // The list does not keep its functions alive: its pointers carry the mark of weak ones.
        let shared = element(heap, list, index)? & !2;
        if heap.is(shared, heap.layout.type_shared)
            && let Some(data) = heap.field(shared, heap.layout.shared_data)
            && bytecode_of(heap, data) == Some(bytecode)
        {
            return Some(shared);
        }
    }
    None
}

/// Reads what a `ScopeInfo` says of its function. Its slots after the fixed ones: names of
/// variables (one slot if they are in a table), their infos, then what the flags announce.
fn read_scope(heap: &mut Heap<'_>, scope: u64) -> Option<Scope> {
    let first = heap.layout.scope_first_variable;
    let is_old = heap.layout.version.0 < 10;
    let has_positions_first = first >= 5;
    let slot = |heap: &mut Heap<'_>, index: u64| heap.field(scope, 8 + 8 * index);
    let flags = slot(heap, 0)?;
    let flags = if has_positions_first {
        flags & 0xffff_ffff
    } else {
        small_integer(flags)? as u64
    };
    let locals = small_integer(slot(heap, 2)?)?;
    if !(0..=100_000).contains(&locals) {
        return None;
    }
    let names = if locals >= LOCALS_IN_TABLE && !is_old {
        1
    } else {
        locals
    };
    let mut next = first + names as u64 + locals as u64;
    if flags >> 10 & 1 != 0 {
        next += 1;
    }
    // V8 9.x keeps a slot for the receiver when it lives on the stack or in a context.
    if is_old && matches!(flags >> 7 & 3, 1 | 2) {
        next += 1;
    }
    let mut name = None;
    if flags >> 12 & 3 != 0 {
        let own = slot(heap, next)?;
        if heap.is_string(own) {
            name = heap.string(own).filter(|name| !name.is_empty());
        }
        next += 2;
    }
    if flags >> 14 & 1 != 0 {
        let inferred = slot(heap, next)?;
        if name.is_none() && heap.is_string(inferred) {
            name = heap.string(inferred);
        }
        next += 1;
    }
    let start = if has_positions_first {
        slot(heap, 3)?
    } else {
        slot(heap, next)?
    };
    let start = small_integer(start).and_then(|start| u32::try_from(start).ok());
    Some(Scope { name, start })
}

/// A text of V8's, a byte or two for each unit.
enum SourceText {
    Narrow(Vec<u8>),
    Wide(Vec<u16>),
}

impl SourceText {
    fn mark(&self) -> TextMark {
        match self {
            Self::Narrow(text) => TextMark::of(text.iter().map(|&unit| u16::from(unit))),
            Self::Wide(text) => TextMark::of(text.iter().copied()),
        }
    }

    fn into_ascii(self) -> Option<String> {
        let bytes = match self {
            Self::Narrow(text) => text,
            Self::Wide(text) => {
                let narrow = text.into_iter().map(|unit| u8::try_from(unit).ok());
                narrow.collect::<Option<Vec<u8>>>()?
            }
        };
        String::from_utf8(bytes).ok().filter(|text| text.is_ascii())
    }
}

/// The text of a source, if it is in one piece.
fn read_source(heap: &mut Heap<'_>, source: u64) -> Option<SourceText> {
    let (data, length, is_wide) = heap.flat_string(source)?;
    let bytes = length.checked_mul(if is_wide { 2 } else { 1 })?;
    if bytes > SOURCE_LIMIT_BYTES {
        return None;
    }
    let text = heap.read_bulk(data, bytes)?;
    Some(match is_wide {
        false => SourceText::Narrow(text),
        true => {
            let units = text.chunks_exact(2);
            SourceText::Wide(
                units
                    .map(|pair| u16::from_ne_bytes([pair[0], pair[1]]))
                    .collect(),
            )
        }
    })
}

/// Where the lines of a source end, by JavaScript's line terminators.
fn line_ends_of(text: &SourceText) -> Vec<u32> {
    match text {
        SourceText::Wide(text) => line_ends((0..text.len()).filter(|&at| match text[at] {
            0x0a | 0x2028 | 0x2029 => true,
            0x0d => text.get(at + 1) != Some(&0x0a),
            _ => false,
        })),
        SourceText::Narrow(text) => line_ends(
            memchr::memchr2_iter(b'\n', b'\r', text)
                .filter(|&at| text[at] == b'\n' || text.get(at + 1) != Some(&b'\n')),
        ),
    }
}

fn line_ends(ends: impl Iterator<Item = usize>) -> Vec<u32> {
    ends.take(LINE_LIMIT).map(|at| at as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v8::stand_in::{Words, with_heap};

    const BASE: u64 = 0x20_0000;

    #[test]
    fn a_script_tells_whose_bytecode_it_is() {
        let mut memory = Words::new(BASE, 0x2000);
        let script = memory.object(BASE + 0x400, 167);
        let list = memory.object(BASE + 0x500, 179);
        let shared = memory.object(BASE + 0x600, 262);
        let bytecode = memory.object(BASE + 0x700, 191);
        let other = memory.object(BASE + 0x780, 191);
        memory.put(BASE + 0x400 + 88, list);
        // Three slots, of which one has not been compiled; pointers in the list are weak.
        memory.put(BASE + 0x500 + 8, 3 << 32);
        memory.put(BASE + 0x500 + 24, shared | 2);
        memory.put(BASE + 0x600 + 8, bytecode);
        let mut functions = Functions::default();
        functions.by_script.insert((script, 1), 0);
        let mut search = |bytecode| {
            with_heap(&memory, |heap| {
                functions.shared_with_bytecode(heap, bytecode)
            })
        };
        assert_eq!(search(bytecode), Some(shared));
        assert_eq!(search(other), None);
        assert_eq!(functions.not_in_scripts.get(&other), Some(&1));
    }

    #[test]
    fn a_function_known_by_its_bytecode_gets_its_name_later() {
        let mut memory = Words::new(BASE, 0x2000);
        let shared = memory.object(BASE + 0x600, 262);
        let name = memory.object(BASE + 0x700, 8);
        memory.put(BASE + 0x600 + 16, name);
        memory.put(BASE + 0x700 + 8, 4 << 32);
        memory.put_bytes(BASE + 0x700 + 16, b"late");
        let mut functions = Functions::default();
        let early = functions.placeholder(0x1001).unwrap();
        assert_eq!(functions.placeholder(0x1001), Some(early));
        assert!(functions.is_placeholder(early));
        with_heap(&memory, |heap| {
            functions.learn_bytecode(heap, 0x2001, shared);
            assert!(functions.is_placeholder(early));
            functions.learn_bytecode(heap, 0x1001, shared);
        });
        assert_eq!(functions.get(early).name, "late");
        assert!(functions.is_named_late(early));
    }
}
