//! V8's compilers apart: a function by each that made code of it.

use nodespy_model::{FunctionIndex, Profile, Tier};

/// Each function once for every compiler, distinguished by V8's marks before the name: `~` for the
/// interpreter, `^` baseline, `+` Maglev, `*` optimized. A profile as it is counts them together.
pub fn split_tiers(mut profile: Profile) -> Profile {
    let whole = profile.functions.len();
    let mut by_tier = vec![[None; Tier::ALL.len()]; whole];
    for position in 0..profile.frames.len() {
        let frame = profile.frames[position];
        if frame.tier == Tier::None || is_marked(&profile, frame.function, frame.tier) {
            continue;
        }
        let slot = &mut by_tier[frame.function.at()][frame.tier as usize];
        let function = *slot.get_or_insert_with(|| {
            let name = format!("{}{}", frame.tier.mark(), profile.name_of(frame.function));
            let name = profile.strings.push(&name);
            let mut function = *profile.function(frame.function);
            function.name = name;
            profile.functions.push(function);
            FunctionIndex(profile.functions.len() as u32 - 1)
        });
        profile.frames[position].function = function;
    }
    for rows in [&mut profile.deopt_reasons, &mut profile.generated_places] {
        for (function, text) in std::mem::take(rows) {
            rows.push((function, text));
            let parts = by_tier[function.at()].iter().flatten();
            rows.extend(parts.map(|part| (*part, text)));
        }
    }
    profile
}

/// Whether a function bears the mark already.
fn is_marked(profile: &Profile, function: FunctionIndex, tier: Tier) -> bool {
    profile.name_of(function).starts_with(tier.mark())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_sound, folded, profile_of, random_profile, random_stacks};
    use proptest::prelude::*;

    #[test]
    fn tiers_are_together_until_they_are_split() {
        let profile = profile_of("a;*f 2\na;~f 1\na;+f 3\na;^f;k:read 4");
        assert_eq!(folded(&profile), ["a;f 6", "a;f;read 4"]);
        assert_eq!(
            folded(&split_tiers(profile)),
            ["a;*f 2", "a;+f 3", "a;^f;read 4", "a;~f 1"]
        );
    }

    proptest! {
        #[test]
        fn splitting_keeps_every_stack(stacks in random_stacks()) {
            let profile = random_profile(&stacks);
            let shown = split_tiers(profile.clone());
            prop_assert_eq!(&shown.stacks, &profile.stacks);
            prop_assert_eq!(&shown.samples, &profile.samples);
            assert_sound(&shown);
            prop_assert_eq!(&split_tiers(shown.clone()), &shown);
        }
    }
}
