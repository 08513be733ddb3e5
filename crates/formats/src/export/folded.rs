//! Folded stacks as FlameGraph reads them: `thread;root;…;leaf weight`, a line per stack.
//!
//! A line starts with the name of the thread, as `stackcollapse-perf.pl` starts it with perf's
//! `comm`; the main thread goes by its process's name. Lines are sorted, so equal profiles give
//! equal bytes. Times, lines being run and tiers are left out: the format has no room for them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;

use nodespy_analysis::{CallTree, ChildLists, NodeIndex};
use nodespy_model::{
    FastMap, FunctionIndex, NO_STACK, Profile, ThreadIndex, folded_label, folded_thread,
};

use super::{Detail, ExportError, Exporter};

/// The exporter of folded stacks.
pub(crate) struct Folded;

impl Exporter for Folded {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["folded", "collapsed"]
    }

    fn leaves_out(&self) -> &'static [Detail] {
        &[
            Detail::Times,
            Detail::Processors,
            Detail::CurrentLines,
            Detail::Tiers,
            Detail::Inlining,
            Detail::AsyncFrames,
            Detail::ThreadRoles,
            Detail::ProcessDetails,
            Detail::Labels,
            Detail::DeoptReasons,
            Detail::WeightUnit,
            Detail::Notes,
            Detail::Sources,
            Detail::GeneratedPlaces,
            Detail::Contexts,
        ]
    }

    fn export(&self, profile: &Profile, output: &mut dyn Write) -> Result<(), ExportError> {
        let labels = Labels::of(profile);
        let trees = CallTree::of_groups(
            profile,
            labels.groups.len() + 1,
            &labels.group_of,
            &labels.alias_of,
        );
        let lines = Lines {
            labels: &labels,
            trees: Vec::new(),
            line: String::new(),
            output,
        };
        Ok(lines.write(trees)?)
    }
}

/// A label in two places: at the end of a line, and before a `;`. They sort differently, because
/// `f g` comes after `f` and before `f;g`.
#[derive(Clone, Copy)]
struct Rank {
    at_end: u32,
    before_more: u32,
}

/// Every name that lines are made of, and where it sorts.
struct Labels {
    /// The texts by rank.
    texts: Vec<Rc<str>>,
    /// Of each function.
    of_function: Vec<Rank>,
    no_stack: Rank,
    /// The first function with the same label.
    alias_of: Vec<FunctionIndex>,
    /// Threads that have a name, in order: the ranks of the names. They are groups 1 and up.
    groups: Vec<Rank>,
    /// Of each thread; 0 is for those without a name.
    group_of: Vec<usize>,
}

impl Labels {
    fn of(profile: &Profile) -> Self {
        let functions = (0..profile.functions.len() as u32).map(FunctionIndex);
        let functions: Vec<Rc<str>> = functions
            .map(|function| folded_label(profile, function).into())
            .collect();
        let threads = (0..profile.threads.len() as u32).map(ThreadIndex);
        let threads: Vec<Rc<str>> = threads
            .map(|thread| folded_thread(profile, thread).into())
            .collect();
        let no_stack: Rc<str> = NO_STACK.into();
        let names = functions.iter().chain(&threads).chain([&no_stack]);
        let mut texts: Vec<Rc<str>> = names
            .flat_map(|name| [name.clone(), format!("{name};").into()])
            .collect();
        texts.sort_unstable();
        texts.dedup();
        let ranks: FastMap<&str, u32> = texts.iter().map(|text| &**text).zip(0..).collect();
        let rank_of = |name: &Rc<str>| Rank {
            at_end: ranks[&**name],
            before_more: ranks[&*format!("{name};")],
        };
        let mut group_ranks: BTreeMap<u32, Rank> = BTreeMap::new();
        for name in threads.iter().filter(|name| !name.is_empty()) {
            let rank = rank_of(name);
            group_ranks.insert(rank.before_more, rank);
        }
        let group_at: FastMap<u32, usize> = group_ranks.keys().copied().zip(1..).collect();
        let group_of = threads.iter().map(|name| match &**name {
            "" => 0,
            _ => group_at[&rank_of(name).before_more],
        });
        let of_function: Vec<Rank> = functions.iter().map(rank_of).collect();
        let mut first: FastMap<u32, FunctionIndex> = FastMap::default();
        let aliases = of_function.iter().zip((0..).map(FunctionIndex));
        let alias_of = aliases
            .map(|(rank, function)| *first.entry(rank.at_end).or_insert(function))
            .collect();
        Self {
            group_of: group_of.collect(),
            groups: group_ranks.into_values().collect(),
            no_stack: rank_of(&no_stack),
            of_function,
            alias_of,
            texts: texts.clone(),
        }
    }
}

