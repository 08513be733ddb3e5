//! Which code was at an address: ranges that never overlap, because new code takes the place of
//! whatever was there.

use std::collections::BTreeMap;

/// Ranges of addresses and what they hold.
#[derive(Debug)]
pub(super) struct CodeMap<T> {
    ranges: BTreeMap<u64, Range<T>>,
}

#[derive(Debug, Clone, Copy)]
struct Range<T> {
    end: u64,
    value: T,
}

impl<T> Default for CodeMap<T> {
    fn default() -> Self {
        Self {
            ranges: BTreeMap::new(),
        }
    }
}

impl<T: Copy> CodeMap<T> {
    /// Puts `value` at `size` bytes from `start`; `gone` hears of what was there.
    pub(super) fn insert(&mut self, start: u64, size: u64, value: T, mut gone: impl FnMut(T)) {
        let end = start.saturating_add(size);
        if end == start {
            return;
        }
        while let Some((&old, range)) = self.ranges.range(..end).next_back()
            && range.end > start
        {
            gone(range.value);
            self.ranges.remove(&old);
        }
        self.ranges.insert(start, Range { end, value });
    }

    /// Takes away what starts at `start`, with its size.
    pub(super) fn remove(&mut self, start: u64) -> Option<(T, u64)> {
        let range = self.ranges.remove(&start)?;
        Some((range.value, range.end - start))
    }

    /// What starts at `start`.
    pub(super) fn starting_at(&self, start: u64) -> Option<T> {
        self.ranges.get(&start).map(|range| range.value)
    }

    /// What holds `address`, and how far into it that is.
    pub(super) fn at(&self, address: u64) -> Option<(T, u64)> {
        let (start, range) = self.ranges.range(..=address).next_back()?;
        (address < range.end).then(|| (range.value, address - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_code_takes_the_place_of_what_it_overlaps() {
        let mut map = CodeMap::default();
        let mut gone = Vec::new();
        map.insert(100, 50, 'a', |_| unreachable!());
        map.insert(150, 50, 'b', |_| unreachable!());
        map.insert(200, 50, 'c', |_| unreachable!());
        assert_eq!(map.at(149), Some(('a', 49)));
        map.insert(140, 70, 'd', |value| gone.push(value));
        assert_eq!(gone, ['c', 'b', 'a']);
        assert_eq!(map.at(120), None);
        assert_eq!(map.at(140), Some(('d', 0)));
        assert_eq!(map.at(210), None);
        assert_eq!(map.starting_at(200), None);
    }

    #[test]
    fn code_goes() {
        let mut map = CodeMap::default();
        map.insert(100, 50, 'a', |_| {});
        assert_eq!(map.at(149), Some(('a', 49)));
        assert_eq!(map.remove(120), None);
        assert_eq!(map.remove(100), Some(('a', 50)));
        assert_eq!(map.at(130), None);
        map.insert(u64::MAX - 1, 9, 'z', |_| {});
        assert_eq!(map.at(u64::MAX - 1), Some(('z', 0)));
        map.insert(5, 0, 'n', |_| {});
        assert_eq!(map.at(5), None);
    }
}
