//! Counting, done once: the call tree, self and total weights, shares by kind.

use crate::package::Package;
use nodespy_model::Branches;
use nodespy_model::FastMap;
use nodespy_model::{Category, Frame, FunctionIndex, Profile, Sample, StackIndex, Tier};

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
    /// Whether every frame merged here was inlined.
    pub is_inlined: bool,
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
            is_inlined: frame.is_inlined,
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

    /// A tree for each of `groups` groups of threads: `group_of` tells every thread's. A function
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
        ends.sort_by_key(|node| (std::cmp::Reverse(self.node(*node).self_weight), *node));
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
    /// The lists of `count` nodes whose parents `parent_of` tells.
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
    is_inlined: bool,
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
            is_inlined: frame.is_inlined,
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
            node.is_inlined &= part.is_inlined;
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
            is_inlined: frame.is_inlined,
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

/// How much of the profile a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionWeights {
    /// The function.
    pub function: FunctionIndex,
    /// Weight of samples in the function itself.
    pub self_weight: u64,
    /// Weight of samples with the function anywhere in the stack, counted once each.
    pub total_weight: u64,
}

/// Self and total weight of every function of the samples that `keep` accepts, heaviest self
/// weight first. Recursion counts once.
pub fn function_weights(profile: &Profile, keep: impl Fn(&Sample) -> bool) -> Vec<FunctionWeights> {
    let (self_weights, _) = stack_weights(profile, keep);
    let group_of = |stack: StackIndex| Some(profile.function_of(stack).at());
    let weights = group_weights(profile, &self_weights, profile.functions.len(), group_of);
    let mut weights: Vec<FunctionWeights> = weights
        .into_iter()
        .enumerate()
        .filter(|(_, (_, total_weight))| *total_weight > 0)
        .map(|(position, (self_weight, total_weight))| FunctionWeights {
            function: FunctionIndex(position as u32),
            self_weight,
            total_weight,
        })
        .collect();
    weights.sort_by_key(|entry| {
        std::cmp::Reverse((entry.self_weight, entry.total_weight, entry.function))
    });
    weights
}

/// How much of the profile a package is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageWeights {
    /// The package.
    pub package: Package,
    /// Weight of samples in its own code.
    pub self_weight: u64,
    /// Weight of samples with its code anywhere in the stack, counted once each.
    pub total_weight: u64,
}

/// Self and total weight of every package, heaviest self weight first.
pub fn package_weights(profile: &Profile) -> Vec<PackageWeights> {
    let mut positions: FastMap<Package, usize> = FastMap::default();
    let position_of: Vec<usize> = (0..profile.functions.len())
        .map(|position| {
            let next = positions.len();
            let package = Package::of(profile, FunctionIndex(position as u32));
            *positions.entry(package).or_insert(next)
        })
        .collect();
    let (self_weights, _) = stack_weights(profile, |_| true);
    let group_of = |stack: StackIndex| Some(position_of[profile.function_of(stack).at()]);
    let weights = group_weights(profile, &self_weights, positions.len(), group_of);
    let mut weights: Vec<PackageWeights> = positions
        .into_iter()
        .map(|(package, position)| PackageWeights {
            package,
            self_weight: weights[position].0,
            total_weight: weights[position].1,
        })
        .filter(|entry| entry.total_weight > 0)
        .collect();
    weights.sort_by(|left, right| {
        let heaviest = (right.self_weight, right.total_weight);
        heaviest
            .cmp(&(left.self_weight, left.total_weight))
            .then_with(|| left.package.cmp(&right.package))
    });
    weights
}

/// Self and total weight of groups of frames; a group counts once in a stack.
pub(crate) fn group_weights(
    profile: &Profile,
    self_weights: &[u64],
    groups: usize,
    group_of: impl Fn(StackIndex) -> Option<usize>,
) -> Vec<(u64, u64)> {
    let totals = with_descendants(profile, self_weights);
    let mut weights = vec![(0u64, 0u64); groups];
    let mut is_active = vec![0u32; groups];
    walk_stacks(profile, &totals, |position, is_entered| {
        let Some(group) = group_of(StackIndex::new(position as u32)) else {
            return;
        };
        if !is_entered {
            is_active[group] -= 1;
            return;
        }
        let (self_weight, total_weight) = &mut weights[group];
        *self_weight = self_weight.saturating_add(self_weights[position]);
        if is_active[group] == 0 {
            *total_weight = total_weight.saturating_add(totals[position]);
        }
        is_active[group] += 1;
    });
    weights
}

/// How much JavaScript ran in code of each compiler, in the order of [`Tier::ALL`]. Code whose
/// compiler is not known is left out.
pub fn tier_weights(profile: &Profile) -> [u64; Tier::ALL.len()] {
    profile.assert_one_event();
    let mut weights = [0u64; Tier::ALL.len()];
    for sample in &profile.samples {
        let Some(stack) = sample.stack else { continue };
        let tier = profile.frame(profile.stacks[stack.at()].frame).tier;
        if tier != Tier::None {
            let weight = &mut weights[tier as usize];
            *weight = weight.saturating_add(sample.weight);
        }
    }
    weights
}

