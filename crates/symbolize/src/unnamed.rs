//! Names for native code in recordings whose other frames are named already.
//!
//! A V8 log records where each library was mapped and nothing that would prove a file to be that
//! library. A file is used if it can only be the one: each of its code segments ends exactly where
//! a mapping did, to the page. Anything else is refused, and the remark says how to give the right
//! file.

use std::rc::Rc;

use nodespy_model::classify::category_of_native;
use nodespy_model::{
    Category, FastMap, FrameIndex, FunctionIndex, FunctionSpec, MappedLibrary, Notes, Origin,
    Profile, Unnamed, rewritten,
};

use crate::elf::SymbolIndex;
use crate::image::Image;

const PAGE_BYTES: u64 = 4096;

/// A name that was found.
#[derive(Debug)]
struct Found {
    name: Rc<str>,
    category: Category,
}

/// The profile with the names that `origin` has for its unnamed functions.
pub(crate) fn name_all(
    profile: Profile,
    unnamed: &Unnamed,
    notes: &mut Notes,
    origin: &dyn Origin,
) -> Profile {
    let names = find_names(unnamed, notes, origin);
    if names.is_empty() {
        return profile;
    }
    renamed(profile, &names)
}

fn find_names(
    unnamed: &Unnamed,
    notes: &mut Notes,
    origin: &dyn Origin,
) -> FastMap<FunctionIndex, Rc<Found>> {
    let mut images: FastMap<usize, Option<(Image, u64)>> = FastMap::default();
    let mut by_symbol: FastMap<(usize, SymbolIndex), Option<Rc<Found>>> = FastMap::default();
    let mut names = FastMap::default();
    for entry in &unnamed.functions {
        let Some(library) = unnamed.libraries.get(entry.library) else {
            continue;
        };
        let image = images
            .entry(entry.library)
            .or_insert_with(|| open(library, notes, origin));
        let Some((image, file_start)) = image else {
            continue;
        };
        let offset = entry.address.wrapping_sub(*file_start);
        let address = image.address_of_offset(offset);
        let Some(symbol) = image.symbol_at(address) else {
            continue;
        };
        let found = by_symbol.entry((entry.library, symbol)).or_insert_with(|| {
            let name = image.symbol_name(symbol)?;
            let category = category_of_native(&name);
            Some(Rc::new(Found { name, category }))
        });
        if let Some(found) = found {
            names.insert(entry.function, Rc::clone(found));
        }
    }
    names
}

/// Opens the file of a library, with the address at which its first byte would be.
fn open(library: &MappedLibrary, notes: &mut Notes, origin: &dyn Origin) -> Option<(Image, u64)> {
    let mapping = &library.mapping;
    if !mapping.path.starts_with('/') {
        return None;
    }
    let mut refuse = |why: &str| {
        notes.remark(format!("{} is not used for names: {why}", mapping.path));
        None
    };
    let mut image = Image::open_candidate(mapping, origin);
    if let Some(why) = &image.refused {
        return refuse(why);
    }
    match file_start(library, &image.code_segments()) {
        Some(start) => {
            image.load_symbols(origin);
            Some((image, start))
        }
        None => refuse(
            "its code is not as large as what was mapped, so it is another version \
             (--symbols FILE gives the right one)",
        ),
    }
}

/// Where the first byte of a file was mapped, if its code segments, by offset and size, fit the
/// mapping. V8 logs the start of the file (seen from version 9 on), or that of the code.
fn file_start(library: &MappedLibrary, segments: &[(u64, u64)]) -> Option<u64> {
    let start = library.mapping.start;
    let page_end = |bytes: u64| bytes.checked_next_multiple_of(PAGE_BYTES);
    let end_of = |&(offset, size): &(u64, u64)| page_end(offset.checked_add(size)?);
    let ends: Vec<u64> = segments.iter().filter_map(end_of).collect();
    let sizes = library.segment_ends.iter();
    let mapped: Vec<u64> = sizes.filter_map(|end| end.checked_sub(start)).collect();
    // Small segments may end on the same page in many versions: the largest has to be there.
    let largest = segments.iter().max_by_key(|(_, size)| *size)?;
    if mapped.contains(&end_of(largest)?) && mapped.iter().all(|end| ends.contains(end)) {
        return Some(start);
    }
    let &(offset, size) = largest;
    let page_start = offset / PAGE_BYTES * PAGE_BYTES;
    let of_code = page_end(size.checked_add(offset - page_start)?)?;
    (mapped == [of_code])
        .then(|| start.checked_sub(page_start))
        .flatten()
}

/// The profile with other names for some functions; what has the same name now is one function.
fn renamed(profile: Profile, names: &FastMap<FunctionIndex, Rc<Found>>) -> Profile {
    let function = |index: FunctionIndex| {
        let spec = profile.spec_of(index);
        match names.get(&index) {
            None => spec,
            Some(found) => FunctionSpec {
                name: &found.name,
                category: found.category,
                ..spec
            },
        }
    };
    let place = |index: FrameIndex| {
        let frame = profile.frame(index);
        (frame.line, frame.column)
    };
    let (builder, _) = rewritten(&profile, function, place);
    builder.finish(profile.about.clone(), profile.notes.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::Mapping;

    fn mapped(start: u64, ends: &[u64]) -> MappedLibrary {
        MappedLibrary {
            mapping: Mapping {
                pid: 0,
                start,
                end: ends.iter().copied().max().unwrap_or(start),
                file_offset: 0,
                path: "/opt/node/bin/node".to_owned(),
                file: Default::default(),
                time: 0,
            },
            segment_ends: ends.to_vec(),
        }
    }

    /// The code segments of npm's node 20.20.2.
    const NODE_20: [(u64, u64); 3] = [
        (0x76f000, 0x1e90),
        (0x772000, 0x1a8_bca0),
        (0x220_0000, 0x1f1),
    ];

    #[test]
    fn a_file_whose_code_ends_where_the_mapping_did_is_used() {
        let whole = mapped(0x40_0000, &[0xb7_1000, 0x25f_e000, 0x260_1000]);
        assert_eq!(file_start(&whole, &NODE_20), Some(0x40_0000));
        let code_only = mapped(0x7f00_0002_6000, &[0x7f00_0017_c000]);
        assert_eq!(
            file_start(&code_only, &[(0x26000, 0x15_50fc)]),
            Some(0x7f00_0000_0000)
        );
    }

    #[test]
    fn a_file_of_another_size_is_not() {
        // Node 20.9.0 has a last segment at the same place, but not the largest.
        let other = mapped(0x40_0000, &[0xb7_1000, 0x25f_d000, 0x260_1000]);
        assert_eq!(file_start(&other, &NODE_20), None);
        assert_eq!(
            file_start(&mapped(0x40_0000, &[0x260_1000]), &NODE_20),
            None
        );
        assert_eq!(file_start(&mapped(1, &[0]), &NODE_20), None);
        assert_eq!(file_start(&mapped(1, &[]), &NODE_20), None);
        assert_eq!(file_start(&other, &[]), None);
        assert_eq!(file_start(&other, &[(u64::MAX, u64::MAX)]), None);
    }
}
