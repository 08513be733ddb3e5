//! The last unwound stack of a thread: from one sample to the next most frames at its root are the same, and so are their paths.

use super::paths::NO_PATH;
use crate::frame::Identified;

/// Frames with their paths, outermost first.
#[derive(Debug, Default)]
pub(super) struct LastStack {
    frames: Vec<(Identified, u32)>,
}

impl LastStack {
    /// Paths are those of one slice.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
    }

    /// Forgets all but the frames from the root on that a stack, leaf first, has too; returns how many these are.
    pub(super) fn keep_common(&mut self, stack: &[Identified]) -> usize {
        let outermost_first = stack.iter().rev();
        let pairs = self.frames.iter().zip(outermost_first);
        let common = pairs
            .take_while(|((last, _), frame)| last == *frame)
            .count();
        self.frames.truncate(common);
        common
    }

    /// The path of the innermost frame.
    pub(super) fn path(&self) -> u32 {
        self.frames.last().map_or(NO_PATH, |&(_, path)| path)
    }

    pub(super) fn push(&mut self, frame: Identified, path: u32) {
        self.frames.push((frame, path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::paths::Paths;

    #[test]
    fn paths_are_the_same_as_without_the_last_stack() {
        let mut last = LastStack::default();
        let mut paths = Paths::default();
        let stacks: [&[u64]; 8] = [
            &[1, 2, 3],
            &[1, 2, 3],
            &[1, 2],
            &[1, 2, 4, 4],
            &[],
            &[4],
            &[5, 4],
            &[1, 2, 3],
        ];
        for outermost_first in stacks {
            let stack: Vec<Identified> = outermost_first
                .iter()
                .rev()
                .map(|&address| Identified::Jit(address))
                .collect();
            let common = last.keep_common(&stack);
            let mut path = last.path();
            for (&frame, &id) in stack.iter().rev().zip(outermost_first).skip(common) {
                path = paths.child(path, id as u32);
                last.push(frame, path);
            }
            let whole = outermost_first
                .iter()
                .fold(NO_PATH, |path, &id| paths.child(path, id as u32));
            assert_eq!(path, whole, "{outermost_first:?}");
        }
        assert_eq!(last.keep_common(&[]), 0);
        assert_eq!(last.path(), NO_PATH);
    }
}
