//! Counting, done once: the call tree, self and total weights, shares by kind.

use nodespy_model::Branches;
use nodespy_model::FastMap;
use nodespy_model::{
    Frame, FrameKind, FunctionIndex, Profile, Sample, SmallSort, StackIndex, Tier,
};

/// A node of a [`CallTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(pub u32);

/// One function at one place of the tree. Places of the same function in the same caller are one
/// node, whatever their line and tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeNode {
    /// The function.
    pub function: FunctionIndex,
    /// The caller's node; none at the root.
    pub parent: Option<NodeIndex>,
    /// Weight of samples that end here.
    pub self_weight: u64,
    /// Weight of samples that end here or below.
    pub total_weight: u64,
    /// The tier most of its weight was in.
    pub tier: Tier,
    /// What every frame merged here was.
    pub kind: FrameKind,
}

/// A call tree, parents before children.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallTree {
    /// Every node, parents first.
    pub nodes: Vec<TreeNode>,
    /// Weight of samples without a stack.
    pub without_stack: u64,
}

impl TreeNode {
    /// A node that weighs nothing yet.
    pub(crate) fn new(parent: Option<NodeIndex>, function: FunctionIndex, frame: &Frame) -> Self {
        Self {
            function,
            parent,
            self_weight: 0,
            total_weight: 0,
            tier: frame.tier,
            kind: frame.kind,
        }
    }

    /// What makes two places of the tree one node.
    pub(crate) fn key(parent: Option<NodeIndex>, function: FunctionIndex) -> u64 {
        let parent = parent.map_or(u32::MAX, |parent| parent.0);
        u64::from(parent) << 32 | u64::from(function.0)
    }
}

impl CallTree {
    /// The tree of the samples that `keep` accepts.
    pub fn of(profile: &Profile, keep: impl Fn(&Sample) -> bool) -> Self {
        let mut builder = TreeBuilder::new(profile, None);
        for sample in profile.samples.iter().filter(|sample| keep(sample)) {
            builder.add(sample);
        }
        builder.take_tree()
    }

    /// The tree of samples that are not the profile's own but refer to its tables.
    pub fn of_samples(profile: &Profile, samples: &[Sample]) -> Self {
        let mut builder = TreeBuilder::new(profile, None);
        for sample in samples {
            builder.add(sample);
        }
        builder.take_tree()
    }

    /// A tree for each of `groups` groups of threads: `group_of` has every thread's. A function
    /// goes by the one that `alias_of` has at its place, so that those that look the same to a
    /// reader can be one. Each is made when it is asked for: with many threads, all together are
    /// large.
    pub fn of_groups<'a>(
        profile: &'a Profile,
        groups: usize,
        group_of: &[usize],
        alias_of: &'a [FunctionIndex],
    ) -> impl Iterator<Item = Self> + use<'a> {
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); groups];
        for (position, sample) in profile.samples.iter().enumerate() {
            members[group_of[sample.thread.at()]].push(position as u32);
        }
        let mut builder = TreeBuilder::new(profile, Some(alias_of));
        members.into_iter().map(move |members| {
            for position in members {
                builder.add(&profile.samples[position as usize]);
            }
            builder.take_tree()
        })
    }

    /// The children of every node, heaviest first; the roots are under `None`.
    pub fn children(&self) -> FastMap<Option<NodeIndex>, Vec<NodeIndex>> {
        let mut children: FastMap<Option<NodeIndex>, Vec<NodeIndex>> = FastMap::default();
        for (position, node) in self.nodes.iter().enumerate() {
            children
                .entry(node.parent)
                .or_default()
                .push(NodeIndex(position as u32));
        }
        for list in children.values_mut() {
            list.sort_by_key(|node| std::cmp::Reverse(self.node(*node).total_weight));
        }
        children
    }

    /// The children of every node in the order of the tree, as lists that cost nothing to make.
    pub fn child_lists(&self) -> ChildLists {
        ChildLists::of(self.nodes.len(), |position| self.nodes[position].parent)
    }

    /// The node at `index`.
    pub fn node(&self, index: NodeIndex) -> &TreeNode {
        &self.nodes[index.0 as usize]
    }

    /// The nodes that most samples end at, heaviest first.
    pub fn heaviest_ends(&self, most: usize) -> Vec<NodeIndex> {
        let mut ends: Vec<NodeIndex> = (0..self.nodes.len() as u32)
            .map(NodeIndex)
            .filter(|node| self.node(*node).self_weight > 0)
            .collect();
        ends.small_sort_by_key(|node| (std::cmp::Reverse(self.node(*node).self_weight), *node));
        ends.truncate(most);
        ends
    }

    /// The nodes from the root to `node`.
    pub fn path_to(&self, node: NodeIndex) -> Vec<NodeIndex> {
        let mut path: Vec<NodeIndex> =
            std::iter::successors(Some(node), |node| self.node(*node).parent).collect();
        path.reverse();
        path
    }

    /// The weight of everything in the tree, stackless samples included.
    pub fn total_weight(&self) -> u64 {
        self.nodes
            .iter()
            .filter(|node| node.parent.is_none())
            .fold(self.without_stack, |sum, node| {
                sum.saturating_add(node.total_weight)
            })
    }
}

