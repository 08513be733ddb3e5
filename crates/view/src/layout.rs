//! Profile to boxes: what a flame graph is made of, before anything is drawn.
//!
//! The boxes of the bottom row are threads, grouped by name; on them stand the functions, each as
//! wide as its weight. A box comes before the boxes on it, the heaviest of them first.

use std::collections::BTreeMap;

use nodespy_model::{
    CallTree, FunctionIndex, NO_STACK, NodeIndex, Profile, ThreadIndex, folded_label, folded_thread,
};

/// What a box stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Threads of one name.
    Thread(String),
    /// A function.
    Function(FunctionIndex),
    /// Samples without a stack.
    NoStack,
}

/// One box of a flame graph.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// The boxes of a flame graph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// Every box, the one it stands on first.
    pub boxes: Vec<FlameBox>,
    /// The width of everything.
    pub total: u64,
}

impl Layout {
    /// The boxes of a whole profile.
    pub fn of(profile: &Profile) -> Self {
        let mut groups: BTreeMap<String, Vec<bool>> = BTreeMap::new();
        for (position, _) in profile.threads.iter().enumerate() {
            let thread = ThreadIndex(position as u32);
            groups
                .entry(folded_thread(profile, thread))
                .or_insert_with(|| vec![false; profile.threads.len()])[position] = true;
        }
        let mut trees: Vec<(String, CallTree)> = groups
            .into_iter()
            .map(|(name, is_member)| {
                let tree = CallTree::of(profile, |sample| is_member[sample.thread.at()]);
                (name, tree)
            })
            .collect();
        trees.sort_by_key(|(_, tree)| std::cmp::Reverse(tree.total_weight()));
        let mut layout = Self::default();
        for (name, tree) in trees {
            layout.add_thread(name, &tree);
        }
        layout
    }

    fn add_thread(&mut self, name: String, tree: &CallTree) {
        let weight = tree.total_weight();
        if weight == 0 {
            return;
        }
        let start = self.total;
        self.total = self.total.saturating_add(weight);
        let mut root = None;
        // Recordings that know no thread names have functions in the bottom row.
        if !name.is_empty() {
            root = Some(self.boxes.len());
            self.boxes.push(FlameBox {
                content: Content::Thread(name),
                parent: None,
                depth: 0,
                start,
                weight,
                self_weight: 0,
            });
        }
        let root_depth = u32::from(root.is_some());
        let children = tree.children();
        let no_children = Vec::new();
        // A stack of its own instead of recursion: trees can be deeper than a thread's stack.
        let mut waiting: Vec<(NodeIndex, Option<usize>, u32, u64)> = Vec::new();
        let add_children = |waiting: &mut Vec<_>, node, parent, depth, mut start: u64| {
            let list = children.get(&node).unwrap_or(&no_children);
            let first = waiting.len();
            for child in list {
                waiting.push((*child, parent, depth, start));
                start = start.saturating_add(tree.node(*child).total_weight);
            }
            waiting[first..].reverse();
            start
        };
        let end = add_children(&mut waiting, None, root, root_depth, start);
        while let Some((index, parent, depth, start)) = waiting.pop() {
            let node = tree.node(index);
            let position = self.boxes.len();
            self.boxes.push(FlameBox {
                content: Content::Function(node.function),
                parent,
                depth,
                start,
                weight: node.total_weight,
                self_weight: node.self_weight,
            });
            add_children(&mut waiting, Some(index), Some(position), depth + 1, start);
        }
        if tree.without_stack > 0 {
            self.boxes.push(FlameBox {
                content: Content::NoStack,
                parent: root,
                depth: root_depth,
                start: end,
                weight: tree.without_stack,
                self_weight: tree.without_stack,
            });
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
        let mut order: Vec<usize> = (0..before)
            .filter(|position| self.boxes[*position].depth < rows)
            .collect();
        // A box is never heavier than the one it stands on, so no box loses its support.
        order.sort_by_key(|position| {
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
    pub fn label(&self, profile: &Profile, position: usize) -> String {
        match &self.boxes[position].content {
            Content::Thread(name) => name.clone(),
            Content::Function(function) => folded_label(profile, *function),
            Content::NoStack => NO_STACK.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
                let frame = builder.frame(FrameSpec {
                    function: FunctionSpec {
                        name,
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

    fn picture(profile: &Profile, layout: &Layout) -> Vec<String> {
        layout
            .boxes
            .iter()
            .enumerate()
            .map(|(position, each)| {
                let label = layout.label(profile, position);
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

    #[test]
    fn boxes_stand_on_their_callers_heaviest_first() {
        let profile = profile_of(&[("a;b", 1), ("a;c", 3), ("a", 1), ("", 2)]);
        assert_eq!(
            picture(&profile, &Layout::of(&profile)),
            [
                "app 0+7 self 0",
                " a 0+5 self 1",
                "  c 0+3 self 3",
                "  b 3+1 self 1",
                " [no stack] 5+2 self 2",
            ]
        );
    }

    #[test]
    fn leaving_out_the_smallest_keeps_the_weight() {
        let profile = profile_of(&[("a;b;d", 1), ("a;c", 3), ("a", 1)]);
        let (small, left_out) = Layout::of(&profile).without_smallest(3, 10);
        assert_eq!(
            picture(&profile, &small),
            ["app 0+5 self 0", " a 0+5 self 2", "  c 0+3 self 3"]
        );
        assert_eq!(left_out, 2);
    }

    #[test]
    fn five_thousand_levels_are_no_trouble() {
        let deep = vec!["f"; 5000].join(";");
        let profile = profile_of(&[(&deep, 1)]);
        let layout = Layout::of(&profile);
        assert_eq!(layout.depth(), 5001);
        assert_eq!(layout.without_smallest(100_000, 100).0.depth(), 100);
    }

    #[test]
    fn an_empty_profile_has_no_boxes() {
        assert_eq!(Layout::of(&Profile::default()), Layout::default());
    }
}
