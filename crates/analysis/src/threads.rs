//! Counting by thread: who ran, and how much of the time.

use nodespy_model::{Category, Profile, SmallSort, ThreadIndex, WeightUnit};
use nodespy_model::{Thread, ThreadRole};

use crate::states::on_cpu_contexts;

/// The weight of every thread that has any, heaviest first.
pub fn thread_weights(profile: &Profile) -> Vec<(ThreadIndex, u64)> {
    profile.assert_one_event();
    let mut weights = vec![0u64; profile.threads.len()];
    for sample in &profile.samples {
        let weight = &mut weights[sample.thread.at()];
        *weight = weight.saturating_add(sample.weight);
    }
    let mut threads: Vec<(ThreadIndex, u64)> = weights
        .into_iter()
        .enumerate()
        .filter(|(_, weight)| *weight > 0)
        .map(|(position, weight)| (ThreadIndex(position as u32), weight))
        .collect();
    threads.small_sort_by_key(|(thread, weight)| (std::cmp::Reverse(*weight), *thread));
    threads
}

/// The weight of every process, in the order of the table.
pub fn process_weights(profile: &Profile) -> Vec<u64> {
    let mut weights = vec![0u64; profile.processes.len()];
    for (thread, weight) in thread_weights(profile) {
        let of_process = &mut weights[profile.threads[thread.at()].process.at()];
        *of_process = of_process.saturating_add(weight);
    }
    weights
}

/// Which threads are the main ones of their processes.
pub fn main_threads(profile: &Profile) -> Vec<bool> {
    let is_main = |thread: &Thread| {
        let process = &profile.processes[thread.process.at()];
        thread.role == ThreadRole::Main
            || (thread.role == ThreadRole::Other && thread.tid == process.pid)
    };
    profile.threads.iter().map(is_main).collect()
}

/// How much of its process's life a thread ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BusyThread {
    /// Which one.
    pub thread: ThreadIndex,
    /// Its process.
    pub pid: u32,
    /// From 0 to 1.
    pub share: f64,
}

/// How busy the main threads were, the busiest first. Nothing when samples cannot show it: they
/// stand for something else than time, their rate is not known, or filters left only some of them.
pub fn busy_main_threads(profile: &Profile) -> Vec<BusyThread> {
    let is_main = main_threads(profile);
    let mut busy = busy_threads(profile);
    busy.retain(|entry| is_main[entry.thread.at()]);
    busy
}

/// How busy all threads were, as [`busy_main_threads`].
pub fn busy_threads(profile: &Profile) -> Vec<BusyThread> {
    let event = profile.event();
    if !event.is_time() {
        return Vec::new();
    }
    let weight_per_nanosecond = match event.unit {
        WeightUnit::Samples if event.rate_hz() > 0 => f64::from(event.rate_hz()) / 1e9,
        WeightUnit::Nanoseconds => 1.0,
        _ => return Vec::new(),
    };
    if !profile.notes.filters.is_empty() {
        return Vec::new();
    }
    let mut busy = Vec::new();
    for (position, ran) in busy_weights(profile).into_iter().enumerate() {
        let thread = &profile.threads[position];
        let process = &profile.processes[thread.process.at()];
        let ended = process.ended.unwrap_or(profile.about.duration);
        let lived = ended.saturating_sub(process.started);
        if lived == 0 {
            continue;
        }
        let share = ran as f64 / weight_per_nanosecond / lived as f64;
        busy.push(BusyThread {
            thread: ThreadIndex(position as u32),
            pid: process.pid,
            share: share.min(1.0),
        });
    }
    busy.small_sort_by(|left, right| right.share.total_cmp(&left.share));
    busy
}

/// The weight of each thread, idle time apart, and time without a CPU where samples say so.
fn busy_weights(profile: &Profile) -> Vec<u64> {
    let is_on_cpu = on_cpu_contexts(profile);
    let is_idle: Vec<bool> = profile
        .stacks
        .iter()
        .map(|stack| {
            let function = profile.frame(stack.frame).function;
            profile.function(function).category == Category::Idle
        })
        .collect();
    let mut weights = vec![0u64; profile.threads.len()];
    for sample in &profile.samples {
        let is_idle = sample.stack.is_some_and(|stack| is_idle[stack.at()]);
        if is_on_cpu[sample.context.0 as usize] && !is_idle {
            let weight = &mut weights[sample.thread.at()];
            *weight = weight.saturating_add(sample.weight);
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile_of;

    #[test]
    fn a_main_thread_is_busy_as_long_as_its_samples_say() {
        let mut profile = profile_of("a 3\nidle:(idle) 5\na;b 2");
        assert!(busy_main_threads(&profile).is_empty());
        profile.events[0].sampling = nodespy_model::Sampling::Rate(10);
        profile.about.duration = 1_000_000_000;
        let share = 0.5;
        let thread = ThreadIndex(0);
        let expected = BusyThread {
            thread,
            pid: 0,
            share,
        };
        assert_eq!(busy_main_threads(&profile), [expected]);
        profile.events[0].name = "page-faults".to_owned();
        assert!(busy_main_threads(&profile).is_empty());
        profile.events[0].name = "cpu-clock".to_owned();
        profile.notes.add_filter("--focus a");
        assert!(busy_main_threads(&profile).is_empty());
        assert_eq!(thread_weights(&profile), [(ThreadIndex(0), 10)]);
        assert_eq!(process_weights(&profile), [10]);
    }
}
