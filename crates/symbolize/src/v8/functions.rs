//! Functions: from a `SharedFunctionInfo` to name, file, line and column.

use std::hash::BuildHasher;
use std::sync::Arc;

use nodespy_model::{FastMap, FastSet, LoadedScript};

use super::aging::Aging;
use super::heap::{Heap, small_integer};
use super::scope::{Scope, read_scope};
use super::scripts::{ScriptId, Scripts, script_of_bytecode};
use super::shares::{LeftOut, MAX_COUNTED, Pools, Share};
use super::texts::Texts;

/// How many functions and scripts are remembered by their address.
const KNOWN_LIMIT: usize = 1 << 20;
/// With more than this a slice leaves nothing to the next, which reads what it needs.
const MAX_KEPT: usize = 1 << 17;
const MAX_KEPT_BYTES: usize = 32 << 20;

/// A function of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FunctionId(pub(crate) u32);

/// What is known of a function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FunctionFacts {
    pub(crate) name: Arc<str>,
    pub(crate) url: Arc<str>,
    /// From 1; 0 when not known.
    pub(crate) line: u32,
    /// From 1; 0 when not known.
    pub(crate) column: u32,
    /// Its script in the table; none for V8's own functions.
    script: Option<ScriptId>,
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

#[derive(Debug, Clone, Copy)]
struct KnownShared {
    name_or_scope: u64,
    script: u64,
    function: FunctionId,
}

/// Every function seen in a process, across its isolates. Where the pools have no room, more functions stay unknown.
#[derive(Debug)]
pub(crate) struct Functions {
    facts: Vec<FunctionFacts>,
    count: Share,
    ids: FastMap<FunctionFacts, FunctionId>,
    texts: Texts,
    by_shared: Aging<u64, KnownShared>,
    scripts: Scripts,
    /// Functions whose file or line could not be read, by their address: as long as the process is
    /// there it is tried again.
    unplaced: FastMap<u64, FunctionId>,
    /// Bytecode that belongs to none of the first so many scripts.
    not_in_scripts: FastMap<u64, usize>,
    /// Functions of which only the bytecode is known, so far.
    placeholders: FastMap<u64, FunctionId>,
    /// Those, and those that are known by now.
    were_placeholders: FastSet<FunctionId>,
    /// What had no room in this slice: addresses, or hashes of names.
    left_out: FastSet<u64>,
}

impl Default for Functions {
    fn default() -> Self {
        Self::new(&Pools::default())
    }
}

impl Functions {
    /// Those of a process that shares pools with others.
    pub(crate) fn new(pools: &Pools) -> Self {
        Self::with(
            pools.functions.share(),
            pools.texts.share(),
            Scripts::new(pools),
        )
    }

    fn with(count: Share, bytes: Share, scripts: Scripts) -> Self {
        Self {
            facts: Vec::new(),
            count,
            ids: FastMap::default(),
            texts: Texts::new(bytes),
            by_shared: Aging::default(),
            scripts,
            unplaced: FastMap::default(),
            not_in_scripts: FastMap::default(),
            placeholders: FastMap::default(),
            were_placeholders: FastSet::default(),
            left_out: FastSet::default(),
        }
    }

    pub(crate) fn get(&self, id: FunctionId) -> &FunctionFacts {
        &self.facts[id.0 as usize]
    }

    /// The functions so far, for a process that has started another program: what was known by its
    /// address is forgotten.
    pub(crate) fn after_exec(mut self, new: Self) -> Self {
        self.by_shared.clear();
        self.unplaced.clear();
        self.not_in_scripts.clear();
        self.placeholders.clear();
        Self {
            scripts: new.scripts,
            ..self
        }
    }

    /// An empty table for another process.
    pub(crate) fn of_another(&self) -> Self {
        let (count, bytes) = (self.count.sibling(), self.texts.bytes.sibling());
        Self::with(count, bytes, self.scripts.successor())
    }

