//! The heaviest part of a call tree, made fast: what a page draws before the rest is unpacked.
//!
//! Only nodes that are kept have their children looked at, so the cost goes with the stacks of the
//! kept nodes and not with all of them; nothing is hashed and the profile is not copied. What is
//! kept counts as in the tree of [`crate::without_internals`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nodespy_model::{Category, FunctionIndex, Profile, StackIndex, Tier};

/// No stack at all.
const NONE: u32 = u32::MAX;

/// A node of an [`Outline`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutlineNode {
    /// The function; none at the root, which stands for everything.
    pub function: Option<FunctionIndex>,
    /// How far from the root, which is at 0.
    pub depth: u32,
    /// Weight of samples that end here, and for the root of those without a stack.
    pub self_weight: u64,
    /// Weight of samples that end here or below, whether or not that is kept.
    pub total_weight: u64,
    /// The tier most of its weight was in.
    pub tier: Tier,
}

/// The heavy nodes of a profile's call tree, all threads together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The root, then every node before its children, the heaviest child first.
    pub nodes: Vec<OutlineNode>,
}

impl Outline {
    /// The nodes that weigh at least one `parts`-th of the whole, the `most` heaviest of them.
    pub fn of(profile: &Profile, parts: u64, most: usize) -> Self {
        let mut weights = Weights::of(profile, parts);
        let mut outlined = vec![Kept {
            parent: 0,
            node: OutlineNode {
                function: None,
                depth: 0,
                self_weight: weights.without_stack,
                total_weight: weights.whole,
                tier: Tier::None,
            },
        }];
        let mut waiting = BinaryHeap::new();
        // The first ones in go first among equals.
        let mut turn = 0u64;
        let mut wait = |waiting: &mut BinaryHeap<Waiting>, parent, children: Vec<Child>| {
            for child in children {
                turn += 1;
                waiting.push(Waiting {
                    parent,
                    turn: Reverse(turn),
                    child,
                });
            }
        };
        let (_, children) = weights.under(&[], true);
        wait(&mut waiting, 0, children);
        // A child weighs no more than its parent, so what is taken is a tree.
        while outlined.len() < most
            && let Some(Waiting { parent, child, .. }) = waiting.pop()
        {
            let (self_weight, children) = match child.is_leftover {
                true => (child.total_weight, Vec::new()),
                false => weights.under(&child.stacks, false),
            };
            let depth = outlined[parent as usize].node.depth + 1;
            wait(&mut waiting, outlined.len() as u32, children);
            outlined.push(Kept {
                parent,
                node: OutlineNode {
                    function: Some(child.function),
                    depth,
                    self_weight,
                    total_weight: child.total_weight,
                    tier: child.tier,
                },
            });
        }
        Self {
            nodes: in_order(&outlined),
        }
    }
}

/// A node that is kept, in the order of weight.
struct Kept {
    parent: u32,
    node: OutlineNode,
}

/// A node that is kept if its turn comes.
struct Waiting {
    parent: u32,
    turn: Reverse<u64>,
    child: Child,
}

impl Waiting {
    fn rank(&self) -> (u64, Reverse<u64>) {
        (self.child.total_weight, self.turn)
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Waiting {}

/// A function under a node, as all the stacks it is there in.
struct Child {
    function: FunctionIndex,
    total_weight: u64,
    tier: Tier,
    stacks: Vec<u32>,
    /// Whether it is plumbing that nothing but plumbing called: it stands for its own samples.
    is_leftover: bool,
}

/// The weight of every stack, and which stack stands on which.
struct Weights<'a> {
    profile: &'a Profile,
    self_weights: Vec<u64>,
    totals: Vec<u64>,
    first_child: Vec<u32>,
    next_sibling: Vec<u32>,
    first_root: u32,
    without_stack: u64,
    whole: u64,
    /// How many of the lightest nodes that are kept would make the whole.
    parts: u64,
    /// Kept from call to call, for its memory: function and stack of every child.
    found: Vec<u64>,
    plumbing: Vec<u32>,
}

impl<'a> Weights<'a> {
    fn of(profile: &'a Profile, parts: u64) -> Self {
        profile.assert_one_event();
        let count = profile.stacks.len();
        let mut self_weights = vec![0u64; count];
        let mut without_stack = 0u64;
        for sample in &profile.samples {
            let weight = match sample.stack {
                Some(stack) => &mut self_weights[stack.at()],
                None => &mut without_stack,
            };
            *weight = weight.saturating_add(sample.weight);
        }
        let mut totals = self_weights.clone();
        let mut first_child = vec![NONE; count];
        let mut next_sibling = vec![NONE; count];
        let mut first_root = NONE;
        let mut whole = without_stack;
        for (position, stack) in profile.stacks.iter().enumerate().rev() {
            let total = totals[position];
            if total == 0 {
                continue;
            }
            let head = match stack.parent {
                Some(parent) => {
                    let below = &mut totals[parent.at()];
                    *below = below.saturating_add(total);
                    &mut first_child[parent.at()]
                }
                None => {
                    whole = whole.saturating_add(total);
                    &mut first_root
                }
            };
            next_sibling[position] = *head;
            *head = position as u32;
        }
        Self {
            profile,
            self_weights,
            totals,
            first_child,
            next_sibling,
            first_root,
            without_stack,
            whole,
            parts,
            found: Vec::new(),
            plumbing: Vec::new(),
        }
    }

