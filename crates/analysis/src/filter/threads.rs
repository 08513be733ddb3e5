//! Threads by name, number or what they are for.

use nodespy_model::{Profile, SmallSort, ThreadIndex, ThreadRole};

use super::FilterError;
use crate::transform::only_threads;

/// The threads that go by one of the words `wanted`. Fails if none does; the error lists them.
pub(super) fn only_named(profile: Profile, wanted: &[String]) -> Result<Profile, FilterError> {
    let is_wanted = |profile: &Profile, thread: ThreadIndex| {
        wanted.iter().any(|text| is_thread(profile, thread, text))
    };
    let all = (0..profile.threads.len()).map(|at| ThreadIndex(at as u32));
    if !all.clone().any(|thread| is_wanted(&profile, thread)) {
        let mut names: Vec<String> = all.map(|thread| thread_words(&profile, thread)).collect();
        names.small_sort();
        names.dedup();
        let more = names.len().saturating_sub(8);
        names.truncate(8);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        return Err(FilterError(format!(
            "no thread is called {:?}; there are {}",
            wanted.join(" or "),
            names.join(", ")
        )));
    }
    Ok(only_threads(profile, is_wanted))
}

/// Whether a thread goes by `text`: its name, its tid or its role.
pub(crate) fn is_thread(profile: &Profile, thread: ThreadIndex, text: &str) -> bool {
    let thread = &profile.threads[thread.at()];
    let process = &profile.processes[thread.process.at()];
    let role = match thread.role {
        // Files that know no roles still know which thread a process started with.
        ThreadRole::Other if thread.tid == process.pid => ThreadRole::Main,
        role => role,
    };
    let is_role = match text {
        "main" => role == ThreadRole::Main,
        "worker" => role == ThreadRole::Worker,
        "pool" => role == ThreadRole::Pool,
        "platform" => role == ThreadRole::Platform,
        "other" => role == ThreadRole::Other,
        _ => false,
    };
    is_role || thread.name.eq_ignore_ascii_case(text) || text.parse() == Ok(thread.tid)
}

fn thread_words(profile: &Profile, thread: ThreadIndex) -> String {
    let thread = &profile.threads[thread.at()];
    let name = match thread.name.as_str() {
        "" => "(unnamed)",
        name => name,
    };
    format!("{name} ({}, {})", thread.role.label(), thread.tid)
}
