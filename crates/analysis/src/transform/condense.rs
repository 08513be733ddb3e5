//! A profile for counting only: what was observed when goes, how much of it stays.

use nodespy_model::{Profile, Sample};

/// A copy with one sample where one stack of one thread had many, all at time 0: every count comes
/// out the same, and further filters have less to go through. The text of sources stays behind.
pub fn condensed(profile: &Profile) -> Profile {
    // Nearly every stack is of one thread only; one of several gets a sample more now and then.
    let mut rows: Vec<Option<usize>> = vec![None; profile.stacks.len() + 1];
    let mut samples: Vec<Sample> = Vec::new();
    for sample in &profile.samples {
        let slot = &mut rows[sample.stack.map_or(0, |stack| stack.at() + 1)];
        let tags = |sample: &Sample| (sample.thread, sample.event, sample.context);
        let known = slot.filter(|row| tags(&samples[*row]) == tags(sample));
        match known {
            Some(row) => samples[row].weight = samples[row].weight.saturating_add(sample.weight),
            None => {
                *slot = Some(samples.len());
                samples.push(Sample {
                    time: 0,
                    cpu: None,
                    ..*sample
                });
            }
        }
    }
    Profile {
        about: profile.about.clone(),
        notes: profile.notes.clone(),
        events: profile.events.clone(),
        contexts: profile.contexts.clone(),
        strings: profile.strings.clone(),
        functions: profile.functions.clone(),
        frames: profile.frames.clone(),
        stacks: profile.stacks.clone(),
        processes: profile.processes.clone(),
        threads: profile.threads.clone(),
        samples,
        deopt_reasons: profile.deopt_reasons.clone(),
        generated_places: profile.generated_places.clone(),
        sources: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_sound, random_profile, random_stacks};
    use crate::{CallTree, function_weights, thread_weights};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_stay_what_they_were(stacks in random_stacks()) {
            let profile = random_profile(&stacks);
            let counted = condensed(&profile);
            assert_sound(&counted);
            prop_assert_eq!(function_weights(&counted, |_| true), function_weights(&profile, |_| true));
            prop_assert_eq!(thread_weights(&counted), thread_weights(&profile));
            let total = |profile: &Profile| CallTree::of(profile, |_| true).total_weight();
            prop_assert_eq!(total(&counted), total(&profile));
        }
    }
}
