//! Stacks whose frames become others, or go: which new stack each is.
//!
//! Two stacks can only become one where two frames become one, or where callees of a frame that
//! goes come to those of its caller. Looking up the others would find nothing, and there are
//! millions of them.

use crate::branches::Branches;
use crate::profile::{FrameIndex, Stack, StackIndex};

/// What stands for no frame and no stack.
const NONE: u32 = u32::MAX;

/// The stacks that a table becomes.
#[derive(Debug)]
pub struct MovedStacks {
    /// The new table.
    pub stacks: Vec<Stack>,
    /// Where each old stack is in it; none if all of its frames are gone.
    pub moved: Vec<Option<StackIndex>>,
}

/// What becomes of each stack of a table, parents before children.
#[derive(Debug)]
pub struct StackMoves<'a> {
    old: &'a [Stack],
    /// What the frame of each stack becomes.
    shown: Vec<u32>,
    /// The nearest caller of each stack that stays.
    callers: Vec<u32>,
    /// Whether a stack gets callees of callees that go.
    is_joined: Vec<bool>,
    has_joined_roots: bool,
    /// For each new frame, an old one that becomes it.
    source_of: Vec<u32>,
    /// Whether several old frames become a new one.
    has_sources: Vec<bool>,
}

impl<'a> StackMoves<'a> {
    /// Starts with the first stack of `old`.
    pub fn of(old: &'a [Stack]) -> Self {
        Self {
            old,
            shown: Vec::with_capacity(old.len()),
            callers: Vec::with_capacity(old.len()),
            is_joined: vec![false; old.len()],
            has_joined_roots: false,
            source_of: Vec::new(),
            has_sources: Vec::new(),
        }
    }

    /// What the caller of the next stack is shown as; none at the root.
    pub fn next_caller(&self) -> Option<FrameIndex> {
        let caller = self.nearest_staying(self.old[self.shown.len()].parent);
        let shown = self.shown.get(caller as usize)?;
        Some(FrameIndex(*shown))
    }

    /// Says what becomes of the frame of the next stack: another or the same, or it goes.
    pub fn next(&mut self, shown: Option<FrameIndex>) {
        let Stack { parent, frame } = self.old[self.shown.len()];
        let caller = self.nearest_staying(parent);
        if let Some(shown) = shown {
            self.note_source(frame, shown);
            if parent.is_some_and(|parent| parent.get() != caller) {
                match self.is_joined.get_mut(caller as usize) {
                    Some(is_joined) => *is_joined = true,
                    None => self.has_joined_roots = true,
                }
            }
        }
        self.callers.push(caller);
        self.shown.push(shown.map_or(NONE, |shown| shown.0));
    }

    fn nearest_staying(&self, stack: Option<StackIndex>) -> u32 {
        match stack {
            None => NONE,
            Some(stack) if self.shown[stack.at()] != NONE => stack.get(),
            Some(stack) => self.callers[stack.at()],
        }
    }

    fn note_source(&mut self, frame: FrameIndex, shown: FrameIndex) {
        if self.source_of.len() <= shown.at() {
            self.source_of.resize(shown.at() + 1, NONE);
            self.has_sources.resize(shown.at() + 1, false);
        }
        let source = &mut self.source_of[shown.at()];
        match *source {
            NONE => *source = frame.0,
            known => self.has_sources[shown.at()] |= known != frame.0,
        }
    }

    /// Makes the new table, once [`Self::next`] has seen every stack.
    pub fn finish(self) -> MovedStacks {
        assert_eq!(self.shown.len(), self.old.len());
        let mut stacks: Vec<Stack> = Vec::with_capacity(self.old.len());
        let mut moved: Vec<Option<StackIndex>> = Vec::with_capacity(self.old.len());
        let mut may_merge = vec![false; self.old.len()];
        let mut branches = Branches::default();
        for (position, &shown) in self.shown.iter().enumerate() {
            let caller = self.callers[position] as usize;
            let parent = moved.get(caller).copied().flatten();
            if shown == NONE {
                moved.push(parent);
                continue;
            }
            let is_joined = self.is_joined.get(caller).copied();
            may_merge[position] = self.has_sources[shown as usize]
                || is_joined.unwrap_or(self.has_joined_roots)
                || may_merge.get(caller).is_some_and(|may_merge| *may_merge);
            let row = Stack {
                parent,
                frame: FrameIndex(shown),
            };
            let stack = match may_merge[position] {
                true => branches.stack(&mut stacks, row),
                false => {
                    stacks.push(row);
                    StackIndex::new(stacks.len() as u32 - 1)
                }
            };
            moved.push(Some(stack));
        }
        MovedStacks { stacks, moved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FastMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stacks_become_one_exactly_where_their_paths_do(
            rows in prop::collection::vec((0usize..40, 0u32..6), 1..120),
            becomes in prop::collection::vec(prop::option::weighted(0.8, 0u32..6), 6),
        ) {
            let mut old: Vec<Stack> = Vec::new();
            for (parent, frame) in rows {
                let parent = (parent < old.len()).then_some(StackIndex::new(parent as u32));
                let row = Stack { parent, frame: FrameIndex(frame) };
                if !old.contains(&row) {
                    old.push(row);
                }
            }
            let mut moves = StackMoves::of(&old);
            let mut paths: Vec<Vec<u32>> = Vec::new();
            for stack in &old {
                let mut path = stack.parent.map_or(vec![], |parent| paths[parent.at()].clone());
                prop_assert_eq!(moves.next_caller().map(|frame| frame.0), path.last().copied());
                let shown = becomes[stack.frame.at()];
                path.extend(shown);
                moves.next(shown.map(FrameIndex));
                paths.push(path);
            }
            let MovedStacks { stacks, moved } = moves.finish();
            let mut known: FastMap<&[u32], Option<StackIndex>> = FastMap::default();
            for (path, moved) in paths.iter().zip(&moved) {
                let mut back = Vec::new();
                let mut next = *moved;
                while let Some(stack) = next {
                    back.insert(0, stacks[stack.at()].frame.0);
                    next = stacks[stack.at()].parent;
                }
                prop_assert_eq!(&back, path);
                prop_assert_eq!(known.entry(path).or_insert(*moved), moved);
            }
            let parents_first = |(at, stack): (usize, &Stack)| {
                stack.parent.is_none_or(|parent| parent.at() < at)
            };
            prop_assert!(stacks.iter().enumerate().all(parents_first));
            prop_assert_eq!(known.values().flatten().count(), stacks.len());
        }
    }
}