/// Which nodes stand on which, for a whole tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildLists {
    /// Where the list of each node ends in `nodes`; the roots come first.
    ends: Vec<u32>,
    nodes: Vec<NodeIndex>,
}

impl ChildLists {
    /// The lists of `count` nodes whose parents `parent_of` returns.
    pub(crate) fn of(count: usize, parent_of: impl Fn(usize) -> Option<NodeIndex>) -> Self {
        let list_of = |position| parent_of(position).map_or(0, |parent| parent.0 as usize + 1);
        // First how long each list is, then where it starts, then, as it fills, where it ends.
        let mut ends = vec![0u32; count + 1];
        for position in 0..count {
            ends[list_of(position)] += 1;
        }
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut nodes = vec![NodeIndex(0); count];
        for position in 0..count {
            let end = &mut ends[list_of(position)];
            nodes[*end as usize] = NodeIndex(position as u32);
            *end += 1;
        }
        Self { ends, nodes }
    }

    /// The children of a node, or the roots.
    pub fn of_node(&self, node: Option<NodeIndex>) -> &[NodeIndex] {
        let list = node.map_or(0, |node| node.0 as usize + 1);
        let start = list.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.nodes[start as usize..self.ends[list] as usize]
    }
}

/// Makes trees of a profile, one after the other. What a tree costs goes with the stacks it has,
/// not with those of the profile.
struct TreeBuilder<'a> {
    profile: &'a Profile,
    /// What a tree needs of every frame: small, since it is looked up for every stack.
    frames: Vec<FrameRow>,
    /// Whether stacks are nodes already: there is nothing to merge.
    has_functions_once: bool,
    /// Where each stack of the profile is in `seen`.
    seen_at: Vec<u32>,
    /// The stacks of the tree so far, parents first.
    seen: Vec<SeenStack>,
    without_stack: u64,
}

/// A frame as trees see it.
struct FrameRow {
    /// What its function goes by.
    function: FunctionIndex,
    tier: Tier,
    kind: FrameKind,
}

/// A stack of a tree that is being made.
struct SeenStack {
    stack: StackIndex,
    parent: u32,
    self_weight: u64,
    total_weight: u64,
}

/// No position at all.
const NONE: u32 = u32::MAX;

impl<'a> TreeBuilder<'a> {
    fn new(profile: &'a Profile, alias_of: Option<&'a [FunctionIndex]>) -> Self {
        profile.assert_one_event();
        let row = |frame: &Frame| FrameRow {
            function: alias_of.map_or(frame.function, |alias_of| alias_of[frame.function.at()]),
            tier: frame.tier,
            kind: frame.kind,
        };
        let frames: Vec<FrameRow> = profile.frames.iter().map(row).collect();
        Self {
            profile,
            has_functions_once: has_functions_once(&frames, profile.functions.len()),
            frames,
            seen_at: vec![NONE; profile.stacks.len()],
            seen: Vec::new(),
            without_stack: 0,
        }
    }