    /// Starts afresh: nothing refers to a function any more.
    pub(super) fn forget_all(&mut self) {
        *self = self.of_another();
    }

    fn push(&mut self, facts: FunctionFacts) -> FunctionId {
        self.count.take(1);
        self.facts.push(facts);
        FunctionId(self.facts.len() as u32 - 1)
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
        if !self.has_room_for(shared) {
            return None;
        }
        let (facts, is_whole) = self.read(heap, shared, name_or_scope, script)?;
        if !is_whole {
            return Some(self.without_place(shared, facts));
        }
        let function = self.intern(facts);
        if let Some(early) = self.unplaced.remove(&shared)
            && self.get(early).name == self.get(function).name
        {
            self.facts[early.0 as usize] = self.get(function).clone();
        }
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

    /// The function whose `SharedFunctionInfo` was at an address when it could be read.
    pub(super) fn known_at(&mut self, shared: u64) -> Option<FunctionId> {
        let known = self.by_shared.get(&shared).map(|known| known.function);
        known.or_else(|| self.unplaced.get(&shared).copied())
    }

    /// A function whose place can't be read now: the one that was at its address with the same name, or
    /// one of its own, which gets its place when that is read.
    fn without_place(&mut self, shared: u64, facts: FunctionFacts) -> FunctionId {
        let known = self.by_shared.get(&shared).map(|known| known.function);
        let early = self.unplaced.get(&shared).copied();
        let is_same = |id: &FunctionId| self.get(*id).name == facts.name;
        if let Some(same) = [known, early].into_iter().flatten().find(is_same) {
            return same;
        }
        if self.unplaced.len() >= KNOWN_LIMIT {
            self.unplaced.clear();
        }
        let id = self.push(facts);
        self.unplaced.insert(shared, id);
        id
    }

    /// To be called before each batch of samples.
    pub(crate) fn start_batch(&mut self) {
        self.scripts.start_batch();
        if self.not_in_scripts.len() >= KNOWN_LIMIT {
            self.not_in_scripts.clear();
        }
    }

    #[cfg(test)]
    pub(super) fn known_by_address(&self) -> usize {
        self.by_shared.len()
    }

    /// Forgets what was known by addresses that were not seen since the last sweep.
    pub(super) fn sweep(&mut self) {
        self.by_shared.sweep();
        self.scripts.sweep();
    }

    /// A function of which only the bytecode is known. A later frame may tell which it is.
    pub(crate) fn placeholder(&mut self, bytecode: u64) -> Option<FunctionId> {
        if let Some(&known) = self.placeholders.get(&bytecode) {
            return Some(known);
        }
        if !self.has_room_for(bytecode) {
            return None;
        }
        // Its own entry: what it turns out to be takes its place.
        let facts = FunctionFacts {
            name: self.texts.intern("[unknown]"),
            url: self.texts.intern(""),
            line: 0,
            column: 0,
            script: None,
            kind: FunctionKind::Placeholder,
        };
        let id = self.push(facts);
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
        self.scripts.count()
    }

    /// The `SharedFunctionInfo` with this bytecode. Bytecode does not lead to its function, but
    /// each script lists what was compiled of it; those seen so far are searched.
    pub(crate) fn shared_with_bytecode(
        &mut self,
        heap: &mut Heap<'_>,
        bytecode: u64,
    ) -> Option<u64> {
        let scripts = self.scripts.count();
        if self.not_in_scripts.get(&bytecode) == Some(&scripts) {
            return None;
        }
        let found = self
            .scripts
            .function_with_bytecode(heap, bytecode)
            .or_else(|| self.function_of_new_script(heap, bytecode));
        if found.is_none() {
            self.not_in_scripts.insert(bytecode, scripts);
        }
        found
    }

    /// The same in a script that was not seen yet, which the functions inside of this one lead to: a
    /// worker that starts runs each script once, and its closures are dead soon after.
    fn function_of_new_script(&mut self, heap: &mut Heap<'_>, bytecode: u64) -> Option<u64> {
        let script = script_of_bytecode(heap, bytecode)?;
        self.script(heap, script)?;
        self.scripts.function_in_script(heap, script, bytecode)
    }

    fn intern(&mut self, facts: FunctionFacts) -> FunctionId {
        if let Some(&known) = self.ids.get(&facts) {
            return known;
        }
        let id = self.push(facts.clone());
        self.ids.insert(facts, id);
        id
    }

    /// The regular expression with this source, as it is written in JavaScript.
    pub(crate) fn of_regexp(&mut self, source: Option<&str>) -> FunctionId {
        let source = source.filter(|source| self.has_room_for_name(source, ""));
        let name = source.map(|source| format!("/{source}/"));
        let name = name.as_deref().unwrap_or("[regexp]");
        self.without_script(name, "", FunctionKind::RegExp)
    }

    /// The function of a WebAssembly module with this name.
    pub(crate) fn of_wasm(&mut self, name: &str, url: &str) -> FunctionId {
        let (name, url) = match self.has_room_for_name(name, url) {
            true => (name, url),
            false => ("wasm-function[?]", ""),
        };
        self.without_script(name, url, FunctionKind::Wasm)
    }

    fn without_script(&mut self, name: &str, url: &str, kind: FunctionKind) -> FunctionId {
        let facts = FunctionFacts {
            name: self.texts.intern(name),
            url: self.texts.intern(url),
            line: 0,
            column: 0,
            script: None,
            kind,
        };
        self.intern(facts)
    }

    /// Whether one more function is told apart. One that is not is counted, once in a slice.
    fn has_room_for(&mut self, function: u64) -> bool {
        let has_room = self.count.room() > 0 && !self.texts.is_full();
        if !has_room && self.left_out.len() < MAX_COUNTED {
            self.left_out.insert(function);
        }
        has_room
    }

    /// The same of a function that no address stands for.
    fn has_room_for_name(&mut self, name: &str, url: &str) -> bool {
        self.has_room_for(self.left_out.hasher().hash_one((name, url)))
    }

    /// What the pools had no room for in this slice.
    pub(crate) fn left_out(&self) -> LeftOut {
        LeftOut {
            functions: self.left_out.len(),
            ..self.scripts.left_out()
        }
    }

    /// To be called when that has been said.
    pub(super) fn end_slice(&mut self) {
        self.left_out = FastSet::default();
        self.scripts.end_slice();
    }

    /// What is known of a function, and whether that is all there is.
    fn read(
        &mut self,
        heap: &mut Heap<'_>,
        shared: u64,
        name_or_scope: u64,
        script: u64,
    ) -> Option<(FunctionFacts, bool)> {
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
        // V8's own functions have something else there, not nothing that can be read.
        let has_script = heap.type_of(script).is_some();
        let script = self.script(heap, script);
        let place = scope
            .start
            .zip(script)
            .and_then(|(start, script)| self.scripts.place(heap, script, start));
        let has_place = match (scope.start, script) {
            (Some(_), Some(script)) => place.is_some() || self.scripts.is_given_up(script),
            _ => has_script,
        };
        let (line, column) = place.unwrap_or((0, 0));
        let name = scope.name.filter(|name| !name.is_empty());
        let url = script.map_or("", |script| self.scripts.url(script));
        let facts = FunctionFacts {
            name: self.texts.intern(name.as_deref().unwrap_or("(anonymous)")),
            url: self.texts.intern(url),
            line,
            column,
            script,
            kind,
        };
        Some((facts, has_place || kind == FunctionKind::Builtin))
    }

    /// Line and column of an offset into the source of a function's script.
    pub(crate) fn place_in(
        &mut self,
        heap: &mut Heap<'_>,
        function: FunctionId,
        offset: u32,
    ) -> Option<(u32, u32)> {
        let script = self.get(function).script?;
        self.scripts.place(heap, script, offset)
    }

    fn script(&mut self, heap: &mut Heap<'_>, object: u64) -> Option<ScriptId> {
        if self.scripts.is_full() {
            // Functions are read again with their scripts.
            self.scripts.clear();
            self.by_shared.clear();
            self.not_in_scripts.clear();
        }
        self.scripts.find(heap, object)
    }

    /// The scripts of process `pid` that are remembered.
    pub(crate) fn loaded_scripts(&self, pid: u32) -> impl Iterator<Item = LoadedScript> + '_ {
        self.scripts.loaded(pid)
    }

