//! Which file or JIT region an address of a process is in.

use std::collections::BTreeMap;

use nodespy_model::{Mapping, RuntimeAddress};

/// An image of the resolver's list.
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

/// The code memory of one process. A new mapping takes the place of what it overlaps.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressMap {
    regions: BTreeMap<RuntimeAddress, Region>,
    version: u32,
}

impl AddressMap {
    /// Adds a mapping; `image` is none for anonymous memory.
    pub(crate) fn insert(&mut self, mapping: &Mapping, image: Option<ImageId>) {
        if mapping.start >= mapping.end {
            return;
        }
        let had_files = self.clear(mapping.start, mapping.end);
        if had_files || image.is_some() {
            self.version = self.version.wrapping_add(1);
        }
        let file = image.map(|image| (image, mapping.file_offset));
        let end = mapping.end;
        self.regions.insert(mapping.start, Region { end, file });
    }

    /// Another number whenever an address may be in another file than before.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Forgets everything.
    pub(crate) fn clear_all(&mut self) {
        self.regions.clear();
        self.version = self.version.wrapping_add(1);
    }

    /// What is at `address`. Memory nobody told us of counts as anonymous: V8 changes the
    /// protection of its code space all the time, and not every change is reported.
    pub(crate) fn at(&self, address: RuntimeAddress) -> Place {
        let region = self
            .regions
            .range(..=address)
            .next_back()
            .filter(|(_, region)| address < region.end);
        match region {
            Some((
                start,
                Region {
                    file: Some((image, offset)),
                    ..
                },
            )) => Place::File {
                image: *image,
                file_offset: (address - start).saturating_add(*offset),
            },
            _ => Place::Anonymous,
        }
    }

    /// Forgets what is between the two addresses, keeping what sticks out on either side; true
    /// when a file was there.
    fn clear(&mut self, start: RuntimeAddress, end: RuntimeAddress) -> bool {
        let overlapping: Vec<(RuntimeAddress, Region)> = self
            .regions
            .range(..end)
            .rev()
            .take_while(|(_, region)| region.end > start)
            .map(|(at, region)| (*at, *region))
            .collect();
        let mut had_files = false;
        for (at, region) in overlapping {
            had_files |= region.file.is_some();
            self.regions.remove(&at);
            if at < start {
                self.regions.insert(
                    at,
                    Region {
                        end: start,
                        ..region
                    },
                );
            }
            if region.end > end {
                let file = region
                    .file
                    .map(|(image, offset)| (image, offset + (end - at)));
                self.regions.insert(
                    end,
                    Region {
                        end: region.end,
                        file,
                    },
                );
            }
        }
        had_files
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
}