    /// The weight of samples that end at a node that is these stacks, and its heavy children,
    /// heaviest first. Plumbing on top of it is part of it.
    fn under(&mut self, stacks: &[u32], is_root: bool) -> (u64, Vec<Child>) {
        let mut found = std::mem::take(&mut self.found);
        let mut plumbing = std::mem::take(&mut self.plumbing);
        let mut leftovers = Vec::new();
        let mut self_weight = 0u64;
        if is_root {
            self.find(self.first_root, &mut found, &mut plumbing);
        }
        for stack in stacks {
            self_weight = self_weight.saturating_add(self.self_weights[*stack as usize]);
            self.find(self.first_child[*stack as usize], &mut found, &mut plumbing);
        }
        while let Some(stack) = plumbing.pop() {
            let weight = self.self_weights[stack as usize];
            match is_root {
                true if weight > 0 => leftovers.push(self.key(stack)),
                true => {}
                false => self_weight = self_weight.saturating_add(weight),
            }
            self.find(self.first_child[stack as usize], &mut found, &mut plumbing);
        }
        let mut children = self.grouped(&mut found, false);
        children.extend(self.grouped(&mut leftovers, true));
        children.sort_by_key(|child| (Reverse(child.total_weight), child.function));
        found.clear();
        (self.found, self.plumbing) = (found, plumbing);
        (self_weight, children)
    }

    /// Adds a stack and its siblings to what was found, plumbing apart.
    fn find(&self, first: u32, found: &mut Vec<u64>, plumbing: &mut Vec<u32>) {
        let mut next = first;
        while next != NONE {
            let function = self.profile.function_of(StackIndex::new(next));
            match self.profile.function(function).category {
                Category::Internal => plumbing.push(next),
                _ => found.push(self.key(next)),
            }
            next = self.next_sibling[next as usize];
        }
    }

    /// Function and stack as one number, which sorts fast.
    fn key(&self, stack: u32) -> u64 {
        let function = self.profile.function_of(StackIndex::new(stack));
        u64::from(function.0) << 32 | u64::from(stack)
    }

    fn is_heavy(&self, weight: u64) -> bool {
        u128::from(weight) * u128::from(self.parts) >= u128::from(self.whole)
    }

