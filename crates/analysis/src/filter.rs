//! What of a profile is shown: filters, applied in a fixed order.
//!
//! First the samples are chosen (`--pid`, `--label`, `--thread`, `--time`, `--route`, `--no-idle`, `--focus`,
//! `--ignore`, `--where`), by whole stacks; then frames go (V8's and libc's plumbing, `--show-from`, `--hide`,
//! `--only`); then frames become one (`--fold`, `--collapse-recursion`); `--no-merge-tiers` parts
//! them; and `--min-share` measures what is left. `--merge` makes one of the processes that were
//! chosen, `--redact` comes last. The order in which they are given does not matter.

mod labels;
mod routes;
mod steps;
mod threads;
mod values;

use std::borrow::Cow;

use nodespy_model::{Category, EventIndex, FunctionIndex, Nanoseconds, Profile, printable};

use crate::expression::{Bound, Condition};
use crate::transform::{self, CodeKind};
use steps::Step;

pub(crate) use labels::{has_label, label_of};
pub use routes::only_routes;
pub(crate) use threads::is_thread;
pub(crate) use values::is_folded;
pub use values::{LabelFilter, Pattern, Share, TimeRange, parse_bytes, parse_seconds};

/// What is shown. Nothing is filtered by default.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    /// Keep samples with a function that matches; several: with a match for each.
    pub focus: Vec<Pattern>,
    /// Drop samples with a matching function.
    pub ignore: Vec<Pattern>,
    /// Keep samples for whose leaf a condition holds; several: each of them.
    pub conditions: Vec<Condition>,
    /// Drop frames that match and keep their time with their callers.
    pub hide: Vec<Pattern>,
    /// Cut stacks before the first match from the root, drop samples without one.
    pub show_from: Vec<Pattern>,
    /// Keep frames of these kinds and give them the time of what they call.
    pub only: Vec<CodeKind>,
    /// Only these threads, by name, tid or role.
    pub thread: Vec<String>,
    /// Only a part of the time.
    pub time: Option<TimeRange>,
    /// Only samples of requests whose route matches; several: any of them.
    pub route: Vec<Pattern>,
    /// Make one frame of consecutive frames of a package.
    pub fold: Vec<String>,
    /// Show direct recursion as one frame.
    pub collapse_recursion: bool,
    /// Drop idle samples.
    pub no_idle: bool,
    /// Drop call paths under a share of the whole.
    pub min_share: Option<Share>,
    /// Show the tiers of a function apart.
    pub no_merge_tiers: bool,
    /// Only processes with these labels.
    pub label: Vec<LabelFilter>,
    /// Show all processes as one.
    pub merge: bool,
    /// Leave out what should not be given away.
    pub redact: bool,
    /// Show V8's and libc's plumbing too.
    pub raw: bool,
    /// Only these processes; all when empty.
    pub pid: Vec<u32>,
}

/// Why nothing can be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FilterError(String);

impl Filters {
    /// The same for a profile that has its shape already: merged and redacted as asked.
    pub fn of_shaped(&self) -> Self {
        Self {
            merge: false,
            redact: false,
            ..self.clone()
        }
    }
}

/// What is to be done with a profile that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// It is looked at: the plumbing between the kinds of code goes.
    WhatIsShown,
    /// It can be opened again: without filters it holds everything.
    Everything,
}

/// The profile as the filters leave it, with a note of what they did. Fails when one leaves nothing.
pub fn filtered<'a>(
    profile: Cow<'a, Profile>,
    show: &Filters,
    holding: Holding,
) -> Result<Cow<'a, Profile>, FilterError> {
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
            work.profile = transform::without_internals(work.profile);
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
        profile = transform::without_unused(profile);
        let left = share_left(amount(&profile), before);
        profile
            .notes
            .add_filter(&format!("{} ({left})", done.join(" ")));
    }
    Ok(Cow::Owned(profile))
}

/// The profile as it is to be kept, before any filter: as one process, or fit to give away.
pub fn shaped(mut profile: Profile, show: &Filters) -> Profile {
    if show.merge {
        profile = transform::merge_processes(profile);
    }
    if show.redact {
        profile = transform::redact(profile);
    }
    profile
}

