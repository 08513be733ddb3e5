//! Where objects have their properties: what the maps of V8 say.
//!
//! A map lists the names of the properties of its objects, and where each of them is: in the object, or in an array beside it.
//! Where it is in neither, as in the dictionary of an object with very many, it is not found.

use super::heap::{Heap, is_pointer, small_integer};

/// How many maps there may be between that of an object and its constructor's.
const MAX_BACK_POINTERS: usize = 1024;
/// How many properties are looked at: a request has some sixty.
const MAX_PROPERTIES: u32 = 256;
/// A longer name is none of those that matter.
const LONGEST_NAME: usize = 32;
/// Where a map has the size of its objects and where their properties start, in words.
const MAP_SIZE: u64 = 8;
/// Where it has its flags, its prototype, its constructor or the map it came from, and its list of properties.
const MAP_FLAGS: u64 = 16;
const MAP_PROTOTYPE: u64 = 24;
const MAP_CONSTRUCTOR: u64 = 32;
const MAP_DESCRIPTORS: u64 = 40;
/// How many words of it are read.
const MAP_WORDS: usize = 6;
/// A property in that list: its name, where it is, and what it holds.
const DESCRIPTOR_WORDS: usize = 3;
/// How often a list is read again that has moved meanwhile.
const MAX_MOVES: usize = 3;
/// Where the elements of an array start, in words.
const ARRAY_START: u64 = 2;
const SYMBOL_DESCRIPTION: u64 = 16;

/// What V8 exports of how properties are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PropertyLayout {
    /// The type of objects that have none of their own, and the types after it that are like it.
    pub(crate) object_type: u16,
    symbol: u16,
    /// Those of a `Map`, and of `undefined`; only stores are looked for by them.
    pub(super) map: Option<u16>,
    pub(super) oddball: Option<u16>,
    /// Those of an array, and of what has its elements: the headers of a request of HTTP/2.
    pub(super) array: Option<u16>,
    pub(super) elements: Option<u16>,
    descriptors_start: u64,
    location_mask: i64,
    index_mask: i64,
    index_shift: u32,
    count_mask: u32,
    count_shift: u32,
    dictionary_shift: u32,
}

/// How many types before that of an object, and after it, are objects too: those that C++ made, on V8 9.4 and later.
const OBJECT_TYPES_BEFORE: u16 = 1;
const OBJECT_TYPES_AFTER: u16 = 3;

impl PropertyLayout {
    /// The layout of the V8 whose constants `get` returns; none where it lacks one.
    pub(crate) fn new(get: &dyn Fn(&str) -> Option<i32>) -> Option<Self> {
        let number = |name: &str| get(name).and_then(|value| u32::try_from(value).ok());
        let kind = |name: &str| get(name).and_then(|value| u16::try_from(value).ok());
        Some(Self {
            object_type: kind("type_JSObject__JS_OBJECT_TYPE")?,
            symbol: kind("type_Symbol__SYMBOL_TYPE")?,
            map: kind("type_JSMap__JS_MAP_TYPE"),
            oddball: kind("type_Oddball__ODDBALL_TYPE"),
            array: kind("type_JSArray__JS_ARRAY_TYPE"),
            elements: kind("type_FixedArray__FIXED_ARRAY_TYPE"),
            descriptors_start: number("class_DescriptorArray__header_size__uintptr_t")?.into(),
            location_mask: number("prop_location_mask")?.into(),
            index_mask: number("prop_index_mask")?.into(),
            index_shift: number("prop_index_shift")?,
            count_mask: number("bit_field3_number_of_own_descriptors_mask")?,
            count_shift: number("bit_field3_number_of_own_descriptors_shift")?,
            dictionary_shift: number("bit_field3_is_dictionary_map_shift")?,
        })
    }
}

/// Where a property is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// Its position in words, from the start of what it is in.
    pub(super) word: u64,
    /// Whether it is in the array beside the object.
    pub(super) is_in_array: bool,
}

/// A property of the objects of a map.
pub(super) struct Property {
    /// The string or the symbol that it is called.
    pub(super) key: u64,
    pub(super) place: Place,
}

/// Whether this is the map of ordinary objects.
pub(super) fn is_object_map(heap: &mut Heap<'_>, layout: &PropertyLayout, map: u64) -> bool {
    let first = layout.object_type.saturating_sub(OBJECT_TYPES_BEFORE);
    let types = first..=layout.object_type.saturating_add(OBJECT_TYPES_AFTER);
    heap.type_of_map(map)
        .is_some_and(|kind| types.contains(&kind))
}

