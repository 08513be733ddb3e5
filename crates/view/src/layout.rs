//! Profile to boxes: what a flame graph is made of, before anything is drawn.
//!
//! The boxes of the bottom row are threads, grouped by name; on them stand the functions, each as
//! wide as its weight. A box comes before the boxes on it. Boxes too narrow to be seen, which are
//! most of a tree, are left out before anything else is done with them.

use std::collections::BTreeMap;

use nodespy_analysis::{CallTree, DiffTree, TimeTree};
use nodespy_model::{FunctionIndex, NO_STACK, Profile, SmallSort, ThreadIndex, folded_thread};

use crate::labels::Labels;

/// What a box stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Threads of one name, as a position in [`Layout::threads`].
    Thread(u32),
    /// A function.
    Function(FunctionIndex),
    /// Samples without a stack.
    NoStack,
}

/// One box of a flame graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlameBox {
    /// What it stands for.
    pub content: Content,
    /// The box it stands on, as a position in [`Layout::boxes`].
    pub parent: Option<usize>,
    /// How many boxes are below it.
    pub depth: u32,
    /// Where it starts, as the weight of everything before it.
    pub start: u64,
    /// How wide it is.
    pub weight: u64,
    /// How much of its width carries no other box.
    pub self_weight: u64,
    /// By how much that grew, where two profiles are compared.
    pub growth: i64,
    /// How wide it was in the earlier of them.
    pub before: u64,
    /// How much of its width is of frames that only the earlier of them has.
    pub gone: u64,
}

impl FlameBox {
    /// Whether only the earlier of two profiles has it.
    pub fn is_gone(&self) -> bool {
        self.weight > 0 && self.gone == self.weight
    }
}

/// In which order boxes stand side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By label, so that two pictures of one program have things at the same places.
    #[default]
    Name,
    /// The heaviest first.
    Weight,
    /// As they came in.
    Found,
    /// As time went by, merging neighbours only.
    Time,
}

/// The boxes of a flame graph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// Every box, the one it stands on first.
    pub boxes: Vec<FlameBox>,
    /// The names of threads.
    pub threads: Vec<String>,
    /// The width of everything.
    pub total: u64,
}

/// A tree on its way to boxes.
struct Part<'a> {
    tree: &'a CallTree,
    /// When each node began, in a chart.
    starts: Option<&'a [u64]>,
    difference: Option<&'a DiffTree>,
    /// How much of the width of nodes is of frames that are gone; nothing when empty.
    gone: &'a [u64],
}

impl Layout {
    /// The boxes of a profile that are at least `least_share` of everything wide.
    pub fn of(profile: &Profile, labels: &Labels<'_>, order: Order, least_share: f64) -> Self {
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        let group_of: Vec<usize> = (0..profile.threads.len() as u32)
            .map(|position| {
                let name = folded_thread(profile, ThreadIndex(position));
                let next = names.len();
                *names.entry(name).or_insert(next)
            })
            .collect();
        let mut layout = Self::default();
        if order == Order::Time {
            layout.add_charts(profile, labels, names, &group_of, least_share);
            return layout;
        }
        let least = least_weight(profile.total_weight(), least_share);
        let mut trees: Vec<Option<CallTree>> =
            CallTree::of_groups(profile, names.len(), &group_of, &labels.alias_of)
                .map(Some)
                .collect();
        let mut trees: Vec<(String, CallTree)> = names
            .into_iter()
            .filter_map(|(name, group)| Some((name, trees[group].take()?)))
            .collect();
        if order == Order::Weight {
            trees.small_sort_by_key(|(_, tree)| std::cmp::Reverse(tree.total_weight()));
        }
        for (name, tree) in trees {
            let part = Part {
                tree: &tree,
                starts: None,
                difference: None,
                gone: &[],
            };
            layout.add_part(name, &part, labels, order, least);
        }
        layout
    }

