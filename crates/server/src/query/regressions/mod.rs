//! What got slower between versions of a service: the test of `nodespy diff`, with instances as runs.
//!
//! A deployment is a version that was not there before, by its label or by a mark. Its instances are compared with those of the version before it,
//! while both ran where that is long enough, else before and after. Samples are never pooled: only the spread over instances
//! tells whether a difference is one. What an instance does more or less of everything (requests, another host) is taken out by the
//! median over its functions.

mod json;

use std::ops::Range;

use nodespy_analysis::{Basis, CompareOptions, FunctionChange, RunCosts, Verdict, compare};
use nodespy_model::{About, EventType, Profile, WeightUnit, label_key};
use nodespy_store::{
    CPU_EVENT, Selection, SeriesSpan, Store, UnixSeconds, WINDOW_SECONDS, profile_of,
};

use super::marks::Versions;
use super::size_factors::level_out;
use super::{INSTANCE, QueryError};

pub use json::regressions_json;
pub(crate) use json::{link, regression_json};

/// More runs than this a side make no verdict surer, and a merge each.
const MAX_INSTANCES: usize = 64;
/// How many deployments of a service are judged, the latest first.
const MAX_DEPLOYMENTS: usize = 20;

/// How versions are compared.
#[derive(Debug, Clone)]
pub struct RegressionOptions {
    /// What an instance does at first is left out, in seconds: modules are loaded and code is compiled.
    pub warm_up: u64,
    /// Instances with less than this are left out, in seconds.
    pub min_length: u64,
    /// How far from a deployment is looked, in seconds.
    pub horizon: u64,
    /// The least relative change that matters.
    pub min_change: f64,
}

impl Default for RegressionOptions {
    fn default() -> Self {
        Self {
            warm_up: 300,
            min_length: 600,
            horizon: 86_400,
            min_change: 0.03,
        }
    }
}

/// A deployment and what is to be said of it.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// The service.
    pub service: String,
    /// The version.
    pub version: String,
    /// The one before.
    pub before_version: String,
    /// When the version was first seen.
    pub first: UnixSeconds,
    /// Whether both ran at the time that is compared.
    pub is_concurrent: bool,
    /// How many instances of each are compared, the earlier version's first.
    pub instances: [usize; 2],
    /// The smallest change that would have been seen four times in five, as a ratio: the median over functions.
    pub smallest_seen: Option<f64>,
    /// What a reader must know.
    pub remarks: Vec<String>,
    /// From when until when each version is compared, the earlier one first.
    pub compared: [Range<UnixSeconds>; 2],
    /// What the costs of an instance are taken of.
    pub exposure: Exposure,
    /// The functions that are slower, what is surest and largest first.
    pub slower: Vec<Slower>,
    /// Those that were at first, and are not any more.
    pub gone: Vec<Slower>,
}

/// A function that is slower than in the version before.
#[derive(Debug, Clone)]
pub struct Slower {
    /// By how much, and how sure that is.
    pub change: FunctionChange,
    /// When it was first and last seen in the later version.
    pub seen: Range<UnixSeconds>,
}

/// What the costs of an instance are taken of, so that those with more to do can be compared with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// What most of its functions take.
    Functions,
    /// All CPU time: too few functions have samples enough.
    CpuTime,
}

impl Exposure {
    /// The word for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Functions => "functions",
            Self::CpuTime => "cpu time",
        }
    }
}

/// The deployments of a range of time, of one service or of all, the latest first.
pub fn regressions(
    store: &dyn Store,
    service: Option<&str>,
    time: Range<UnixSeconds>,
    options: &RegressionOptions,
) -> Result<Vec<Deployment>, QueryError> {
    let reach = time.start.saturating_sub(options.horizon)..time.end;
    let mut spans = store.labels(reach.clone())?;
    spans.retain(|span| service.is_none_or(|it| it == span.service));
    let mut services: Vec<String> = spans.iter().map(|span| span.service.clone()).collect();
    services.sort_unstable();
    services.dedup();
    let mut versions = Versions::of_all(store, &reach)?;
    let mut found = Vec::new();
    for service in services {
        let versions = versions.remove(&service).unwrap_or_default();
        let is_sampled = |span: &&SeriesSpan| span.service == service && span.event == CPU_EVENT;
        let instances: Vec<(String, &SeriesSpan)> = spans
            .iter()
            .filter(is_sampled)
            .map(|span| (versions.name(span), span))
            .collect();
        for pair in deployments(&instances, &time) {
            found.push(judge(store, &service, &instances, &pair, options)?);
        }
    }
    found.sort_by_key(|deployment| std::cmp::Reverse(deployment.first));
    Ok(found)
}

/// Two versions, one of which came after the other.
#[derive(Debug, PartialEq, Eq)]
struct Pair {
    before: String,
    after: String,
    /// When the later was first seen.
    first: UnixSeconds,
    /// When the earlier was last seen.
    before_ended: UnixSeconds,
}

/// The deployments of a service that began in a range of time.
fn deployments(instances: &[(String, &SeriesSpan)], time: &Range<UnixSeconds>) -> Vec<Pair> {
    let mut versions: Vec<(String, UnixSeconds, UnixSeconds)> = Vec::new();
    for (name, span) in instances {
        match versions.iter_mut().find(|(known, _, _)| known == name) {
            Some((_, first, last)) => {
                *first = (*first).min(span.first);
                *last = (*last).max(span.last + WINDOW_SECONDS);
            }
            None => versions.push((name.clone(), span.first, span.last + WINDOW_SECONDS)),
        }
    }
    versions.sort_by_key(|(_, first, last)| (*first, *last));
    let pairs = versions.windows(2).filter_map(|pair| {
        let [(before, _, before_ended), (after, first, _)] = pair else {
            return None;
        };
        time.contains(first).then(|| Pair {
            before: before.clone(),
            after: after.clone(),
            first: *first,
            before_ended: *before_ended,
        })
    });
    let pairs: Vec<Pair> = pairs.collect();
    pairs.into_iter().rev().take(MAX_DEPLOYMENTS).collect()
}

