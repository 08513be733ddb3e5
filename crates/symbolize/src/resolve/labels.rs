//! The labels that samples come with, each set held once.

use nodespy_model::{FastMap, Labels};

/// Of a sample that has none.
pub(super) const NO_LABELS: u32 = u32::MAX;
/// How many sets of a slice are told apart.
const MAX_SETS: usize = 1 << 16;

/// The sets of labels of one slice.
#[derive(Debug, Default)]
pub(super) struct LabelSets {
    list: Vec<Labels>,
    ids: FastMap<Labels, u32>,
}

impl LabelSets {
    /// The number of a set.
    pub(super) fn id(&mut self, labels: &Labels) -> u32 {
        if labels.is_empty() {
            return NO_LABELS;
        }
        if let Some(&known) = self.ids.get(labels) {
            return known;
        }
        if self.list.len() >= MAX_SETS {
            return NO_LABELS;
        }
        let id = self.list.len() as u32;
        self.list.push(labels.clone());
        self.ids.insert(labels.clone(), id);
        id
    }

    /// The set with this number.
    pub(super) fn get(&self, id: u32) -> Option<&Labels> {
        self.list.get(id as usize)
    }
}
