//! What main threads wait for while there is work, where samples say it.

use nodespy_analysis::{FunctionWeights, has_states, main_threads, thread_times};
use nodespy_model::{ContextIndex, Process, Profile, Sample, ThreadIndex, label_key, state};

use super::{Finding, Scene, part_of_it, rounded_share};
use crate::wording::percent_of;

/// Share of the time, in percent, from which a wait is worth a sentence.
const WORTH_A_SENTENCE: f64 = 5.0;
/// How many kinds of waits of a thread are named.
const MAX_KINDS: usize = 3;

/// What main threads wait for, and who makes them.
pub(super) fn of_main_threads(scene: &Scene<'_>) -> Vec<Finding> {
    let profile = scene.profile();
    if !has_states(profile) {
        return Vec::new();
    }
    let is_main = main_threads(profile);
    let mut times = thread_times(profile);
    times.retain(|time| is_main[time.thread.at()]);
    let mut findings = Vec::new();
    for time in &times {
        let lived = lived(profile, time.thread);
        for (kind, weight) in time.waits.iter().take(MAX_KINDS) {
            let percent = percent_of(*weight, lived);
            if percent >= WORTH_A_SENTENCE {
                let whose = match times.len() {
                    1 => String::new(),
                    _ => format!(" of process {}", process_of(profile, time.thread).pid),
                };
                findings.push(finding(
                    scene,
                    (time.thread, &whose),
                    kind,
                    (*weight, percent),
                ));
            }
        }
    }
    findings
}

/// Whether threads wait in a function more than they run there, where samples say it.
pub(super) fn is_mostly_waiting(scene: &Scene<'_>, entry: &FunctionWeights) -> bool {
    let profile = scene.profile();
    let is_leaf = |sample: &&Sample| {
        let leaf = sample.stack.map(|stack| profile.function_of(stack));
        scene.counts(sample) && leaf == Some(entry.function)
    };
    let is_waiting = |sample: &&Sample| {
        let labels = profile.contexts.get(sample.context);
        labels.get(label_key::STATE) == Some(state::WAITING)
    };
    let waiting = profile.samples.iter().filter(is_leaf).filter(is_waiting);
    let waiting = waiting.fold(0u64, |sum, sample| sum.saturating_add(sample.weight));
    percent_of(waiting, entry.self_weight) > 50.0
}

fn finding(
    scene: &Scene<'_>,
    (thread, whose): (ThreadIndex, &str),
    kind: &str,
    (weight, percent): (u64, f64),
) -> Finding {
    let profile = scene.profile();
    let is_such = |context: ContextIndex| {
        let labels = profile.contexts.get(context);
        labels.get(label_key::STATE) == Some(state::WAITING)
            && labels.get(label_key::WAIT) == Some(kind)
    };
    let is_in = |sample: &Sample, _| sample.thread == thread && is_such(sample.context);
    let callers = scene.callers(is_in);
    let mut sentence = format!(
        "The main thread{whose} waits {} of the time {}",
        rounded_share(percent),
        in_or_for(kind)
    );
    let caller = callers.first();
    if let Some((function, under)) = caller {
        let part = part_of_it(percent_of(*under, weight));
        sentence.push_str(&format!(", {part} under {}", scene.named(*function)));
    }
    Finding {
        kind: "waiting_main_thread",
        percent,
        sentence,
        function: caller.map(|(function, _)| *function),
    }
}

/// How long the process of a thread was recorded.
fn lived(profile: &Profile, thread: ThreadIndex) -> u64 {
    let process = process_of(profile, thread);
    let ended = process.ended.unwrap_or(profile.about.duration);
    ended.saturating_sub(process.started)
}

fn process_of(profile: &Profile, thread: ThreadIndex) -> &Process {
    &profile.processes[profile.threads[thread.at()].process.at()]
}

fn in_or_for(kind: &str) -> String {
    match kind {
        "Atomics.wait" => "in Atomics.wait".to_owned(),
        "nested event loop" => "in a nested event loop".to_owned(),
        "page fault" => "for memory (page faults)".to_owned(),
        "DNS" | "GC" => format!("for {kind}"),
        "network" => "for the network".to_owned(),
        "sleep" => "asleep".to_owned(),
        "other" => "in other system calls".to_owned(),
        kind => format!("for a {}", kind.replace('`', "'")),
    }
}