/// One instance, as a run.
struct Run {
    name: String,
    profile: Profile,
}

/// Compares the instances of two versions.
fn judge(
    store: &dyn Store,
    service: &str,
    instances: &[(String, &SeriesSpan)],
    pair: &Pair,
    options: &RegressionOptions,
) -> Result<Deployment, QueryError> {
    let both = pair.first + options.warm_up..pair.before_ended;
    let of = |version: &str, time: &Range<UnixSeconds>| {
        runs(store, (service, version), instances, time, options)
    };
    let mut sides = [of(&pair.before, &both)?, of(&pair.after, &both)?];
    let is_enough = |side: &Vec<Run>| side.len() >= nodespy_analysis::MIN_RUNS;
    let is_concurrent = sides.iter().all(is_enough);
    let mut compared = [both.clone(), both];
    if !is_concurrent {
        let before = pair.first.saturating_sub(options.horizon)..pair.first.min(pair.before_ended);
        let after = pair.first..pair.first + options.horizon;
        sides = [of(&pair.before, &before)?, of(&pair.after, &after)?];
        compared = [before, after];
    }
    let mut deployment = Deployment {
        service: service.to_owned(),
        version: pair.after.clone(),
        before_version: pair.before.clone(),
        first: pair.first,
        is_concurrent,
        instances: sides.each_ref().map(Vec::len),
        smallest_seen: None,
        remarks: Vec::new(),
        compared,
        exposure: Exposure::Functions,
        slower: Vec::new(),
        gone: Vec::new(),
    };
    if !sides.iter().all(is_enough) {
        deployment.remarks.push(format!(
            "no verdict: {} and {} instances ran for {} s and longer, each side needs {}",
            sides[0].len(),
            sides[1].len(),
            options.min_length,
            nodespy_analysis::MIN_RUNS
        ));
        return Ok(deployment);
    }
    if !is_concurrent {
        deployment.remarks.push(
            "the versions did not run at the same time long enough: what changed with the hour or the load is in it".to_owned(),
        );
    }
    let mut profiles = sides
        .each_mut()
        .map(|side| side.iter_mut().map(|run| &mut run.profile).collect());
    if !level_out(&mut profiles) {
        deployment.exposure = Exposure::CpuTime;
        deployment.remarks.push(
            "too few functions have samples enough to tell load from code: these are changes of their shares of CPU time, which are smaller than those of their cost".to_owned(),
        );
    }
    let costs = sides.map(|side| {
        let runs = side
            .iter()
            .map(|run| RunCosts::of(&run.name, &run.profile, None));
        runs.collect::<Vec<_>>()
    });
    let [before, after] = costs;
    let compare_options = CompareOptions {
        min_change: options.min_change,
        basis: Some(Basis::Run),
        ..CompareOptions::default()
    };
    let comparison = compare(before, after, &compare_options)?;
    deployment.smallest_seen = comparison.smallest_seen;
    deployment.remarks.extend(comparison.remarks);
    for mut change in comparison.functions {
        match change.own.verdict {
            Verdict::Regression if is_concurrent => {}
            // Before and after are other hours: that is never sure.
            Verdict::Regression => change.own.verdict = Verdict::LikelySlower,
            _ => continue,
        }
        let seen = deployment.compared[1].clone();
        deployment.slower.push(Slower { change, seen });
    }
    Ok(deployment)
}

/// The instances of a version in a range of time, each without its warm-up.
fn runs(
    store: &dyn Store,
    (service, version): (&str, &str),
    instances: &[(String, &SeriesSpan)],
    time: &Range<UnixSeconds>,
    options: &RegressionOptions,
) -> Result<Vec<Run>, QueryError> {
    let mut runs = Vec::new();
    for (_, span) in instances.iter().filter(|(name, _)| name == version) {
        let start = time.start.max(span.first + options.warm_up);
        let end = time.end.min(span.last + WINDOW_SECONDS);
        if runs.len() >= MAX_INSTANCES || end.saturating_sub(start) < options.min_length {
            continue;
        }
        let mut selection = Selection::new(service, CPU_EVENT, start..end);
        for key in [label_key::VERSION, INSTANCE, label_key::STARTED] {
            selection = selection.with(key, span.labels.get(key).unwrap_or_default());
        }
        let merged = store.merge(&selection, &[])?;
        let stacks: Vec<_> = merged
            .groups
            .into_iter()
            .flat_map(|group| group.stacks)
            .collect();
        if stacks.is_empty() {
            continue;
        }
        let ids: Vec<_> = stacks.iter().map(|stack| stack.stack).collect();
        let symbols = store.stacks(&ids)?;
        let rate_hz = (1e9 / span.period as f64).round() as u32;
        let about = About {
            app: service.to_owned(),
            nodespy_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..About::default()
        };
        let event = EventType::new("cpu-clock", WeightUnit::Nanoseconds).at_rate(rate_hz);
        let mut profile = profile_of(about, event, &symbols, &stacks);
        for process in &mut profile.processes {
            process.node_version = span.labels.get(label_key::NODE).map(str::to_owned);
        }
        let name = span.labels.get(INSTANCE).unwrap_or("instance").to_owned();
        runs.push(Run { name, profile });
    }
    Ok(runs)
}
