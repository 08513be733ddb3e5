//! What is known by an address of the heap, for as long as it is asked for: workers and functions
//! come and go, and a recording lasts.

use std::hash::Hash;

use nodespy_model::FastMap;

/// A map that forgets what was not asked for between two sweeps.
#[derive(Debug)]
pub(super) struct Aging<K, V> {
    entries: FastMap<K, Entry<V>>,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    is_used: bool,
}

impl<K, V> Default for Aging<K, V> {
    fn default() -> Self {
        Self {
            entries: FastMap::default(),
        }
    }
}

impl<K: Hash + Eq, V> Aging<K, V> {
    pub(super) fn get(&mut self, key: &K) -> Option<&V> {
        let entry = self.entries.get_mut(key)?;
        entry.is_used = true;
        Some(&entry.value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        let is_used = true;
        self.entries.insert(key, Entry { value, is_used });
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Forgets what was not asked for since the last sweep.
    pub(super) fn sweep(&mut self) {
        self.entries
            .retain(|_, entry| std::mem::take(&mut entry.is_used));
        self.entries.shrink_to(2 * self.entries.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut known = Aging::default();
        for key in 0..1000 {
            known.insert(key, key * 2);
        }
        known.sweep();
        assert_eq!((known.len(), known.get(&7)), (1000, Some(&14)));
        known.sweep();
        assert_eq!((known.len(), known.get(&8)), (1, None));
        known.sweep();
        known.sweep();
        assert_eq!(known.len(), 0);
    }
}
