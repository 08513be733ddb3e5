//! The HTTP request that a sample runs for.
//!
//! It is an argument of some function that runs, or of one that awaits what runs: the nearest to the leaf is the one. Requests
//! move within milliseconds, so what tells them is copied at the sampled instruction. Which objects are requests, and where
//! they have what, is learned here from the maps of objects, and handed to what copies.

use std::rc::Rc;

use nodespy_model::{
    CopiedField, CopyRule, CopyRules, FastMap, FastSet, MAX_COPIED_FIELDS, ObjectShape, RuleOf,
};

use super::SampleView;
use super::async_chain::{Chain, Holder};
use super::async_layout::AsyncLayout;
use super::dictionary;
use super::functions::{FunctionFacts, Functions};
use super::heap::{Heap, is_pointer};
use super::properties::{self, Place, PropertyLayout};
use super::request_classes::{Class, ClassKind, Name};
use super::sampled::{Sampled, SampledText};
use crate::frame::{FrameSlots, Unwound};
use crate::route::Route;

/// How many of the receiver and the arguments of a function are looked at, and of those that a suspended one keeps.
const ARGUMENTS: u64 = 6;
const KEPT_ARGUMENTS: u64 = 3;
/// A frame has the number of its arguments below its function; more than this is no number. From this V8 on the receiver counts.
const MAX_ARGUMENTS: u64 = 1 << 16;
const RECEIVER_COUNTS: (u32, u32) = (10, 0);
/// How far a request is from an argument: that of a reply's request's response.
const MAX_DEPTH: usize = 4;
/// How many maps are read in a batch: a process may make as many as it likes.
const LEARNED_MAPS: usize = 256;
/// How many maps are remembered, and how many of one class are handed on again when more is known of it: where each request
/// has its own, the constructor stands for them.
const MAX_MAPS: usize = 3000;
pub(super) const MAX_MAPS_OF_CLASS: usize = 64;
/// From how many pointers away what copies finds no constructor: `MAX_HOPS` of the eBPF program, the object's own map included.
const CONSTRUCTOR_HOPS: usize = 8;
/// How many contexts around a function are looked at, and how many slots of each.
const MAX_CONTEXTS: usize = 3;
const LOOKED_SLOTS: u64 = 8;
/// Where the elements of an array start.
const ARRAY_START: u64 = 16;
const PROPERTIES: u64 = 8;

/// What is known of the objects of a process.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// By map, with what the map said of itself: V8 puts other maps in the places of those that died.
    classes: FastMap<u64, (u64, Rc<Class>)>,
    /// What properties are called, where that is one of the wanted names.
    names: FastMap<u64, Option<Name>>,
    /// By constructor.
    families: FastMap<u64, Family>,
    /// Names that were handed on, of what is wanted in dictionaries.
    names_handed_on: FastSet<u64>,
    /// Maps that were handed on, with what they said of themselves.
    handed_on: FastSet<(u64, u64)>,
    rules: Vec<CopyRule>,
    /// Whether maps were met whose constructor stands for them.
    has_new_maps: bool,
    /// How many maps were read in this batch.
    learned: usize,
}

/// The objects of one constructor, whose maps differ in what was added to them.
#[derive(Debug, Default)]
struct Family {
    /// Maps, with what they say of themselves.
    maps: Vec<(u64, u64)>,
    fields: Vec<CopiedField>,
}

/// What the search of one sample reads.
pub(super) struct Search<'a, 'heap> {
    pub(super) heap: &'a mut Heap<'heap>,
    pub(super) functions: &'a mut Functions,
    pub(super) sample: &'a SampleView<'a>,
    pub(super) known: &'a mut Requests,
}

impl Requests {
    /// Forgets what addresses stood for: the collector may have moved maps.
    pub(super) fn sweep(&mut self) {
        *self = Self {
            rules: std::mem::take(&mut self.rules),
            has_new_maps: self.has_new_maps,
            ..Self::default()
        };
    }

    /// To be called before each batch of samples.
    pub(super) fn start_batch(&mut self) {
        self.learned = 0;
    }

    /// What is to be copied from now on.
    pub(super) fn take_rules(&mut self) -> CopyRules {
        CopyRules {
            objects: std::mem::take(&mut self.rules),
            has_new_maps: std::mem::take(&mut self.has_new_maps),
            ..CopyRules::default()
        }
    }

