//! Which recordings can be compared, and what differs between them beside the program.

use nodespy_model::Profile;

use super::{CompareError, MIN_RUNS, NamedRun};

/// The profiles that can be compared. What is left out is said.
pub(super) fn kept(
    runs: Vec<NamedRun>,
    remarks: &mut Vec<String>,
) -> Result<Vec<Profile>, CompareError> {
    let mut kept = Vec::new();
    let mut reasons = Vec::new();
    let is_only_one = runs.len() == 1;
    for run in runs {
        if run.profile.samples.is_empty() {
            return Err(CompareError::Empty(run.name));
        }
        match damage(&run.profile) {
            Some(damage) if is_only_one => {
                remarks.push(format!("{}: {damage}", run.name));
                kept.push(run.profile);
            }
            Some(damage) => reasons.push(format!("{} was left out: {damage}", run.name)),
            None => kept.push(run.profile),
        }
    }
    match kept.is_empty() {
        true if reasons.is_empty() => Err(CompareError::NoRuns),
        true => Err(CompareError::AllDropped(reasons.join("; "))),
        false => {
            remarks.append(&mut reasons);
            Ok(kept)
        }
    }
}

/// Why the figures of a recording are not those of the program.
fn damage(profile: &Profile) -> Option<String> {
    let notes = &profile.notes;
    let named = notes.confidence().jit_named;
    if named < 0.95 {
        return Some(format!(
            "only {:.0} % of its JIT frames have names",
            100.0 * named
        ));
    }
    if notes.lost_samples > profile.samples.len() as u64 / 100 {
        return Some(format!("{} of its samples were lost", notes.lost_samples));
    }
    let is_throttled = notes.throttled > 0;
    is_throttled.then(|| "the kernel throttled its sampling".to_owned())
}

/// Whether a recording is a whole run of a program, so that two of them did the same work.
pub(super) fn is_whole_run(profile: &Profile) -> bool {
    // What other tools write has no word on it, and is mostly a whole run: --cpu-prof, --prof, perf record -- node.
    let is_ours = !profile.about.nodespy_version.is_empty();
    !is_ours
        || profile
            .processes
            .iter()
            .any(|process| process.exit.is_some())
}

/// Says what differs between the sides beside the program.
pub(super) fn compare_sides(before: &[Profile], after: &[Profile], remarks: &mut Vec<String>) {
    let differing = |what: &str, of: &dyn Fn(&Profile) -> String, remarks: &mut Vec<String>| {
        let words = [before, after].map(|side| {
            let mut words: Vec<String> = side
                .iter()
                .map(of)
                .filter(|word| !word.is_empty())
                .collect();
            words.sort();
            words.dedup();
            words.join(", ")
        });
        if words[0] != words[1] && words.iter().all(|word| !word.is_empty()) {
            remarks.push(format!(
                "the sides have another {what}: {} before, {} after",
                words[0], words[1]
            ));
        }
    };
    differing("version of Node", &node_version, remarks);
    differing("engine", &|profile| profile.about.engine.clone(), remarks);
    differing("sampling rate", &sampling_rate, remarks);
    differing("machine", &|profile| profile.about.host.clone(), remarks);
    let fewest = before.len().min(after.len());
    if fewest < MIN_RUNS {
        remarks.push(format!(
            "{} against {} is not a test: give at least {MIN_RUNS} runs a side, better 5, for verdicts",
            before.len(),
            after.len()
        ));
    } else if fewest < 5 {
        remarks.push(format!(
            "{fewest} runs a side show only large changes: 5 or more are better"
        ));
    }
}

fn node_version(profile: &Profile) -> String {
    let versions = profile
        .processes
        .iter()
        .filter_map(|process| process.node_version.clone());
    versions.max().unwrap_or_default()
}

fn sampling_rate(profile: &Profile) -> String {
    match profile.event().rate_hz() {
        0 => String::new(),
        rate_hz => format!("{rate_hz} Hz"),
    }
}
