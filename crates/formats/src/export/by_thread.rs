//! What each thread uses of a profile, at the cost of what it uses: a profile may have as many
//! threads as samples or stacks.

use nodespy_model::{FastSet, Profile, Sample, StackIndex};

/// The samples of every thread, in order of time.
pub(crate) fn samples_by_thread(profile: &Profile) -> Vec<Vec<&Sample>> {
    let mut threads = vec![Vec::new(); profile.threads.len()];
    for sample in &profile.samples {
        threads[sample.thread.at()].push(sample);
    }
    threads
}

/// The stacks of samples and of their callers, parents first.
pub(crate) fn stacks_of(profile: &Profile, samples: &[&Sample]) -> Vec<StackIndex> {
    let mut seen: FastSet<StackIndex> = FastSet::default();
    for sample in samples {
        let mut next = sample.stack;
        while let Some(stack) = next.filter(|stack| seen.insert(*stack)) {
            next = profile.stacks[stack.at()].parent;
        }
    }
    let mut stacks: Vec<StackIndex> = seen.into_iter().collect();
    stacks.sort_unstable();
    stacks
}
