//! Paths of raw frames, each held once: a parent path plus one frame.
//!
//! A long recording has tens of millions of them, so a path takes eight bytes and its place in
//! the table that finds it again at most eight more.

use std::hash::BuildHasher;

/// No parent, or no path at all.
pub(super) const NO_PATH: u32 = u32::MAX;

/// A parent path plus one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) parent: u32,
    pub(super) frame: u32,
}

/// All paths, parents before children.
#[derive(Debug)]
pub(super) struct Paths {
    list: Vec<Path>,
    /// Positions in the list, each as near as possible to where its hash points.
    table: Vec<u32>,
    /// Differs from run to run, so that no file can be made to fill one corner of the table.
    seed: u64,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            table: Vec::new(),
            seed: foldhash::fast::RandomState::default().hash_one(0u64) | 1,
        }
    }
}

impl Paths {
    /// The path that adds `frame` to `parent`.
    pub(super) fn child(&mut self, parent: u32, frame: u32) -> u32 {
        if self.list.len() * 4 >= self.table.len() * 3 {
            self.grow();
        }
        let wanted = Path { parent, frame };
        // The first child of a path follows it at once, and most have no other.
        let next = parent.wrapping_add(1);
        if self.list.get(next as usize) == Some(&wanted) {
            return next;
        }
        let mask = self.table.len() - 1;
        let mut at = self.hash(wanted) & mask;
        loop {
            match self.table[at] {
                NO_PATH => break,
                position if self.list[position as usize] == wanted => return position,
                _ => at = (at + 1) & mask,
            }
        }
        assert!(self.list.len() < NO_PATH as usize, "under 2^32 paths");
        let position = self.list.len() as u32;
        self.list.push(wanted);
        self.table[at] = position;
        position
    }

    pub(super) fn get(&self, path: u32) -> Path {
        self.list[path as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Gives back the memory that only adding paths needs.
    pub(super) fn close(&mut self) {
        self.table = Vec::new();
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.table.fill(NO_PATH);
    }

    fn hash(&self, path: Path) -> usize {
        let key = u64::from(path.parent) << 32 | u64::from(path.frame);
        let wide = u128::from(key ^ self.seed) * 0x9e37_79b9_7f4a_7c15;
        ((wide >> 64) as u64 ^ wide as u64) as usize
    }

    fn grow(&mut self) {
        let size = (self.list.len() * 2).next_power_of_two().max(1024);
        self.table.clear();
        self.table.resize(size, NO_PATH);
        let mask = size - 1;
        for (position, &path) in self.list.iter().enumerate() {
            let mut at = self.hash(path) & mask;
            while self.table[at] != NO_PATH {
                at = (at + 1) & mask;
            }
            self.table[at] = position as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_paths_are_one() {
        let mut paths = Paths::default();
        let mut ends = Vec::new();
        for round in 0..3 {
            for leaf in 0..5000u32 {
                let mut path = NO_PATH;
                for frame in [1, 2, leaf % 7, leaf] {
                    path = paths.child(path, frame);
                }
                match round {
                    0 => ends.push(path),
                    _ => assert_eq!(ends[leaf as usize], path),
                }
            }
        }
        assert_eq!(paths.len(), 1 + 1 + 7 + 5000);
        let leaf = paths.get(ends[42]);
        assert_eq!(leaf.frame, 42);
        assert!(leaf.parent < ends[42]);
        paths.clear();
        assert_eq!(paths.child(NO_PATH, 9), 0);
    }
}
