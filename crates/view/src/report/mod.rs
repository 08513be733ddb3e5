//! What a profile says, for people as Markdown and for scripts and language models as JSON.
//!
//! Both are made from one [`Report`], so they say the same. The JSON is described, version by
//! version, in `docs/json.md`.

mod findings;
mod json;
mod json_text;
mod markdown;

use nodespy_analysis::{
    CallTree, FunctionWeights, NodeIndex, PackageWeights, Shares, condensed, function_weights,
    package_weights, shares, thread_weights, without_internals,
};
use nodespy_model::{Category, FunctionIndex, Profile, ThreadIndex};

pub(crate) use json::Json;
pub(crate) use markdown::Markdown;

use crate::wording::SHARE_PARTS;

/// How many rows a list of functions has at most.
const MAX_FUNCTIONS: usize = 25;
const MAX_PACKAGES: usize = 20;
const MAX_THREADS: usize = 20;
const MAX_STACKS: usize = 10;
/// How many frames of a stack are listed, the innermost ones.
const MAX_FRAMES: usize = 60;

/// The counts behind both kinds of report.
struct Report<'a> {
    profile: &'a Profile,
    total: u64,
    shares: Shares,
    by_self: Vec<FunctionWeights>,
    by_total: Vec<FunctionWeights>,
    packages: Vec<PackageWeights>,
    threads: Vec<(ThreadIndex, u64)>,
    stacks: Vec<HotStack>,
    findings: Vec<String>,
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
    fn of(profile: &'a Profile) -> Self {
        let mut report = Self::counted(profile);
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
        report.packages.truncate(MAX_PACKAGES);
        report.threads.truncate(MAX_THREADS);
        report
    }

    /// The counts alone, in full.
    fn counted(profile: &'a Profile) -> Self {
        let weights = function_weights(profile, |_| true);
        let mut by_total = weights.clone();
        by_total.sort_by_key(|entry| {
            std::cmp::Reverse((entry.total_weight, entry.self_weight, entry.function))
        });
        let mut by_self = weights;
        by_self.retain(|entry| entry.self_weight > 0);
        Self {
            profile,
            total: profile.total_weight(),
            shares: shares(profile, |_| true),
            by_self,
            by_total,
            packages: package_weights(profile),
            threads: thread_weights(profile),
            stacks: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// The kinds of work with their weights, in the order they are shown.
    fn kinds(&self) -> [(&'static str, u64); 6] {
        SHARE_PARTS.map(|part| (part.key, (part.weight)(&self.shares)))
    }
}

/// What stands out in a profile, as sentences, what matters most first.
pub(crate) fn findings(profile: &Profile) -> Vec<String> {
    // Plumbing is no finding; its time is its callers'.
    let shown = without_internals(condensed(profile));
    findings::of(&Report::counted(&shown))
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