    /// Whether so much is held that it should not be kept for the next slice.
    pub(crate) fn is_large(&self) -> bool {
        self.facts.len() > MAX_KEPT
            || self.texts.bytes.held() > MAX_KEPT_BYTES
            || self.count.is_too_much()
            || self.texts.bytes.is_too_much()
            || self.scripts.holds_too_much()
    }

    /// What the addresses of source maps take, for whoever goes on holding them.
    pub(crate) fn into_map_urls(self) -> Share {
        self.scripts.into_map_urls()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v8::shares::Pool;
    use crate::v8::stand_in::{Words, with_heap};

    const BASE: u64 = 0x20_0000;

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
        assert_eq!(&*functions.get(early).name, "late");
        assert!(functions.is_named_late(early));
    }

    /// A function `late` at offset 3 of a script whose source can or can't be read.
    fn with_source(is_readable: bool) -> (Words, u64) {
        let mut memory = Words::new(BASE, 0x2000);
        let shared = memory.object(BASE + 0x600, 262);
        let scope = memory.object(BASE + 0x680, 261);
        let name = memory.object(BASE + 0x700, 8);
        let script = memory.object(BASE + 0x780, 167);
        let source = memory.object(BASE + 0x900, 8);
        memory.put(BASE + 0x600 + 16, scope);
        memory.put(BASE + 0x600 + 32, script);
        memory.put(BASE + 0x600 + 8, scope);
        // Flags say that a name follows, then the start of the function.
        memory.put(BASE + 0x680 + 8, 1 << 12 << 32);
        memory.put(BASE + 0x680 + 32, name);
        memory.put(BASE + 0x680 + 48, 3 << 32);
        memory.put(BASE + 0x700 + 8, 4 << 32);
        memory.put_bytes(BASE + 0x700 + 16, b"late");
        memory.put(BASE + 0x900 + 8, 5 << 32);
        memory.put_bytes(BASE + 0x900 + 16, b"a\nb\nc");
        // While the collector moves it there is no text behind the pointer.
        let pointer = if is_readable { source } else { BASE + 0x1ff1 };
        memory.put(BASE + 0x780 + 8, pointer);
        (memory, shared)
    }