/// The functions with source that garbage was collected under, each with the weight of it,
/// heaviest first: who was running when memory ran out.
pub fn collected_under(profile: &Profile) -> Vec<(FunctionIndex, u64)> {
    profile.assert_one_event();
    // Parents come first, so one pass tells for every stack the nearest function with source.
    let mut nearest: Vec<Option<FunctionIndex>> = Vec::with_capacity(profile.stacks.len());
    let mut in_gc: Vec<bool> = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let function = profile.frame(stack.frame).function;
        let category = profile.function(function).category;
        let has_source = matches!(
            category,
            Category::App | Category::Dependency | Category::NodeCore
        );
        let above = stack.parent.and_then(|parent| nearest[parent.at()]);
        nearest.push(if has_source { Some(function) } else { above });
        let is_above = stack.parent.is_some_and(|parent| in_gc[parent.at()]);
        in_gc.push(is_above || category == Category::Gc);
    }
    let mut weights = vec![0u64; profile.functions.len()];
    for sample in &profile.samples {
        let stack = sample.stack.filter(|stack| in_gc[stack.at()]);
        if let Some(function) = stack.and_then(|stack| nearest[stack.at()]) {
            let weight = &mut weights[function.at()];
            *weight = weight.saturating_add(sample.weight);
        }
    }
    let mut list: Vec<(FunctionIndex, u64)> = weights
        .into_iter()
        .enumerate()
        .filter(|(_, weight)| *weight > 0)
        .map(|(position, weight)| (FunctionIndex(position as u32), weight))
        .collect();
    list.sort_by_key(|(function, weight)| (std::cmp::Reverse(*weight), *function));
    list
}

/// The functions of the application that `function` was run under, the nearest one of each sample
/// that `keep` accepts and that ends in it, heaviest first.
pub fn app_callers(
    profile: &Profile,
    function: FunctionIndex,
    keep: impl Fn(&Sample) -> bool,
) -> Vec<(FunctionIndex, u64)> {
    profile.assert_one_event();
    // Parents come first, so one pass tells for every stack who of the application called it.
    let mut nearest: Vec<Option<FunctionIndex>> = Vec::with_capacity(profile.stacks.len());
    let mut callers: Vec<Option<FunctionIndex>> = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let own = profile.frame(stack.frame).function;
        let caller = stack.parent.and_then(|parent| nearest[parent.at()]);
        let is_app = profile.function(own).category == Category::App;
        nearest.push(if is_app { Some(own) } else { caller });
        callers.push(caller.filter(|_| own == function));
    }
    let mut weights: FastMap<FunctionIndex, u64> = FastMap::default();
    for sample in profile.samples.iter().filter(|sample| keep(sample)) {
        if let Some(caller) = sample.stack.and_then(|stack| callers[stack.at()]) {
            let weight = weights.entry(caller).or_default();
            *weight = weight.saturating_add(sample.weight);
        }
    }
    let mut list: Vec<(FunctionIndex, u64)> = weights.into_iter().collect();
    list.sort_by_key(|(function, weight)| (std::cmp::Reverse(*weight), *function));
    list
}

/// What the samples were doing, by weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shares {
    /// In JavaScript, builtins, regular expressions or WebAssembly.
    pub javascript: u64,
    /// In C or C++ outside the garbage collector.
    pub native: u64,
    /// In the kernel outside the garbage collector.
    pub kernel: u64,
    /// Collecting garbage, wherever it ran.
    pub gc: u64,
    /// Doing nothing, where the source records it.
    pub idle: u64,
    /// In code without a name.
    pub unknown: u64,
}

impl Shares {
    /// The sum.
    pub fn total(&self) -> u64 {
        [
            self.javascript,
            self.native,
            self.kernel,
            self.gc,
            self.idle,
            self.unknown,
        ]
        .iter()
        .fold(0, |sum, weight| sum.saturating_add(*weight))
    }
}

/// The shares of the samples that `keep` accepts. A sample is garbage collection when any frame
/// is; else its leaf decides.
pub fn shares(profile: &Profile, keep: impl Fn(&Sample) -> bool) -> Shares {
    profile.assert_one_event();
    // Parents come first, so one pass tells for every stack whether it is inside the collector.
    let mut in_gc = vec![false; profile.stacks.len()];
    for (position, stack) in profile.stacks.iter().enumerate() {
        let category = profile
            .function(profile.frame(stack.frame).function)
            .category;
        in_gc[position] =
            category == Category::Gc || stack.parent.is_some_and(|parent| in_gc[parent.at()]);
    }
    let mut shares = Shares::default();
    for sample in profile.samples.iter().filter(|sample| keep(sample)) {
        let part = match sample.stack {
            None => &mut shares.unknown,
            Some(stack) if in_gc[stack.at()] => &mut shares.gc,
            Some(stack) => match profile.function(profile.function_of(stack)).category {
                Category::Kernel => &mut shares.kernel,
                Category::Idle => &mut shares.idle,
                Category::Unknown => &mut shares.unknown,
                category if category.is_javascript() => &mut shares.javascript,
                _ => &mut shares.native,
            },
        };
        *part = part.saturating_add(sample.weight);
    }
    shares
}

