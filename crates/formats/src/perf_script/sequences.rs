//! Sequences of anything small, each held once and known by a number.
//!
//! All of them lie one after the other in one block of memory, so that a million of them is a
//! handful of allocations.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;

/// Sequences by number, and numbers by sequence.
#[derive(Debug, Default)]
pub(crate) struct Sequences<T> {
    items: Vec<T>,
    ends: Vec<usize>,
    numbers: HashTable<u32>,
    seed: foldhash::fast::RandomState,
}

impl<T: Copy + Eq + Hash> Sequences<T> {
    /// The number of a sequence, which is kept if it is new.
    pub(crate) fn intern(&mut self, sequence: &[T]) -> u32 {
        let Self {
            items, ends, seed, ..
        } = self;
        let hash = seed.hash_one(sequence);
        let found = self
            .numbers
            .find(hash, |number| at(items, ends, *number) == sequence);
        if let Some(number) = found {
            return *number;
        }
        let number = u32::try_from(ends.len()).expect("under 2^32 different names or stacks");
        items.extend_from_slice(sequence);
        ends.push(items.len());
        self.numbers.insert_unique(hash, number, |number| {
            seed.hash_one(at(items, ends, *number))
        });
        number
    }

    /// The number of a sequence, if it is known.
    pub(crate) fn find(&self, sequence: &[T]) -> Option<u32> {
        let hash = self.seed.hash_one(sequence);
        let is_it = |number: &u32| self.get(*number) == sequence;
        self.numbers.find(hash, is_it).copied()
    }

    /// The sequence with a number.
    pub(crate) fn get(&self, number: u32) -> &[T] {
        at(&self.items, &self.ends, number)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

fn at<'a, T>(items: &'a [T], ends: &[usize], number: u32) -> &'a [T] {
    let number = number as usize;
    let start = match number {
        0 => 0,
        number => ends[number - 1],
    };
    &items[start..ends[number]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sequences_have_one_number() {
        let mut names = Sequences::default();
        let numbers: Vec<u32> = (0..5000u32)
            .map(|at| names.intern(format!("name {}", at % 700).as_bytes()))
            .collect();
        assert_eq!(names.len(), 700);
        assert!((0..5000).all(|at| numbers[at] == at as u32 % 700));
        assert_eq!(names.get(3), b"name 3");
        let empty = names.intern(b"");
        assert_eq!(names.get(empty), b"");
    }
}
