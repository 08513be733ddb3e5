//! Which file or JIT region an address of a process is in.

use std::collections::BTreeMap;
use std::rc::Rc;

use nodespy_model::{Mapping, RuntimeAddress};

/// How many regions are looked through for a file.
const MAX_SEARCHED: usize = 64;
/// So many regions need no second look, and the sum of what was settled on does neither.
const MIN_UNSETTLED: usize = 4096;

/// An image of the resolver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ImageId(pub(crate) u32);

/// What is at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A file, at this offset from its first byte.
    File { image: ImageId, file_offset: u64 },
    /// Code that is not from a file: JIT code.
    Anonymous,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Region {
    end: RuntimeAddress,
    /// None for anonymous memory.
    file: Option<(ImageId, u64)>,
}

/// Mappings that don't overlap, by their start.
#[derive(Debug, Clone, Default)]
struct Regions(BTreeMap<RuntimeAddress, Region>);

/// Mappings that several processes have had since a fork, and what lies below them.
#[derive(Debug)]
struct Layer {
    regions: Regions,
    below: Option<Rc<Layer>>,
    /// How many regions are here and below.
    total: usize,
}

/// The code memory of one process. A new mapping takes the place of what it overlaps.
///
/// A child shares its parent's mappings: each has only what it mapped since the fork, which lies
/// above what they share.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressMap {
    own: Regions,
    shared: Option<Rc<Layer>>,
    version: u32,
    /// How many regions there were when they were last known to be mapped.
    settled: usize,
}

impl AddressMap {
    /// Adds a mapping; `image` is none for anonymous memory.
    pub(crate) fn insert(&mut self, mapping: &Mapping, image: Option<ImageId>) {
        if mapping.start >= mapping.end {
            return;
        }
        let range = (mapping.start, mapping.end);
        let had_files = self.own.has_file_in(range)
            || layers(self.shared.as_ref()).any(|layer| layer.regions.has_file_in(range));
        if had_files || image.is_some() {
            self.version = self.version.wrapping_add(1);
        }
        let file = image.map(|image| (image, mapping.file_offset));
        let end = mapping.end;
        self.own.insert(mapping.start, Region { end, file });
    }

    /// The map of a child, which starts with all that is mapped here.
    pub(crate) fn fork(&mut self) -> Self {
        if !self.own.0.is_empty() {
            let mut top = std::mem::take(&mut self.own);
            let mut below = self.shared.take();
            // Layers of like size become one, so that few lie above one another and each mapping
            // is copied a few times at most, however long a line of children is.
            while let Some(layer) = below.take_if(|layer| layer.regions.0.len() <= 2 * top.0.len())
            {
                let upper = std::mem::replace(&mut top, layer.regions.clone());
                for (start, region) in upper.0 {
                    top.insert(start, region);
                }
                below.clone_from(&layer.below);
            }
            self.shared = Some(Rc::new(Layer {
                total: top.0.len() + total_of(below.as_ref()),
                regions: top,
                below,
            }));
        }
        self.clone()
    }

    /// Another number whenever an address may be in another file than before.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// How many regions there are, of which others may lie above some.
    pub(crate) fn len(&self) -> usize {
        self.own.0.len() + total_of(self.shared.as_ref())
    }

