//! The stores of AsyncLocalStorage that a sample runs with: the trace and span of OpenTelemetry, and properties that are asked
//! for by name.
//!
//! From Node 24 on a thread has a `Map` of its stores in its isolate, which is changed with each continuation. Where the isolate is
//! follows from a register of V8's code. Before, each promise and each resource of a callback has the stores as properties: the job
//! that runs has its promise, and frames of Node's own functions have the resource ([`scopes`](super::scopes)). What they hold is copied at the sampled instruction; as with requests, what is copied of which class is learned here.

use std::rc::Rc;

use nodespy_model::{CopyRules, FastMap, FastSet, StoreSlot};

use super::SampleView;
use super::async_chain;
use super::functions::Functions;
use super::heap::{Heap, is_pointer, small_integer};
use super::properties::{self, Place, PropertyLayout};
use super::sampled::{Sampled, SampledText};
use super::scopes::Entered;
pub use super::store_classes::StoreOptions;
use super::store_classes::{Class, Name};
use crate::frame::{CodeAddress, Unwound};

/// Where an isolate has the stores, from its start: "continuation preserved embedder data". Checked on Node 22.23.3 (with
/// `--experimental-async-context-frame`), 24.21.0, 25.9.0 and 26.10.0; what is there is believed only if its keys are of Node's own
/// class.
const SLOTS: [((u32, u32), u64); 4] = [
    ((12, 4), 576),
    ((13, 6), 632),
    ((14, 1), 640),
    ((14, 6), 680),
];
/// The last V8 of a Node in which resources have the stores: that of Node 22.
const RESOURCES_UNTIL: (u32, u32) = (12, 4);
/// On a V8 that is not among them, how much of the isolate is searched.
const SEARCHED_BYTES: u64 = 1024;
/// V8's code has the isolate in a register, so far from its start.
const ROOT_REGISTER: usize = 13;
const ROOT_BIAS: u64 = 128;
/// How often in a batch the isolate of a thread is looked for.
const LOOKED_FOR: usize = 16;
/// How many maps are read in a batch, and how many are remembered; and how many threads.
const LEARNED_MAPS: usize = 256;
const MAX_MAPS: usize = 3000;
const MAX_THREADS: usize = 4096;
/// Where a `Map` has its table, and this its number of elements, of deleted ones and of buckets, which follow.
const MAP_TABLE: u64 = 24;
const TABLE_COUNTS: u64 = 16;
const TABLE_START: u64 = 40;
const ENTRY_BYTES: u64 = 24;
/// How much of a table is copied.
const MAX_ENTRIES: i64 = 12;
const MAX_BUCKETS: i64 = 16;
const PROPERTIES: u64 = 8;
/// What is longer is cut.
const MAX_VALUE_CHARS: usize = 100;
/// Where the class is from that AsyncLocalStorage is where threads have the stores.
pub(super) const STORAGE_FOLDER: &str = "node:internal/async_local_storage/";
const TRACE_DIGITS: usize = 32;
const SPAN_DIGITS: usize = 16;

/// What is known of the stores of a process.
#[derive(Debug, Default)]
pub(super) struct Stores {
    /// By map, with what the map said of itself: V8 puts other maps in the places of those that died.
    classes: FastMap<u64, (u64, Rc<Class>)>,
    /// What properties are wanted for, by the object that is their name.
    names: FastMap<u64, Vec<Name>>,
    handed_on: FastSet<(u64, u64)>,
    /// The maps of AsyncLocalStorage, with what they say of themselves.
    storages: FastSet<(u64, u64)>,
    /// Where threads have their stores.
    slots: FastMap<u32, u64>,
    rules: CopyRules,
    /// How many maps were read in this batch, and how many isolates looked for.
    learned: usize,
    looked_for: usize,
}

impl Stores {
    /// Forgets what addresses stood for: the collector may have moved maps.
    pub(super) fn sweep(&mut self) {
        *self = Self {
            rules: std::mem::take(&mut self.rules),
            slots: std::mem::take(&mut self.slots),
            ..Self::default()
        };
    }

    /// To be called before each batch of samples.
    pub(super) fn start_batch(&mut self) {
        self.learned = 0;
        self.looked_for = 0;
    }

    /// What is to be copied from now on.
    pub(super) fn take_rules(&mut self) -> CopyRules {
        std::mem::take(&mut self.rules)
    }
}

/// What the search of one sample reads.
pub(super) struct Search<'a, 'heap> {
    pub(super) heap: &'a mut Heap<'heap>,
    pub(super) functions: &'a mut Functions,
    pub(super) sample: &'a SampleView<'a>,
    pub(super) known: &'a mut Stores,
    pub(super) options: &'a StoreOptions,
}

