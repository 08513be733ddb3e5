//! Two profiles side by side.
//!
//! A [`ProfilePair`] is two lists of samples over one set of tables, so that a function or a stack
//! has the same index on both sides. A [`DiffTree`] is the call tree of both, with the weights of
//! each side at every node. What a difference means (of shares, of totals, of itself) is up to
//! the view that shows it.

use crate::tree::{CallTree, NodeIndex, TreeNode};
use nodespy_model::ProfileBuilder;
use nodespy_model::RowIndex;
use nodespy_model::{EventIndex, Profile, Sample, ThreadIndex};
use nodespy_model::{add_threads, moved_samples};

/// Two profiles that share their tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProfilePair {
    /// The later profile, whose tables hold what the earlier one needs too.
    pub after: Profile,
    /// The samples of the earlier profile.
    pub before: Vec<Sample>,
}

impl ProfilePair {
    /// Puts two profiles of different tables side by side. Functions are the same on both sides
    /// when name, file, line, column and category are.
    pub fn join(before: &Profile, after: &Profile) -> Self {
        before.assert_one_event();
        after.assert_one_event();
        let mut builder = ProfileBuilder::new(after.event().clone());
        let mut moved = |profile| {
            let threads = add_threads(&mut builder, profile);
            let mut samples = moved_samples(&mut builder, profile, |thread| threads[thread.at()]);
            // The event of either side is what is compared, whatever it is called there.
            for sample in &mut samples {
                sample.event = EventIndex::default();
            }
            samples
        };
        let after_samples = moved(after);
        let before = moved(before);
        for sample in after_samples {
            builder.add_sample(sample);
        }
        Self {
            after: builder.finish(after.about.clone(), after.notes.clone()),
            before,
        }
    }

    /// Both sides after a transform that keeps threads: it sees one profile with the threads of
    /// the earlier side after those of the later.
    pub fn map(mut self, transform: impl FnOnce(Profile) -> Profile) -> Self {
        let threads = self.after.threads.len();
        self.after.threads.extend_from_within(..);
        for mut sample in std::mem::take(&mut self.before) {
            sample.thread = ThreadIndex((sample.thread.at() + threads) as u32);
            self.after.samples.push(sample);
        }
        let mut after = transform(self.after);
        let is_after = |sample: &Sample| sample.thread.at() < threads;
        let (samples, mut before): (Vec<_>, Vec<_>) = after.samples.into_iter().partition(is_after);
        after.samples = samples;
        after.threads.truncate(threads);
        for sample in &mut before {
            sample.thread = ThreadIndex((sample.thread.at() - threads) as u32);
        }
        Self { after, before }
    }

    /// The call tree of both sides.
    pub fn tree(&self) -> DiffTree {
        let after = CallTree::of(&self.after, |_| true);
        let before = CallTree::of_samples(&self.after, &self.before);
        DiffTree::of(&before, after)
    }
}

/// The weights of one node on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeWeights {
    /// Weight of samples that end here.
    pub self_weight: u64,
    /// Weight of samples that end here or below.
    pub total_weight: u64,
}

/// The call tree of two profiles. It has the nodes of both; those of the earlier side alone weigh
/// nothing in `after`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiffTree {
    /// The tree, with the weights of the later side.
    pub after: CallTree,
    /// The weights of the earlier side, for every node of the tree.
    pub before: Vec<NodeWeights>,
    /// Weight of the earlier side's samples without a stack.
    pub before_without_stack: u64,
}

impl DiffTree {
    /// Two trees over the same table of functions as one.
    pub fn of(before: &CallTree, mut after: CallTree) -> Self {
        let mut known = RowIndex::default();
        let key = |node: &TreeNode| TreeNode::key(node.parent, node.function);
        let mut nodes = Vec::with_capacity(after.nodes.len());
        for node in after.nodes.drain(..) {
            known.intern_by(&mut nodes, node, key);
        }
        let mut place_of: Vec<NodeIndex> = Vec::with_capacity(before.nodes.len());
        let mut weights = vec![NodeWeights::default(); nodes.len()];
        for node in &before.nodes {
            let row = TreeNode {
                parent: node.parent.map(|parent| place_of[parent.0 as usize]),
                self_weight: 0,
                total_weight: 0,
                ..*node
            };
            let place = known.intern_by(&mut nodes, row, key);
            weights.resize(nodes.len(), NodeWeights::default());
            weights[place as usize] = NodeWeights {
                self_weight: node.self_weight,
                total_weight: node.total_weight,
            };
            place_of.push(NodeIndex(place));
        }
        after.nodes = nodes;
        Self {
            after,
            before: weights,
            before_without_stack: before.without_stack,
        }
    }

