//! One kind of code, and the time of everything it called.

use super::rewrite::{Fate, Leftover, of_functions, rewrite};
use nodespy_model::{Category, Profile};

/// Kinds of code that can be looked at alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeKind {
    /// JavaScript, regular expressions and WebAssembly: what has a source. The time of V8's builtins
    /// and inline caches is that of the function that runs them.
    JavaScript,
    /// C and C++, the garbage collector included, and code without a name.
    Native,
    /// The kernel.
    Kernel,
    /// The application's own JavaScript.
    App,
}

impl CodeKind {
    /// What it is called on a command line.
    pub fn label(self) -> &'static str {
        match self {
            Self::JavaScript => "js",
            Self::Native => "native",
            Self::Kernel => "kernel",
            Self::App => "app",
        }
    }

    /// Whether code of a category is of this kind.
    pub fn has(self, category: Category) -> bool {
        match self {
            // Builtins and entry stubs are V8's.
            Self::JavaScript => {
                category.is_javascript()
                    && !matches!(category, Category::Internal | Category::Builtin)
            }
            Self::Native => matches!(
                category,
                Category::Native | Category::Gc | Category::Unknown | Category::Internal
            ),
            Self::Kernel => category == Category::Kernel,
            Self::App => category == Category::App,
        }
    }
}

/// The frames of some kinds of code. The time of other frames goes to the nearest caller that is
/// left; samples in which there is none are left out, as pprof's `-show` does it.
pub fn only(profile: Profile, kinds: &[CodeKind]) -> Profile {
    let is_shown = of_functions(&profile, |profile, function| {
        let category = profile.function(function).category;
        kinds.iter().any(|kind| kind.has(category))
    });
    rewrite(profile, Leftover::Dropped, |step| {
        match is_shown[step.function().at()] {
            true => step.stays(),
            false => Fate::JoinsCaller,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_sound, folded, profile_of, random_profile, random_stacks};
    use proptest::prelude::*;

    #[test]
    fn callees_of_other_kinds_count_for_their_caller() {
        let profile =
            profile_of("n:main;a;d:dep;b:LoadIC;n:write;k:sys_write 2\nn:main;k:poll 4\n 1");
        let of = |kinds: &[CodeKind]| folded(&only(profile.clone(), kinds));
        assert_eq!(of(&[CodeKind::JavaScript]), ["a;dep 2"]);
        assert_eq!(of(&[CodeKind::App]), ["a 2"]);
        assert_eq!(of(&[CodeKind::Native]), ["main 4", "main;write 2"]);
        assert_eq!(
            of(&[CodeKind::App, CodeKind::Kernel]),
            ["a;sys_write 2", "poll 4"]
        );
    }

    proptest! {
        #[test]
        fn nothing_is_added_and_a_second_time_changes_nothing(stacks in random_stacks()) {
            let profile = random_profile(&stacks);
            let total = profile.total_weight();
            for kind in [CodeKind::JavaScript, CodeKind::Native, CodeKind::Kernel, CodeKind::App] {
                let shown = only(profile.clone(), &[kind]);
                prop_assert!(shown.total_weight() <= total);
                assert_sound(&shown);
                prop_assert_eq!(&only(shown.clone(), &[kind]), &shown);
            }
        }
    }
}
