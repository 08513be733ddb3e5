//! A function that calls itself, shown once.

use super::rewrite::{Fate, Leftover, rewrite};
use nodespy_model::Profile;

/// Frames of one function that follow one another become the outermost of them. Recursion through
/// other functions stays: what calls what would be lost.
pub fn collapse_recursion(profile: Profile) -> Profile {
    rewrite(profile, Leftover::Innermost, |step| {
        let caller = step.caller.map(|frame| step.profile.frame(frame).function);
        match caller == Some(step.function()) {
            true => Fate::JoinsCaller,
            false => step.stays(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_sound, folded, profile_of, random_profile, random_stacks};
    use crate::weights::function_weights;
    use proptest::prelude::*;

    #[test]
    fn only_calls_right_after_one_another_are_collapsed() {
        let profile = profile_of("a;f;f;f;g;f 2\na;f;f 1\n*f;~f 1");
        assert_eq!(
            folded(&collapse_recursion(profile)),
            ["a;f 1", "a;f;g;f 2", "f 1"]
        );
    }

    proptest! {
        #[test]
        fn every_function_keeps_its_weight(stacks in random_stacks()) {
            let profile = random_profile(&stacks);
            let before = function_weights(&profile, |_| true);
            let shown = collapse_recursion(profile);
            prop_assert_eq!(function_weights(&shown, |_| true), before);
            assert_sound(&shown);
            prop_assert_eq!(&collapse_recursion(shown.clone()), &shown);
        }
    }
}
