//! Frames go, their time stays.

use super::rewrite::{Fate, Leftover, of_functions, rewrite};
use nodespy_model::{Category, FunctionIndex, Profile};

/// What a sample is in when all of its frames are hidden.
const HIDDEN: &str = "[hidden]";

/// The profile without the frames of some functions; their time goes to their callers. Samples in
/// nothing but such frames are in `[hidden]`.
pub fn hide(profile: Profile, is_hidden: impl Fn(&Profile, FunctionIndex) -> bool) -> Profile {
    hide_or(profile, is_hidden, Leftover::Named(HIDDEN))
}

/// The profile as views show it: without [`Category::Internal`] frames, whose time goes to their
/// callers. A sample in nothing but such frames keeps its innermost one.
pub fn without_internals(profile: Profile) -> Profile {
    let is_internal = |profile: &Profile, function: FunctionIndex| {
        profile.function(function).category == Category::Internal
    };
    hide_or(profile, is_internal, Leftover::Innermost)
}

fn hide_or(
    profile: Profile,
    is_hidden: impl Fn(&Profile, FunctionIndex) -> bool,
    leftover: Leftover,
) -> Profile {
    let hidden = of_functions(&profile, is_hidden);
    if !hidden.contains(&true) {
        return profile;
    }
    rewrite(profile, leftover, |step| {
        match hidden[step.function().at()] {
            true => Fate::JoinsCaller,
            false => step.stays(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_sound, folded, named, profile_of, random_profile, random_stacks};
    use proptest::prelude::*;

    #[test]
    fn time_of_hidden_frames_goes_to_their_callers() {
        let profile = profile_of("i:start;a;i:stub 2\ni:start;a;i:start;b 1\ni:start 4");
        assert_eq!(
            folded(&without_internals(profile)),
            ["a 2", "a;b 1", "start 4"]
        );
    }

    #[test]
    fn samples_in_nothing_but_hidden_frames_are_said_to_be_hidden() {
        let profile = profile_of("a;b 2\na;b;c 1\nb 4\n 3");
        let shown = hide(profile, named("a|b"));
        assert_eq!(folded(&shown), [" 3", "[hidden] 6", "c 1"]);
        assert_eq!(
            folded(&hide(shown, named("[hidden]"))),
            [" 3", "[hidden] 6", "c 1"]
        );
    }

    proptest! {
        #[test]
        fn hiding_keeps_the_total_and_hides_all(stacks in random_stacks()) {
            let profile = random_profile(&stacks);
            let total = profile.total_weight();
            for shown in [without_internals(profile.clone()), hide(profile, named("a|b|c"))] {
                prop_assert_eq!(shown.total_weight(), total);
                assert_sound(&shown);
                prop_assert_eq!(&hide(shown.clone(), named("a|b|c")), &hide(hide(shown, named("a|b|c")), named("a|b|c")));
            }
        }
    }
}