/// A profile on its way through the steps.
struct Work<'a> {
    profile: Profile,
    show: &'a Filters,
}

impl Work<'_> {
    fn apply(self, step: Step) -> Result<Self, FilterError> {
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
            Step::Pid => transform::only_threads(profile, |profile, thread| {
                let process = profile.threads[thread.at()].process;
                show.pid.contains(&profile.processes[process.at()].pid)
            }),
            Step::Label => labels::only_labelled(profile, &show.label)?,
            Step::Merge => transform::merge_processes(profile),
            Step::Redact => transform::redact(profile),
            Step::Thread => threads::only_named(profile, &show.thread)?,
            Step::Time => show.time.iter().fold(profile, |profile, range| {
                let (start, end) = range.in_profile(&profile);
                transform::only_between(profile, start, end)
            }),
            Step::Route => routes::only_routed(profile, &show.route)?,
            Step::NoIdle => transform::without_idle(profile),
            Step::Focus => show.focus.iter().fold(profile, |profile, pattern| {
                transform::focus(profile, matches_any(std::slice::from_ref(pattern)))
            }),
            Step::Ignore => transform::ignore(profile, matches_any(&show.ignore)),
            Step::Where => show.conditions.iter().fold(profile, only_where),
            Step::Internals => profile,
            Step::ShowFrom => transform::show_from(profile, matches_any(&show.show_from)),
            Step::Hide => transform::hide(profile, matches_any(&show.hide)),
            Step::Only => transform::only(profile, &show.only),
            Step::Fold => transform::fold(profile, |package| {
                let mut names = show.fold.iter();
                names.any(|name| values::is_folded(package, name))
            }),
            Step::CollapseRecursion => transform::collapse_recursion(profile),
            Step::SplitTiers => transform::split_tiers(profile),
            Step::MinShare => show.min_share.iter().fold(profile, |profile, share| {
                transform::without_small(profile, share.of_one())
            }),
        };
        Ok(Self { profile, show })
    }
}

fn only_where(mut profile: Profile, condition: &Condition) -> Profile {
    let bound = Bound::new(condition, &profile);
    let is_kept: Vec<bool> = (profile.samples.iter())
        .map(|sample| bound.holds_at_leaf(sample))
        .collect();
    let mut is_kept = is_kept.into_iter();
    profile.samples.retain(|_| is_kept.next() == Some(true));
    profile
}

fn nothing_left(filter: &str, there_were: &str, lasted: Nanoseconds) -> FilterError {
    let why = match (filter.starts_with("--time"), lasted) {
        (false, _) => String::new(),
        (true, 0) => ", which have no times".to_owned(),
        (true, lasted) => format!(", the last of them after {:.1} s", lasted as f64 / 1e9),
    };
    FilterError(format!("{filter} leaves nothing of the {there_were}{why}"))
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
pub fn shown_event(profile: Cow<'_, Profile>) -> Cow<'_, Profile> {
    if profile.events.len() < 2 {
        return profile;
    }
    let others = other_events(&profile);
    let mut shown = profile.into_owned().select(EventIndex::default());
    shown.notes.remark(format!("also recorded: {others}"));
    Cow::Owned(shown)
}

/// The events after the first, and how each is shown.
pub fn other_events(profile: &Profile) -> String {
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

/// A number with its thousands apart.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::{About, Notes, ProfileBuilder, WeightUnit};

    #[test]
    fn thousands_are_apart() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1234), "1,234");
        assert_eq!(grouped(123_456_789), "123,456,789");
    }

    #[test]
    fn without_filters_what_can_be_opened_again_is_not_even_copied() {
        let builder = ProfileBuilder::new(WeightUnit::Samples);
        let profile = builder.finish(About::default(), Notes::default());
        let filters = Filters::default();
        let kept = filtered(Cow::Borrowed(&profile), &filters, Holding::Everything);
        assert!(matches!(kept, Ok(Cow::Borrowed(_))));
    }
}