    /// The boxes of two profiles, as wide as in the later one. The profiles have no threads that
    /// matter: those of folded stacks are frames like all others.
    pub fn of_difference(
        difference: &DiffTree,
        labels: &Labels<'_>,
        order: Order,
        least_share: f64,
    ) -> Self {
        Self::of_sides(difference, &[], labels, order, least_share)
    }

    /// The same with the boxes of nodes that only the earlier side has, where they were.
    pub fn of_comparison(
        difference: &DiffTree,
        gone: &[u64],
        labels: &Labels<'_>,
        least_share: f64,
    ) -> Self {
        Self::of_sides(difference, gone, labels, Order::Name, least_share)
    }

    fn of_sides(
        difference: &DiffTree,
        gone: &[u64],
        labels: &Labels<'_>,
        order: Order,
        least_share: f64,
    ) -> Self {
        let mut layout = Self::default();
        let least = least_weight(difference.after.total_weight(), least_share);
        let part = Part {
            tree: &difference.after,
            starts: None,
            difference: Some(difference),
            gone,
        };
        layout.add_part(String::new(), &part, labels, order, least);
        layout
    }

    fn add_charts(
        &mut self,
        profile: &Profile,
        labels: &Labels<'_>,
        names: BTreeMap<String, usize>,
        group_of: &[usize],
        least_share: f64,
    ) {
        let charts: Vec<(String, TimeTree)> = names
            .into_iter()
            .map(|(name, group)| {
                let is_member = |sample: &&_| member_of(sample, group_of) == group;
                let samples = profile.samples.iter().filter(is_member);
                (name, TimeTree::of(profile, samples, &labels.alias_of))
            })
            .collect();
        let weights = charts.iter().map(|(_, chart)| chart.tree.total_weight());
        let least = least_weight(weights.fold(0, u64::saturating_add), least_share);
        for (name, chart) in charts {
            let part = Part {
                tree: &chart.tree,
                starts: Some(&chart.starts),
                difference: None,
                gone: &[],
            };
            self.add_part(name, &part, labels, Order::Time, least);
        }
    }

    fn add_part(
        &mut self,
        name: String,
        part: &Part<'_>,
        labels: &Labels<'_>,
        order: Order,
        least: u64,
    ) {
        let weight = part.tree.total_weight();
        if weight == 0 {
            return;
        }
        let start = self.total;
        self.total = self.total.saturating_add(weight);
        if weight < least {
            return;
        }
        let mut root = None;
        // Recordings that know no thread names have functions in the bottom row.
        if !name.is_empty() {
            root = Some(self.boxes.len());
            self.boxes.push(FlameBox {
                content: Content::Thread(self.threads.len() as u32),
                parent: None,
                depth: 0,
                start,
                weight,
                self_weight: 0,
                growth: 0,
                before: 0,
                gone: 0,
            });
            self.threads.push(name);
        }
        let wide = part.wide_nodes(labels, order, least);
        match part.starts {
            Some(starts) => self.add_in_time(part, &wide, starts, root, start),
            None => self.add_side_by_side(part, &wide, root, start),
        }
        let without_stack = part.tree.without_stack;
        // In a chart they are gaps, wherever they were.
        if without_stack >= least.max(1) && part.starts.is_none() {
            self.boxes.push(FlameBox {
                content: Content::NoStack,
                parent: root,
                depth: u32::from(root.is_some()),
                start: start.saturating_add(weight - without_stack),
                weight: without_stack,
                self_weight: without_stack,
                growth: 0,
                before: 0,
                gone: 0,
            });
        }
    }

