//! What is too little to look at.

use super::rewrite::{Fate, Leftover, rewrite};
use crate::FastMap;
use crate::profile::{FunctionIndex, Profile};

/// What a sample is in when even its outermost frame is small.
const SMALL: &str = "[small]";

/// The profile without call paths that have less than a `share` (0 to 1) of the whole weight;
/// their weight stays with the caller, or is in `[small]` where there is none. A path is its
/// functions from the root, on all threads together and whatever their line and tier.
pub fn without_small(profile: Profile, share: f64) -> Profile {
    let (path_of_stack, totals) = path_weights(&profile);
    let least = profile.total_weight() as f64 * share;
    rewrite(profile, Leftover::Named(SMALL), |step| {
        let path = path_of_stack[step.stack.at()];
        match (totals[path as usize] as f64) < least {
            true => Fate::JoinsCaller,
            false => step.stays(),
        }
    })
}

/// The path of every stack, and the weight of every path with everything below it.
fn path_weights(profile: &Profile) -> (Vec<u32>, Vec<u64>) {
    let mut known: FastMap<(Option<u32>, FunctionIndex), u32> = FastMap::default();
    let mut parents: Vec<Option<u32>> = Vec::new();
    let mut path_of_stack: Vec<u32> = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let parent = stack.parent.map(|parent| path_of_stack[parent.at()]);
        let function = profile.frame(stack.frame).function;
        let path = *known.entry((parent, function)).or_insert_with(|| {
            parents.push(parent);
            parents.len() as u32 - 1
        });
        path_of_stack.push(path);
    }
    let mut totals = vec![0u64; parents.len()];
    for sample in &profile.samples {
        if let Some(stack) = sample.stack {
            let total = &mut totals[path_of_stack[stack.at()] as usize];
            *total = total.saturating_add(sample.weight);
        }
    }
    for path in (0..parents.len()).rev() {
        if let Some(parent) = parents[path] {
            totals[parent as usize] = totals[parent as usize].saturating_add(totals[path]);
        }
    }
    (path_of_stack, totals)
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
