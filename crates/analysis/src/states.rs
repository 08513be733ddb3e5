//! What threads did with their time, where samples say so: on a CPU, without one, waiting, idle.

use std::borrow::Cow;
use std::cmp::Reverse;

use nodespy_model::{
    ContextIndex, FastMap, Profile, SmallSort, ThreadIndex, ThreadRole, label_key, state,
};

use crate::transform::without_idle;

/// What a thread did with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTime {
    /// Which one.
    pub thread: ThreadIndex,
    /// It ran.
    pub on_cpu: u64,
    /// It could have run and had no CPU.
    pub runnable: u64,
    /// It waited for work.
    pub idle: u64,
    /// It waited for something else: for what, and how long, the longest first.
    pub waits: Vec<(String, u64)>,
}

impl ThreadTime {
    /// How long it waited for something else than work.
    pub fn waiting(&self) -> u64 {
        let times = self.waits.iter().map(|(_, time)| *time);
        times.fold(0, u64::saturating_add)
    }

    /// All of its time.
    pub fn total(&self) -> u64 {
        let parts = [self.on_cpu, self.runnable, self.idle, self.waiting()];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// What a context says of the state of a thread.
struct State<'a> {
    state: &'a str,
    wait: &'a str,
}

fn states_of(profile: &Profile) -> Vec<Option<State<'_>>> {
    let of = |position: usize| {
        let labels = profile.contexts.get(ContextIndex(position as u32));
        Some(State {
            state: labels.get(label_key::STATE)?,
            wait: labels.get(label_key::WAIT).unwrap_or("other"),
        })
    };
    (0..profile.contexts.len()).map(of).collect()
}

/// Whether the samples say what threads were doing.
pub fn has_states(profile: &Profile) -> bool {
    let mut contexts = profile.contexts.iter();
    contexts.any(|labels| labels.get(label_key::STATE).is_some())
}

/// The profile without idle time, where samples say what is: every thread of a process waits for
/// work most of the time, and nothing else could be seen.
pub fn without_idle_states(profile: &Profile) -> Cow<'_, Profile> {
    match has_states(profile) {
        true => Cow::Owned(without_idle(profile.clone())),
        false => Cow::Borrowed(profile),
    }
}

/// What every thread did with its time: main threads first, then workers, of both those first that
/// were idle the least. Empty where samples don't say it.
pub fn thread_times(profile: &Profile) -> Vec<ThreadTime> {
    profile.assert_one_event();
    let states = states_of(profile);
    let mut times: FastMap<ThreadIndex, (ThreadTime, FastMap<&str, u64>)> = FastMap::default();
    for sample in &profile.samples {
        let Some(Some(of)) = states.get(sample.context.0 as usize) else {
            continue;
        };
        let (time, waits) = times.entry(sample.thread).or_insert_with(|| {
            let time = ThreadTime {
                thread: sample.thread,
                on_cpu: 0,
                runnable: 0,
                idle: 0,
                waits: Vec::new(),
            };
            (time, FastMap::default())
        });
        let part = match of.state {
            state::ON_CPU => &mut time.on_cpu,
            state::RUNNABLE => &mut time.runnable,
            state::IDLE => &mut time.idle,
            _ => waits.entry(of.wait).or_default(),
        };
        *part = part.saturating_add(sample.weight);
    }
    let mut times: Vec<ThreadTime> = times
        .into_values()
        .map(|(mut time, waits)| {
            let waits = waits.into_iter();
            time.waits = waits.map(|(kind, time)| (kind.to_owned(), time)).collect();
            time.waits
                .small_sort_by(|(kind, time), (other, than)| than.cmp(time).then(kind.cmp(other)));
            time
        })
        .collect();
    let rank = |time: &ThreadTime| match profile.threads[time.thread.at()].role {
        ThreadRole::Main => 0,
        ThreadRole::Worker => 1,
        _ => 2,
    };
    times.small_sort_by_key(|time| {
        let busy = time.total().saturating_sub(time.idle);
        (rank(time), Reverse(busy), time.thread)
    });
    times
}

/// Which samples were taken while their thread ran, by context; all where samples don't say it.
pub(crate) fn on_cpu_contexts(profile: &Profile) -> Vec<bool> {
    let is_on_cpu = |of: &Option<State<'_>>| of.as_ref().is_none_or(|of| of.state == state::ON_CPU);
    states_of(profile).iter().map(is_on_cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::{
        About, EventType, Labels, Notes, Process, ProfileBuilder, Sample, Thread, WeightUnit,
    };

    fn profile() -> Profile {
        let mut builder = ProfileBuilder::new(EventType::new("wall", WeightUnit::Nanoseconds));
        let process = builder.process(Process::default());
        let roles = [ThreadRole::Pool, ThreadRole::Main];
        let threads = roles.map(|role| {
            builder.thread(Thread {
                process,
                role,
                tid: role as u32 + 1,
                ..Thread::default()
            })
        });
        for (thread, of, wait, weight) in [
            (0, state::IDLE, "a job", 100),
            (1, state::ON_CPU, "", 30),
            (1, state::WAITING, "file", 10),
            (1, state::WAITING, "Atomics.wait", 40),
            (1, state::IDLE, "events", 15),
            (1, state::RUNNABLE, "", 5),
        ] {
            let mut labels = Labels::default();
            labels.set(label_key::STATE, of);
            labels.set(label_key::WAIT, wait);
            let context = builder.context(labels);
            builder.add_sample(Sample {
                thread: threads[thread],
                weight,
                context,
                ..Sample::default()
            });
        }
        builder.finish(About::default(), Notes::default())
    }

    #[test]
    fn every_thread_has_its_states_the_main_one_first() {
        let profile = profile();
        let times = thread_times(&profile);
        let main = &times[0];
        assert_eq!((main.on_cpu, main.runnable, main.idle), (30, 5, 15));
        let waits: Vec<(&str, u64)> = main.waits.iter().map(|(it, time)| (&**it, *time)).collect();
        assert_eq!(waits, [("Atomics.wait", 40), ("file", 10)]);
        assert_eq!((main.total(), times[1].total()), (100, 100));
        assert_eq!(times[1].idle, 100);
        assert!(has_states(&profile));
        let on_cpu = on_cpu_contexts(&profile);
        assert_eq!(on_cpu.iter().filter(|is_on_cpu| **is_on_cpu).count(), 2);
    }

    #[test]
    fn a_profile_that_does_not_say_it_has_none() {
        assert!(thread_times(&Profile::default()).is_empty());
        assert!(!has_states(&Profile::default()));
    }
}
