//! What of a profile is shown: the filters of the command line, applied in a fixed order.
//!
//! First the samples are chosen (`--pid`, `--label`, `--thread`, `--time`, `--no-idle`, `--focus`,
//! `--ignore`), by whole stacks; then frames go (V8's and libc's plumbing, `--show-from`, `--hide`,
//! `--only`); then frames become one (`--fold`, `--collapse-recursion`); `--no-merge-tiers` parts
//! them; and `--min-share` measures what is left. `--merge` makes one of the processes that were
//! chosen, `--redact` comes last. The order on the command line does not matter.

mod labels;
mod steps;
mod threads;
mod values;

use std::borrow::Cow;

use nodespy_model::{Category, EventIndex, FunctionIndex, Nanoseconds, Profile, printable};

use crate::cli::ShowArgs;
use crate::failure::Failure;
use crate::output::grouped;

use steps::Step;

pub(crate) use values::{LabelFilter, Only, Pattern, Share, TimeRange};

/// What is to be done with a profile that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// It is looked at: the plumbing between the kinds of code goes.
    WhatIsShown,
    /// It can be opened again: without filters it holds everything.
    Everything,
}

/// The profile as the filters leave it, with a note of what they did. Fails when one leaves nothing.
pub(crate) fn filtered<'a>(
    profile: Cow<'a, Profile>,
    show: &ShowArgs,
    holding: Holding,
) -> anyhow::Result<Cow<'a, Profile>> {
    let hides_internals = !show.raw && (holding == Holding::WhatIsShown || show.changes_frames());
    let steps = show.steps();
    if steps.is_empty() && !hides_internals {
        return Ok(profile);
    }
    let before = amount(&profile);
    let mut work = Work {
        profile: profile.into_owned(),
        show,
    };
    let mut done = Vec::new();
    for step in Step::ORDER {
        if *step == Step::Internals && hides_internals {
            work.profile = nodespy_analysis::without_internals(work.profile);
        }
        for (_, text) in steps.iter().filter(|(each, _)| each == step) {
            done.push(text.as_str());
        }
        if steps.iter().any(|(each, _)| each == step) {
            let had = amount(&work.profile);
            let lasted = length_of(&work.profile);
            work = work.apply(*step)?;
            if had > 0 && amount(&work.profile) == 0 {
                let filter = done.last().copied().unwrap_or_default();
                let there_were = format!("{} {}", grouped(had), unit_of(&work.profile));
                return Err(nothing_left(filter, &there_were, lasted));
            }
        }
    }
    let mut profile = work.profile;
    if !done.is_empty() {
        profile = nodespy_analysis::without_unused(profile);
        let left = share_left(amount(&profile), before);
        profile
            .notes
            .add_filter(&format!("{} ({left})", done.join(" ")));
    }
    Ok(Cow::Owned(profile))
}

/// The profile as it is to be kept, before any filter: as one process, or fit to give away.
pub(crate) fn shaped(mut profile: Profile, show: &ShowArgs) -> Profile {
    if show.merge {
        profile = nodespy_analysis::merge_processes(profile);
    }
    if show.redact {
        profile = nodespy_analysis::redact(profile);
    }
    profile
}

/// A profile on its way through the steps.
struct Work<'a> {
    profile: Profile,
    show: &'a ShowArgs,
}