    /// Hands on that the value of what is called so is copied in dictionaries.
    fn hand_on_name(&mut self, key: u64, name: Name) {
        if self.names_handed_on.len() >= MAX_MAPS {
            self.names_handed_on.clear();
        }
        if name.is_of_dictionary() && self.names_handed_on.insert(key) {
            self.rules.push(CopyRule {
                of: RuleOf::Name,
                key,
                fingerprint: CopyRule::ANY,
                leads_to_request: name.leads_further(),
                shape: ObjectShape::Fields,
                fields: Vec::new(),
            });
        }
    }

    /// Hands on what is copied of the objects of a map.
    fn hand_on(&mut self, map: u64, fingerprint: u64, class: &Class) {
        if self.handed_on.len() >= MAX_MAPS {
            self.handed_on.clear();
            self.families.clear();
        }
        if !self.handed_on.insert((map, fingerprint)) {
            return;
        }
        let fields = class.copied_fields();
        let Some(constructor) = class.family else {
            self.rules.push(CopyRule {
                of: RuleOf::Request,
                key: map,
                fingerprint,
                leads_to_request: class.kind.leads_to_request(),
                shape: match class.kind {
                    ClassKind::Headers | ClassKind::SlowRequest => ObjectShape::Dictionary,
                    ClassKind::Context => ObjectShape::Context,
                    _ => ObjectShape::Fields,
                },
                fields,
            });
            return;
        };
        let family = self.families.entry(constructor).or_default();
        let before = family.fields.len();
        for field in fields {
            if !family.fields.contains(&field) && family.fields.len() < MAX_COPIED_FIELDS {
                family.fields.push(field);
            }
        }
        let has_more = family.fields.len() > before;
        // Before V8 13 each request of express has a map of its own: from some on the constructor stands for them.
        if !has_more && family.maps.len() >= MAX_MAPS_OF_CLASS {
            self.has_new_maps = true;
            return;
        }
        let mut keys = vec![(map, fingerprint)];
        if family.maps.len() < MAX_MAPS_OF_CLASS {
            family.maps.push((map, fingerprint));
        }
        if has_more {
            keys.extend(family.maps.iter().filter(|known| known.0 != map));
            keys.push((constructor, CopyRule::ANY));
        }
        self.rules
            .extend(keys.into_iter().map(|(key, fingerprint)| CopyRule {
                of: RuleOf::Request,
                key,
                fingerprint,
                leads_to_request: true,
                shape: ObjectShape::Fields,
                fields: family.fields.clone(),
            }));
    }
}

impl Search<'_, '_> {
    /// The route of the request that runs; none where there is none, or it is not known yet what is a request.
    pub(super) fn route(&mut self, frames: &[Unwound], chain: Option<&Chain>) -> Option<Route> {
        let layout = self.heap.layout.properties.clone()?;
        // Below the loop that runs microtasks is what it happened to run after.
        let end = chain.map_or(frames.len(), |chain| (chain.after + 1).min(frames.len()));
        let in_frames = frames[..end]
            .iter()
            .filter_map(|frame| frame.v8.as_ref())
            .find_map(|slots| self.of_frame(&layout, slots));
        in_frames.or_else(|| {
            let mut holders = chain.into_iter().flat_map(|chain| &chain.holders);
            holders.find_map(|holder| match *holder {
                Holder::Generator(generator) => self.of_generator(&layout, generator),
                Holder::Context(context) => self.of_contexts(&layout, context),
            })
        })
    }

    fn of_frame(&mut self, layout: &PropertyLayout, slots: &FrameSlots) -> Option<Route> {
        if !is_pointer(slots.marker) || !is_pointer(slots.function) {
            return None;
        }
        let start = slots.frame_pointer.checked_add(16)?;
        let count = self
            .sample
            .stack_word(slots.frame_pointer.checked_sub(24)?)?;
        if count > MAX_ARGUMENTS {
            return None;
        }
        // What follows is the caller's, and may be of another request that it has called for before.
        let count = match self.heap.layout.version >= RECEIVER_COUNTS {
            true => count,
            false => count + 1,
        };
        let argument = (0..ARGUMENTS.min(count)).find_map(|position| {
            let word = self.sample.stack_word(start.checked_add(8 * position)?)?;
            self.request(layout, word, 0)
        });
        argument.or_else(|| self.of_contexts(layout, slots.marker))
    }

