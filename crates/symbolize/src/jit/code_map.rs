//! The code of a process by its addresses: of functions written over one another, what is left.

use std::collections::BTreeMap;

use super::Span;

/// With more functions than this the older half is dropped: it is the code that has most likely
/// gone.
const MAX_FUNCTIONS: usize = 1 << 19;

/// Functions and what is left of functions, none over another.
#[derive(Debug, Default)]
pub(super) struct CodeMap {
    by_start: BTreeMap<u64, Known>,
}

/// Where in its file a function is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) end: u64,
    pub(super) name: Span,
    pub(super) lines: Span,
}

impl CodeMap {
    /// Adds a function, in the place of everything that was there.
    pub(super) fn add(&mut self, start: u64, known: Known) {
        let end = known.end;
        if start >= end {
            return;
        }
        if self.by_start.len() >= MAX_FUNCTIONS {
            self.drop_older_half();
        }
        if let Some((_, before)) = self.by_start.range_mut(..start).next_back()
            && before.end > start
        {
            let rest = *before;
            before.end = start;
            if rest.end > end {
                self.by_start.insert(end, rest);
            }
        }
        while let Some((&covered, &rest)) = self.by_start.range(start..end).next() {
            self.by_start.remove(&covered);
            if rest.end > end {
                self.by_start.insert(end, rest);
            }
        }
        self.by_start.insert(start, known);
    }

    /// The function at an address.
    pub(super) fn at(&self, address: u64) -> Option<(u64, Known)> {
        let (&start, &known) = self.by_start.range(..=address).next_back()?;
        (address < known.end).then_some((start, known))
    }

    fn drop_older_half(&mut self) {
        let mut offsets: Vec<u64> = self.by_start.values().map(|it| it.name.offset).collect();
        let middle = offsets.len() / 2;
        let (_, &mut median, _) = offsets.select_nth_unstable(middle);
        self.by_start.retain(|_, it| it.name.offset > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(end: u64, offset: u64) -> Known {
        let name = Span { offset, length: 1 };
        let lines = Span::default();
        Known { end, name, lines }
    }

    fn names(map: &CodeMap, addresses: &[u64]) -> Vec<Option<u64>> {
        let name = |&address| Some(map.at(address)?.1.name.offset);
        addresses.iter().map(name).collect()
    }

    #[test]
    fn a_function_takes_the_place_of_what_it_covers_and_leaves_the_rest() {
        let mut map = CodeMap::default();
        map.add(0x1000, known(0x1200, 1));
        map.add(0x1200, known(0x1300, 2));
        // Inside of one; over the end of one and the start of the next; nothing at all.
        map.add(0x1040, known(0x1080, 3));
        map.add(0x11c0, known(0x1280, 4));
        map.add(0x1100, known(0x1100, 5));
        assert_eq!(
            names(
                &map,
                &[
                    0xfff, 0x1000, 0x103f, 0x1040, 0x107f, 0x1080, 0x1100, 0x11bf, 0x11c0, 0x127f,
                    0x1280, 0x12ff, 0x1300
                ]
            ),
            [
                None,
                Some(1),
                Some(1),
                Some(3),
                Some(3),
                Some(1),
                Some(1),
                Some(1),
                Some(4),
                Some(4),
                Some(2),
                Some(2),
                None
            ]
        );
        map.add(0, known(u64::MAX, 6));
        assert_eq!(map.by_start.len(), 1);
    }

    #[test]
    fn a_map_that_is_full_drops_the_older_half() {
        let mut map = CodeMap::default();
        let count = MAX_FUNCTIONS as u64 + 1;
        for number in 0..count {
            map.add(number << 8, known((number << 8) + 16, number));
        }
        assert!(map.by_start.len() <= MAX_FUNCTIONS / 2 + 1);
        assert_eq!(names(&map, &[0, (count - 1) << 8]), [None, Some(count - 1)]);
    }
}
