//! Some threads, as if only they had been recorded.

use nodespy_model::{ProcessIndex, Profile, ThreadIndex};

/// The samples of some threads, without the other threads and the processes of which none is left.
pub fn only_threads(
    mut profile: Profile,
    is_wanted: impl Fn(&Profile, ThreadIndex) -> bool,
) -> Profile {
    let wanted: Vec<bool> = (0..profile.threads.len())
        .map(|position| is_wanted(&profile, ThreadIndex(position as u32)))
        .collect();
    let mut has_thread = vec![false; profile.processes.len()];
    for (thread, _) in profile.threads.iter().zip(&wanted).filter(|each| *each.1) {
        has_thread[thread.process.at()] = true;
    }
    retain_at(&mut profile.threads, &wanted);
    retain_at(&mut profile.processes, &has_thread);
    let new_process = positions_after(&has_thread);
    for thread in &mut profile.threads {
        thread.process = ProcessIndex(new_process[thread.process.at()]);
    }
    let new_thread = positions_after(&wanted);
    profile.samples.retain_mut(|sample| {
        let is_kept = wanted[sample.thread.at()];
        sample.thread = ThreadIndex(new_thread[sample.thread.at()]);
        is_kept
    });
    profile
}

/// Keeps the rows at which `is_kept` is true.
pub(super) fn retain_at<T>(rows: &mut Vec<T>, is_kept: &[bool]) {
    let mut position = 0;
    rows.retain(|_| {
        position += 1;
        is_kept[position - 1]
    });
}

/// Where each row is once those not kept are gone.
pub(super) fn positions_after(is_kept: &[bool]) -> Vec<u32> {
    let mut next = 0;
    let place = |is_kept: &bool| {
        let position = next;
        next += u32::from(*is_kept);
        position
    };
    is_kept.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::Notes;
    use nodespy_model::ProfileBuilder;
    use nodespy_model::WeightUnit;
    use nodespy_model::{About, Process, Thread};

    #[test]
    fn other_threads_and_their_processes_are_gone() {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        for pid in [10, 20] {
            let process = builder.process(Process {
                pid,
                ..Process::default()
            });
            for tid in [pid, pid + 1] {
                let thread = builder.thread(Thread {
                    process,
                    tid,
                    ..Thread::default()
                });
                builder.sample(u64::from(tid), thread, None, u64::from(tid));
            }
        }
        let profile = builder.finish(About::default(), Notes::default());
        let of = |pick: &dyn Fn(u32) -> bool| {
            only_threads(profile.clone(), |profile, thread| {
                pick(profile.threads[thread.at()].tid)
            })
        };
        let second = of(&|tid| tid == 21);
        assert_eq!(second.processes.len(), 1);
        assert_eq!(second.processes[0].pid, 20);
        assert_eq!(second.threads[0].process, ProcessIndex(0));
        assert_eq!(second.samples.len(), 1);
        assert_eq!(second.samples[0].thread, ThreadIndex(0));
        assert_eq!(second.total_weight(), 21);
        assert_eq!(of(&|tid| tid != 21).total_weight(), 41);
        assert_eq!(of(&|_| true), profile);
        assert!(of(&|_| false).processes.is_empty());
    }
}