/// Goes through the stacks that weigh something as a tree, telling when one is entered and when
/// it is left. Does not recurse: stacks can be deeper than our own.
fn walk_stacks(profile: &Profile, totals: &[u64], mut visit: impl FnMut(usize, bool)) {
    let count = profile.stacks.len();
    let mut first_child = vec![NONE; count];
    let mut next_sibling = vec![NONE; count];
    let mut first_root = NONE;
    for (position, stack) in profile.stacks.iter().enumerate().rev() {
        if totals[position] == 0 {
            continue;
        }
        let head = match stack.parent {
            Some(parent) => &mut first_child[parent.at()],
            None => &mut first_root,
        };
        next_sibling[position] = *head;
        *head = position as u32;
    }
    let mut path: Vec<u32> = Vec::new();
    let mut next = first_root;
    loop {
        if next != NONE {
            visit(next as usize, true);
            path.push(next);
            next = first_child[next as usize];
        } else if let Some(done) = path.pop() {
            visit(done as usize, false);
            next = next_sibling[done as usize];
        } else {
            return;
        }
    }
}

/// Self weight of every stack, and the weight of samples without one.
pub(crate) fn stack_weights(profile: &Profile, keep: impl Fn(&Sample) -> bool) -> (Vec<u64>, u64) {
    profile.assert_one_event();
    let mut weights = vec![0u64; profile.stacks.len()];
    let mut without_stack = 0u64;
    for sample in profile.samples.iter().filter(|sample| keep(sample)) {
        let slot = match sample.stack {
            Some(stack) => &mut weights[stack.at()],
            None => &mut without_stack,
        };
        *slot = slot.saturating_add(sample.weight);
    }
    (weights, without_stack)
}

/// Adds to each stack the weight of everything below it.
fn with_descendants(profile: &Profile, self_weights: &[u64]) -> Vec<u64> {
    let mut totals = self_weights.to_vec();
    for position in (0..totals.len()).rev() {
        if let Some(parent) = profile.stacks[position].parent {
            totals[parent.at()] = totals[parent.at()].saturating_add(totals[position]);
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{profile_of, random_profile, random_stacks};
    use proptest::prelude::*;

    #[test]
    fn the_caller_of_the_application_is_the_nearest_one() {
        let profile = profile_of("a;b;d:x;d:y 3\na;d:y 2\na;b;d:y;d:z 9\nd:y 4");
        let index = |name: &str| {
            let functions = (0..profile.functions.len() as u32).map(FunctionIndex);
            functions
                .into_iter()
                .find(|function| profile.name_of(*function) == name)
                .unwrap()
        };
        assert_eq!(
            app_callers(&profile, index("y"), |_| true),
            [(index("b"), 3), (index("a"), 2)]
        );
    }

    #[test]
    fn recursion_counts_once_in_the_total() {
        let profile = profile_of("main;f;f;f 3\nmain;g;f 2\nmain 1");
        let weights = function_weights(&profile, |_| true);
        let of = |name: &str| {
            *weights
                .iter()
                .find(|entry| profile.name_of(entry.function) == name)
                .unwrap()
        };
        assert_eq!((of("f").self_weight, of("f").total_weight), (5, 5));
        assert_eq!((of("main").self_weight, of("main").total_weight), (1, 6));
        assert_eq!((of("g").self_weight, of("g").total_weight), (0, 2));
    }

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
    fn packages_count_once_in_a_stack() {
        let express = "d:f@/node_modules/express/a.js";
        let other = "d:g@/node_modules/express/b.js";
        let profile = profile_of(&format!("a;{express};b;{other} 3\na;{other} 2\na 1"));
        let weights: Vec<(String, u64, u64)> = package_weights(&profile)
            .into_iter()
            .map(|entry| (entry.package.name, entry.self_weight, entry.total_weight))
            .collect();
        let entry = |name: &str, own, total| (name.to_owned(), own, total);
        assert_eq!(weights, [entry("express", 5, 5), entry("app", 1, 6)]);
    }

    #[test]
    fn garbage_is_collected_under_the_nearest_function_with_source() {
        let profile =
            profile_of("a;b;n:alloc;gc:Scavenge;n:memcpy 3\na;gc:Mark 2\ngc:Sweep 9\na 1");
        let names: Vec<(&str, u64)> = collected_under(&profile)
            .into_iter()
            .map(|(function, weight)| (profile.name_of(function), weight))
            .collect();
        assert_eq!(names, [("b", 3), ("a", 2)]);
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
