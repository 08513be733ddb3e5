//! Finding children again in a table whose rows each name the row of their parent.
//!
//! Stacks, paths and call trees grow by whole paths, so the first child of a row mostly follows it
//! at once and is found by looking there. Only the other children are held here: that is where
//! paths branch, at most once for each path that is added (docs/decisions/0010).

use std::hash::BuildHasher;

/// The rows of one table that do not follow their parent.
#[derive(Debug)]
pub struct Branches {
    /// Each as near as possible to where its hash points.
    slots: Vec<Slot>,
    count: usize,
    /// Differs from run to run, so that no file can be made to fill one corner of the slots.
    seed: u64,
}

/// A row, with all that is asked of it: looking at the row itself would wait for memory again.
#[derive(Debug, Clone, Copy)]
struct Slot {
    parent: u32,
    value: u32,
    position: u32,
}

impl Slot {
    /// Holds nothing; no row has the last position.
    const EMPTY: Self = Self {
        parent: 0,
        value: 0,
        position: u32::MAX,
    };

    fn is_empty(&self) -> bool {
        self.position == u32::MAX
    }
}

impl Default for Branches {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            count: 0,
            seed: foldhash::fast::RandomState::default().hash_one(0u64) | 1,
        }
    }
}

impl Branches {
    /// What stands for the parent of a root.
    pub const NO_PARENT: u32 = u32::MAX;

    /// The row that has this parent and this value, where `row_at` returns both of a row. If none of
    /// the `rows` has, the caller must push it now: it will be found from then on.
    pub fn child(
        &mut self,
        parent: u32,
        value: u32,
        rows: usize,
        row_at: impl Fn(u32) -> (u32, u32),
    ) -> Option<u32> {
        assert!(rows < u32::MAX as usize, "a table holds under 2^32 rows");
        let next = parent.wrapping_add(1);
        // The last row has no children yet.
        if next as usize >= rows {
            return None;
        }
        if row_at(next) == (parent, value) {
            return Some(next);
        }
        self.make_room();
        let at = self.slot_of(parent, value);
        if !self.slots[at].is_empty() {
            return Some(self.slots[at].position);
        }
        let position = rows as u32;
        self.slots[at] = Slot {
            parent,
            value,
            position,
        };
        self.count += 1;
        None
    }

    /// Takes in a row that was pushed without asking for it.
    pub fn add(&mut self, parent: u32, value: u32, position: u32) {
        if parent.wrapping_add(1) == position {
            return;
        }
        self.make_room();
        let at = self.slot_of(parent, value);
        self.slots[at] = Slot {
            parent,
            value,
            position,
        };
        self.count += 1;
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.slots.fill(Slot::EMPTY);
        self.count = 0;
    }

    /// Where a row is, or the empty slot where it would be.
    fn slot_of(&self, parent: u32, value: u32) -> usize {
        let key = u64::from(parent) << 32 | u64::from(value);
        let wide = u128::from(key ^ self.seed) * 0x9e37_79b9_7f4a_7c15;
        let mask = self.slots.len() - 1;
        let mut at = ((wide >> 64) ^ (wide >> 32)) as usize & mask;
        loop {
            let slot = &self.slots[at];
            if slot.is_empty() || (slot.parent, slot.value) == (parent, value) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    fn make_room(&mut self) {
        if (self.count + 1) * 4 <= self.slots.len() * 3 {
            return;
        }
        let larger = vec![Slot::EMPTY; (self.slots.len() * 2).max(1024)];
        let slots = std::mem::replace(&mut self.slots, larger);
        for slot in slots.into_iter().filter(|slot| !slot.is_empty()) {
            let at = self.slot_of(slot.parent, slot.value);
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FastMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_path_is_one_row_whether_it_was_asked_for_or_added(
            paths in prop::collection::vec(prop::collection::vec(0u32..4, 0..9), 0..400),
            added in 0usize..400,
        ) {
            let mut branches = Branches::default();
            let mut rows: Vec<(u32, u32)> = Vec::new();
            let mut expected: FastMap<Vec<u32>, u32> = FastMap::default();
            for (at, path) in paths.iter().enumerate() {
                let mut parent = Branches::NO_PARENT;
                for depth in 0..path.len() {
                    let known = expected.get(&path[..=depth]).copied();
                    let row = (parent, path[depth]);
                    if known.is_none() && at < added {
                        branches.add(parent, path[depth], rows.len() as u32);
                        rows.push(row);
                        parent = rows.len() as u32 - 1;
                    } else {
                        let found = branches.child(parent, path[depth], rows.len(), |row| {
                            rows[row as usize]
                        });
                        prop_assert_eq!(found, known);
                        parent = found.unwrap_or(rows.len() as u32);
                        if found.is_none() {
                            rows.push(row);
                        }
                    }
                    expected.insert(path[..=depth].to_vec(), parent);
                }
            }
            prop_assert_eq!(rows.len(), expected.len());
        }
    }

    #[test]
    fn what_is_forgotten_is_found_again_only_where_it_is() {
        let mut branches = Branches::default();
        let rows = [(Branches::NO_PARENT, 7), (0, 1), (0, 2)];
        let row_at = |row: u32| rows[row as usize];
        assert_eq!(branches.child(0, 2, 2, row_at), None);
        assert_eq!(branches.child(0, 2, 3, row_at), Some(2));
        branches.clear();
        assert_eq!(branches.child(0, 1, 3, row_at), Some(1));
        assert_eq!(branches.child(0, 2, 3, row_at), None);
    }
}
