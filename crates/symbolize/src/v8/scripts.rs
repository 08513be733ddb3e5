//! The scripts of a process: their urls, where their lines end, and what leads to their source maps.
//!
//! A program can have millions of them, and one source in all of them. Line ends draw from one pool for all processes:
//! where there is no room they are given up, and read again when they are next asked for. A table that is
//! full starts afresh.

use nodespy_model::{FastMap, FastSet, LoadedScript, SmallSort, TextMark, printable};

use super::code_tables::{bytecode_of, element};
use super::heap::{Heap, small_integer};
use super::shares::{LeftOut, Pools, Share};
use super::source_text::{line_ends_of, read_source};

/// How many bytes of sources are read in one batch of samples.
const BATCH_SOURCE_BYTES: u64 = 256 << 20;
/// No longer address of a source map is read: a map may be in it.
const MAP_URL_LIMIT_BYTES: usize = 64 << 20;
/// How many scripts are held.
const MAX_SCRIPTS: usize = 1 << 16;
/// In how many batches of samples a source is tried to be read.
const MAX_TRIES: u8 = 10;
/// How many fields of bytecode may lead to its constants, and how many of these are looked at.
const BYTECODE_FIELDS: u64 = 8;
const MAX_CONSTANTS: u64 = 64;
/// How many functions of scripts are looked at in one batch of samples.
const BATCH_SEARCH: u32 = 200_000;

/// A script, by a number that is never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ScriptId(u32);

/// Where the lines of a script end.
#[derive(Debug)]
enum Lines {
    Known(Box<[u32]>),
    /// The source could not be read when it was last tried, in this batch: the collector may have
    /// been moving it.
    Unreadable {
        tries: u8,
        batch: u32,
    },
    /// To be read when they are asked for.
    Unread,
}

#[derive(Debug)]
struct Script {
    /// Where it was last seen, with its id and the length of its source.
    object: u64,
    id: i64,
    length: usize,
    url: String,
    lines: Lines,
    line_offset: u32,
    column_offset: u32,
    map_url: String,
    text: TextMark,
    /// Whether a place in it was asked for since the last sweep.
    is_used: bool,
}

/// The scripts that have been seen, as far as they are remembered.
#[derive(Debug)]
pub(super) struct Scripts {
    list: FastMap<ScriptId, Script>,
    next: u32,
    by_object: FastMap<(u64, i64), ScriptId>,
    by_source: FastMap<(String, i64, usize), ScriptId>,
    line_ends: Share,
    map_urls: Share,
    /// Those that were asked for in this slice and whose line ends had no room.
    without_lines: FastSet<ScriptId>,
    /// How many have the address of a source map that had no room.
    without_map: usize,
    /// The number of this batch.
    batch: u32,
    /// How much may still be read and searched in this batch.
    source_bytes_left: u64,
    search_left: u32,
}

impl Scripts {
    /// Ready for a batch: a process may turn up in the middle of one.
    pub(super) fn new(pools: &Pools) -> Self {
        Self {
            list: FastMap::default(),
            next: 0,
            by_object: FastMap::default(),
            by_source: FastMap::default(),
            line_ends: pools.line_ends.share(),
            map_urls: pools.map_urls.share(),
            without_lines: FastSet::default(),
            without_map: 0,
            batch: 0,
            source_bytes_left: BATCH_SOURCE_BYTES,
            search_left: BATCH_SEARCH,
        }
    }

    /// To be called before each batch of samples.
    pub(super) fn start_batch(&mut self) {
        self.batch = self.batch.wrapping_add(1);
        self.source_bytes_left = BATCH_SOURCE_BYTES;
        self.search_left = BATCH_SEARCH;
    }

    /// Gives up the line ends of scripts that were not asked for since the last sweep.
    pub(super) fn sweep(&mut self) {
        for script in self.list.values_mut() {
            let is_used = std::mem::take(&mut script.is_used);
            if let (false, Lines::Known(ends)) = (is_used, &script.lines) {
                self.line_ends.give_back(ends.len());
                script.lines = Lines::Unread;
            }
        }
    }

    /// How many objects have been seen to be scripts.
    pub(super) fn count(&self) -> usize {
        self.by_object.len()
    }