/// What stores say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreValues {
    /// The values that were asked for, in that order.
    pub(crate) keys: Vec<Option<String>>,
    pub(crate) trace_id: Option<String>,
    pub(crate) span_id: Option<String>,
}

/// The same while they are read: what two stores disagree about is not known.
#[derive(Debug, Default)]
struct Found {
    keys: Vec<Vec<String>>,
    traces: Vec<(String, String)>,
}

/// Where an isolate has its stores; none where that is not known of a version.
pub(super) fn slot_in(isolate: u64, version: (u32, u32)) -> Option<u64> {
    let (_, offset) = SLOTS.iter().find(|(of, _)| *of == version)?;
    // In native code the register may hold anything.
    Some(isolate.saturating_add(*offset))
}

impl Search<'_, '_> {
    /// What the stores of a sample say; nothing where there are none, or it is not known yet where they are.
    pub(super) fn values(&mut self, frames: &[Unwound]) -> Option<StoreValues> {
        let layout = self.heap.layout.properties.clone()?;
        self.look_for_slot(&layout, frames.first()?);
        let stores = match self.known.slots.contains_key(&self.sample.tid) {
            true => self.of_thread(&layout),
            false => self.of_resource(&layout, frames),
        };
        let mut found = Found {
            keys: vec![Vec::new(); self.options.keys.len()],
            traces: Vec::new(),
        };
        for store in stores {
            self.collect(&layout, store, &mut found);
        }
        Some(found.agreed())
    }

    /// Finds out where the thread of a sample has its stores.
    fn look_for_slot(&mut self, layout: &PropertyLayout, leaf: &Unwound) {
        let tid = self.sample.tid;
        let known = self.known.slots.get(&tid).copied();
        let is_v8s = matches!(leaf.code, CodeAddress::Jit(_));
        let register = self.sample.registers.0[ROOT_REGISTER];
        let Some(isolate) = register.checked_sub(ROOT_BIAS) else {
            return;
        };
        // Where the leaf is not V8's own code the register may hold anything.
        if (known.is_some() && !is_v8s) || isolate % 8 != 0 {
            return;
        }
        let expected = slot_in(isolate, self.heap.layout.version);
        if known.is_some_and(|known| expected.is_none_or(|expected| known == expected))
            || self.known.looked_for >= LOOKED_FOR
        {
            return;
        }
        self.known.looked_for += 1;
        let slot = match expected {
            Some(slot) => Some(slot).filter(|&slot| self.may_be_slot(layout, slot)),
            None => (isolate..isolate.saturating_add(SEARCHED_BYTES))
                .step_by(8)
                .find(|&slot| self.has_context_frame(layout, slot)),
        };
        if let Some(address) = slot {
            if self.known.slots.len() >= MAX_THREADS {
                self.known.slots.clear();
            }
            self.known.slots.insert(tid, address);
            self.known.rules.slots.push(StoreSlot { tid, address });
        }
    }

    /// Whether a word is one that can hold stores: it has a `Map`, or `undefined`. Before Node 24 resources have them, and
    /// threads only where a flag says so.
    fn may_be_slot(&mut self, layout: &PropertyLayout, slot: u64) -> bool {
        let kind = self.heap.word(slot);
        let kind = kind.and_then(|object| self.heap.type_of(object));
        let may_be_empty = self.heap.layout.version > RESOURCES_UNTIL;
        kind.is_some() && (kind == layout.map || may_be_empty && kind == layout.oddball)
    }

    fn has_context_frame(&mut self, layout: &PropertyLayout, slot: u64) -> bool {
        // As it is now: nothing of it was copied.
        let copied = std::mem::take(&mut self.heap.copied);
        let object = self.heap.word(slot);
        let object = object.filter(|&object| {
            let kind = self.heap.type_of(object);
            kind.is_some() && kind == layout.map
        });
        let has = object.is_some_and(|object| !self.stores_in(layout, object).is_empty());
        self.heap.copied = copied;
        has
    }

    /// The stores that the thread has itself.
    fn of_thread(&mut self, layout: &PropertyLayout) -> Vec<u64> {
        let slot = self.known.slots.get(&self.sample.tid).copied();
        let Some(frame) = slot.and_then(|slot| Sampled { heap: self.heap }.word(slot)) else {
            return Vec::new();
        };
        self.stores_in(layout, frame)
    }

    /// The values of a `Map` whose keys are AsyncLocalStorages.
    fn stores_in(&mut self, layout: &PropertyLayout, map: u64) -> Vec<u64> {
        let of_storages = self
            .entries_of(layout, map)
            .into_iter()
            .filter(|(key, _)| self.is_storage(layout, *key));
        of_storages.map(|(_, store)| store).collect()
    }