    /// Whether so many regions have come that they should be compared with what is mapped: nothing tells what is
    /// unmapped.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.len() > MIN_UNSETTLED.max(2 * self.settled)
    }

    /// Takes as many regions again before they are to be compared, but no more than a limit.
    pub(crate) fn settle(&mut self, limit: usize) {
        self.settled = self.len().min(limit / 2);
    }

    /// An empty map in place of this one.
    pub(crate) fn successor(&self) -> Self {
        Self {
            version: self.version.wrapping_add(1),
            ..Self::default()
        }
    }

    /// Forgets everything.
    pub(crate) fn clear_all(&mut self) {
        self.own = Regions::default();
        self.shared = None;
        self.settled = 0;
        self.version = self.version.wrapping_add(1);
    }

    /// What is at `address`. Memory that no event was seen of counts as anonymous: V8 changes the
    /// protection of its code space all the time, and not every change is reported.
    pub(crate) fn at(&self, address: RuntimeAddress) -> Place {
        let shared = || layers(self.shared.as_ref()).find_map(|layer| layer.regions.at(address));
        match self.own.at(address).or_else(shared) {
            Some((
                start,
                Region {
                    file: Some((image, offset)),
                    ..
                },
            )) => Place::File {
                image,
                file_offset: (address - start).saturating_add(offset),
            },
            _ => Place::Anonymous,
        }
    }

    /// Hands over every image that is mapped. What other maps share is gone through once: `seen`
    /// holds the addresses of layers.
    pub(crate) fn each_image(
        &self,
        seen: &mut nodespy_model::FastSet<usize>,
        mut take: impl FnMut(ImageId),
    ) {
        let mut take_all = |regions: &Regions| {
            let images = regions.0.values().filter_map(|region| region.file);
            images.for_each(|(image, _)| take(image));
        };
        take_all(&self.own);
        let mut next = self.shared.as_ref();
        while let Some(layer) = next
            && seen.insert(Rc::as_ptr(layer) as usize)
        {
            take_all(&layer.regions);
            next = layer.below.as_ref();
        }
    }
}

/// How many regions a layer and those below it have.
fn total_of(layer: Option<&Rc<Layer>>) -> usize {
    layer.map_or(0, |layer| layer.total)
}

/// A layer and those below it.
fn layers(top: Option<&Rc<Layer>>) -> impl Iterator<Item = &Layer> {
    std::iter::successors(top.map(Rc::as_ref), |layer| layer.below.as_deref())
}

impl Regions {
    fn at(&self, address: RuntimeAddress) -> Option<(RuntimeAddress, Region)> {
        let (&start, &region) = self.0.range(..=address).next_back()?;
        (address < region.end).then_some((start, region))
    }

    fn overlapping(
        &self,
        (start, end): (RuntimeAddress, RuntimeAddress),
    ) -> impl Iterator<Item = (RuntimeAddress, Region)> {
        self.0
            .range(..end)
            .rev()
            .take_while(move |(_, region)| region.end > start)
            .map(|(at, region)| (*at, *region))
    }

    /// Whether a file is there. Where there is too much to look through, one may be.
    fn has_file_in(&self, range: (RuntimeAddress, RuntimeAddress)) -> bool {
        let mut overlapping = self.overlapping(range);
        let mut searched = overlapping.by_ref().take(MAX_SEARCHED);
        searched.any(|(_, region)| region.file.is_some()) || overlapping.next().is_some()
    }

    /// Adds a region in place of what is there, keeping what sticks out on either side.
    fn insert(&mut self, start: RuntimeAddress, region: Region) {
        let end = region.end;
        let overlapping: Vec<_> = self.overlapping((start, end)).collect();
        for (at, old) in overlapping {
            self.0.remove(&at);
            if at < start {
                self.0.insert(at, Region { end: start, ..old });
            }
            if old.end > end {
                let file = old
                    .file
                    .map(|(image, offset)| (image, offset.saturating_add(end - at)));
                self.0.insert(end, Region { end: old.end, file });
            }
        }
        self.0.insert(start, region);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, file_offset: u64) -> Mapping {
        Mapping {
            pid: 1,
            start,
            end,
            file_offset,
            path: "/x".to_owned(),
            file: Default::default(),
            time: 0,
        }
    }

