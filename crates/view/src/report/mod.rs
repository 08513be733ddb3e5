//! What a profile says, for people as Markdown and for scripts and language models as JSON.
//!
//! Both are made from one [`Report`], so they say the same. The JSON is described, version by
//! version, in `docs/json.md`.

mod findings;
mod json;
mod json_text;
mod markdown;

use nodespy_analysis::{
    CallTree, ChargedWeights, FunctionWeights, NodeIndex, PackageWeights, Routes, Shares,
    SubsystemWeights, ThreadTime, charged_weights, condensed, function_weights, package_weights,
    passing_on, route_weights, shares, subsystem_weights, thread_weights, without_internals,
};
use nodespy_model::{Category, FunctionIndex, Profile, SmallSort, ThreadIndex};

pub(crate) use findings::Finding;
pub(crate) use json::Json;
pub(crate) use markdown::{Markdown, code, escaped};

use crate::wording::SHARE_PARTS;

/// How many rows a list of functions has at most.
const MAX_FUNCTIONS: usize = 25;
const MAX_PACKAGES: usize = 20;
const MAX_THREADS: usize = 20;
const MAX_STACKS: usize = 10;
/// How many functions of the application stand in a list of functions with a source, however
/// little they weigh.
const LEAST_OF_APP: usize = 3;
/// How many frames of a stack are listed, the innermost ones.
const MAX_FRAMES: usize = 60;

/// The counts behind every kind of report.
pub(crate) struct Report<'a> {
    profile: &'a Profile,
    total: u64,
    shares: Shares,
    pub(crate) subsystems: Vec<SubsystemWeights>,
    /// The functions with a source and what is charged to them.
    charged: Vec<ChargedWeights>,
    pub(crate) by_self: Vec<FunctionWeights>,
    by_total: Vec<FunctionWeights>,
    packages: Vec<PackageWeights>,
    threads: Vec<(ThreadIndex, u64)>,
    stacks: Vec<HotStack>,
    pub(crate) findings: Vec<Finding>,
    /// What threads did with their time, idle time included, where samples say it.
    pub(crate) times: Vec<ThreadTime>,
    /// CPU time by route, where samples have one.
    pub(crate) routes: Routes,
}

/// A call path that many samples end at.
struct HotStack {
    weight: u64,
    /// Frames at the root that are left out.
    left_out: usize,
    /// The functions from the root to the leaf.
    functions: Vec<FunctionIndex>,
}

impl<'a> Report<'a> {
    /// Of a profile without the idle time that samples name; `times` are of the whole.
    fn of(profile: &'a Profile, times: Vec<ThreadTime>) -> Self {
        let mut report = Self::counted(profile);
        report.times = times;
        report.stacks = hot_stacks(profile);
        report.findings = findings::of(&report);
        report.by_self.truncate(MAX_FUNCTIONS);
        // Who called is asked of code with a source; the rest is in the other list.
        let is_written = |entry: &FunctionWeights| {
            let category = profile.function(entry.function).category;
            matches!(
                category,
                Category::App | Category::Dependency | Category::NodeCore | Category::Wasm
            )
        };
        if report.by_total.iter().any(is_written) {
            report.by_total.retain(is_written);
        }
        report.by_total.truncate(MAX_FUNCTIONS);
        report.charged = report.heaviest_charged(MAX_FUNCTIONS);
        report.packages.truncate(MAX_PACKAGES);
        report.threads.truncate(MAX_THREADS);
        report
    }

    /// What a summary shows: the counts in full, and what stands out.
    pub(crate) fn for_summary(profile: &'a Profile, times: Vec<ThreadTime>) -> Self {
        let mut report = Self::counted(profile);
        report.times = times;
        report.findings = findings::of(&report);
        report
    }

