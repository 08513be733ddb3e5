//! Who works and who waits: main threads, workers, processes, and what a CPU quota takes away.

use nodespy_analysis::{BusyThread, busy_main_threads, busy_threads, charged_weights};
use nodespy_model::{Profile, ThreadIndex, ThreadRole};

use super::{Finding, Scene, WHOLE, rounded_share};
use crate::wording::{counted, percent, percent_of};
use crate::{pools, scheduling};

/// Parts of a CPU: below the first a main thread does next to nothing, from the second on a thread
/// is one that computes, from the third on there is nothing left for requests.
const IDLE_MAIN_THREAD: f64 = 0.1;
const BUSY_THREAD: f64 = 0.5;
const SATURATED: f64 = 0.9;
/// Shares of the whole, in percent, from which a worker or one of its functions is worth naming.
const MUCH_OF_ONE_WORKER: f64 = 25.0;
const MUCH_OF_THE_WORKER: f64 = 10.0;

/// Share of a thread's time, in percent, from which it is a server's.
const MUCH_OF_A_SERVER: f64 = 20.0;

/// Why a flight recorder wrote the profile.
pub(super) fn triggered(profile: &Profile) -> Vec<Finding> {
    as_noted("trigger", &profile.notes.triggers)
}

/// What a CPU quota took away: what the samples share out is only the rest.
pub(super) fn limited_by_quota(profile: &Profile) -> Vec<Finding> {
    as_noted("cpu_quota", &profile.notes.quotas)
}

/// Sentences that the recording itself has.
fn as_noted(kind: &'static str, sentences: &[String]) -> Vec<Finding> {
    let finding = |sentence: &String| {
        let mut letters = sentence.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        Finding {
            kind,
            percent: WHOLE,
            sentence: first.into_iter().chain(letters).collect(),
            function: None,
        }
    };
    sentences.iter().map(finding).collect()
}

/// Which of several processes of an application does something else than the others.
pub(super) fn odd_process(scene: &Scene<'_>) -> Option<Finding> {
    let odd = nodespy_analysis::odd_process(scene.profile())?;
    let process = &scene.profile().processes[odd.process.at()];
    Some(Finding {
        kind: "odd_process",
        percent: odd.difference * 100.0,
        sentence: format!(
            "`{}` (pid {}) differs most from its {}: {} is {} of its {} and {} of theirs",
            process.name.replace('`', "'"),
            process.pid,
            counted(odd.siblings as u64, "sibling"),
            scene.named(odd.function),
            percent(odd.share * 100.0),
            scene.words.of_process(),
            percent(odd.share_of_siblings * 100.0),
        ),
        function: Some(odd.function),
    })
}

/// A main thread that has little to do: either others do the work, or the process waits.
pub(super) fn idle_main_thread(scene: &Scene<'_>) -> Option<Finding> {
    let profile = scene.profile();
    let busiest = idle_main(profile)?;
    let threads = busy_threads(profile);
    let all: f64 = threads.iter().map(|entry| entry.share).sum();
    let idle = format!(
        "The main thread was busy at most {:.0} % of the time",
        busiest.share * 100.0
    );
    let other = threads.first()?;
    let sentence = match all {
        all if all < IDLE_MAIN_THREAD => {
            format!("{idle}: what is slow waits for something else than the CPU")
        }
        _ if other.share >= BUSY_THREAD => format!(
            "{idle}, {} {:.0} %",
            thread_words(profile, other.thread),
            other.share * 100.0
        ),
        all => format!(
            "{idle}; all threads together used {:.0} % of a CPU",
            all * 100.0
        ),
    };
    Some(Finding {
        kind: "idle_main_thread",
        percent: WHOLE,
        sentence,
        function: None,
    })
}

/// The busiest main thread, where even that does next to nothing.
fn idle_main(profile: &Profile) -> Option<BusyThread> {
    let busiest = *busy_main_threads(profile).first()?;
    let is_idle = busiest.share < IDLE_MAIN_THREAD && !scheduling::is_short_of_cpu(profile);
    is_idle.then_some(busiest)
}

/// A pool whose threads are all busy while jobs wait.
pub(super) fn full_pool(scene: &Scene<'_>) -> Option<Finding> {
    // What filters left is not what was watched.
    if !scene.profile().notes.filters.is_empty() {
        return None;
    }
    let found = pools::pools(scene.profile()).filter_map(|(_, pool)| pools::finding(pool));
    let (percent, sentence) = found.max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(Finding {
        kind: "full_pool",
        percent,
        sentence,
        function: None,
    })
}

