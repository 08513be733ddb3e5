//! Paths of names to stacks, with as little work as a line has that is new.
//!
//! Lines of folded stacks are sorted as a rule, so most of a line is the start of the line before
//! it: that part is compared as bytes and its stacks are used again. Of the rest, each name is
//! looked up by its bytes and taken apart only when it is met for the first time.

use memchr::memchr;
use nodespy_model::{FastMap, FrameIndex, ProfileBuilder, StackIndex};

/// Finds the stacks of paths, given one after the other.
pub(super) struct Stacks<'a> {
    frames: FastMap<&'a [u8], FrameIndex>,
    /// The path before, and for each of its names where it ends and the stack up to it.
    previous: &'a [u8],
    stacks: Vec<(usize, StackIndex)>,
}

impl<'a> Stacks<'a> {
    pub(super) fn new() -> Self {
        Self {
            frames: FastMap::default(),
            previous: &[],
            stacks: Vec::new(),
        }
    }

    /// The stack of a path; `make` makes the frame of a name that is new.
    pub(super) fn of(
        &mut self,
        path: &'a [u8],
        builder: &mut ProfileBuilder,
        mut make: impl FnMut(&mut ProfileBuilder, &[u8]) -> FrameIndex,
    ) -> Option<StackIndex> {
        self.keep_common(path);
        let mut parent = self.stacks.last().map(|(_, stack)| *stack);
        let mut start = match self.stacks.last() {
            Some((end, _)) if *end == path.len() => path.len() + 1,
            Some((end, _)) => end + 1,
            None => 0,
        };
        while start <= path.len() {
            let length = memchr(b';', &path[start..]);
            let end = length.map_or(path.len(), |length| start + length);
            let name = &path[start..end];
            let frame = match self.frames.get(name) {
                Some(frame) => *frame,
                None => {
                    let frame = make(builder, name);
                    self.frames.insert(name, frame);
                    frame
                }
            };
            let stack = builder.stack(parent, frame);
            parent = Some(stack);
            self.stacks.push((end, stack));
            start = end + 1;
        }
        self.previous = path;
        parent
    }

    /// Keeps the stacks of the names that `path` starts with.
    fn keep_common(&mut self, path: &[u8]) {
        let common = common_start(self.previous, path);
        let ends_there = |end: usize| path.get(end).is_none_or(|byte| *byte == b';');
        let mut kept = self.stacks.partition_point(|(end, _)| *end <= common);
        if kept > 0 && !ends_there(self.stacks[kept - 1].0) {
            kept -= 1;
        }
        self.stacks.truncate(kept);
    }
}

/// How many bytes two texts start with in common.
fn common_start(left: &[u8], right: &[u8]) -> usize {
    const STEP: usize = 32;
    let steps = left.as_chunks::<STEP>().0.iter().zip(right.as_chunks().0);
    let same = steps.take_while(|(left, right)| left == right).count() * STEP;
    let rest = left[same..].iter().zip(&right[same..]);
    same + rest.take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::{About, FrameSpec, FunctionSpec, Notes, WeightUnit};
    use proptest::prelude::*;

    /// The names of every stack that `paths` give, from the root.
    fn read(paths: &[String]) -> Vec<Vec<String>> {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let mut stacks = Stacks::new();
        let found: Vec<StackIndex> = paths
            .iter()
            .map(|path| {
                let make = |builder: &mut ProfileBuilder, name: &[u8]| {
                    builder.frame(FrameSpec {
                        function: FunctionSpec {
                            name: std::str::from_utf8(name).unwrap(),
                            ..FunctionSpec::default()
                        },
                        ..FrameSpec::default()
                    })
                };
                stacks.of(path.as_bytes(), &mut builder, make).unwrap()
            })
            .collect();
        let profile = builder.finish(About::default(), Notes::default());
        let names = |stack: &StackIndex| {
            let mut names: Vec<String> = profile
                .frames_of(*stack)
                .map(|frame| profile.name_of(profile.frame(frame).function).to_owned())
                .collect();
            names.reverse();
            names
        };
        found.iter().map(names).collect()
    }

    #[test]
    fn a_name_that_only_starts_the_same_is_another() {
        let paths = ["a;b", "a;bc", "a;b;c", "a;b", "a", "ab", "", "a;;b"];
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        for (path, names) in paths.iter().zip(read(&paths)) {
            assert_eq!(names.join(";"), *path);
        }
    }

    proptest! {
        #[test]
        fn every_path_is_read_as_it_is_written(mut paths in prop::collection::vec("[ab;]{0,70}", 1..30), is_sorted: bool) {
            if is_sorted {
                paths.sort();
            }
            for (path, names) in paths.iter().zip(read(&paths)) {
                prop_assert_eq!(names.join(";"), path.as_str());
            }
        }
    }
}