    fn of_generator(&mut self, layout: &PropertyLayout, generator: u64) -> Option<Route> {
        let receiver = self.field(generator, AsyncLayout::GENERATOR_RECEIVER)?;
        if let Some(route) = self.request(layout, receiver, 0) {
            return Some(route);
        }
        let registers = self.field(generator, AsyncLayout::GENERATOR_REGISTERS)?;
        let argument = (0..KEPT_ARGUMENTS).find_map(|position| {
            let word = self.field(registers, ARRAY_START + 8 * position)?;
            self.request(layout, word, 0)
        });
        argument.or_else(|| {
            let context = self.field(generator, AsyncLayout::GENERATOR_CONTEXT)?;
            self.of_contexts(layout, context)
        })
    }

    /// A request in the variables of the functions around one.
    fn of_contexts(&mut self, layout: &PropertyLayout, context: u64) -> Option<Route> {
        let objects = self.heap.layout.async_objects.as_ref()?;
        let mut context = context;
        for _ in 0..MAX_CONTEXTS {
            let slots = Sampled { heap: self.heap }.slots(objects, context)?;
            let found = (2..slots.min(LOOKED_SLOTS)).find_map(|slot| {
                let word = self.field(context, AsyncLayout::slot(slot))?;
                self.request(layout, word, 0)
            });
            if found.is_some() {
                return found;
            }
            context = self.field(context, AsyncLayout::slot(1))?;
        }
        None
    }

    pub(super) fn field(&mut self, object: u64, offset: u64) -> Option<u64> {
        Sampled { heap: self.heap }.field(object, offset)
    }

    fn text(&mut self, object: u64) -> Option<SampledText> {
        Sampled { heap: self.heap }.text(object)
    }

    /// The route of an object that is a request, or leads to one.
    pub(super) fn request(
        &mut self,
        layout: &PropertyLayout,
        object: u64,
        depth: usize,
    ) -> Option<Route> {
        if depth > MAX_DEPTH {
            return None;
        }
        let class = self.class_of(layout, object)?;
        match class.kind {
            ClassKind::Request => {
                let values = self.values(object, &class);
                self.own_route(layout, &values)
            }
            ClassKind::SlowRequest => {
                let entries = self.named_entries(layout, object)?;
                let values: Vec<_> = entries
                    .into_iter()
                    .map(|(name, value)| (name, Some(value)))
                    .collect();
                self.own_route(layout, &values)
            }
            // One leads to others only by way of functions that are not its own.
            ClassKind::Rendering if depth == 0 => self.of_rendering(layout, object, &class),
            ClassKind::Http2Request => self.http2_route(layout, object, &class),
            ClassKind::Headers => self.route_of_headers(layout, object),
            ClassKind::Wrapper | ClassKind::Http2Stream => {
                let inner = class.names().filter(|name| name.leads_to_request());
                let mut inner = inner.filter_map(|name| self.property(object, &class, name));
                let inner = inner.next()?;
                let route = self.request(layout, inner, depth + 1)?;
                Some(match self.pattern_of_wrapper(layout, object, &class) {
                    Some(pattern) => route.with_pattern("", &pattern),
                    None => route,
                })
            }
            ClassKind::Rendering | ClassKind::Closure | ClassKind::Context => None,
            ClassKind::Part | ClassKind::Other => None,
        }
    }

    /// What is wanted of an object; nothing for what was not copied.
    fn values(&mut self, object: u64, class: &Class) -> Vec<(Name, Option<u64>)> {
        let names = class.names();
        names
            .map(|name| (name, self.property(object, class, name)))
            .collect()
    }

    /// What Node's own request says, and what a framework has added to it.
    fn own_route(
        &mut self,
        layout: &PropertyLayout,
        values: &[(Name, Option<u64>)],
    ) -> Option<Route> {
        let value_of = |wanted: Name| values.iter().find(|(name, _)| *name == wanted);
        let mut text_of = |wanted: Name| self.text(value_of(wanted)?.1?);
        let method = text_of(Name::Method)?;
        // Where there is a whole one, what is left of it is not a path.
        let url = match value_of(Name::OriginalUrl) {
            Some(_) => Name::OriginalUrl,
            None => Name::Url,
        };
        let url = text_of(url)?;
        let mount = text_of(Name::BaseUrl);
        let route = Route::new(&method.text, &url.text, url.is_cut)?;
        let object_of = |wanted: Name| value_of(wanted)?.1;
        if let Some(pattern) =
            object_of(Name::NextMeta).and_then(|meta| self.pattern_of_next(layout, meta))
        {
            return Some(route.with_pattern("", &pattern));
        }
        let matched = object_of(Name::Route).and_then(|matched| {
            let class = self.class_of(layout, matched)?;
            self.text_property(matched, &class, Name::Path)
        });
        let Some(pattern) = matched else {
            return Some(route);
        };
        if value_of(Name::BaseUrl).is_none() {
            return Some(route.with_pattern("", &pattern.text));
        }
        // Half a pattern would be another route.
        Some(match mount {
            Some(mount) if !mount.is_cut => route.with_pattern(&mount.text, &pattern.text),
            _ => route,
        })
    }