    /// Whether no more fit: then the table has to start afresh.
    pub(super) fn is_full(&self) -> bool {
        self.by_object.len() >= MAX_SCRIPTS
    }

    /// Forgets every script. Numbers go on, so that no old one leads to a new script.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.by_object.clear();
        self.by_source.clear();
        self.line_ends.give_back(self.line_ends.held());
        self.map_urls.give_back(self.map_urls.held());
        self.without_lines.clear();
        self.without_map = 0;
    }

    /// What the pools had no room for.
    pub(super) fn left_out(&self) -> LeftOut {
        LeftOut {
            lines: self.without_lines.len(),
            maps: self.without_map,
            ..LeftOut::default()
        }
    }

    /// To be called when that has been said: lines are tried again when they are next asked for.
    pub(super) fn end_slice(&mut self) {
        self.without_lines.clear();
    }

    /// An empty table for the same process.
    pub(super) fn successor(&self) -> Self {
        Self {
            list: FastMap::default(),
            next: self.next,
            by_object: FastMap::default(),
            by_source: FastMap::default(),
            line_ends: self.line_ends.sibling(),
            map_urls: self.map_urls.sibling(),
            without_lines: FastSet::default(),
            without_map: 0,
            ..*self
        }
    }

    /// Whether others need what is held here.
    pub(super) fn holds_too_much(&self) -> bool {
        self.line_ends.is_too_much() || self.map_urls.is_too_much()
    }

    /// What the addresses of source maps take, for whoever goes on holding them.
    pub(super) fn into_map_urls(self) -> Share {
        self.map_urls
    }

    pub(super) fn url(&self, script: ScriptId) -> &str {
        self.list.get(&script).map_or("", |script| &script.url)
    }

    /// The scripts that are remembered, as those of process `pid`.
    pub(super) fn loaded(&self, pid: u32) -> impl Iterator<Item = LoadedScript> + '_ {
        let mut list: Vec<_> = self.list.iter().collect();
        list.small_sort_by_key(|(id, _)| id.0);
        list.into_iter().map(move |(_, script)| LoadedScript {
            pid,
            file: printable(&script.url).into_owned(),
            map_url: script.map_url.clone(),
            text: script.text,
        })
    }

    /// The script of a function, one hop further where a debugger has been at work.
    pub(super) fn find(&mut self, heap: &mut Heap<'_>, object: u64) -> Option<ScriptId> {
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
        let id = script_id(heap, script)?;
        if let Some(&known) = self.by_object.get(&(script, id)) {
            // That of another isolate, where it was seen last, may be gone.
            if let Some(seen) = self.list.get_mut(&known) {
                seen.object = script;
            }
            return Some(known);
        }
        let found = self.read(heap, script, id)?;
        self.by_object.insert((script, id), found);
        Some(found)
    }

    fn read(&mut self, heap: &mut Heap<'_>, script: u64, id: i64) -> Option<ScriptId> {
        // A `//# sourceURL=` comment goes before the name, as in V8's own profiler.
        let source_url = heap.layout.script_source_url;
        let url = [source_url, SCRIPT_NAME]
            .into_iter()
            .find_map(|at| {
                let name = heap.field(script, at)?;
                heap.is_string(name).then(|| heap.string(name))?
            })
            .unwrap_or_default();
        let length = source_length(heap, script)?;
        // The collector may have moved a script whose lines are known.
        let key = (url.clone(), id, length);
        if let Some(&known) = self.by_source.get(&key) {
            if let Some(moved) = self.list.get_mut(&known) {
                moved.object = script;
            }
            return Some(known);
        }
        let offset = |heap: &mut Heap<'_>, at| {
            heap.field(script, at)
                .and_then(small_integer)
                .and_then(|offset| u32::try_from(offset).ok())
                .unwrap_or(0)
        };
        let entry = Script {
            object: script,
            id,
            length,
            url,
            lines: Lines::Unread,
            line_offset: offset(heap, 24),
            column_offset: offset(heap, 32),
            // It follows the field of `//# sourceURL=` (seen in V8 9.4 to 14.x).
            map_url: self.read_map_url(heap, script, source_url + 8),
            text: TextMark::default(),
            is_used: true,
        };
        let number = ScriptId(self.next);
        self.next = self.next.wrapping_add(1);
        self.list.insert(number, entry);
        self.by_source.insert(key, number);
        self.read_lines(heap, number);
        Some(number)
    }

    /// Reads the lines of a script, if it is still where it was seen.
    fn read_lines(&mut self, heap: &mut Heap<'_>, number: ScriptId) {
        let Some(script) = self.list.get(&number) else {
            return;
        };
        let object = script.object;
        let tries = match script.lines {
            Lines::Unreadable { tries, .. } => tries,
            _ => 0,
        };
        let Some(length) = source_length(heap, object) else {
            return;
        };
        // What could not be read may have had another length.
        if script_id(heap, object) != Some(script.id) || tries == 0 && length != script.length {
            return;
        }
        let Some(left) = self.source_bytes_left.checked_sub(length as u64) else {
            return;
        };
        self.source_bytes_left = left;
        let text = heap
            .field(object, SCRIPT_SOURCE)
            .and_then(|source| read_source(heap, source));
        let (lines, mark) = match &text {
            None => {
                let (tries, batch) = (tries.saturating_add(1), self.batch);
                (Lines::Unreadable { tries, batch }, TextMark::default())
            }
            Some(text) => {
                let ends = line_ends_of(text).into_boxed_slice();
                let lines = match self.make_room(ends.len()) {
                    true => {
                        self.without_lines.remove(&number);
                        Lines::Known(ends)
                    }
                    // Others may give some back: it is not given up.
                    false => {
                        self.without_lines.insert(number);
                        Lines::Unreadable {
                            tries: tries.clamp(1, MAX_TRIES - 1),
                            batch: self.batch,
                        }
                    }
                };
                (lines, text.mark())
            }
        };
        if let Some(script) = self.list.get_mut(&number) {
            script.lines = lines;
            script.text = mark;
        }
    }

    /// Makes room for so many line ends, at the cost of others of this process; returns whether there is.
    fn make_room(&mut self, count: usize) -> bool {
        if self.line_ends.draw(count) {
            return true;
        }
        for script in self.list.values_mut() {
            if matches!(script.lines, Lines::Known(_)) {
                script.lines = Lines::Unread;
            }
        }
        self.line_ends.give_back(self.line_ends.held());
        self.line_ends.draw(count)
    }

    /// Line and column of an offset into the source of a script.
    pub(super) fn place(
        &mut self,
        heap: &mut Heap<'_>,
        number: ScriptId,
        offset: u32,
    ) -> Option<(u32, u32)> {
        let script = self.list.get_mut(&number)?;
        script.is_used = true;
        let is_wanted = match script.lines {
            Lines::Known(_) => false,
            Lines::Unreadable { tries, batch } => tries < MAX_TRIES && batch != self.batch,
            Lines::Unread => true,
        };
        if is_wanted {
            self.read_lines(heap, number);
        }
        let script = self.list.get(&number)?;
        let Lines::Known(ends) = &script.lines else {
            return None;
        };
        let line = ends.partition_point(|&end| end < offset);
        let start = line.checked_sub(1).map_or(0, |before| ends[before] + 1);
        let mut column = offset.checked_sub(start)? + 1;
        if line == 0 {
            column = column.saturating_add(script.column_offset);
        }
        let line = (line as u32).saturating_add(1);
        Some((line.saturating_add(script.line_offset), column))
    }

    /// Whether the lines of a script are given up.
    pub(super) fn is_given_up(&self, number: ScriptId) -> bool {
        let script = self.list.get(&number);
        script.is_none_or(
            |script| matches!(script.lines, Lines::Unreadable { tries, .. } if tries >= MAX_TRIES),
        )
    }

    /// What a script's `//# sourceMappingURL=` comment says; empty when there is none.
    fn read_map_url(&mut self, heap: &mut Heap<'_>, script: u64, at: u64) -> String {
        let left = self.map_urls.room();
        let url = heap.field(script, at).and_then(|url| {
            let length = heap.is_string(url).then(|| heap.string_length(url))??;
            let is_address = length <= MAP_URL_LIMIT_BYTES;
            self.without_map += usize::from(is_address && length > left);
            let is_read = is_address && length <= left;
            let text = is_read.then(|| read_source(heap, url))??;
            text.into_ascii()
        });
        let url = url.unwrap_or_default();
        self.map_urls.take(url.len());
        url
    }

    /// The function with some bytecode, searched in the scripts that are known: each lists what was
    /// compiled of it.
    pub(super) fn function_with_bytecode(
        &mut self,
        heap: &mut Heap<'_>,
        bytecode: u64,
    ) -> Option<u64> {
        let left = &mut self.search_left;
        self.by_object
            .keys()
            .find_map(|&(script, _)| search_script(heap, script, bytecode, left))
    }

    /// The function with some bytecode in one script.
    pub(super) fn function_in_script(
        &mut self,
        heap: &mut Heap<'_>,
        script: u64,
        bytecode: u64,
    ) -> Option<u64> {
        search_script(heap, script, bytecode, &mut self.search_left)
    }
}