    /// Adds the nodes of `wide`, which are sorted by parent, each level from the left.
    fn add_side_by_side(&mut self, part: &Part<'_>, wide: &[u32], root: Option<usize>, start: u64) {
        const NOWHERE: u32 = u32::MAX;
        let parent_of = |node: u32| part.tree.nodes[node as usize].parent;
        let mut children_at = vec![NOWHERE; part.tree.nodes.len()];
        let mut previous = None;
        for (position, node) in wide.iter().enumerate() {
            let parent = parent_of(*node);
            if let Some(parent) = parent.filter(|_| parent != previous) {
                children_at[parent.0 as usize] = position as u32;
            }
            previous = parent;
        }
        // A stack of its own instead of recursion: trees can be deeper than a thread's stack.
        let mut waiting: Vec<(u32, Option<usize>, u32, u64)> = Vec::new();
        let wait = |waiting: &mut Vec<_>, first: u32, parent, depth, mut start: u64| {
            let siblings = wide.get(first as usize..).unwrap_or_default();
            let Some(of) = siblings.first().map(|node| parent_of(*node)) else {
                return;
            };
            let before = waiting.len();
            for node in siblings.iter().take_while(|node| parent_of(**node) == of) {
                waiting.push((*node, parent, depth, start));
                start = start.saturating_add(part.tree.nodes[*node as usize].total_weight);
            }
            waiting[before..].reverse();
        };
        let has_roots = wide.first().is_some_and(|node| parent_of(*node).is_none());
        if has_roots {
            wait(&mut waiting, 0, root, u32::from(root.is_some()), start);
        }
        while let Some((node, parent, depth, start)) = waiting.pop() {
            let position = self.boxes.len();
            self.boxes.push(part.flame_box(node, parent, depth, start));
            let first = children_at[node as usize];
            if first != NOWHERE {
                wait(&mut waiting, first, Some(position), depth + 1, start);
            }
        }
    }

    /// Adds the nodes of `wide`, parents first, where they were in time.
    fn add_in_time(
        &mut self,
        part: &Part<'_>,
        wide: &[u32],
        starts: &[u64],
        root: Option<usize>,
        start: u64,
    ) {
        let mut box_of = vec![None; part.tree.nodes.len()];
        for node in wide {
            let parent = part.tree.nodes[*node as usize].parent;
            let below = parent.and_then(|parent| box_of[parent.0 as usize]).or(root);
            let depth = below.map_or(0, |below: usize| self.boxes[below].depth + 1);
            let start = start.saturating_add(starts[*node as usize]);
            box_of[*node as usize] = Some(self.boxes.len());
            self.boxes.push(part.flame_box(*node, below, depth, start));
        }
    }

    /// How many rows there are.
    pub fn depth(&self) -> u32 {
        let deepest = self.boxes.iter().map(|each| each.depth + 1).max();
        deepest.unwrap_or(0)
    }

    /// The same picture with at most `most` boxes and `rows` rows: the smallest boxes go, and
    /// their weight stays with the box below. Returns it with the number of boxes left out.
    pub fn without_smallest(mut self, most: usize, rows: u32) -> (Self, usize) {
        let before = self.boxes.len();
        if before <= most && self.depth() <= rows {
            return (self, 0);
        }
        let mut order: Vec<usize> = (0..before)
            .filter(|position| self.boxes[*position].depth < rows)
            .collect();
        // A box is never heavier than the one it stands on, so no box loses its support.
        order.small_sort_by_key(|position| {
            let each = &self.boxes[*position];
            (std::cmp::Reverse(each.weight), each.depth, *position)
        });
        order.truncate(most);
        let mut is_kept = vec![false; before];
        for position in order {
            is_kept[position] = true;
        }
        for position in (0..before).rev() {
            if !is_kept[position]
                && let Some(parent) = self.boxes[position].parent
            {
                let weight = self.boxes[position].self_weight;
                let below = &mut self.boxes[parent].self_weight;
                *below = below.saturating_add(weight);
            }
        }
        let mut moved_to = vec![0; before];
        let mut kept = 0;
        let mut position = 0;
        self.boxes.retain_mut(|each| {
            let stays = is_kept[position];
            if stays {
                each.parent = each.parent.map(|parent| moved_to[parent]);
                moved_to[position] = kept;
                kept += 1;
            }
            position += 1;
            stays
        });
        (self, before - kept)
    }

