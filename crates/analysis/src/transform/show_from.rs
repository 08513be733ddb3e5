//! Stacks from a function on, without the way to it.

use super::rewrite::{Fate, Leftover, of_functions, rewrite};
use nodespy_model::{FunctionIndex, Profile};

/// Stacks from the first function that matches, seen from the root. Samples without one are left
/// out, as pprof's `-show_from` does it.
pub fn show_from(profile: Profile, is_match: impl Fn(&Profile, FunctionIndex) -> bool) -> Profile {
    let matching = of_functions(&profile, is_match);
    rewrite(profile, Leftover::Dropped, |step| {
        // A caller that is still shown has had the match already.
        match step.caller.is_some() || matching[step.function().at()] {
            true => step.stays(),
            false => Fate::JoinsCaller,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_sound, folded, named, profile_of, random_profile, random_stacks};
    use proptest::prelude::*;

    #[test]
    fn stacks_start_at_the_outermost_match() {
        let profile = profile_of("a;b;c;b;d 2\ne;b 1\na;c 4\n 3");
        assert_eq!(
            folded(&show_from(profile, named("b"))),
            ["b 1", "b;c;b;d 2"]
        );
    }

    proptest! {
        #[test]
        fn it_weighs_what_focus_weighs(stacks in random_stacks()) {
            let profile = random_profile(&stacks);
            let focused = super::super::focus(profile.clone(), named("b|e")).total_weight();
            let shown = show_from(profile, named("b|e"));
            prop_assert_eq!(shown.total_weight(), focused);
            assert_sound(&shown);
            prop_assert_eq!(&show_from(shown.clone(), named("b|e")), &shown);
        }
    }
}