/// The script that some bytecode was compiled of: that of the functions in it, which its constants list.
pub(super) fn script_of_bytecode(heap: &mut Heap<'_>, bytecode: u64) -> Option<u64> {
    // Which field has the constants differs between versions of V8; the types of what is in them do not.
    let fields: Vec<u64> = (2..BYTECODE_FIELDS)
        .filter_map(|field| heap.field(bytecode, field * 8))
        .collect();
    fields.into_iter().find_map(|constants| {
        let shared = (0..MAX_CONSTANTS).find_map(|index| {
            let constant = element(heap, constants, index)?;
            heap.is(constant, heap.layout.type_shared)
                .then_some(constant)
        })?;
        heap.field(shared, heap.layout.shared_script)
    })
}

/// Where a script has its source, its name and its id (V8 9.4 to 14.6).
const SCRIPT_SOURCE: u64 = 8;
const SCRIPT_NAME: u64 = 16;
const SCRIPT_ID: u64 = 64;

fn script_id(heap: &mut Heap<'_>, script: u64) -> Option<i64> {
    let id = heap.field(script, SCRIPT_ID)?;
    Some(small_integer(id).unwrap_or(-1))
}

fn source_length(heap: &mut Heap<'_>, script: u64) -> Option<usize> {
    let source = heap.field(script, SCRIPT_SOURCE)?;
    match heap.is_string(source) {
        true => Some(heap.string_length(source).unwrap_or(0)),
        false => Some(0),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v8::shares::Pool;
    use crate::v8::stand_in::{Words, with_heap};

    const BASE: u64 = 0x20_0000;
    const SOURCE: u64 = BASE + 0x8000;

    /// A process with so many scripts, all with one source of so many empty lines.
    fn process(scripts: u64, lines: usize) -> (Words, Vec<u64>) {
        let mut memory = Words::new(BASE, 0x9000 + lines);
        let source = memory.object(SOURCE, 40);
        memory.put(SOURCE + 8, (lines as u64) << 32);
        memory.put_bytes(SOURCE + 16, &vec![b'\n'; lines]);
        let objects = (0..scripts).map(|number| {
            let at = BASE + 0x2000 + number * 0x100;
            let script = memory.object(at, 167);
            memory.put(at + 8, source);
            memory.put(at + SCRIPT_ID, number << 32);
            script
        });
        let objects = objects.collect();
        (memory, objects)
    }

    /// The scripts of the only process of a pool of so many line ends.
    fn scripts_within(line_ends: usize) -> Scripts {
        Scripts::new(&Pools {
            line_ends: Pool::of(line_ends),
            ..Pools::default()
        })
    }

    #[test]
    fn line_ends_of_all_processes_have_one_pool() {
        let pools = Pools {
            line_ends: Pool::of(16_000),
            ..Pools::default()
        };
        let (memory, objects) = process(9, 1000);
        let mut processes: Vec<Scripts> = (0..50).map(|_| Scripts::new(&pools)).collect();
        with_heap(&memory, |heap| {
            for scripts in &mut processes {
                for &object in &objects {
                    scripts.find(heap, object);
                }
            }
            assert!(pools.line_ends.held() <= 16_000);
            // The last ones got none.
            let last = processes.last_mut().unwrap();
            let number = last.find(heap, objects[0]).unwrap();
            assert_eq!(last.place(heap, number, 41), None);
            assert_eq!(last.left_out().lines, 9);
            assert!(processes[0].holds_too_much());
            // What the first ones held is given back, and the last one is tried again.
            processes.drain(..4);
            let last = processes.last_mut().unwrap();
            last.start_batch();
            assert_eq!(last.place(heap, number, 41), Some((42, 1)));
            assert_eq!(last.left_out().lines, 8);
            last.end_slice();
            assert_eq!(last.left_out(), LeftOut::default());
            processes.clear();
            assert_eq!(pools.line_ends.held(), 0);
        });
    }

    #[test]
    fn line_ends_of_all_scripts_have_one_budget() {
        let (memory, objects) = process(9, 1000);
        let mut scripts = scripts_within(8000);
        with_heap(&memory, |heap| {
            let numbers: Vec<ScriptId> = objects
                .iter()
                .map(|&object| scripts.find(heap, object).unwrap())
                .collect();
            assert!(scripts.line_ends.held() <= 4000);
            let known = scripts.list.values();
            let known = known.filter(|script| matches!(script.lines, Lines::Known(_)));
            assert!(known.count() <= 4);
            // What was given up is read again.
            for number in numbers {
                assert_eq!(scripts.place(heap, number, 41), Some((42, 1)));
            }
            assert!(scripts.line_ends.held() <= 4000);
        });
    }

    #[test]
    fn sources_of_a_batch_are_read_only_up_to_a_limit() {
        let (memory, objects) = process(1, 100);
        let mut scripts = Scripts {
            source_bytes_left: 99,
            ..Scripts::new(&Pools::default())
        };
        with_heap(&memory, |heap| {
            let number = scripts.find(heap, objects[0]).unwrap();
            assert_eq!(scripts.place(heap, number, 3), None);
            scripts.start_batch();
            assert_eq!(scripts.place(heap, number, 3), Some((4, 1)));
        });
    }

    #[test]
    fn a_cleared_table_leads_no_old_number_to_a_new_script() {
        let (memory, objects) = process(2, 10);
        let mut scripts = Scripts::new(&Pools::default());
        with_heap(&memory, |heap| {
            let old = scripts.find(heap, objects[0]).unwrap();
            scripts.clear();
            let new = scripts.find(heap, objects[1]).unwrap();
            assert_ne!(old, new);
            assert_eq!(scripts.place(heap, old, 0), None);
            assert_eq!(scripts.place(heap, new, 0), Some((1, 1)));
        });
    }

    #[test]
    fn a_script_lists_the_functions_compiled_of_it() {
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
        let mut scripts = Scripts::new(&Pools::default());
        with_heap(&memory, |heap| {
            scripts.find(heap, script);
            let mut search = |bytecode| scripts.function_with_bytecode(heap, bytecode);
            assert_eq!(search(bytecode), Some(shared));
            assert_eq!(search(other), None);
        });
    }

    #[test]
    fn bytecode_leads_to_its_script_by_the_functions_inside() {
        let mut memory = Words::new(BASE, 0x2000);
        let script = memory.object(BASE + 0x400, 167);
        let inner = memory.object(BASE + 0x600, 262);
        let bytecode = memory.object(BASE + 0x700, 191);
        let constants = memory.object(BASE + 0x800, 179);
        memory.put(BASE + 0x600 + 32, script);
        memory.put(BASE + 0x700 + 16, constants);
        // A number and a string, or so, come first.
        memory.put(BASE + 0x800 + 8, 3 << 32);
        memory.put(BASE + 0x800 + 16, 7 << 32);
        memory.put(BASE + 0x800 + 32, inner);
        let lonely = memory.object(BASE + 0x900, 191);
        with_heap(&memory, |heap| {
            assert_eq!(script_of_bytecode(heap, bytecode), Some(script));
            assert_eq!(script_of_bytecode(heap, lonely), None);
        });
    }
}