impl Work<'_> {
    fn apply(self, step: Step) -> anyhow::Result<Self> {
        let Self { profile, show } = self;
        let matches_any = |patterns: &'_ [Pattern]| {
            let patterns = patterns.to_vec();
            let is_raw = show.raw;
            move |profile: &Profile, function: FunctionIndex| {
                // What is not shown is not matched.
                (is_raw || profile.function(function).category != Category::Internal)
                    && patterns.iter().any(|each| each.is_match(profile, function))
            }
        };
        let profile = match step {
            Step::Pid => nodespy_analysis::only_threads(profile, |profile, thread| {
                let process = profile.threads[thread.at()].process;
                show.pid.contains(&profile.processes[process.at()].pid)
            }),
            Step::Label => labels::only_labelled(profile, &show.label)?,
            Step::Merge => nodespy_analysis::merge_processes(profile),
            Step::Redact => nodespy_analysis::redact(profile),
            Step::Thread => threads::only_named(profile, &show.thread)?,
            Step::Time => show.time.iter().fold(profile, |profile, range| {
                let (start, end) = range.in_profile(&profile);
                nodespy_analysis::only_between(profile, start, end)
            }),
            Step::NoIdle => nodespy_analysis::without_idle(profile),
            Step::Focus => show.focus.iter().fold(profile, |profile, pattern| {
                nodespy_analysis::focus(profile, matches_any(std::slice::from_ref(pattern)))
            }),
            Step::Ignore => nodespy_analysis::ignore(profile, matches_any(&show.ignore)),
            Step::Internals => profile,
            Step::ShowFrom => nodespy_analysis::show_from(profile, matches_any(&show.show_from)),
            Step::Hide => nodespy_analysis::hide(profile, matches_any(&show.hide)),
            Step::Only => {
                let kinds: Vec<_> = show.only.iter().map(|only| only.kind()).collect();
                nodespy_analysis::only(profile, &kinds)
            }
            Step::Fold => nodespy_analysis::fold(profile, |package| {
                let mut names = show.fold.iter();
                names.any(|name| values::is_folded(package, name))
            }),
            Step::CollapseRecursion => nodespy_analysis::collapse_recursion(profile),
            Step::SplitTiers => nodespy_analysis::split_tiers(profile),
            Step::MinShare => show.min_share.iter().fold(profile, |profile, share| {
                nodespy_analysis::without_small(profile, share.of_one())
            }),
        };
        Ok(Self { profile, show })
    }
}

fn nothing_left(filter: &str, there_were: &str, lasted: Nanoseconds) -> anyhow::Error {
    let why = match (filter.starts_with("--time"), lasted) {
        (false, _) => String::new(),
        (true, 0) => ", which have no times".to_owned(),
        (true, lasted) => format!(", the last of them after {:.1} s", lasted as f64 / 1e9),
    };
    Failure::NoSamples(format!("{filter} leaves nothing of the {there_were}{why}")).into()
}

/// How much there is of a profile: the weight of its event, or how many samples of all events.
fn amount(profile: &Profile) -> u64 {
    match profile.events.len() {
        0 | 1 => profile.total_weight(),
        _ => profile.samples.len() as u64,
    }
}

/// What [`amount`] counts.
fn unit_of(profile: &Profile) -> &'static str {
    match profile.events.len() {
        0 | 1 => profile.unit().label(),
        _ => "samples",
    }
}

/// The samples of the event that is shown, with a remark on the others.
pub(crate) fn shown_event(profile: Cow<'_, Profile>) -> Cow<'_, Profile> {
    if profile.events.len() < 2 {
        return profile;
    }
    let others = other_events(&profile);
    let mut shown = profile.into_owned().select(EventIndex::default());
    shown.notes.remark(format!("also recorded: {others}"));
    Cow::Owned(shown)
}

/// The events after the first, and how each is shown.
pub(crate) fn other_events(profile: &Profile) -> String {
    const SHOWN: usize = 8;
    let counts = profile.event_counts();
    let mut others: Vec<String> = (profile.events.iter().zip(counts))
        .skip(1)
        .take(SHOWN)
        .map(|(event, count)| {
            let name = printable(event.label());
            format!("{name} ({} samples): --event {name}", grouped(count))
        })
        .collect();
    let rest = profile.events.len().saturating_sub(1 + SHOWN);
    if rest > 0 {
        others.push(format!("{rest} more events"));
    }
    others.join(", ")
}

/// When the last sample was taken.
fn length_of(profile: &Profile) -> Nanoseconds {
    profile.samples.last().map_or(0, |sample| sample.time)
}

/// How much of the weight is left, in words.
fn share_left(left: u64, before: u64) -> String {
    match left {
        left if left == before => "all of the weight is left".to_owned(),
        left => format!(
            "{:.1} % of the weight is left",
            left as f64 / before.max(1) as f64 * 100.0
        ),
    }
}