    /// The page that Next has matched.
    fn pattern_of_next(&mut self, layout: &PropertyLayout, meta: u64) -> Option<String> {
        let mut object = meta;
        for name in [Name::Match, Name::Definition] {
            let class = self.class_of(layout, object)?;
            object = self.property(object, &class, name)?;
        }
        let class = self.class_of(layout, object)?;
        let pathname = self.text_property(object, &class, Name::Pathname)?;
        (!pathname.is_cut && pathname.text.starts_with('/')).then_some(pathname.text)
    }

    /// What a request of HTTP/2 says: its first headers are what is asked for, names and values in turn.
    fn http2_route(
        &mut self,
        layout: &PropertyLayout,
        object: u64,
        class: &Class,
    ) -> Option<Route> {
        let array = self.property(object, class, Name::RawHeaders)?;
        let class = self.class_of(layout, array)?;
        let elements = self.property(array, &class, Name::Elements)?;
        let class = self.class_of(layout, elements)?;
        let mut names = Vec::new();
        for position in [0, 2, 4] {
            let name = self.text_property(elements, &class, Name::Element(position))?;
            names.push(name.text);
        }
        let value_of = |wanted: &str| {
            let known = names.iter().position(|name| name == wanted);
            // Method, scheme, path and most often authority come first, and there is no room for the fourth name.
            let is_fourth = names.iter().all(|name| name.starts_with(':'));
            let position = known.or(is_fourth.then_some(names.len()))?;
            Some(Name::Element(2 * position as u8 + 1))
        };
        let (method, path) = (value_of(":method")?, value_of(":path")?);
        if method == path {
            return None;
        }
        let method = self.text_property(elements, &class, method)?;
        let path = self.text_property(elements, &class, path)?;
        Route::new(&method.text, &path.text, path.is_cut)
    }

