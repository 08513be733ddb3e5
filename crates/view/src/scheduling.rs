//! How threads shared the CPUs, in words. A thread that could have run and did not leaves no
//! samples, so no flame graph shows it.

use nodespy_analysis::main_threads;
use nodespy_model::{Profile, Scheduling, Thread, ThreadRole};

/// Parts of the time from which waiting for a CPU is worth a clause, and a sentence.
const WORTH_A_CLAUSE: f64 = 0.05;
const WORTH_A_FINDING: f64 = 0.1;

/// What a thread did with its time: `on CPU 31 %, waiting 61 %, asleep 8 %`.
pub(crate) fn of_thread(thread: &Thread) -> Option<String> {
    let scheduling = thread.scheduling?;
    let (on_cpu, waiting) = (scheduling.on_cpu_share(), scheduling.run_delay_share());
    let asleep = (1.0 - on_cpu - waiting).max(0.0);
    Some(format!(
        "on CPU {}, waiting {}, asleep {}",
        percent(on_cpu),
        percent(waiting),
        percent(asleep)
    ))
}

/// How much a main thread ran and waited for a CPU, where it had to wait: samples alone would call it
/// idle then.
pub(crate) fn of_waiting_main_thread(thread: &Thread) -> Option<String> {
    let scheduling = thread.scheduling?;
    (scheduling.run_delay_share() >= WORTH_A_CLAUSE).then(|| {
        format!(
            "main thread on CPU {}, waiting for a CPU {} of the time",
            percent(scheduling.on_cpu_share()),
            percent(scheduling.run_delay_share())
        )
    })
}

/// The main thread, or else the worker, that waited longest for a CPU, if that is worth a sentence.
pub(crate) fn finding(profile: &Profile) -> Option<String> {
    let (thread, scheduling) = longest_waiting(profile)?;
    let name = thread.name.replace('`', "'");
    let subject = match thread.role {
        ThreadRole::Worker => format!("Worker `{name}`"),
        _ => "The main thread".to_owned(),
    };
    let whose = match profile.processes.len() {
        0 | 1 => String::new(),
        _ => format!(" of process {}", profile.processes[thread.process.at()].pid),
    };
    Some(format!(
        "{subject}{whose} waited {} of the time for a CPU and ran {}: other threads had the CPUs it may \
         use, or a quota held it back",
        percent(scheduling.run_delay_share()),
        percent(scheduling.on_cpu_share())
    ))
}

/// Whether a main thread waited for a CPU rather than for anything else.
pub(crate) fn is_short_of_cpu(profile: &Profile) -> bool {
    longest_waiting(profile).is_some()
}

fn longest_waiting(profile: &Profile) -> Option<(&Thread, Scheduling)> {
    // What filters left is not what was watched.
    if !profile.notes.filters.is_empty() {
        return None;
    }
    let is_main = main_threads(profile);
    let threads = profile.threads.iter().zip(is_main);
    threads
        .filter(|(thread, is_main)| *is_main || thread.role == ThreadRole::Worker)
        .filter_map(|(thread, is_main)| Some((thread, is_main, thread.scheduling?)))
        .filter(|(_, _, scheduling)| scheduling.run_delay_share() >= WORTH_A_FINDING)
        .max_by(|one, other| {
            let shares = one
                .2
                .run_delay_share()
                .total_cmp(&other.2.run_delay_share());
            one.1.cmp(&other.1).then(shares)
        })
        .map(|(thread, _, scheduling)| (thread, scheduling))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