/// Tells a map from another that V8 puts in its place once it has died, as it does with those of requests where each has its
/// own. The eBPF program computes the same.
pub(super) fn fingerprint(heap: &mut Heap<'_>, layout: &PropertyLayout, map: u64) -> Option<u64> {
    let flags = heap.half((map & !3).checked_add(MAP_FLAGS)?)?;
    let constructor = heap.field(map, MAP_CONSTRUCTOR)?;
    let descriptors = heap.field(map, MAP_DESCRIPTORS)?;
    let sum = constructor.wrapping_mul(3).wrapping_add(descriptors);
    Some(sum.wrapping_add(u64::from(flags & layout.count_mask)))
}

/// Whether the objects of a map have a dictionary and no prototype.
pub(super) fn is_bare_dictionary(
    heap: &mut Heap<'_>,
    layout: &PropertyLayout,
    map: u64,
) -> Option<bool> {
    let flags = heap.half((map & !3).checked_add(MAP_FLAGS)?)?;
    let prototype = heap.field(map, MAP_PROTOTYPE)?;
    let has_none = layout.oddball.is_some() && heap.type_of(prototype) == layout.oddball;
    Some(has_none && flags >> layout.dictionary_shift & 1 != 0)
}

/// Whether the objects of a map have a dictionary.
pub(super) fn is_dictionary(
    heap: &mut Heap<'_>,
    layout: &PropertyLayout,
    map: u64,
) -> Option<bool> {
    let flags = heap.half((map & !3).checked_add(MAP_FLAGS)?)?;
    Some(flags >> layout.dictionary_shift & 1 != 0)
}

/// The properties of the objects of a map: none where they have a dictionary, nothing where the map has died since it was
/// met.
pub(super) fn of_map(
    heap: &mut Heap<'_>,
    layout: &PropertyLayout,
    map: u64,
) -> Option<Vec<Property>> {
    let flags = heap.half((map & !3).checked_add(MAP_FLAGS)?)?;
    if flags >> layout.dictionary_shift & 1 != 0 {
        return Some(Vec::new());
    }
    let sizes = heap.half((map & !3).checked_add(MAP_SIZE)?)?;
    let (size, start) = (u64::from(sizes & 0xff), u64::from(sizes >> 8 & 0xff));
    let inside = size.checked_sub(start)?;
    let count = (flags & layout.count_mask) >> layout.count_shift;
    let descriptors = current_descriptors(heap, layout, map, count.min(MAX_PROPERTIES))?;
    let mut properties = Vec::new();
    for descriptor in descriptors.chunks_exact(DESCRIPTOR_WORDS) {
        let (key, details) = (descriptor[0], small_integer(descriptor[1])?);
        // A constant, or an accessor.
        if details & layout.location_mask != 0 || details & 1 != 0 {
            continue;
        }
        let index = ((details & layout.index_mask) >> layout.index_shift) as u64;
        let place = match index.checked_sub(inside) {
            None => Place {
                word: start + index,
                is_in_array: false,
            },
            Some(beyond) => Place {
                word: ARRAY_START + beyond,
                is_in_array: true,
            },
        };
        properties.push(Property { key, place });
    }
    Some(properties)
}

/// The list of properties of a map, as it is now. Maps stay where they are, but the next collections move a new list, and the
/// map says where to: so the live map is asked, and asked again once the list was read.
fn current_descriptors(
    heap: &mut Heap<'_>,
    layout: &PropertyLayout,
    map: u64,
    count: u32,
) -> Option<Vec<u64>> {
    let mut descriptors = descriptors_now(heap, layout, map)?;
    for _ in 0..MAX_MOVES {
        let start = (descriptors & !3).checked_add(layout.descriptors_start)?;
        let words = heap.current_words(start, DESCRIPTOR_WORDS * count as usize);
        let now = descriptors_now(heap, layout, map)?;
        if now == descriptors {
            return words;
        }
        descriptors = now;
    }
    None
}