    const URL_LENGTH: usize = 1000;

    /// Functions `f00`, `f01`, … of one script with a long url.
    fn of_one_script(count: u64) -> (Words, Vec<u64>) {
        let mut memory = Words::new(BASE, 0x10_0000);
        let script = memory.object(BASE + 0x4000, 167);
        let url = memory.object(BASE + 0x5000, 8);
        memory.put(BASE + 0x4000 + 16, url);
        memory.put(BASE + 0x5000 + 8, (URL_LENGTH as u64) << 32);
        memory.put_bytes(BASE + 0x5000 + 16, &[b'u'; URL_LENGTH]);
        let shared = (0..count).map(|number| {
            let at = BASE + 0x8000 + number * 0x100;
            let shared = memory.object(at, 262);
            let name = memory.object(at + 0x80, 8);
            memory.put(at + 16, name);
            memory.put(at + 32, script);
            memory.put(at + 0x80 + 8, 3 << 32);
            memory.put_bytes(at + 0x80 + 16, format!("f{number:02}").as_bytes());
            shared
        });
        let shared = shared.collect();
        (memory, shared)
    }

    #[test]
    fn functions_of_one_script_hold_its_url_once() {
        let (memory, shared) = of_one_script(90);
        let mut functions = Functions::default();
        with_heap(&memory, |heap| {
            for &shared in &shared {
                let id = functions.of_shared(heap, shared).unwrap();
                assert_eq!(functions.get(id).url.len(), URL_LENGTH);
            }
        });
        assert_eq!(functions.facts.len(), 90);
        assert_eq!(functions.texts.bytes.held(), URL_LENGTH + 90 * 3);
    }