    fn add(&mut self, sample: &Sample) {
        let slot = match sample.stack {
            None => &mut self.without_stack,
            Some(_) if sample.weight == 0 => return,
            Some(stack) => {
                let position = self.position_of(stack);
                &mut self.seen[position as usize].self_weight
            }
        };
        *slot = slot.saturating_add(sample.weight);
    }

    /// Where a stack is in `seen`, after those of its callers.
    fn position_of(&mut self, stack: StackIndex) -> u32 {
        let known = self.seen_at[stack.at()];
        if known != NONE {
            return known;
        }
        let first_new = self.seen.len();
        let mut next = Some(stack);
        let mut parent = NONE;
        while let Some(stack) = next {
            if self.seen_at[stack.at()] != NONE {
                parent = self.seen_at[stack.at()];
                break;
            }
            self.seen.push(SeenStack {
                stack,
                parent: NONE,
                self_weight: 0,
                total_weight: 0,
            });
            next = self.profile.stacks[stack.at()].parent;
        }
        self.seen[first_new..].reverse();
        for position in first_new..self.seen.len() {
            let seen = &mut self.seen[position];
            seen.parent = std::mem::replace(&mut parent, position as u32);
            self.seen_at[seen.stack.at()] = position as u32;
        }
        parent
    }

    /// The tree of what was added, and a fresh start.
    fn take_tree(&mut self) -> CallTree {
        for position in (0..self.seen.len()).rev() {
            let seen = &mut self.seen[position];
            seen.total_weight = seen.total_weight.saturating_add(seen.self_weight);
            let (parent, weight) = (seen.parent, seen.total_weight);
            if let Some(below) = self.seen.get_mut(parent as usize) {
                below.total_weight = below.total_weight.saturating_add(weight);
            }
        }
        let nodes = self.merged();
        for seen in self.seen.drain(..) {
            self.seen_at[seen.stack.at()] = NONE;
        }
        CallTree {
            nodes,
            without_stack: std::mem::take(&mut self.without_stack),
        }
    }

    /// The stacks as nodes: those of the same function in the same caller are one.
    fn merged(&self) -> Vec<TreeNode> {
        if self.has_functions_once {
            return self.seen.iter().map(|seen| self.node(seen)).collect();
        }
        let mut nodes: Vec<TreeNode> = Vec::new();
        let mut branches = Branches::default();
        let mut tiers = MixedTiers::default();
        let mut node_of: Vec<NodeIndex> = Vec::with_capacity(self.seen.len());
        let halves = |node: &TreeNode| {
            let parent = node.parent.map_or(Branches::NO_PARENT, |parent| parent.0);
            (parent, node.function.0)
        };
        for seen in &self.seen {
            let mut part = self.node(seen);
            part.parent = node_of.get(seen.parent as usize).copied();
            let (parent, function) = halves(&part);
            let index = branches
                .child(parent, function, nodes.len(), |node| {
                    halves(&nodes[node as usize])
                })
                .unwrap_or_else(|| {
                    nodes.push(TreeNode {
                        self_weight: 0,
                        total_weight: 0,
                        ..part
                    });
                    nodes.len() as u32 - 1
                });
            node_of.push(NodeIndex(index));
            let node = &mut nodes[index as usize];
            tiers.add(NodeIndex(index), node, part.tier, part.total_weight);
            node.self_weight = node.self_weight.saturating_add(part.self_weight);
            node.total_weight = node.total_weight.saturating_add(part.total_weight);
            node.kind = node.kind.merged(part.kind);
        }
        tiers.decide(&mut nodes);
        nodes
    }

    /// A stack as a node, standing on the stack that it does.
    fn node(&self, seen: &SeenStack) -> TreeNode {
        let stack = &self.profile.stacks[seen.stack.at()];
        let frame = &self.frames[stack.frame.at()];
        TreeNode {
            function: frame.function,
            parent: (seen.parent != NONE).then_some(NodeIndex(seen.parent)),
            self_weight: seen.self_weight,
            total_weight: seen.total_weight,
            tier: frame.tier,
            kind: frame.kind,
        }
    }
}