/// Where a map has its list now; nothing where another map, or something else, is in the place of the one that was met.
fn descriptors_now(heap: &mut Heap<'_>, layout: &PropertyLayout, map: u64) -> Option<u64> {
    let words = heap.current_words(map & !3, MAP_WORDS)?;
    let at = |offset: u64| words[offset as usize / 8];
    let mut met = |offset: u64| heap.field(map, offset);
    let is_same = [0, MAP_FLAGS, MAP_CONSTRUCTOR].into_iter().all(|offset| {
        let mask = match offset {
            MAP_FLAGS => layout.count_mask.into(),
            _ => u64::MAX,
        };
        met(offset).is_some_and(|met| (met ^ at(offset)) & mask == 0)
    });
    Some(at(MAP_DESCRIPTORS)).filter(|&descriptors| is_same && is_pointer(descriptors))
}

/// The function that makes the objects of a map.
pub(super) fn constructor(heap: &mut Heap<'_>, map: u64) -> Option<u64> {
    Some(constructor_and_hops(heap, map)?.0)
}

/// The same, and how many pointers lead there: one, and one for each map that this one came from.
pub(super) fn constructor_and_hops(heap: &mut Heap<'_>, map: u64) -> Option<(u64, usize)> {
    let meta = heap.field(map, 0)?;
    let mut next = map;
    for hops in 1..=MAX_BACK_POINTERS {
        next = heap.field(next, MAP_CONSTRUCTOR)?;
        if !is_pointer(next) {
            return None;
        }
        if heap.field(next, 0)? != meta {
            let kind = heap.type_of(next)?;
            let is_function = heap.layout.function_types.contains(&kind);
            return is_function.then_some((next, hops));
        }
    }
    None
}

/// What a property is called: its name, or the description of its symbol; empty where it is long.
pub(super) fn name(heap: &mut Heap<'_>, layout: &PropertyLayout, key: u64) -> Option<String> {
    let name = match heap.is(key, layout.symbol) {
        true => heap.field(key, SYMBOL_DESCRIPTION)?,
        false => key,
    };
    match heap.string_length(name)? > LONGEST_NAME {
        true => Some(String::new()),
        false => heap.string(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copied::CopiedMemory;
    use crate::v8::stand_in::{Program, with_heap};

    const MAP_BYTES: u64 = 8 * MAP_WORDS as u64;

    /// A map as it was at a sample, for the rest of the test.
    fn copied(program: &Program, map: u64) -> CopiedMemory<'static> {
        let header = map & !3 | (MAP_WORDS as u64) << 48;
        let words = (0..MAP_BYTES).step_by(8).map(|at| program.word(map, at));
        let words = std::iter::once(header).chain(words);
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        CopiedMemory::of(bytes.leak(), Box::leak(Box::default()))
    }

    fn names(program: &Program, map: u64, copied: CopiedMemory<'static>) -> Option<Vec<String>> {
        with_heap(&program.memory, |heap| {
            let layout = heap.layout.properties.clone().unwrap();
            heap.copied = copied;
            let properties = of_map(heap, &layout, map)?;
            let name = |property: Property| name(heap, &layout, property.key);
            properties.into_iter().map(name).collect()
        })
    }

    #[test]
    fn a_list_that_a_collection_has_moved_is_found_where_it_is() {
        let mut program = Program::new();
        let map = program.object(0, 8);
        let class = program.function_of("IncomingMessage", "node:_http_incoming");
        program.constructed_with(map, class, &[("url", 0), ("method", 0)]);
        let copied = copied(&program, map);
        // Another list, and garbage in the place of the first.
        let first = program.word(map, MAP_DESCRIPTORS);
        program.constructed_with(map, class, &[("url", 0), ("method", 0)]);
        (0..9).for_each(|word| program.set(first, 8 * word, 0xdead_beef));
        let expected = ["url", "method"].map(str::to_owned).to_vec();
        assert_eq!(names(&program, map, copied), Some(expected));
    }

    #[test]
    fn a_map_that_has_died_has_no_properties() {
        let mut program = Program::new();
        let map = program.object(0, 8);
        let class = program.function_of("IncomingMessage", "node:_http_incoming");
        program.constructed_with(map, class, &[("url", 0), ("method", 0)]);
        let copied = copied(&program, map);
        let other = program.function_of("Object", "");
        program.constructed_with(map, other, &[("url", 0), ("method", 0)]);
        assert_eq!(names(&program, map, copied), None);
        // Freed, and not used again: all but its first word is as it was.
        program.constructed_with(map, class, &[("url", 0), ("method", 0)]);
        program.set(map, 0, class);
        assert_eq!(names(&program, map, copied), None);
    }
}
