//! Finding stacks again by their frames, many at a time.
//!
//! Going down a path step by step waits for memory at every step: where a stack is found depends
//! on which one its caller was. Here a stack is found by the hash of its whole path, which is known
//! without looking anything up. Since the callers of a known stack are known, halving finds the
//! innermost one, and only what comes after it is added.

use std::hash::BuildHasher;

use crate::profile::{FrameIndex, Stack, StackIndex};

/// A slot that holds nothing; no stack has the last position.
const EMPTY: u64 = u64::MAX;
/// A table holds fewer rows than this; typed indexes are 32 bits wide.
const MOST_ROWS: usize = u32::MAX as usize;

/// Where the stacks of one table are, by their paths.
#[derive(Debug)]
pub(crate) struct StackIndexer {
    /// The hash of the path of every stack, as far as stacks were looked for.
    hashes: Vec<u32>,
    /// Hash and position of every stack, as near as possible to where its hash points.
    slots: Vec<u64>,
    /// Differs from run to run, so that no file can be made to fill one corner of the slots.
    seed: u64,
    /// Reused: the hashes of a path that is being looked up.
    wanted: Vec<u32>,
}

impl Default for StackIndexer {
    fn default() -> Self {
        Self {
            hashes: Vec::new(),
            slots: Vec::new(),
            seed: foldhash::fast::RandomState::default().hash_one(0u64),
            wanted: Vec::new(),
        }
    }
}

impl StackIndexer {
    /// The stack that adds `frame` to `parent`.
    pub(crate) fn child(
        &mut self,
        stacks: &mut Vec<Stack>,
        parent: Option<StackIndex>,
        frame: FrameIndex,
    ) -> StackIndex {
        let row = Stack { parent, frame };
        // The first child of a stack follows it at once, and most have no other.
        let next = parent.map_or(0, |parent| parent.0.saturating_add(1));
        if stacks.get(next as usize) == Some(&row) {
            return StackIndex(next);
        }
        self.catch_up(stacks);
        let hash = self.hash(self.hash_of(parent), frame);
        match self.find(hash, |position| stacks[position as usize] == row) {
            Some(known) => StackIndex(known),
            None => self.push(stacks, row, hash),
        }
    }

    /// The stack that adds `frames`, outermost first, to `parent`.
    pub(crate) fn descendant(
        &mut self,
        stacks: &mut Vec<Stack>,
        parent: Option<StackIndex>,
        frames: &[FrameIndex],
    ) -> Option<StackIndex> {
        self.catch_up(stacks);
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.clear();
        let mut hash = self.hash_of(parent);
        wanted.extend(frames.iter().map(|frame| {
            hash = self.hash(hash, *frame);
            hash
        }));
        let (known, mut stack) = self.innermost_known(stacks, parent, frames, &wanted);
        for (frame, hash) in frames.iter().zip(&wanted).skip(known) {
            let row = Stack {
                parent: stack,
                frame: *frame,
            };
            stack = Some(self.push(stacks, row, *hash));
        }
        self.wanted = wanted;
        stack
    }

    /// How many of `frames` lead from `parent` to a stack that is known, and that stack.
    fn innermost_known(
        &self,
        stacks: &[Stack],
        parent: Option<StackIndex>,
        frames: &[FrameIndex],
        hashes: &[u32],
    ) -> (usize, Option<StackIndex>) {
        let (mut known, mut unknown) = (0, frames.len() + 1);
        let mut innermost = parent;
        while unknown - known > 1 {
            let middle = known + (unknown - known) / 2;
            let frame = frames[middle - 1];
            let is_likely = |position: u32| stacks[position as usize].frame == frame;
            match self.find(hashes[middle - 1], is_likely) {
                Some(position) => (known, innermost) = (middle, Some(StackIndex(position))),
                None => unknown = middle,
            }
        }
        match leads_to(stacks, parent, &frames[..known], innermost) {
            true => (known, innermost),
            // Two paths have one hash, which next to never happens.
            false => self.known_step_by_step(stacks, parent, frames, hashes),
        }
    }

    fn known_step_by_step(
        &self,
        stacks: &[Stack],
        parent: Option<StackIndex>,
        frames: &[FrameIndex],
        hashes: &[u32],
    ) -> (usize, Option<StackIndex>) {
        let mut innermost = parent;
        for (step, (frame, hash)) in frames.iter().zip(hashes).enumerate() {
            let row = Stack {
                parent: innermost,
                frame: *frame,
            };
            match self.find(*hash, |position| stacks[position as usize] == row) {
                Some(position) => innermost = Some(StackIndex(position)),
                None => return (step, innermost),
            }
        }
        (frames.len(), innermost)
    }

    fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            match self.slots[at] {
                EMPTY => return None,
                slot if (slot >> 32) as u32 == hash && is_it(slot as u32) => {
                    return Some(slot as u32);
                }
                _ => at = (at + 1) & mask,
            }
        }
    }

    fn push(&mut self, stacks: &mut Vec<Stack>, row: Stack, hash: u32) -> StackIndex {
        assert!(stacks.len() < MOST_ROWS, "a table holds under 2^32 rows");
        debug_assert_eq!(stacks.len(), self.hashes.len());
        if (self.hashes.len() + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let position = stacks.len() as u32;
        stacks.push(row);
        self.hashes.push(hash);
        put(&mut self.slots, hash, position);
        StackIndex(position)
    }

    /// Takes in stacks that were put into the table without asking for others.
    fn catch_up(&mut self, stacks: &[Stack]) {
        for (position, stack) in stacks.iter().enumerate().skip(self.hashes.len()) {
            if (position + 1) * 4 > self.slots.len() * 3 {
                self.grow();
            }
            let hash = self.hash(self.hash_of(stack.parent), stack.frame);
            self.hashes.push(hash);
            put(&mut self.slots, hash, position as u32);
        }
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(1024);
        self.slots.clear();
        self.slots.resize(size, EMPTY);
        for (position, hash) in self.hashes.iter().enumerate() {
            put(&mut self.slots, *hash, position as u32);
        }
    }

    fn hash_of(&self, stack: Option<StackIndex>) -> u32 {
        stack.map_or(0, |stack| self.hashes[stack.at()])
    }

    fn hash(&self, caller: u32, frame: FrameIndex) -> u32 {
        let key = u64::from(caller) << 32 | u64::from(frame.0);
        let wide = u128::from(key ^ self.seed) * 0x9e37_79b9_7f4a_7c15;
        (wide >> 64) as u32 ^ (wide >> 32) as u32
    }
}

/// Puts a position into the first free slot from where its hash points.
fn put(slots: &mut [u64], hash: u32, position: u32) {
    let mask = slots.len() - 1;
    let mut at = hash as usize & mask;
    while slots[at] != EMPTY {
        at = (at + 1) & mask;
    }
    slots[at] = u64::from(hash) << 32 | u64::from(position);
}

/// Whether `frames` lead from `parent` to `stack`.
fn leads_to(
    stacks: &[Stack],
    parent: Option<StackIndex>,
    frames: &[FrameIndex],
    stack: Option<StackIndex>,
) -> bool {
    let start = frames.iter().rev().try_fold(stack, |stack, frame| {
        let row = &stacks[stack?.at()];
        (row.frame == *frame).then_some(row.parent)
    });
    start == Some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FastMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_path_is_one_stack_however_it_is_added(
            paths in prop::collection::vec(prop::collection::vec(0u32..4, 0..9), 0..400),
            split in 0usize..9,
        ) {
            let (mut stacks, mut indexer) = (Vec::new(), StackIndexer::default());
            let mut expected: FastMap<Vec<u32>, Option<StackIndex>> = FastMap::default();
            for path in &paths {
                let frames: Vec<FrameIndex> = path.iter().copied().map(FrameIndex).collect();
                let (outer, inner) = frames.split_at(split.min(frames.len()));
                let parent = outer.iter().fold(None, |parent, frame| {
                    Some(indexer.child(&mut stacks, parent, *frame))
                });
                let stack = indexer.descendant(&mut stacks, parent, inner);
                let mut back = Vec::new();
                let mut next = stack;
                while let Some(stack) = next {
                    back.insert(0, stacks[stack.at()].frame);
                    next = stacks[stack.at()].parent;
                }
                prop_assert_eq!(&back, &frames);
                prop_assert_eq!(*expected.entry(path.clone()).or_insert(stack), stack);
            }
            let distinct: std::collections::HashSet<_> = stacks.iter().copied().collect();
            prop_assert_eq!(distinct.len(), stacks.len());
        }
    }

    #[test]
    fn paths_with_one_hash_are_told_apart() {
        let frames = [FrameIndex(0), FrameIndex(1), FrameIndex(2)];
        let (mut stacks, mut indexer) = (Vec::new(), StackIndexer::default());
        // A lie: what ends in the same frames below another root is known by the hash of ours.
        let hash = indexer.hash(indexer.hash(0, frames[0]), frames[1]);
        let other = indexer.child(&mut stacks, None, FrameIndex(7));
        let row = Stack {
            parent: Some(other),
            frame: frames[1],
        };
        indexer.push(&mut stacks, row, hash);
        let stack = indexer.descendant(&mut stacks, None, &frames);
        assert!(leads_to(&stacks, None, &frames, stack));
    }
}
