//! Processes by what is known of them.

use std::borrow::Cow;

use nodespy_model::{Process, Profile, SmallSort};

use super::FilterError;
use super::values::LabelFilter;
use crate::transform::only_threads;

/// The processes that have, for each key of `wanted`, one of its values. Fails if none
/// has; the error lists them.
pub(super) fn only_labelled(
    profile: Profile,
    wanted: &[LabelFilter],
) -> Result<Profile, FilterError> {
    let is_wanted = |profile: &Profile, process: &Process| {
        wanted.iter().all(|one| {
            let mut same_key = wanted.iter().filter(|other| other.key == one.key);
            same_key.any(|filter| has_label(profile, process, &filter.key, &filter.value))
        })
    };
    if !profile
        .processes
        .iter()
        .any(|process| is_wanted(&profile, process))
    {
        let filters: Vec<String> = wanted.iter().map(LabelFilter::to_string).collect();
        return Err(FilterError(format!(
            "no process has the label {}; there are {}",
            filters.join(" and "),
            all_labels(&profile)
        )));
    }
    Ok(only_threads(profile, |profile, thread| {
        let process = profile.threads[thread.at()].process;
        is_wanted(profile, &profile.processes[process.at()])
    }))
}

/// Whether a process has a label. The host and the beginning of an id count too.
pub(crate) fn has_label(profile: &Profile, process: &Process, key: &str, wanted: &str) -> bool {
    label_of(profile, process, key).is_some_and(|value| match key {
        "container-id" | "commit" => value.starts_with(wanted),
        _ => value == wanted,
    })
}

/// The value of a process's label. The host and the pid count as labels.
pub(crate) fn label_of<'a>(
    profile: &'a Profile,
    process: &'a Process,
    key: &str,
) -> Option<Cow<'a, str>> {
    match key {
        "host" => Some(Cow::Borrowed(profile.about.host.as_str())),
        "pid" => Some(Cow::Owned(process.pid.to_string())),
        key => process.labels.get(key).map(Cow::Borrowed),
    }
}

fn all_labels(profile: &Profile) -> String {
    let mut labels: Vec<String> = profile
        .processes
        .iter()
        .flat_map(|process| process.labels.iter())
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.small_sort();
    labels.dedup();
    if labels.is_empty() {
        return "none at all in this recording".to_owned();
    }
    let more = labels.len().saturating_sub(16);
    labels.truncate(16);
    if more > 0 {
        labels.push(format!("{more} more"));
    }
    labels.join(", ")
}