/// A main thread or worker that could have run and had no CPU.
pub(super) fn waits_for_cpu(scene: &Scene<'_>) -> Option<Finding> {
    Some(Finding {
        kind: "waits_for_cpu",
        percent: WHOLE,
        sentence: scheduling::finding(scene.profile())?,
        function: None,
    })
}

/// The words for a thread: what it is for, and its name.
fn thread_words(profile: &Profile, thread: ThreadIndex) -> String {
    let thread = &profile.threads[thread.at()];
    let name = thread.name.replace('`', "'");
    match thread.role {
        ThreadRole::Worker if name.starts_with("worker") => format!("`{name}`"),
        ThreadRole::Worker => format!("worker `{name}`"),
        ThreadRole::Pool => format!("a thread of libuv's pool (`{name}`)"),
        ThreadRole::Platform => format!("a thread of V8's own (`{name}`)"),
        ThreadRole::Main | ThreadRole::Other => format!("thread `{name}`"),
    }
}

/// The worker that has the largest part of the work, and what it does. Where the main thread is
/// idle it has been named already.
pub(super) fn busiest_worker(scene: &Scene<'_>) -> Option<Finding> {
    let profile = scene.profile();
    if idle_main(profile).is_some() {
        return None;
    }
    let is_worker = |thread: &ThreadIndex| profile.threads[thread.at()].role == ThreadRole::Worker;
    let (thread, weight) = scene
        .busy_threads()
        .into_iter()
        .filter(|(thread, _)| is_worker(thread))
        .max_by_key(|(thread, weight)| (*weight, std::cmp::Reverse(*thread)))?;
    let share = scene.share_of_all(weight);
    if share < MUCH_OF_ONE_WORKER {
        return None;
    }
    let words = match thread_words(profile, thread) {
        words if words.starts_with('`') => words,
        words => format!("The {words}"),
    };
    let hottest = charged_weights(profile, |sample| sample.thread == thread)
        .into_iter()
        .next()
        .filter(|entry| percent_of(entry.charged_weight, weight) >= MUCH_OF_THE_WORKER);
    let most = hottest.map(|entry| {
        let of_it = rounded_share(percent_of(entry.charged_weight, weight));
        format!(", {of_it} of it in {}", scene.named(entry.function))
    });
    Some(Finding {
        kind: "worker",
        percent: share,
        sentence: format!(
            "{words} {} {} of {}{}",
            scene.words.takes(),
            rounded_share(share),
            scene.whole_of_all(),
            most.unwrap_or_default()
        ),
        function: hottest.map(|entry| entry.function),
    })
}

/// Node's own files that serve requests.
const SERVERS: [&str; 4] = [
    "node:_http_server",
    "_http_server.js",
    "node:internal/http2/core",
    "internal/http2/core.js",
];

/// A server whose main thread has no time left. That a program which computes is busy is no news.
pub(super) fn busy_server(scene: &Scene<'_>) -> Option<Finding> {
    let profile = scene.profile();
    let mut threads = busy_main_threads(profile).into_iter();
    let busiest = threads.find(|entry| serves(profile, entry.thread))?;
    if busiest.share < SATURATED {
        return None;
    }
    let whose = match profile.processes.len() {
        0 | 1 => String::new(),
        _ => format!(" of process {}", busiest.pid),
    };
    Some(Finding {
        kind: "busy_main_thread",
        percent: busiest.share * 100.0,
        sentence: format!(
            "The main thread{whose} was busy {:.0} % of the time: requests wait for the CPU",
            busiest.share * 100.0
        ),
        function: None,
    })
}

/// Whether a thread spends its time on requests. That it has loaded the module of a server is no evidence.
fn serves(profile: &Profile, thread: ThreadIndex) -> bool {
    let mut is_below = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let function = profile.frame(stack.frame).function;
        let is_server = SERVERS.contains(&profile.file_of(function));
        let is_parent_below = stack.parent.is_some_and(|parent| is_below[parent.at()]);
        is_below.push(is_server || is_parent_below);
    }
    let samples = profile
        .samples
        .iter()
        .filter(|sample| sample.thread == thread);
    let (mut serving, mut all) = (0u64, 0u64);
    for sample in samples {
        let is_serving = sample.stack.is_some_and(|stack| is_below[stack.at()]);
        all = all.saturating_add(sample.weight);
        serving = serving.saturating_add(if is_serving { sample.weight } else { 0 });
    }
    percent_of(serving, all) >= MUCH_OF_A_SERVER
}