/// What lines go through or end at.
#[derive(Clone, Copy)]
enum Part {
    /// A node of the tree at this position.
    Node(usize, NodeIndex),
    /// A weight without a stack.
    NoStack(u64),
    /// All of a thread's lines.
    Thread,
}

/// Parts that share the start of a line, in order.
struct Level {
    parts: Vec<(u32, Part)>,
    next: usize,
    /// How much of the line they share.
    shared_bytes: usize,
}

/// Writes the lines in order, holding one of them: all together grow with the square of the depth.
struct Lines<'a> {
    labels: &'a Labels,
    /// That of the threads without a name, and the one of the thread being written.
    trees: Vec<(CallTree, ChildLists)>,
    line: String,
    output: &'a mut dyn Write,
}

impl Lines<'_> {
    fn write(mut self, mut trees: impl Iterator<Item = CallTree>) -> io::Result<()> {
        let mut first = Vec::new();
        if let Some(unnamed) = trees.next() {
            self.add_tree(unnamed, &mut first);
        }
        let threads = self.labels.groups.iter();
        first.extend(threads.map(|rank| (rank.before_more, Part::Thread)));
        let mut levels = vec![self.level(first)];
        while let Some(level) = levels.last_mut() {
            self.line.truncate(level.shared_bytes);
            let Some(&(rank, _)) = level.parts.get(level.next) else {
                levels.pop();
                continue;
            };
            let rest = &level.parts[level.next..];
            let same = &rest[..rest.partition_point(|(other, _)| *other == rank)];
            level.next += same.len();
            self.line.push_str(&self.labels.texts[rank as usize]);
            if !self.line.ends_with(';') {
                self.write_line(same)?;
                continue;
            }
            let mut parts = Vec::new();
            for (_, part) in same {
                match *part {
                    Part::Node(tree, node) => self.add_children(tree, Some(node), &mut parts),
                    Part::Thread => {
                        // The one before is written.
                        self.trees.truncate(1);
                        if let Some(tree) = trees.next() {
                            self.add_tree(tree, &mut parts);
                        }
                    }
                    Part::NoStack(_) => {}
                }
            }
            levels.push(self.level(parts));
        }
        Ok(())
    }

    fn level(&self, mut parts: Vec<(u32, Part)>) -> Level {
        parts.sort_by_key(|(rank, _)| *rank);
        Level {
            parts,
            next: 0,
            shared_bytes: self.line.len(),
        }
    }

    fn add_tree(&mut self, tree: CallTree, parts: &mut Vec<(u32, Part)>) {
        if tree.without_stack > 0 {
            let part = Part::NoStack(tree.without_stack);
            parts.push((self.labels.no_stack.at_end, part));
        }
        let lists = tree.child_lists();
        self.trees.push((tree, lists));
        self.add_children(self.trees.len() - 1, None, parts);
    }

    fn add_children(&self, at: usize, parent: Option<NodeIndex>, parts: &mut Vec<(u32, Part)>) {
        let (tree, lists) = &self.trees[at];
        for &index in lists.of_node(parent) {
            let node = tree.node(index);
            let rank = self.labels.of_function[node.function.at()];
            if node.self_weight > 0 {
                parts.push((rank.at_end, Part::Node(at, index)));
            }
            if !lists.of_node(Some(index)).is_empty() {
                parts.push((rank.before_more, Part::Node(at, index)));
            }
        }
    }

    fn write_line(&mut self, parts: &[(u32, Part)]) -> io::Result<()> {
        let weight_of = |part: Part| match part {
            Part::Node(tree, node) => self.trees[tree].0.node(node).self_weight,
            Part::NoStack(weight) => weight,
            Part::Thread => 0,
        };
        let weight = parts
            .iter()
            .fold(0u64, |sum, (_, part)| sum.saturating_add(weight_of(*part)));
        writeln!(self.output, "{} {weight}", self.line)
    }
}