    /// The counts alone, in full.
    fn counted(profile: &'a Profile) -> Self {
        let mut weights = function_weights(profile, |_| true);
        // Time without work is no function.
        weights.retain(|entry| profile.function(entry.function).category != Category::Idle);
        let mut by_total = weights.clone();
        by_total.small_sort_by_key(|entry| {
            std::cmp::Reverse((entry.total_weight, entry.self_weight, entry.function))
        });
        let mut by_self = weights;
        by_self.retain(|entry| entry.self_weight > 0);
        Self {
            profile,
            total: profile.total_weight(),
            shares: shares(profile, |_| true),
            subsystems: subsystem_weights(profile, |_| true),
            charged: charged_weights(profile, |_| true),
            by_self,
            by_total,
            packages: package_weights(profile),
            threads: thread_weights(profile),
            stacks: Vec::new(),
            findings: Vec::new(),
            times: Vec::new(),
            routes: route_weights(profile),
        }
    }

    /// The subsystems, heaviest first.
    pub(crate) fn heaviest_subsystems(&self) -> Vec<&SubsystemWeights> {
        let mut heaviest: Vec<&SubsystemWeights> = self.subsystems.iter().collect();
        heaviest.small_sort_by_key(|entry| (std::cmp::Reverse(entry.weight), entry.subsystem));
        heaviest
    }

    /// The functions that most is charged to, and the heaviest of the application in any case.
    pub(crate) fn heaviest_charged(&self, most: usize) -> Vec<ChargedWeights> {
        let is_app = |entry: &&ChargedWeights| {
            self.profile.function(entry.function).category == Category::App
        };
        let weighs = |entry: &&ChargedWeights| entry.charged_weight > 0;
        let mut heaviest: Vec<ChargedWeights> = self
            .charged
            .iter()
            .filter(weighs)
            .take(most)
            .copied()
            .collect();
        let missing = LEAST_OF_APP.saturating_sub(heaviest.iter().filter(is_app).count());
        let rest = self.charged.iter().filter(weighs).skip(most);
        heaviest.extend(rest.filter(is_app).take(missing));
        heaviest
    }

    /// The functions with a source that most happens under; those that only pass on to one of the
    /// others are left out.
    pub(crate) fn heaviest_branching(&self, most: usize) -> Vec<FunctionWeights> {
        let passes_on = passing_on(self.profile, |_| true);
        let is_shown = |entry: &&FunctionWeights| {
            let category = self.profile.function(entry.function).category;
            matches!(category, Category::App | Category::Dependency)
                && !passes_on.contains_key(&entry.function)
        };
        let shown = self.by_total.iter().filter(is_shown);
        shown.take(most).copied().collect()
    }

    /// The kinds of work with their weights, in the order they are shown.
    fn kinds(&self) -> [(&'static str, u64); 6] {
        SHARE_PARTS.map(|part| (part.key, (part.weight)(&self.shares)))
    }
}

/// What a page says of a profile beside its pictures, as the summary for a terminal does.
pub(crate) struct Answers {
    /// What stands out, as sentences, the strongest first.
    pub(crate) findings: Vec<String>,
    /// The heaviest first.
    pub(crate) subsystems: Vec<SubsystemWeights>,
    pub(crate) total: u64,
}

impl Answers {
    /// Of a profile of one event.
    pub(crate) fn of(profile: &Profile) -> Self {
        // Plumbing is no finding; its time is its callers'.
        let shown = without_internals(condensed(profile));
        let report = Report::counted(&shown);
        let findings = findings::of(&report).into_iter();
        Self {
            findings: findings.map(|finding| finding.sentence).collect(),
            subsystems: report.heaviest_subsystems().into_iter().cloned().collect(),
            total: report.total,
        }
    }
}

fn hot_stacks(profile: &Profile) -> Vec<HotStack> {
    let tree = CallTree::of(profile, |_| true);
    let stack_of = |end: NodeIndex| {
        let path = tree.path_to(end);
        let left_out = path.len().saturating_sub(MAX_FRAMES);
        let listed = path[left_out..].iter();
        HotStack {
            weight: tree.node(end).self_weight,
            left_out,
            functions: listed.map(|node| tree.node(*node).function).collect(),
        }
    };
    let ends = tree.heaviest_ends(MAX_STACKS);
    ends.into_iter().map(stack_of).collect()
}