    #[test]
    fn a_new_mapping_takes_the_place_of_the_old() {
        let mut map = AddressMap::default();
        map.insert(&mapping(0x1000, 0x9000, 0), Some(ImageId(0)));
        map.insert(&mapping(0x3000, 0x5000, 0x100), Some(ImageId(1)));
        map.insert(&mapping(0x7000, 0x8000, 0), None);
        let at = |address| map.at(address);
        let file = |image, file_offset| Place::File {
            image: ImageId(image),
            file_offset,
        };
        assert_eq!(at(0x2fff), file(0, 0x1fff));
        assert_eq!(at(0x3010), file(1, 0x110));
        assert_eq!(at(0x5001), file(0, 0x4001));
        assert_eq!(at(0x7500), Place::Anonymous);
        assert_eq!(at(0x8001), file(0, 0x7001));
        assert_eq!(at(0x9000), Place::Anonymous);
    }

    fn file(image: u32, file_offset: u64) -> Place {
        Place::File {
            image: ImageId(image),
            file_offset,
        }
    }

    #[test]
    fn parent_and_child_go_separate_ways_after_a_fork() {
        let mut parent = AddressMap::default();
        parent.insert(&mapping(0x1000, 0x9000, 0), Some(ImageId(0)));
        let mut child = parent.fork();
        child.insert(&mapping(0x3000, 0x4000, 0), Some(ImageId(1)));
        parent.insert(&mapping(0x5000, 0x6000, 0), None);
        assert_eq!(
            [0x2000, 0x5000].map(|at| child.at(at)),
            [file(0, 0x1000), file(0, 0x4000)]
        );
        assert_eq!(child.at(0x3010), file(1, 0x10));
        assert_eq!(parent.at(0x3010), file(0, 0x2010));
        assert_eq!(parent.at(0x5010), Place::Anonymous);
        let mut grandchild = child.fork();
        child.clear_all();
        assert_eq!(child.at(0x2000), Place::Anonymous);
        assert_eq!(grandchild.at(0x3010), file(1, 0x10));
        let version = grandchild.version();
        grandchild.insert(&mapping(0x8000, 0x8800, 0), None);
        assert_ne!(
            grandchild.version(),
            version,
            "what was a file is none any more"
        );
    }

    #[test]
    fn any_line_of_forks_is_as_one_map() {
        let mut random = 7u64;
        let mut next = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        let (mut layered, mut plain) = (AddressMap::default(), AddressMap::default());
        for image in 0..300 {
            let start = next(64) * 0x1000;
            let end = start + (1 + next(16)) * 0x1000;
            let image = (next(4) != 0).then_some(ImageId(image));
            for map in [&mut layered, &mut plain] {
                map.insert(&mapping(start, end, 0), image);
            }
            if next(3) == 0 {
                layered = layered.fork();
            }
            for page in 0..80 {
                let address = page * 0x1000 + 8;
                assert_eq!(layered.at(address), plain.at(address));
            }
        }
    }

    /// How many regions are held by some maps together.
    fn held(maps: &[AddressMap]) -> usize {
        let mut seen = nodespy_model::FastSet::default();
        let mut count = 0;
        for map in maps {
            map.each_image(&mut seen, |_| count += 1);
        }
        count
    }

    #[test]
    fn thousands_of_children_hold_the_mappings_of_their_parent_once() {
        let mut parent = AddressMap::default();
        for at in 0..8192 {
            parent.insert(&mapping(at << 12, (at + 1) << 12, 0), Some(ImageId(0)));
        }
        // Each child maps something of its own.
        let mut children: Vec<AddressMap> = (0..8192).map(|_| parent.fork()).collect();
        for child in &mut children {
            child.insert(&mapping(0x5000, 0x6000, 0), Some(ImageId(1)));
        }
        assert_eq!(held(&children), 8192 + 8192);
        // Each is the child of the one before.
        let mut line = vec![parent];
        for at in 0..8192 {
            let mut child = line.last_mut().unwrap().fork();
            child.insert(&mapping(at << 12, (at + 1) << 12, 0), Some(ImageId(1)));
            line.push(child);
        }
        assert!(held(&line) < 400_000, "{}", held(&line));
        let depth = layers(line.last().unwrap().shared.as_ref()).count();
        assert!(depth < 20, "{depth}");
    }
}
