//! Paths of identified frames, each held once: a parent path plus one frame.
//!
//! A long recording has tens of millions of them, so a path takes eight bytes.

use nodespy_model::Branches;

/// No parent, or no path at all.
pub(super) const NO_PATH: u32 = Branches::NO_PARENT;

/// A parent path plus one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) parent: u32,
    pub(super) frame: u32,
}

/// All paths, parents before children.
#[derive(Debug, Default)]
pub(super) struct Paths {
    list: Vec<Path>,
    branches: Branches,
}

impl Paths {
    /// The path that adds `frame` to `parent`.
    pub(super) fn child(&mut self, parent: u32, frame: u32) -> u32 {
        let list = &self.list;
        let known = self.branches.child(parent, frame, list.len(), |path| {
            let Path { parent, frame } = list[path as usize];
            (parent, frame)
        });
        known.unwrap_or_else(|| {
            self.list.push(Path { parent, frame });
            self.list.len() as u32 - 1
        })
    }

    pub(super) fn get(&self, path: u32) -> Path {
        self.list[path as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Gives back the memory that only adding paths needs.
    pub(super) fn close(&mut self) {
        self.branches = Branches::default();
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
    }
}