    /// Whether an object, which stays where it is, is an AsyncLocalStorage.
    fn is_storage(&mut self, layout: &PropertyLayout, object: u64) -> bool {
        let known = self.heap.field(object, 0).and_then(|map| {
            let fingerprint = properties::fingerprint(self.heap, layout, map)?;
            Some((map, fingerprint))
        });
        let Some(known) = known else { return false };
        if self.known.storages.contains(&known) {
            return true;
        }
        let is_storage = properties::is_object_map(self.heap, layout, known.0)
            && self.is_constructed_by_node(known.0);
        if is_storage && self.known.storages.len() < MAX_MAPS {
            self.known.storages.insert(known);
        }
        is_storage
    }

    /// The stores of what runs where resources keep them: the innermost callback's, else those of the promise of the job.
    fn of_resource(&mut self, layout: &PropertyLayout, frames: &[Unwound]) -> Vec<u64> {
        let scope = self.scope(layout, frames);
        match scope.entered {
            Entered::Callback(resource) => self.stores_of(layout, resource),
            Entered::Unknown => scope.runs,
            Entered::Nothing => {
                let promise = async_chain::word_of_job(self.heap, frames);
                let stores = promise.map(|promise| self.stores_of(layout, promise));
                stores
                    .filter(|stores| !stores.is_empty())
                    .unwrap_or(scope.runs)
            }
        }
    }

    /// The stores that a resource keeps.
    fn stores_of(&mut self, layout: &PropertyLayout, resource: u64) -> Vec<u64> {
        let public = self.named(layout, resource, Name::PublicResource);
        let resource = public.unwrap_or(resource);
        let Some(class) = self.class_of(layout, resource) else {
            return Vec::new();
        };
        let stores = class.places().iter();
        let stores = stores.filter(|(name, _)| *name == Name::ResourceStore);
        stores
            .filter_map(|(_, place)| self.property(resource, *place))
            .collect()
    }

    /// Adds what a store says.
    fn collect(&mut self, layout: &PropertyLayout, store: u64, found: &mut Found) {
        let Some(class) = self.class_of(layout, store) else {
            return;
        };
        for (key, value) in self.entries_of(layout, store) {
            self.collect_entry(key, value, found);
        }
        for (name, place) in class.places() {
            let Some(value) = self.property(store, *place) else {
                continue;
            };
            match name {
                Name::Key(position) => {
                    let value = self.value(value);
                    found.keys[*position].extend(value);
                }
                Name::CurrentContext => {
                    for (_, span) in self.entries_of(layout, value) {
                        found.traces.extend(self.trace_of(layout, span));
                    }
                }
                _ => {}
            }
        }
    }

    /// What a store that is a `Map` has under a name.
    fn collect_entry(&mut self, key: u64, value: u64, found: &mut Found) {
        // Names are parts of the program, which stay.
        if self.heap.is_string(key)
            && let Some(name) = self.heap.string(key)
            && let Some(position) = self.options.keys.iter().position(|key| *key == name)
        {
            found.keys[position].extend(self.value(value));
        }
    }

    /// The trace and the span of a span.
    fn trace_of(&mut self, layout: &PropertyLayout, span: u64) -> Option<(String, String)> {
        let context = self.named(layout, span, Name::SpanContext)?;
        let trace_id = self.named(layout, context, Name::TraceId)?;
        let span_id = self.named(layout, context, Name::SpanId)?;
        let trace_id = self.identifier(trace_id, TRACE_DIGITS)?;
        let span_id = self.identifier(span_id, SPAN_DIGITS)?;
        Some((trace_id, span_id))
    }

