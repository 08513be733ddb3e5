//! What is too little to look at.

use super::rewrite::{Fate, Leftover, rewrite};
use crate::tree::{NodeIndex, TreeNode};
use nodespy_model::RowIndex;
use nodespy_model::{EventIndex, FunctionIndex, Profile, Sample};

/// What a sample is in when even its outermost frame is small.
const SMALL: &str = "[small]";

/// The profile without call paths that have less than a `share` (0 to 1) of the whole weight of
/// every event; their weight stays with the caller, or is in `[small]` where there is none. A path is its
/// functions from the root, on all threads together and whatever their line and tier.
pub fn without_small(profile: Profile, share: f64) -> Profile {
    let (path_of_stack, paths) = paths_of(&profile);
    let mut is_small = vec![true; paths.len()];
    for position in 0..profile.events.len() {
        let event = EventIndex(position as u16);
        let samples = || profile.samples.iter().filter(|it| it.event == event);
        let whole = samples().fold(0u64, |sum, sample| sum.saturating_add(sample.weight));
        let least = whole as f64 * share;
        let totals = path_weights(&path_of_stack, &paths, samples());
        for (is_small, total) in is_small.iter_mut().zip(totals) {
            *is_small &= (total as f64) < least;
        }
    }
    rewrite(profile, Leftover::Named(SMALL), |step| {
        match is_small[path_of_stack[step.stack.at()].0 as usize] {
            true => Fate::JoinsCaller,
            false => step.stays(),
        }
    })
}

/// A function and the path it was called by.
struct Path {
    caller: Option<NodeIndex>,
    function: FunctionIndex,
}

/// The path of every stack, and all paths.
fn paths_of(profile: &Profile) -> (Vec<NodeIndex>, Vec<Path>) {
    let mut known = RowIndex::with_room(profile.stacks.len());
    let mut paths: Vec<Path> = Vec::new();
    let mut path_of_stack: Vec<NodeIndex> = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let path = Path {
            caller: stack.parent.map(|parent| path_of_stack[parent.at()]),
            function: profile.frame(stack.frame).function,
        };
        let key = |path: &Path| TreeNode::key(path.caller, path.function);
        path_of_stack.push(NodeIndex(known.intern_by(&mut paths, path, key)));
    }
    (path_of_stack, paths)
}

/// The weight of every path with everything below it.
fn path_weights<'p>(
    path_of_stack: &[NodeIndex],
    paths: &[Path],
    samples: impl Iterator<Item = &'p Sample>,
) -> Vec<u64> {
    let mut totals = vec![0u64; paths.len()];
    for sample in samples {
        if let Some(stack) = sample.stack {
            let total = &mut totals[path_of_stack[stack.at()].0 as usize];
            *total = total.saturating_add(sample.weight);
        }
    }
    for (position, path) in paths.iter().enumerate().rev() {
        if let Some(caller) = path.caller {
            let total = totals[position];
            let of_caller = &mut totals[caller.0 as usize];
            *of_caller = of_caller.saturating_add(total);
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_sound, folded, profile_of, random_profile, random_stacks};
    use crate::tree::CallTree;
    use proptest::prelude::*;

    #[test]
    fn small_paths_count_for_their_caller() {
        let profile = profile_of("a;b 50\na;c 3\na;d;e 46\n*x 1\n~y 1");
        assert_eq!(
            folded(&without_small(profile, 0.05)),
            ["[small] 2", "a 3", "a;b 50", "a;d;e 46"]
        );
    }

    proptest! {
        #[test]
        fn what_is_left_is_not_small_and_weighs_the_same(stacks in random_stacks()) {
            let profile = random_profile(&stacks);
            let total = profile.total_weight();
            let shown = without_small(profile, 0.1);
            prop_assert_eq!(shown.total_weight(), total);
            assert_sound(&shown);
            for node in CallTree::of(&shown, |_| true).nodes {
                let is_small = (node.total_weight as f64) < total as f64 * 0.1;
                prop_assert!(!is_small || shown.name_of(node.function) == SMALL);
            }
            prop_assert_eq!(&without_small(shown.clone(), 0.1), &shown);
        }
    }
}
