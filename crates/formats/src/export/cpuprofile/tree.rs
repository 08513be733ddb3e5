//! The samples of one thread as V8 has them: a tree of functions, and the nodes samples end in.

use nodespy_model::{Category, FastMap, FunctionIndex, Profile, Sample, StackIndex};

use crate::export::by_thread::stacks_of;

/// A node's position in [`Tree::nodes`]; its id is one more.
pub(crate) type Row = u32;

/// The node above all others.
pub(crate) const ROOT: Row = 0;

/// One node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(crate) parent: Option<Row>,
    pub(crate) code: Code,
}

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Code {
    Root,
    /// Time between samples in which the thread did not run.
    Idle,
    Function(FunctionIndex),
}

/// The call tree of one thread, parents first.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    known: FastMap<(Row, Code), Row>,
    row_of_stack: FastMap<StackIndex, Row>,
    /// The function that stands for idle time in this profile, if one does.
    idle: Code,
}

impl Tree {
    /// The tree of the samples of a thread; `idle` stands for the time between them.
    pub(crate) fn of(profile: &Profile, samples: &[&Sample], idle: Code) -> Self {
        let mut tree = Self {
            nodes: vec![Node {
                parent: None,
                code: Code::Root,
            }],
            known: FastMap::default(),
            row_of_stack: FastMap::default(),
            idle,
        };
        for index in stacks_of(profile, samples) {
            let stack = profile.stacks[index.at()];
            let parent = stack.parent.map_or(ROOT, |parent| tree.row_of(parent));
            let code = Code::Function(profile.frame(stack.frame).function);
            let row = tree.intern(parent, code);
            tree.row_of_stack.insert(index, row);
        }
        tree
    }

    fn intern(&mut self, parent: Row, code: Code) -> Row {
        let nodes = &mut self.nodes;
        *self.known.entry((parent, code)).or_insert_with(|| {
            nodes.push(Node {
                parent: Some(parent),
                code,
            });
            nodes.len() as Row - 1
        })
    }

    /// The node a stack ends in.
    pub(crate) fn row_of(&self, stack: StackIndex) -> Row {
        self.row_of_stack[&stack]
    }

    /// The node for time in which the thread did not run.
    pub(crate) fn idle(&mut self) -> Row {
        self.intern(ROOT, self.idle)
    }

    /// The children of every node: where those of a node start, and all of them.
    pub(crate) fn children(&self) -> (Vec<usize>, Vec<Row>) {
        let mut starts = vec![0usize; self.nodes.len() + 1];
        let parents = self.nodes.iter().map(|node| node.parent);
        for parent in parents.clone().flatten() {
            starts[parent as usize + 1] += 1;
        }
        for position in 1..starts.len() {
            starts[position] += starts[position - 1];
        }
        let mut next = starts.clone();
        let mut children = vec![0; self.nodes.len() - 1];
        for (row, parent) in parents.enumerate() {
            if let Some(parent) = parent {
                children[next[parent as usize]] = row as Row;
                next[parent as usize] += 1;
            }
        }
        (starts, children)
    }
}

/// What stands for idle time in a profile.
pub(crate) fn idle_code(profile: &Profile) -> Code {
    let functions = profile.functions.iter().enumerate();
    functions
        .filter(|(_, function)| function.category == Category::Idle && function.file.is_none())
        .map(|(position, _)| FunctionIndex(position as u32))
        .find(|function| profile.name_of(*function) == "(idle)")
        .map_or(Code::Idle, Code::Function)
}
