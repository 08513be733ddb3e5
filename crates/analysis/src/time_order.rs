//! The call tree as time went by: what a flame chart is made of.

use crate::tree::{CallTree, NodeIndex, TreeNode};
use nodespy_model::{FunctionIndex, Profile, Sample, StackIndex};

/// A call tree whose nodes are merged with their neighbours in time only. A function that was left
/// and called again is two nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimeTree {
    /// The tree, nodes in the order they began.
    pub tree: CallTree,
    /// When each node began, as the weight of all samples before it.
    pub starts: Vec<u64>,
}

impl TimeTree {
    /// The tree of some of a profile's samples in the order they are given. A function goes by
    /// the one that `alias_of` has at its place.
    pub fn of<'a>(
        profile: &Profile,
        samples: impl Iterator<Item = &'a Sample>,
        alias_of: &[FunctionIndex],
    ) -> Self {
        profile.assert_one_event();
        let mut builder = Builder {
            profile,
            alias_of,
            result: Self::default(),
            open: Vec::new(),
            stacks: Vec::new(),
            now: 0,
        };
        for sample in samples.filter(|sample| sample.weight > 0) {
            builder.add(sample);
        }
        builder.result
    }
}

struct Builder<'a> {
    profile: &'a Profile,
    alias_of: &'a [FunctionIndex],
    result: TimeTree,
    /// The nodes of the sample before, from the root.
    open: Vec<NodeIndex>,
    /// The stacks of the sample at hand, from the root.
    stacks: Vec<StackIndex>,
    now: u64,
}

impl Builder<'_> {
    fn add(&mut self, sample: &Sample) {
        self.stacks.clear();
        let mut next = sample.stack;
        while let Some(stack) = next {
            self.stacks.push(stack);
            next = self.profile.stacks[stack.at()].parent;
        }
        self.stacks.reverse();
        let mut is_same = true;
        for depth in 0..self.stacks.len() {
            let frame = self.profile.stacks[self.stacks[depth].at()].frame;
            let frame = self.profile.frame(frame);
            let function = self.alias_of[frame.function.at()];
            let open = self.open.get(depth).filter(|_| is_same);
            is_same = open.is_some_and(|node| self.result.tree.node(*node).function == function);
            if !is_same {
                self.open.truncate(depth);
                let parent = self.open.last().copied();
                let node = TreeNode::new(parent, function, frame);
                self.open
                    .push(NodeIndex(self.result.tree.nodes.len() as u32));
                self.result.tree.nodes.push(node);
                self.result.starts.push(self.now);
            }
        }
        self.open.truncate(self.stacks.len());
        for node in &self.open {
            let total = &mut self.result.tree.nodes[node.0 as usize].total_weight;
            *total = total.saturating_add(sample.weight);
        }
        let own = match self.open.last() {
            Some(node) => &mut self.result.tree.nodes[node.0 as usize].self_weight,
            None => &mut self.result.tree.without_stack,
        };
        *own = own.saturating_add(sample.weight);
        self.now = self.now.saturating_add(sample.weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile_of;

    #[test]
    fn only_neighbours_are_merged() {
        let profile = profile_of("a;b 1\na;b;c 2\na 1\na;b 3\n 4\na 1");
        let alias_of: Vec<FunctionIndex> = (0..3).map(FunctionIndex).collect();
        let chart = TimeTree::of(&profile, profile.samples.iter(), &alias_of);
        let rows: Vec<_> = chart
            .tree
            .nodes
            .iter()
            .zip(&chart.starts)
            .map(|(node, start)| {
                let name = profile.name_of(node.function);
                (name, *start, node.total_weight, node.self_weight)
            })
            .collect();
        assert_eq!(
            rows,
            [
                ("a", 0, 7, 1),
                ("b", 0, 3, 1),
                ("c", 1, 2, 2),
                ("b", 4, 3, 3),
                ("a", 11, 1, 1)
            ]
        );
        assert_eq!(chart.tree.total_weight(), 12);
    }
}
