//! Which samples stay, by the functions of their stacks.

use super::rewrite::of_functions;
use nodespy_model::{Category, FunctionIndex, Profile};

/// The samples with a function that matches anywhere in their stack.
pub fn focus(profile: Profile, is_match: impl Fn(&Profile, FunctionIndex) -> bool) -> Profile {
    keep(profile, is_match, true)
}

/// The samples without any function that matches. Samples without a stack stay.
pub fn ignore(profile: Profile, is_match: impl Fn(&Profile, FunctionIndex) -> bool) -> Profile {
    keep(profile, is_match, false)
}

/// The samples in which something was done.
pub fn without_idle(profile: Profile) -> Profile {
    ignore(profile, |profile, function| {
        profile.function(function).category == Category::Idle
    })
}

fn keep(
    mut profile: Profile,
    is_match: impl Fn(&Profile, FunctionIndex) -> bool,
    keeps_matches: bool,
) -> Profile {
    let matching = of_functions(&profile, is_match);
    // Parents come first, so one pass decides for every stack whether any of its frames matches.
    let mut has_match: Vec<bool> = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let function = profile.frame(stack.frame).function;
        let is_below = stack.parent.is_some_and(|parent| has_match[parent.at()]);
        has_match.push(is_below || matching[function.at()]);
    }
    profile
        .samples
        .retain(|sample| sample.stack.is_some_and(|stack| has_match[stack.at()]) == keeps_matches);
    profile
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_sound, folded, named, profile_of, random_profile, random_stacks};
    use proptest::prelude::*;

    #[test]
    fn a_match_anywhere_decides() {
        let profile = profile_of("a;b;c 2\na;c 1\nb 4\n 3");
        assert_eq!(
            folded(&focus(profile.clone(), named("b"))),
            ["a;b;c 2", "b 4"]
        );
        assert_eq!(folded(&ignore(profile, named("b"))), [" 3", "a;c 1"]);
    }

    #[test]
    fn idle_samples_go() {
        let profile = profile_of("idle:(idle) 5\na 1");
        assert_eq!(folded(&without_idle(profile)), ["a 1"]);
    }

    proptest! {
        #[test]
        fn focus_and_ignore_share_the_samples_between_them(stacks in random_stacks()) {
            let profile = random_profile(&stacks);
            let total = profile.total_weight();
            let inside = focus(profile.clone(), named("a|d"));
            let outside = ignore(profile, named("a|d"));
            prop_assert_eq!(inside.total_weight() + outside.total_weight(), total);
            assert_sound(&inside);
            prop_assert_eq!(&focus(inside.clone(), named("a|d")), &inside);
            prop_assert_eq!(focus(outside, named("a|d")).total_weight(), 0);
        }
    }
}
