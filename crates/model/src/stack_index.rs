//! Finding stacks again by their caller and frame.

use crate::branches::Branches;
use crate::profile::{FrameIndex, Stack, StackIndex};

impl Branches {
    /// The position of a stack in the table, which gets it if it does not have it yet.
    pub fn stack(&mut self, stacks: &mut Vec<Stack>, row: Stack) -> StackIndex {
        let halves = |row: &Stack| {
            let parent = row.parent.map_or(Self::NO_PARENT, |parent| parent.get());
            (parent, row.frame.0)
        };
        let (parent, frame) = halves(&row);
        let known = self.child(parent, frame, stacks.len(), |position| {
            halves(&stacks[position as usize])
        });
        StackIndex::new(known.unwrap_or_else(|| {
            stacks.push(row);
            stacks.len() as u32 - 1
        }))
    }
}

/// Where the stacks of one table are, of which some may have been put there by others.
#[derive(Debug, Default)]
pub(crate) struct StackIndexer {
    branches: Branches,
    /// How many stacks of the table are known.
    known: usize,
}

impl StackIndexer {
    /// The stack that adds `frame` to `parent`.
    pub(crate) fn child(
        &mut self,
        stacks: &mut Vec<Stack>,
        parent: Option<StackIndex>,
        frame: FrameIndex,
    ) -> StackIndex {
        for (position, stack) in stacks.iter().enumerate().skip(self.known) {
            let parent = stack
                .parent
                .map_or(Branches::NO_PARENT, |parent| parent.get());
            self.branches.add(parent, stack.frame.0, position as u32);
        }
        let stack = self.branches.stack(stacks, Stack { parent, frame });
        self.known = stacks.len();
        stack
    }
}
