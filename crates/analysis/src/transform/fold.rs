//! Packages as one frame each.

use super::rewrite::{Fate, Leftover, frame_called, rewrite};
use crate::package::Package;
use nodespy_model::FastMap;
use nodespy_model::{Category, FrameIndex, FunctionIndex, Profile};

/// Frames of one package that follow one another become one frame with the package's name in
/// brackets, for the packages that `is_folded` accepts.
pub fn fold(mut profile: Profile, is_folded: impl Fn(&Package) -> bool) -> Profile {
    let mut frames: FastMap<(String, Category), FrameIndex> = FastMap::default();
    let mut folded = Vec::with_capacity(profile.functions.len());
    for position in 0..profile.functions.len() {
        let function = FunctionIndex(position as u32);
        let package = Package::of(&profile, function);
        folded.push(is_folded(&package).then(|| {
            let name = format!("[{}]", package.name);
            let category = package.kind.category();
            *frames
                .entry((name, category))
                .or_insert_with_key(|(name, category)| frame_called(&mut profile, name, *category))
        }));
    }
    // The packages' own frames stay as they are.
    folded.resize(profile.functions.len(), None);
    rewrite(profile, Leftover::Innermost, |step| {
        match folded[step.function().at()] {
            None if step.caller == Some(step.frame) => Fate::JoinsCaller,
            None => step.stays(),
            package if package == step.caller => Fate::JoinsCaller,
            Some(package) => Fate::Stays(package),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::PackageKind;
    use crate::testing::{assert_sound, folded, profile_of, random_profile, random_stacks};
    use proptest::prelude::*;

    fn is_dependency(package: &Package) -> bool {
        package.kind == PackageKind::Dependency
    }

    #[test]
    fn frames_of_a_package_that_follow_one_another_become_one() {
        let express = "d:handle@/srv/node_modules/express/lib/router.js";
        let next = "d:next@/srv/node_modules/express/lib/layer.js";
        let body = "d:parse@/srv/node_modules/@scope/body/index.js";
        let profile = profile_of(&format!(
            "a;{express};{next} 2\na;{express};{next};b;{next} 1\na;{next};{body} 4"
        ));
        assert_eq!(
            folded(&fold(profile, is_dependency)),
            [
                "a;[express] 2",
                "a;[express];[@scope/body] 4",
                "a;[express];b;[express] 1"
            ]
        );
    }

    proptest! {
        #[test]
        fn folding_keeps_the_total(stacks in random_stacks()) {
            let profile = random_profile(&stacks);
            let total = profile.total_weight();
            for kind in [PackageKind::App, PackageKind::Dependency, PackageKind::V8] {
                let shown = fold(profile.clone(), |package| package.kind == kind);
                prop_assert_eq!(shown.total_weight(), total);
                assert_sound(&shown);
            }
        }
    }
}