    #[test]
    fn names_and_urls_of_a_slice_have_a_budget() {
        let (memory, shared) = of_one_script(90);
        let mut functions = Functions::new(&Pools {
            texts: Pool::of(2 * (URL_LENGTH + 10 * 3)),
            ..Pools::default()
        });
        let known = with_heap(&memory, |heap| {
            let mut known = |&shared: &u64| functions.of_shared(heap, shared).is_some();
            shared.iter().filter(|shared| known(shared)).count()
        });
        assert_eq!(known, 10);
        let regexp = functions.of_regexp(Some("a+"));
        assert_eq!(&*functions.get(regexp).name, "[regexp]");
        let wasm = functions.of_wasm("f", "/a.wasm");
        assert_eq!(&*functions.get(wasm).name, "wasm-function[?]");
        assert!(functions.placeholder(0x1001).is_none());
        assert!(functions.placeholder(0x1001).is_none(), "and counted once");
        assert_eq!(functions.left_out().functions, 80 + 3);
        // What was known still is.
        let again = with_heap(&memory, |heap| functions.of_shared(heap, shared[0]));
        assert_eq!(&*functions.get(again.unwrap()).name, "f00");
    }

    #[test]
    fn names_of_all_processes_have_one_pool_and_dead_ones_give_theirs_back() {
        let limit = 8 * (URL_LENGTH + 90 * 3);
        let pools = Pools {
            texts: Pool::of(limit),
            functions: Pool::of(1000),
            ..Pools::default()
        };
        let (memory, shared) = of_one_script(90);
        let mut processes: Vec<Functions> = (0..50).map(|_| Functions::new(&pools)).collect();
        let known = |functions: &mut Functions| {
            with_heap(&memory, |heap| {
                let mut known = |&shared: &u64| functions.of_shared(heap, shared).is_some();
                shared.iter().filter(|shared| known(shared)).count()
            })
        };
        let counts: Vec<usize> = processes.iter_mut().map(&known).collect();
        assert_eq!((counts[0], counts[49]), (90, 0), "{counts:?}");
        assert!(pools.texts.held() <= limit && pools.functions.held() <= 1000);
        assert!(processes[0].is_large(), "others were refused some");
        processes[0].forget_all();
        assert_eq!(processes[0].texts.bytes.held(), 0);
        processes.drain(..49);
        assert_eq!(known(&mut processes[0]), 90);
        processes.clear();
        assert_eq!((pools.texts.held(), pools.functions.held()), (0, 0));
    }

    #[test]
    fn a_function_gets_its_line_when_the_source_can_be_read() {
        let mut functions = Functions::default();
        let (memory, shared) = with_source(false);
        let early = with_heap(&memory, |heap| functions.of_shared(heap, shared)).unwrap();
        assert_eq!(&*functions.get(early).name, "late");
        assert_eq!(functions.get(early).line, 0);
        functions.start_batch();
        let (memory, shared) = with_source(true);
        let known = with_heap(&memory, |heap| functions.of_shared(heap, shared)).unwrap();
        assert_eq!(functions.get(known).line, 2);
        assert_eq!(functions.get(early), functions.get(known));
        // The process has ended in between: it is still the function it was.
        let (memory, shared) = with_source(false);
        functions.start_batch();
        let again = with_heap(&memory, |heap| functions.of_shared(heap, shared)).unwrap();
        assert_eq!(functions.get(again).line, 2);
    }
}
