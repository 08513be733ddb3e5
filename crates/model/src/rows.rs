//! Finding a row of a table by its content, without a second copy of the rows.
//!
//! A hash map from row to position holds every row twice. This holds positions only, four bytes a
//! row, and asks the table what is there. Hashes are seeded per process, so hostile content can't
//! be aimed at them.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;

/// The most rows a table of a profile has; typed indexes are 32 bits wide.
const MAX_ROWS: usize = u32::MAX as usize;

/// Positions in one table, found by what is there.
#[derive(Debug, Default)]
pub struct RowIndex {
    positions: HashTable<u32>,
    seed: foldhash::fast::RandomState,
}

impl RowIndex {
    /// An index with room for `rows`, which saves hashing them again as it grows.
    pub fn with_room(rows: usize) -> Self {
        Self {
            positions: HashTable::with_capacity(rows),
            ..Self::default()
        }
    }

    /// The position of `row` in `table`, which gets it if it does not have it yet.
    pub fn intern<T: Copy + Eq + Hash>(&mut self, table: &mut Vec<T>, row: T) -> u32 {
        self.intern_by(table, row, |row| *row)
    }

    /// The same where rows are known by a `key`, which may be less than the whole row.
    pub fn intern_by<T, K: Eq + Hash>(
        &mut self,
        table: &mut Vec<T>,
        row: T,
        key: impl Fn(&T) -> K,
    ) -> u32 {
        let wanted = key(&row);
        let seed = &self.seed;
        let hash = seed.hash_one(&wanted);
        let is_same = |position: &u32| key(&table[*position as usize]) == wanted;
        if let Some(position) = self.positions.find(hash, is_same) {
            return *position;
        }
        assert!(table.len() < MAX_ROWS, "a table holds under 2^32 rows");
        let position = table.len() as u32;
        table.push(row);
        let hash_at = |position: &u32| seed.hash_one(key(&table[*position as usize]));
        self.positions.insert_unique(hash, position, hash_at);
        position
    }

    /// The position of `text`, where `at` returns the text at a position; `push` adds it.
    pub fn intern_text<T>(
        &mut self,
        table: &mut T,
        text: &str,
        at: impl Fn(&T, u32) -> &str,
        push: impl FnOnce(&mut T, &str) -> u32,
    ) -> u32 {
        let seed = &self.seed;
        let hash = seed.hash_one(text);
        let found = self
            .positions
            .find(hash, |position| at(table, *position) == text);
        if let Some(position) = found {
            return *position;
        }
        let position = push(table, text);
        let hash_at = |position: &u32| seed.hash_one(at(table, *position));
        self.positions.insert_unique(hash, position, hash_at);
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_get_one_position() {
        let mut index = RowIndex::default();
        let mut table = Vec::new();
        let positions: Vec<u32> = (0..10_000u64)
            .map(|number| index.intern(&mut table, number % 1000))
            .collect();
        assert_eq!(table.len(), 1000);
        assert!((0..10_000).all(|at| positions[at] == (at % 1000) as u32));
    }
}