/// Whether no two frames are of one function, so that equal stacks are all that is equal.
fn has_functions_once(frames: &[FrameRow], functions: usize) -> bool {
    let mut is_seen = vec![false; functions];
    frames
        .iter()
        .all(|frame| !std::mem::replace(&mut is_seen[frame.function.at()], true))
}

/// The tiers of nodes whose code came from several compilers, which few do.
#[derive(Default)]
struct MixedTiers {
    weights: FastMap<NodeIndex, [u64; Tier::ALL.len()]>,
}

impl MixedTiers {
    /// Takes in a part of `node`, which holds the parts before it.
    fn add(&mut self, index: NodeIndex, node: &TreeNode, tier: Tier, weight: u64) {
        let is_first = node.total_weight == 0;
        if is_first || (node.tier == tier && !self.weights.contains_key(&index)) {
            return;
        }
        let weights = self.weights.entry(index).or_insert_with(|| {
            let mut weights = [0; Tier::ALL.len()];
            weights[node.tier as usize] = node.total_weight;
            weights
        });
        let of_tier = &mut weights[tier as usize];
        *of_tier = of_tier.saturating_add(weight);
    }

    /// Gives every node the tier most of its weight was in.
    fn decide(self, nodes: &mut [TreeNode]) {
        for (index, weights) in self.weights {
            let heaviest = weights
                .iter()
                .enumerate()
                .max_by_key(|&(_, weight)| *weight);
            let (heaviest, _) = heaviest.expect("there is at least one tier");
            nodes[index.0 as usize].tier = Tier::ALL[heaviest];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{profile_of, random_profile, random_stacks};
    use crate::weights::{function_weights, shares, tier_weights};
    use proptest::prelude::*;

    #[test]
    fn the_tree_keeps_every_weight() {
        let profile = profile_of("a;b 3\na;c 2\n 4\na;b;gc:Heap 1");
        let tree = CallTree::of(&profile, |_| true);
        assert_eq!(tree.total_weight(), 10);
        assert_eq!(
            tree.nodes.iter().map(|node| node.self_weight).sum::<u64>(),
            6
        );
        let shares = shares(&profile, |_| true);
        assert_eq!((shares.javascript, shares.gc, shares.unknown), (5, 1, 4));
    }

    #[test]
    fn the_heaviest_ends_come_first_with_their_paths() {
        let profile = profile_of("a;b 3\na;c;d 5\na 1");
        let tree = CallTree::of(&profile, |_| true);
        let paths: Vec<String> = tree
            .heaviest_ends(2)
            .into_iter()
            .map(|end| {
                let path = tree.path_to(end);
                let names = path
                    .iter()
                    .map(|node| profile.name_of(tree.node(*node).function));
                names.collect::<Vec<_>>().join(";")
            })
            .collect();
        assert_eq!(paths, ["a;c;d", "a;b"]);
        assert_eq!(
            tier_weights(&profile_of("*a 3\n~a 1\na 7")),
            [0, 1, 0, 0, 3]
        );
    }

    proptest! {
        #[test]
        fn counting_agrees_with_counting_by_hand(stacks in random_stacks()) {
            let profile = random_profile(&stacks);
            for entry in function_weights(&profile, |_| true) {
                let of = |pick: &dyn Fn(StackIndex) -> bool| -> u64 {
                    let picked = |sample: &&Sample| sample.stack.is_some_and(pick);
                    profile.samples.iter().filter(picked).map(|sample| sample.weight).sum()
                };
                let is_in = |stack| {
                    let mut frames = profile.frames_of(stack);
                    frames.any(|frame| profile.frame(frame).function == entry.function)
                };
                prop_assert_eq!(entry.total_weight, of(&is_in));
                prop_assert_eq!(entry.self_weight, of(&|stack| profile.function_of(stack) == entry.function));
            }
        }
    }
}