    /// What the headers of HTTP/2 say that Node hands to those who listen for streams.
    fn route_of_headers(&mut self, layout: &PropertyLayout, object: u64) -> Option<Route> {
        let found = self.named_entries(layout, object)?;
        let value_of = |wanted: Name| {
            let found = found.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| *value)
        };
        // What a client is about to send has the other names too.
        value_of(Name::SensitiveHeaders)?;
        let method = self.text(value_of(Name::MethodHeader)?)?;
        let path = self.text(value_of(Name::PathHeader)?)?;
        Route::new(&method.text, &path.text, path.is_cut)
    }

    /// What a dictionary has under the wanted names, which are handed on.
    fn named_entries(&mut self, layout: &PropertyLayout, object: u64) -> Option<Vec<(Name, u64)>> {
        let dictionary = self.field(object, PROPERTIES)?;
        let entries = dictionary::entries(&mut Sampled { heap: self.heap }, dictionary)?;
        let mut found = Vec::new();
        for (key, value) in entries {
            if !self.known.names.contains_key(&key) {
                // Any object without a prototype may come here.
                if self.known.learned >= LEARNED_MAPS {
                    return None;
                }
                self.known.learned += 1;
            }
            if let Some(name) = self.name(layout, key) {
                self.known.hand_on_name(key, name);
                found.push((name, value));
            }
        }
        Some(found)
    }

    /// The pattern that a framework keeps beside the request.
    fn pattern_of_wrapper(
        &mut self,
        layout: &PropertyLayout,
        object: u64,
        class: &Class,
    ) -> Option<String> {
        if let Some(pattern) = self.text_property(object, class, Name::MatchedRoute) {
            return Some(pattern.text);
        }
        let context = self.property(object, class, Name::FastifyContext)?;
        let class = self.class_of(layout, context)?;
        let config = self.property(context, &class, Name::Config)?;
        let class = self.class_of(layout, config)?;
        let url = self.text_property(config, &class, Name::Url)?;
        Some(url.text)
    }

    pub(super) fn property(&mut self, object: u64, class: &Class, name: Name) -> Option<u64> {
        let place = class.place(name)?;
        let of = match place.is_in_array {
            true => self.field(object, PROPERTIES)?,
            false => object,
        };
        self.field(of, 8 * place.word)
    }

    fn text_property(&mut self, object: u64, class: &Class, name: Name) -> Option<SampledText> {
        let text = self.property(object, class, name)?;
        self.text(text)
    }

    /// The class of an object, which is handed on.
    fn class_of(&mut self, layout: &PropertyLayout, object: u64) -> Option<Rc<Class>> {
        let map = self.field(object, 0)?;
        // Most of what is looked at is nothing of the kind: contexts, functions, strings.
        let kind = self.heap.type_of_map(map)?;
        if ![layout.array, layout.elements].contains(&Some(kind))
            && !properties::is_object_map(self.heap, layout, map)
        {
            return None;
        }
        self.class_with_map(layout, map)
    }

    /// The same of a function, or of the context of one.
    pub(super) fn class_of_code(
        &mut self,
        layout: &PropertyLayout,
        object: u64,
    ) -> Option<Rc<Class>> {
        let map = self.field(object, 0)?;
        let kind = self.heap.type_of_map(map)?;
        let contexts = &self.heap.layout.async_objects.as_ref()?.contexts;
        let is_code = contexts.contains(&kind) || self.heap.layout.function_types.contains(&kind);
        is_code.then(|| self.class_with_map(layout, map))?
    }

    fn class_with_map(&mut self, layout: &PropertyLayout, map: u64) -> Option<Rc<Class>> {
        let fingerprint = properties::fingerprint(self.heap, layout, map)?;
        if let Some((of, class)) = self.known.classes.get(&map)
            && *of == fingerprint
        {
            return Some(Rc::clone(class));
        }
        if self.known.classes.len() >= MAX_MAPS {
            self.known.classes.clear();
        }
        if self.known.learned >= LEARNED_MAPS {
            return None;
        }
        self.known.learned += 1;
        let class = Rc::new(self.class_of_map(layout, map)?);
        let known = (fingerprint, Rc::clone(&class));
        self.known.classes.insert(map, known);
        self.known.hand_on(map, fingerprint, &class);
        Some(class)
    }

    fn class_of_map(&mut self, layout: &PropertyLayout, map: u64) -> Option<Class> {
        let kind = self.heap.type_of_map(map);
        if kind.is_some() && kind == layout.array {
            return Some(Class::array());
        }
        if kind.is_some() && kind == layout.elements {
            return Some(Class::elements());
        }
        if let (Some(kind), Some(objects)) = (kind, &self.heap.layout.async_objects) {
            if self.heap.layout.function_types.contains(&kind) {
                return Some(Class::closure(objects.function_context));
            }
            if objects.contexts.contains(&kind) {
                return Some(Class::CONTEXT);
            }
        }
        if properties::is_bare_dictionary(self.heap, layout, map)? {
            return Some(Class::HEADERS);
        }
        if properties::is_dictionary(self.heap, layout, map)? {
            let constructor = properties::constructor(self.heap, map)?;
            let facts = self.facts_of(constructor)?;
            return Some(Class::with_dictionary((&facts.name, &facts.url)));
        }
        let properties = properties::of_map(self.heap, layout, map)?;
        let mut places: Vec<(Name, Place)> = Vec::new();
        for property in properties {
            if let Some(name) = self.name(layout, property.key) {
                places.push((name, property.place));
            }
        }
        if places.is_empty() {
            return Some(Class::OTHER);
        }
        let (constructor, hops) = properties::constructor_and_hops(self.heap, map)?;
        let facts = self.facts_of(constructor)?;
        let family = (hops < CONSTRUCTOR_HOPS).then_some(constructor);
        Some(Class::new((&facts.name, &facts.url), family, &places))
    }

    /// What is known of a closure's function.
    fn facts_of(&mut self, closure: u64) -> Option<&FunctionFacts> {
        let shared = self.heap.layout.function_shared;
        let shared = self.heap.field(closure, shared)?;
        let function = self.functions.of_shared(self.heap, shared)?;
        Some(self.functions.get(function))
    }

    /// The wanted name that a property is called.
    fn name(&mut self, layout: &PropertyLayout, key: u64) -> Option<Name> {
        if let Some(&known) = self.known.names.get(&key) {
            return known;
        }
        if self.known.names.len() >= MAX_MAPS {
            self.known.names.clear();
        }
        let name = properties::name(self.heap, layout, key)?;
        let name = Name::of(&name);
        self.known.names.insert(key, name);
        name
    }
}
