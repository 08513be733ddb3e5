//! What samples are tagged with beyond their thread: sets of labels, each held once.

use crate::FastMap;
use crate::labels::Labels;

/// The labels of a sample; 0 is the empty set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ContextIndex(pub u32);

impl ContextIndex {
    /// No labels.
    pub const NONE: Self = Self(0);
}

/// How many sets of labels a profile can have: what comes later is [`OTHER`].
const MAX_CONTEXTS: usize = 1 << 20;
/// How many bytes of text they can have together.
const MAX_CONTEXT_BYTES: usize = 64 << 20;
/// The key and value of the set that stands for all that a full table has no room for.
pub const OTHER: (&str, &str) = ("context", "(other)");

/// The sets of labels of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contexts {
    /// Without the empty set: the first is context 1.
    sets: Vec<Labels>,
}

impl Contexts {
    /// The labels of a context.
    pub fn get(&self, context: ContextIndex) -> &Labels {
        const EMPTY: &Labels = &Labels::EMPTY;
        let position = (context.0 as usize).checked_sub(1);
        position.map_or(EMPTY, |position| &self.sets[position])
    }

    /// How many sets there are, with the empty one.
    pub fn len(&self) -> usize {
        self.sets.len() + 1
    }

    /// Whether there is none but the empty one.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Changes the value of a label wherever it is.
    pub fn change(&mut self, key: &str, mut new: impl FnMut(&str) -> String) {
        for labels in &mut self.sets {
            if let Some(value) = labels.get(key).map(&mut new) {
                labels.set(key, value);
            }
        }
    }

    /// Changes the values of all labels but these.
    pub fn change_others(&mut self, but: &[&str], new: impl Fn(&str) -> String) {
        for labels in &mut self.sets {
            let is_meant = |(key, _): &(&str, &str)| !but.contains(key);
            let changed: Vec<(String, String)> = labels
                .iter()
                .filter(is_meant)
                .map(|(key, value)| (key.to_owned(), new(value)))
                .collect();
            for (key, value) in changed {
                labels.set(&key, value);
            }
        }
    }

    /// Every set but the empty one, from context 1.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Labels> {
        self.sets.iter()
    }
}

/// Finds sets again by their labels.
#[derive(Debug, Default)]
pub(crate) struct ContextIndexer {
    known: FastMap<Labels, ContextIndex>,
    bytes: usize,
}

impl ContextIndexer {
    /// Where `labels` are in `contexts`, which get them unless they are full.
    pub(crate) fn intern(&mut self, contexts: &mut Contexts, labels: Labels) -> ContextIndex {
        if labels.is_empty() {
            return ContextIndex::NONE;
        }
        if let Some(known) = self.known.get(&labels) {
            return *known;
        }
        let bytes: usize = labels
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        let is_full = self.bytes + bytes > MAX_CONTEXT_BYTES || contexts.len() >= MAX_CONTEXTS;
        let labels = match is_full {
            true => {
                let mut other = Labels::default();
                other.set(OTHER.0, OTHER.1);
                other
            }
            false => labels,
        };
        let next = ContextIndex(contexts.len() as u32);
        let index = *self.known.entry(labels.clone()).or_insert(next);
        if index == next {
            self.bytes += bytes;
            contexts.sets.push(labels);
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(value: &str) -> Labels {
        let mut labels = Labels::default();
        labels.set("route", value);
        labels
    }

    #[test]
    fn equal_sets_are_one_and_the_empty_set_is_free() {
        let (mut contexts, mut indexer) = (Contexts::default(), ContextIndexer::default());
        assert_eq!(indexer.intern(&mut contexts, Labels::default()).0, 0);
        assert!(contexts.is_empty());
        assert_eq!(indexer.intern(&mut contexts, labels("/a")).0, 1);
        assert_eq!(indexer.intern(&mut contexts, labels("/b")).0, 2);
        assert_eq!(indexer.intern(&mut contexts, labels("/a")).0, 1);
        assert_eq!(contexts.get(ContextIndex(2)).get("route"), Some("/b"));
        assert!(contexts.get(ContextIndex::NONE).is_empty());
    }

    #[test]
    fn a_full_table_calls_the_rest_other() {
        let (mut contexts, mut indexer) = (Contexts::default(), ContextIndexer::default());
        let all: Vec<u32> = (0..MAX_CONTEXTS + 5)
            .map(|number| indexer.intern(&mut contexts, labels(&number.to_string())).0)
            .collect();
        let last = *all.last().unwrap();
        assert_eq!(contexts.get(ContextIndex(last)).get(OTHER.0), Some(OTHER.1));
        assert!(all.ends_with(&[last; 5]));
        assert_eq!(indexer.intern(&mut contexts, labels("7")).0, 8);
    }
}
