//! Which filters there are, in which order, and what they are called on the command line.

use nodespy_model::SmallSort;

use super::Filters;

/// One filter, or several of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Pid,
    Label,
    Thread,
    Merge,
    Time,
    Route,
    NoIdle,
    Focus,
    Ignore,
    Where,
    Internals,
    ShowFrom,
    Hide,
    Only,
    Fold,
    CollapseRecursion,
    SplitTiers,
    MinShare,
    Redact,
}

impl Step {
    /// Every step, in the order they are taken.
    pub(super) const ORDER: &[Self] = &[
        Self::Pid,
        Self::Label,
        Self::Thread,
        Self::Merge,
        Self::Time,
        Self::Route,
        Self::NoIdle,
        Self::Focus,
        Self::Ignore,
        Self::Where,
        Self::Internals,
        Self::ShowFrom,
        Self::Hide,
        Self::Only,
        Self::Fold,
        Self::CollapseRecursion,
        Self::SplitTiers,
        Self::MinShare,
        Self::Redact,
    ];
}

impl Filters {
    /// Whether anything is to be filtered.
    pub fn has_filters(&self) -> bool {
        !self.steps().is_empty()
    }

    /// The filters that were asked for, each with its text on the command line.
    pub(super) fn steps(&self) -> Vec<(Step, String)> {
        let mut steps = Vec::new();
        let mut add = |step: Step, name: &str, value: String| {
            let quoted = match value.contains(|each: char| each.is_whitespace() || each == '\'') {
                true => format!("{value:?}"),
                false => value,
            };
            steps.push((step, format!("--{name} {quoted}").trim_end().to_owned()));
        };
        let pids: Vec<String> = self.pid.iter().map(u32::to_string).collect();
        if !pids.is_empty() {
            add(Step::Pid, "pid", pids.join(","));
        }
        for label in &self.label {
            add(Step::Label, "label", label.to_string());
        }
        for thread in &self.thread {
            add(Step::Thread, "thread", thread.clone());
        }
        if let Some(time) = &self.time {
            add(Step::Time, "time", time.to_string());
        }
        for (step, name, patterns) in [
            (Step::Route, "route", &self.route),
            (Step::Focus, "focus", &self.focus),
            (Step::Ignore, "ignore", &self.ignore),
            (Step::ShowFrom, "show-from", &self.show_from),
            (Step::Hide, "hide", &self.hide),
        ] {
            for pattern in patterns {
                add(step, name, pattern.to_string());
            }
        }
        for condition in &self.conditions {
            add(Step::Where, "where", condition.to_string());
        }
        for kind in &self.only {
            add(Step::Only, "only", kind.label().to_owned());
        }
        for package in &self.fold {
            add(Step::Fold, "fold", package.clone());
        }
        if let Some(share) = &self.min_share {
            add(Step::MinShare, "min-share", share.to_string());
        }
        for (step, name, is_on) in [
            (Step::Merge, "merge", self.merge),
            (Step::Redact, "redact", self.redact),
            (Step::NoIdle, "no-idle", self.no_idle),
            (
                Step::CollapseRecursion,
                "collapse-recursion",
                self.collapse_recursion,
            ),
            (Step::SplitTiers, "no-merge-tiers", self.no_merge_tiers),
        ] {
            if is_on {
                add(step, name, String::new());
            }
        }
        steps.small_sort_by_key(|(step, _)| Step::ORDER.iter().position(|each| each == step));
        steps
    }

    /// Whether frames are taken out or joined, so that what is between them matters.
    pub(super) fn changes_frames(&self) -> bool {
        let samples = [
            Step::Pid,
            Step::Label,
            Step::Merge,
            Step::Redact,
            Step::Thread,
            Step::Time,
            Step::Route,
            Step::NoIdle,
            Step::Focus,
            Step::Ignore,
            Step::Where,
            Step::SplitTiers,
        ];
        self.steps().iter().any(|(step, _)| !samples.contains(step))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LabelFilter, Pattern, Share, TimeRange};
    use super::*;
    use crate::{CodeKind, Condition};

    #[test]
    fn steps_are_taken_in_one_order() {
        let patterns = |texts: &[&str]| {
            let parsed = texts.iter().map(|text| Pattern::parse(text).unwrap());
            parsed.collect::<Vec<_>>()
        };
        let filters = Filters {
            focus: patterns(&["a", "b"]),
            ignore: patterns(&["c"]),
            show_from: patterns(&["d"]),
            hide: patterns(&["e f"]),
            conditions: vec![Condition::parse("thread = main").unwrap()],
            only: vec![CodeKind::JavaScript],
            thread: vec!["main".to_owned()],
            time: Some(TimeRange::parse("1s..2s").unwrap()),
            route: patterns(&["GET /a"]),
            fold: vec!["deps".to_owned()],
            collapse_recursion: true,
            no_idle: true,
            min_share: Some(Share::parse("1%").unwrap()),
            no_merge_tiers: true,
            label: vec![LabelFilter::parse("container=web").unwrap()],
            merge: true,
            redact: true,
            raw: true,
            pid: vec![1, 2],
        };
        let steps: Vec<String> = filters.steps().into_iter().map(|(_, text)| text).collect();
        let order = [
            "--pid 1,2",
            "--label container=web",
            "--thread main",
            "--merge",
            "--time 1s..2s",
            "--route \"GET /a\"",
            "--no-idle",
            "--focus a",
            "--focus b",
            "--ignore c",
            "--where \"thread = main\"",
            "--show-from d",
            "--hide \"e f\"",
            "--only js",
            "--fold deps",
            "--collapse-recursion",
            "--no-merge-tiers",
            "--min-share 1%",
            "--redact",
        ];
        assert_eq!(steps, order);
        assert!(!Filters::default().has_filters());
    }
}