    /// The text on a box.
    pub fn label<'a>(&'a self, labels: &'a Labels<'_>, position: usize) -> &'a str {
        match self.boxes[position].content {
            Content::Thread(thread) => &self.threads[thread as usize],
            Content::Function(function) => labels.text(function),
            Content::NoStack => NO_STACK,
        }
    }
}

impl Part<'_> {
    /// The nodes of at least `least` weight: by parent and then in `order`, or parents first where
    /// that is the order.
    fn wide_nodes(&self, labels: &Labels<'_>, order: Order, least: u64) -> Vec<u32> {
        let nodes = &self.tree.nodes;
        let least = least.max(1);
        let mut wide: Vec<u32> = (0..nodes.len() as u32)
            .filter(|node| nodes[*node as usize].total_weight >= least)
            .collect();
        let node_of = |position: &u32| &nodes[*position as usize];
        match order {
            Order::Time => {}
            Order::Found => wide.sort_by_key(|node| node_of(node).parent),
            Order::Weight => wide.sort_by_key(|node| {
                let node = node_of(node);
                (node.parent, std::cmp::Reverse(node.total_weight))
            }),
            Order::Name => {
                let ranks = labels.ranks(wide.iter().map(|node| node_of(node).function));
                wide.sort_by_cached_key(|node| {
                    let node = node_of(node);
                    (node.parent, ranks[node.function.at()])
                });
            }
        }
        wide
    }

    fn flame_box(&self, node: u32, parent: Option<usize>, depth: u32, start: u64) -> FlameBox {
        let of_node = &self.tree.nodes[node as usize];
        let gone = self.gone.get(node as usize).copied().unwrap_or(0);
        let growth = self.difference.map_or(0, |difference| {
            let before = difference.before[node as usize].self_weight;
            let after = match gone == of_node.total_weight {
                true => 0,
                false => of_node.self_weight,
            };
            let growth = i128::from(after) - i128::from(before);
            growth.clamp(i64::MIN.into(), i64::MAX.into()) as i64
        });
        let before = (self.difference).map_or(0, |difference| {
            difference.before[node as usize].total_weight
        });
        FlameBox {
            content: Content::Function(of_node.function),
            parent,
            depth,
            start,
            weight: of_node.total_weight,
            self_weight: of_node.self_weight,
            growth,
            before,
            gone,
        }
    }
}

fn member_of(sample: &nodespy_model::Sample, group_of: &[usize]) -> usize {
    group_of[sample.thread.at()]
}

