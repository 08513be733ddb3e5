//! Views of a profile with something left out. The profile itself never changes.

use crate::FastMap;
use crate::profile::{Category, Function, Profile, Stack, StackIndex};

/// The profile as views show it: without [`Category::Internal`] frames, whose time goes to their
/// callers.
pub fn without_internals(profile: &Profile) -> Profile {
    hide(profile, |function| function.category == Category::Internal)
}

/// The profile without the frames of some functions; their time goes to their callers. A sample
/// in nothing but such frames keeps its innermost one.
pub fn hide(profile: &Profile, is_hidden: impl Fn(&Function) -> bool) -> Profile {
    let hidden: Vec<bool> = profile.functions.iter().map(is_hidden).collect();
    let mut stacks = Vec::with_capacity(profile.stacks.len());
    let mut known: FastMap<Stack, StackIndex> = FastMap::default();
    let mut intern = |stack: Stack| {
        *known.entry(stack).or_insert_with(|| {
            stacks.push(stack);
            StackIndex(stacks.len() as u32 - 1)
        })
    };
    let mut shown: Vec<Option<StackIndex>> = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let parent = stack.parent.and_then(|parent| shown[parent.at()]);
        let function = profile.frame(stack.frame).function;
        shown.push(if hidden[function.at()] {
            parent
        } else {
            Some(intern(Stack {
                parent,
                frame: stack.frame,
            }))
        });
    }
    let mut samples = profile.samples.clone();
    for sample in &mut samples {
        sample.stack = sample.stack.map(|stack| {
            shown[stack.at()].unwrap_or_else(|| {
                intern(Stack {
                    parent: None,
                    frame: profile.stacks[stack.at()].frame,
                })
            })
        });
    }
    Profile {
        about: profile.about.clone(),
        notes: profile.notes.clone(),
        unit: profile.unit,
        strings: profile.strings.clone(),
        functions: profile.functions.clone(),
        frames: profile.frames.clone(),
        stacks,
        processes: profile.processes.clone(),
        threads: profile.threads.clone(),
        samples,
        deopt_reasons: profile.deopt_reasons.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::about::{About, Process, Thread};
    use crate::builder::{FrameSpec, FunctionSpec, ProfileBuilder};
    use crate::notes::Notes;
    use crate::profile::{ThreadIndex, WeightUnit};
    use crate::tree::function_weights;
    use proptest::prelude::*;

    fn profile_of(stacks: &[(Vec<u8>, u64)]) -> Profile {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let process = builder.process(Process::default());
        builder.thread(Thread {
            process,
            ..Default::default()
        });
        for (names, weight) in stacks {
            let mut stack = None;
            for &name in names {
                let category = if name % 3 == 0 {
                    Category::Internal
                } else {
                    Category::App
                };
                let frame = builder.frame(FrameSpec {
                    function: FunctionSpec {
                        name: &format!("f{name}"),
                        category,
                        ..Default::default()
                    },
                    ..Default::default()
                });
                stack = Some(builder.stack(stack, frame));
            }
            builder.sample(0, ThreadIndex(0), stack, *weight);
        }
        builder.finish(About::default(), Notes::default())
    }

    #[test]
    fn time_of_hidden_frames_goes_to_their_callers() {
        let profile = profile_of(&[(vec![3, 1, 6], 2), (vec![3, 1, 3, 2], 1), (vec![3], 4)]);
        let shown = without_internals(&profile);
        let weights = function_weights(&shown, |_| true);
        let of = |name: &str| {
            weights
                .iter()
                .find(|entry| shown.name_of(entry.function) == name)
                .map(|entry| (entry.self_weight, entry.total_weight))
        };
        assert_eq!(of("f1"), Some((2, 3)));
        assert_eq!(of("f2"), Some((1, 1)));
        // Nothing else to show for these samples.
        assert_eq!(of("f3"), Some((4, 4)));
        assert_eq!(of("f6"), None);
    }

    proptest! {
        #[test]
        fn hiding_keeps_the_total(stacks in prop::collection::vec((prop::collection::vec(0u8..8, 0..12), 1u64..9), 0..20)) {
            let profile = profile_of(&stacks);
            let shown = without_internals(&profile);
            prop_assert_eq!(shown.total_weight(), profile.total_weight());
            for (position, stack) in shown.stacks.iter().enumerate() {
                prop_assert!(stack.parent.is_none_or(|parent| parent.at() < position));
            }
        }

        #[test]
        fn counting_agrees_with_counting_by_hand(stacks in prop::collection::vec((prop::collection::vec(0u8..5, 0..9), 1u64..9), 0..20)) {
            let profile = profile_of(&stacks);
            for entry in function_weights(&profile, |_| true) {
                let name = profile.name_of(entry.function).to_owned();
                let of = |pick: &dyn Fn(&[u8]) -> bool| -> u64 {
                    stacks.iter().filter(|(names, _)| pick(names)).map(|(_, weight)| weight).sum()
                };
                let is = |number: &u8| format!("f{number}") == name;
                prop_assert_eq!(entry.total_weight, of(&|names| names.iter().any(is)));
                prop_assert_eq!(entry.self_weight, of(&|names| names.last().is_some_and(is)));
            }
        }
    }
}