    fn identifier(&mut self, object: u64, digits: usize) -> Option<String> {
        let text = self.text(object)?;
        let is_identifier =
            text.text.len() == digits && text.text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_identifier && !text.is_cut).then_some(text.text)
    }

    /// A string or a small integer, in words.
    fn value(&mut self, word: u64) -> Option<String> {
        if let Some(number) = small_integer(word) {
            return Some(number.to_string());
        }
        let text = self.text(word)?;
        let mut value: String = text.text.chars().take(MAX_VALUE_CHARS).collect();
        if text.is_cut || value.len() < text.text.len() {
            value.push('…');
        }
        Some(value)
    }

    fn named(&mut self, layout: &PropertyLayout, object: u64, name: Name) -> Option<u64> {
        let class = self.class_of(layout, object)?;
        let mut places = class.places().iter();
        let (_, place) = places.find(|(known, _)| *known == name)?;
        self.property(object, *place)
    }

    fn property(&mut self, object: u64, place: Place) -> Option<u64> {
        let of = match place.is_in_array {
            true => self.field(object, PROPERTIES)?,
            false => object,
        };
        self.field(of, 8 * place.word)
    }

    /// The keys and values of an object, if it is a `Map`.
    fn entries_of(&mut self, layout: &PropertyLayout, object: u64) -> Vec<(u64, u64)> {
        match self.class_of(layout, object).as_deref() {
            Some(Class::Map) => self.entries(object).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// The keys and values of a `Map`; none of one with very many.
    fn entries(&mut self, map: u64) -> Option<Vec<(u64, u64)>> {
        let table = self.field(map, MAP_TABLE)?;
        let mut count =
            |position: u64| small_integer(self.field(table, TABLE_COUNTS + 8 * position)?);
        let (elements, deleted, buckets) = (count(0)?, count(1)?, count(2)?);
        let entries = elements.checked_add(deleted)?;
        if !(0..=MAX_ENTRIES).contains(&entries) || !(1..=MAX_BUCKETS).contains(&buckets) {
            return None;
        }
        let start = TABLE_START + 8 * buckets as u64;
        let entry = |position: u64| {
            let at = start + ENTRY_BYTES * position;
            Some((self.field(table, at)?, self.field(table, at + 8)?))
        };
        Some((0..entries as u64).filter_map(entry).collect())
    }

    /// A field of an object, as it was.
    fn field(&mut self, object: u64, offset: u64) -> Option<u64> {
        Sampled { heap: self.heap }.field(object, offset)
    }

    fn text(&mut self, object: u64) -> Option<SampledText> {
        Sampled { heap: self.heap }.text(object)
    }

    /// The class of an object, which is handed on.
    pub(super) fn class_of(&mut self, layout: &PropertyLayout, object: u64) -> Option<Rc<Class>> {
        let map = self.field(object, 0)?;
        self.class_of_map(layout, map)
    }

    fn class_of_map(&mut self, layout: &PropertyLayout, map: u64) -> Option<Rc<Class>> {
        if !is_pointer(map) {
            return None;
        }
        let fingerprint = properties::fingerprint(self.heap, layout, map)?;
        if let Some((of, class)) = self.known.classes.get(&map)
            && *of == fingerprint
        {
            return Some(Rc::clone(class));
        }
        if self.known.classes.len() >= MAX_MAPS {
            self.known.classes.clear();
            self.known.handed_on.clear();
        }
        if self.known.learned >= LEARNED_MAPS {
            return None;
        }
        self.known.learned += 1;
        let class = Rc::new(self.new_class(layout, map)?);
        let known = (fingerprint, Rc::clone(&class));
        self.known.classes.insert(map, known);
        if self.known.handed_on.insert((map, fingerprint)) {
            let rule = class.rule(map, fingerprint);
            self.known.rules.objects.push(rule);
        }
        Some(class)
    }

    fn new_class(&mut self, layout: &PropertyLayout, map: u64) -> Option<Class> {
        let kind = self.heap.type_of_map(map)?;
        if Some(kind) == layout.map {
            return Some(Class::Map);
        }
        let objects = self.heap.layout.async_objects.as_ref();
        let is_promise = objects.is_some_and(|objects| objects.promise == kind);
        if !is_promise && !properties::is_object_map(self.heap, layout, map) {
            return Some(Class::Other);
        }
        let properties = properties::of_map(self.heap, layout, map)?;
        let mut places = Vec::new();
        for property in properties {
            let names = self.names(layout, property.key);
            places.extend(names.into_iter().map(|name| (name, property.place)));
        }
        Some(Class::of(places))
    }

    /// Whether Node's own class makes the objects of this map, or one that is derived from it.
    fn is_constructed_by_node(&mut self, map: u64) -> bool {
        let Some(constructor) = properties::constructor(self.heap, map) else {
            return false;
        };
        let shared = self.heap.layout.function_shared;
        let shared = self.heap.field(constructor, shared);
        let function = shared.and_then(|shared| self.functions.of_shared(self.heap, shared));
        function.is_some_and(|function| {
            let facts = self.functions.get(function);
            &*facts.name == "AsyncLocalStorage" && facts.url.starts_with(STORAGE_FOLDER)
        })
    }

    /// What a property of this name is wanted for.
    fn names(&mut self, layout: &PropertyLayout, key: u64) -> Vec<Name> {
        if let Some(known) = self.known.names.get(&key) {
            return known.clone();
        }
        if self.known.names.len() >= MAX_MAPS {
            self.known.names.clear();
        }
        let Some(name) = properties::name(self.heap, layout, key) else {
            return Vec::new();
        };
        let names = self.options.names(&name);
        self.known.names.insert(key, names.clone());
        names
    }
}

impl Found {
    /// What all stores agree about that say something.
    fn agreed(self) -> StoreValues {
        fn only<T: PartialEq>(mut values: Vec<T>) -> Option<T> {
            values.dedup();
            values.pop().filter(|_| values.is_empty())
        }
        let (trace_id, span_id) = only(self.traces).unzip();
        StoreValues {
            keys: self.keys.into_iter().map(only).collect(),
            trace_id,
            span_id,
        }
    }
}
