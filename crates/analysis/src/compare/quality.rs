//! Which recordings can be compared, and what differs between them beside the program.

use std::collections::BTreeSet;

use nodespy_model::Profile;

use super::run::RunCosts;
use super::table::{AFTER, BEFORE, Row, Table};
use super::{CompareError, MIN_RUNS};
use crate::package::PackageKind;

/// What differs between recordings beside the program.
#[derive(Debug, Clone, Default)]
pub(super) struct Versions {
    node: String,
    engine: String,
    host: String,
}

impl Versions {
    #[cfg(test)]
    pub(super) fn of_node(version: &str) -> Self {
        Self {
            node: version.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn of(profile: &Profile) -> Self {
        let versions = profile
            .processes
            .iter()
            .filter_map(|process| process.node_version.clone());
        Self {
            node: versions.max().unwrap_or_default(),
            engine: profile.about.engine.clone(),
            host: profile.about.host.clone(),
        }
    }
}

/// The runs that can be compared. What is left out is said.
pub(super) fn kept(
    runs: Vec<RunCosts>,
    remarks: &mut Vec<String>,
) -> Result<Vec<RunCosts>, CompareError> {
    let mut kept = Vec::new();
    let mut reasons = Vec::new();
    let is_only_one = runs.len() == 1;
    for run in runs {
        if run.weight == 0 {
            return Err(CompareError::Empty(run.name));
        }
        match &run.damage {
            Some(damage) if is_only_one => {
                remarks.push(format!("{}: {damage}", run.name));
                kept.push(run);
            }
            Some(damage) => reasons.push(format!("{} was left out: {damage}", run.name)),
            None => kept.push(run),
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
pub(super) fn damage(profile: &Profile) -> Option<String> {
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

/// Whether each side has its own version of Node, both known.
pub(super) fn has_other_node(sides: [&[RunCosts]; 2]) -> bool {
    let [before, after] = sides.map(|side| words_of(side, &|run| run.versions.node.clone()));
    !before.is_empty() && !after.is_empty() && before != after
}

/// What the runs of a side say, each word once.
fn words_of(side: &[RunCosts], of: &dyn Fn(&RunCosts) -> String) -> String {
    let words: BTreeSet<String> = side
        .iter()
        .map(of)
        .filter(|word| !word.is_empty())
        .collect();
    words.into_iter().collect::<Vec<_>>().join(", ")
}

/// Says what differs between the sides beside the program.
pub(super) fn compare_sides(sides: [&[RunCosts]; 2], remarks: &mut Vec<String>) {
    let mut differing = |what: &str, of: &dyn Fn(&RunCosts) -> String| {
        let words = sides.map(|side| words_of(side, of));
        if words[0] != words[1] && words.iter().all(|word| !word.is_empty()) {
            remarks.push(format!(
                "the sides have another {what}: {} before, {} after",
                words[0], words[1]
            ));
        }
    };
    differing("version of Node", &|run| run.versions.node.clone());
    differing("engine", &|run| run.versions.engine.clone());
    differing("event", &|run| run.event.name.clone());
    differing("sampling rate", &sampling_rate);
    differing("machine", &|run| run.versions.host.clone());
    let [before, after] = sides.map(<[RunCosts]>::len);
    let fewest = before.min(after);
    if fewest < MIN_RUNS {
        remarks.push(format!(
            "{before} against {after} is not a test: give at least {MIN_RUNS} runs a side, better 5, for verdicts"
        ));
    } else if fewest < 5 {
        remarks.push(format!(
            "{fewest} runs a side show only large changes: 5 or more are better"
        ));
    }
}

fn sampling_rate(run: &RunCosts) -> String {
    match run.event.rate_hz() {
        0 => String::new(),
        rate_hz => format!("{rate_hz} Hz"),
    }
}

/// Finds out whether the sides are runs of one program. Two programs have Node, V8 and the kernel in common: where
/// both sides have code of an application, some name of it must be on both.
pub(super) fn check_program(table: &Table) -> Result<(), CompareError> {
    let names = |side: usize, is_wanted: fn(&Row) -> bool| -> BTreeSet<&str> {
        let rows = table.rows.iter();
        rows.filter(|row| is_wanted(row) && row.sides[side].has_cost())
            .map(|row| row.id.name.as_str())
            .collect()
    };
    let of_application =
        |row: &Row| row.package.kind == PackageKind::App && !row.id.name.is_empty();
    for (kind, is_wanted) in [
        ("", (|_| true) as fn(&Row) -> bool),
        (" of the application", of_application),
    ] {
        let sides = [BEFORE, AFTER].map(|side| names(side, is_wanted));
        let are_renamed = || {
            table
                .rows
                .iter()
                .any(|row| is_wanted(row) && row.is_shared())
        };
        if let [Some(before), Some(after)] = sides.each_ref().map(|names| names.first())
            && sides[BEFORE].is_disjoint(&sides[AFTER])
            && !are_renamed()
        {
            return Err(CompareError::OtherProgram {
                of_application: kind,
                before: (*before).to_owned(),
                after: (*after).to_owned(),
            });
        }
    }
    Ok(())
}