    /// The stacks of each function that weighs enough as one child.
    fn grouped(&self, keys: &mut [u64], is_leftover: bool) -> Vec<Child> {
        keys.sort_unstable();
        let groups = keys.chunk_by(|left, right| left >> 32 == right >> 32);
        let child = |group: &[u64]| {
            let mut total_weight = 0u64;
            let mut tiers = [0u64; Tier::ALL.len()];
            for key in group {
                let position = *key as u32 as usize;
                let weight = match is_leftover {
                    true => self.self_weights[position],
                    false => self.totals[position],
                };
                total_weight = total_weight.saturating_add(weight);
                let frame = self.profile.stacks[position].frame;
                let of_tier = &mut tiers[self.profile.frame(frame).tier as usize];
                *of_tier = of_tier.saturating_add(weight);
            }
            let heaviest = (0..tiers.len()).max_by_key(|tier| tiers[*tier]);
            self.is_heavy(total_weight).then(|| Child {
                function: FunctionIndex((group[0] >> 32) as u32),
                total_weight,
                tier: Tier::ALL[heaviest.unwrap_or_default()],
                stacks: group.iter().map(|key| *key as u32).collect(),
                is_leftover,
            })
        };
        groups.filter_map(child).collect()
    }
}

/// The kept nodes, each before its children. They come in the order of weight, and so do the
/// children of each.
fn in_order(kept: &[Kept]) -> Vec<OutlineNode> {
    let mut first_child = vec![NONE; kept.len()];
    let mut next_sibling = vec![NONE; kept.len()];
    for (position, each) in kept.iter().enumerate().skip(1).rev() {
        let head = &mut first_child[each.parent as usize];
        next_sibling[position] = *head;
        *head = position as u32;
    }
    let mut nodes = Vec::with_capacity(kept.len());
    let mut waiting = vec![0u32];
    while let Some(next) = waiting.pop() {
        nodes.push(kept[next as usize].node);
        for later in [next_sibling[next as usize], first_child[next as usize]] {
            if later != NONE {
                waiting.push(later);
            }
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{profile_of, random_profile, random_stacks};
    use crate::{CallTree, NodeIndex, without_internals};
    use proptest::prelude::*;

    fn lines(profile: &Profile, outline: &Outline) -> Vec<String> {
        let line = |node: &OutlineNode| {
            format!(
                "{}{} {}/{}",
                "  ".repeat(node.depth as usize),
                node.function
                    .map_or("all", |function| profile.name_of(function)),
                node.self_weight,
                node.total_weight
            )
        };
        outline.nodes.iter().map(line).collect()
    }

    /// The same by way of the whole tree.
    fn naive(profile: &Profile) -> Vec<String> {
        let shown = without_internals(profile.clone());
        let tree = CallTree::of(&shown, |_| true);
        let mut lines = vec![format!(
            "all {}/{}",
            tree.without_stack,
            tree.total_weight()
        )];
        let children_of = |node: Option<NodeIndex>| {
            let mut list = tree.child_lists().of_node(node).to_vec();
            list.sort_by_key(|node| {
                let node = tree.node(*node);
                (Reverse(node.total_weight), node.function)
            });
            list
        };
        let mut waiting: Vec<(usize, NodeIndex)> = Vec::new();
        let wait = |waiting: &mut Vec<(usize, NodeIndex)>, depth, node| {
            let list = children_of(node);
            waiting.extend(list.into_iter().rev().map(|child| (depth, child)));
        };
        wait(&mut waiting, 1, None);
        while let Some((depth, index)) = waiting.pop() {
            let node = tree.node(index);
            lines.push(format!(
                "{}{} {}/{}",
                "  ".repeat(depth),
                shown.name_of(node.function),
                node.self_weight,
                node.total_weight
            ));
            wait(&mut waiting, depth + 1, Some(index));
        }
        lines
    }

    #[test]
    fn plumbing_is_left_out_and_its_time_stays_with_the_caller() {
        let profile =
            profile_of("i:start;a;i:stub 2\ni:start;a;i:start;b 1\ni:start 4\ni:start;a;b 3\n 5");
        assert_eq!(
            lines(&profile, &Outline::of(&profile, 1000, 1000)),
            ["all 5/15", "  a 2/6", "    b 4/4", "  start 4/4"]
        );
    }

    #[test]
    fn small_nodes_go_and_the_weight_of_the_others_stays() {
        let profile = profile_of("a;b 6\na;c 1\nd 3");
        assert_eq!(
            lines(&profile, &Outline::of(&profile, 4, 1000)),
            ["all 0/10", "  a 0/7", "    b 6/6", "  d 3/3"]
        );
        assert_eq!(
            lines(&profile, &Outline::of(&profile, 100, 3)),
            ["all 0/10", "  a 0/7", "    b 6/6"]
        );
    }

    #[test]
    fn an_empty_profile_has_a_root_only() {
        let outline = Outline::of(&Profile::default(), 3000, 1000);
        assert_eq!(outline.nodes.len(), 1);
    }

    proptest! {
        #[test]
        fn what_is_kept_is_as_in_the_whole_tree(stacks in random_stacks()) {
            let profile = random_profile(&stacks);
            let outline = Outline::of(&profile, u64::MAX, usize::MAX);
            prop_assert_eq!(lines(&profile, &outline), naive(&profile));
        }
    }
}