    /// The same with the earlier side's weights multiplied by `scale`, so that they can be compared with the later
    /// side's, and with frames that only the earlier side has as wide as they were: their callers are wider by as
    /// much. Returns how much of every node's total is that.
    pub fn with_gone(mut self, scale: f64) -> (Self, Vec<u64>) {
        let scaled = |weight: u64| (weight as f64 * scale).round() as u64;
        for weights in &mut self.before {
            weights.self_weight = scaled(weights.self_weight);
            weights.total_weight = scaled(weights.total_weight);
        }
        self.before_without_stack = scaled(self.before_without_stack);
        let nodes = &mut self.after.nodes;
        let mut gone = vec![0u64; nodes.len()];
        // Children come last, so one pass from the end gives every caller what its callees add.
        for position in (0..nodes.len()).rev() {
            let node = &mut nodes[position];
            if node.total_weight == 0 {
                node.self_weight = self.before[position].self_weight;
                gone[position] = gone[position].saturating_add(node.self_weight);
            }
            let more = gone[position];
            node.total_weight = node.total_weight.saturating_add(more);
            if let Some(parent) = node.parent {
                let below = &mut gone[parent.0 as usize];
                *below = below.saturating_add(more);
            }
        }
        (self, gone)
    }

    /// The weight of the earlier side.
    pub fn before_total(&self) -> u64 {
        let weights = self.after.nodes.iter().zip(&self.before);
        weights
            .filter(|(node, _)| node.parent.is_none())
            .fold(self.before_without_stack, |sum, (_, before)| {
                sum.saturating_add(before.total_weight)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile_of;

    #[test]
    fn a_node_has_the_weights_of_both_sides() {
        let before = profile_of("gone 1\na;b 5\na 2\n 7");
        let after = profile_of("a;new 3\na;b 4");
        let pair = ProfilePair::join(&before, &after);
        let tree = pair.tree();
        let rows: Vec<_> = tree
            .after
            .nodes
            .iter()
            .zip(&tree.before)
            .map(|(node, before)| {
                let name = pair.after.name_of(node.function);
                (
                    name,
                    before.total_weight,
                    node.total_weight,
                    before.self_weight,
                    node.self_weight,
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                ("a", 7, 7, 2, 0),
                ("new", 0, 3, 0, 3),
                ("b", 5, 4, 5, 4),
                ("gone", 1, 0, 1, 0)
            ]
        );
        assert_eq!((tree.before_total(), tree.after.total_weight()), (15, 7));
    }

    #[test]
    fn what_is_gone_keeps_its_width_and_widens_its_callers() {
        let pair = ProfilePair::join(&profile_of("a;b;c 2\na 4\na;b 1"), &profile_of("a 3"));
        let (tree, gone) = pair.tree().with_gone(2.0);
        let rows: Vec<(&str, u64, u64, u64)> = (tree.after.nodes.iter().zip(&gone))
            .map(|(node, gone)| {
                let name = pair.after.name_of(node.function);
                (name, node.self_weight, node.total_weight, *gone)
            })
            .collect();
        assert_eq!(rows, [("a", 3, 9, 6), ("b", 2, 6, 6), ("c", 4, 4, 4)]);
        assert_eq!(
            (tree.before[0].total_weight, tree.before[0].self_weight),
            (14, 8)
        );
    }

    #[test]
    fn a_transform_sees_both_sides() {
        let before = profile_of("a;b 5\na 2");
        let pair = ProfilePair::join(&before, &profile_of("a;c 3"));
        let turned = pair.clone().map(crate::reverse);
        assert_eq!(turned.before.len(), 2);
        let tree = turned.tree();
        let roots = tree.after.nodes.iter().filter(|node| node.parent.is_none());
        let names: Vec<&str> = roots
            .map(|node| turned.after.name_of(node.function))
            .collect();
        assert_eq!(names, ["c", "b", "a"]);
        assert_eq!(turned.map(crate::reverse).tree(), pair.tree());
    }
}
