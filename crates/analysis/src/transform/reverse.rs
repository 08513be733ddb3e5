//! Callers as callees: every stack turned around, its leaf at the root.

use nodespy_model::Branches;
use nodespy_model::{Profile, Stack, StackIndex};

/// The profile with every stack turned around. What a function was called by then stands on it, so
/// that a tree of the result shows the callers of a hot leaf.
pub fn reverse(mut profile: Profile) -> Profile {
    let mut stacks: Vec<Stack> = Vec::new();
    let mut branches = Branches::default();
    let mut turned: Vec<Option<StackIndex>> = vec![None; profile.stacks.len()];
    let mut samples = std::mem::take(&mut profile.samples);
    for sample in &mut samples {
        let Some(stack) = sample.stack else {
            continue;
        };
        if turned[stack.at()].is_none() {
            let mut parent = None;
            for frame in profile.frames_of(stack) {
                parent = Some(branches.stack(&mut stacks, Stack { parent, frame }));
            }
            turned[stack.at()] = parent;
        }
        sample.stack = turned[stack.at()];
    }
    Profile {
        samples,
        stacks,
        ..profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_sound, folded, profile_of, random_profile, random_stacks};
    use proptest::prelude::*;

    #[test]
    fn leaves_become_roots() {
        let profile = profile_of("a;b;c 2\nd;c 1\n 3");
        let mut lines = folded(&reverse(profile));
        lines.sort();
        assert_eq!(lines.last().unwrap(), "c;d 1");
        assert!(lines.contains(&"c;b;a 2".to_owned()));
    }

    proptest! {
        #[test]
        fn turning_around_twice_changes_nothing(stacks in random_stacks()) {
            let profile = random_profile(&stacks);
            let turned = reverse(profile.clone());
            assert_sound(&turned);
            prop_assert_eq!(folded(&reverse(turned)), folded(&profile));
        }
    }
}