/// The smallest weight that is `share` of all of them.
fn least_weight(total: u64, share: f64) -> u64 {
    (total as f64 * share).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Names;
    use nodespy_analysis::ProfilePair;
    use nodespy_model::{
        About, Category, FrameSpec, FunctionSpec, Notes, Process, ProfileBuilder, Thread,
        WeightUnit,
    };

    fn profile_of(stacks: &[(&str, u64)]) -> Profile {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let process = builder.process(Process {
            name: "app".to_owned(),
            ..Process::default()
        });
        builder.thread(Thread {
            process,
            ..Thread::default()
        });
        for (line, weight) in stacks {
            let mut stack = None;
            for name in line.split(';').filter(|name| !name.is_empty()) {
                let (name, file) = name.split_once('@').unwrap_or((name, ""));
                let frame = builder.frame(FrameSpec {
                    function: FunctionSpec {
                        name,
                        file,
                        category: Category::Native,
                        ..FunctionSpec::default()
                    },
                    ..FrameSpec::default()
                });
                stack = Some(builder.stack(stack, frame));
            }
            builder.sample(0, ThreadIndex(0), stack, *weight);
        }
        builder.finish(About::default(), Notes::default())
    }

    fn picture(labels: &Labels<'_>, layout: &Layout) -> Vec<String> {
        layout
            .boxes
            .iter()
            .enumerate()
            .map(|(position, each)| {
                let label = layout.label(labels, position);
                format!(
                    "{}{label} {}+{} self {}",
                    " ".repeat(each.depth as usize),
                    each.start,
                    each.weight,
                    each.self_weight
                )
            })
            .collect()
    }

    fn drawn(profile: &Profile, order: Order, least_share: f64) -> Vec<String> {
        let labels = Labels::of(profile, Names::Marked);
        picture(&labels, &Layout::of(profile, &labels, order, least_share))
    }

    #[test]
    fn boxes_stand_on_their_callers_in_the_order_asked_for() {
        let profile = profile_of(&[("a;b", 1), ("a;c", 3), ("a", 1), ("", 2)]);
        assert_eq!(
            drawn(&profile, Order::Weight, 0.0),
            [
                "app 0+7 self 0",
                " a 0+5 self 1",
                "  c 0+3 self 3",
                "  b 3+1 self 1",
                " [no stack] 5+2 self 2",
            ]
        );
        let by_name = drawn(&profile, Order::Name, 0.0);
        assert_eq!(by_name[2..4], ["  b 0+1 self 1", "  c 1+3 self 3"]);
    }

    #[test]
    fn a_chart_keeps_the_order_of_time() {
        let profile = profile_of(&[("a;b", 1), ("", 2), ("a;c", 3), ("a;b", 1)]);
        assert_eq!(
            drawn(&profile, Order::Time, 0.0),
            [
                "app 0+7 self 0",
                " a 0+1 self 0",
                "  b 0+1 self 1",
                " a 3+4 self 0",
                "  c 3+3 self 3",
                "  b 6+1 self 1",
            ]
        );
    }

    #[test]
    fn narrow_boxes_are_left_out_and_functions_that_look_the_same_are_one() {
        let profile = profile_of(&[("a;m@x", 4), ("a;m@y", 5), ("a;n", 1)]);
        assert_eq!(
            drawn(&profile, Order::Name, 0.2),
            ["app 0+10 self 0", " a 0+10 self 0", "  m 0+9 self 9"]
        );
    }

    #[test]
    fn a_difference_is_as_wide_as_the_later_side() {
        let before = profile_of(&[("a;b", 3), ("a;gone", 4)]);
        let pair = ProfilePair::join(&before, &profile_of(&[("a;b", 5), ("a;c", 1)]));
        let labels = Labels::of(&pair.after, Names::Marked);
        let layout = Layout::of_difference(&pair.tree(), &labels, Order::Name, 0.0);
        let rows: Vec<_> = (0..layout.boxes.len())
            .map(|at| (layout.label(&labels, at), layout.boxes[at].growth))
            .collect();
        assert_eq!(rows, [("a", 0), ("b", 2), ("c", 1)]);
    }

    #[test]
    fn leaving_out_the_smallest_keeps_the_weight() {
        let profile = profile_of(&[("a;b;d", 1), ("a;c", 3), ("a", 1)]);
        let labels = Labels::of(&profile, Names::Marked);
        let layout = Layout::of(&profile, &labels, Order::Weight, 0.0);
        let (small, left_out) = layout.without_smallest(3, 10);
        assert_eq!(
            picture(&labels, &small),
            ["app 0+5 self 0", " a 0+5 self 2", "  c 0+3 self 3"]
        );
        assert_eq!(left_out, 2);
    }

    #[test]
    fn five_thousand_levels_are_no_trouble() {
        let deep = vec!["f"; 5000].join(";");
        let profile = profile_of(&[(&deep, 1)]);
        let labels = Labels::of(&profile, Names::Marked);
        let layout = Layout::of(&profile, &labels, Order::Name, 0.0);
        assert_eq!(layout.depth(), 5001);
        assert_eq!(layout.without_smallest(100_000, 100).0.depth(), 100);
    }
}
