//! What got slower between versions of a service: the test of `nodespy diff`, with instances as runs.
//!
//! A deployment is a version that was not there before, by its label or by a mark. Its instances are compared with those of the version before it,
//! while both ran where that is long enough, else before and after, at the same hours of the day where that can be. Samples are never
//! pooled: only the spread over instances tells whether a difference is one. What an instance does more or less of everything (requests,
//! another host) is taken out by its requests where they are known, else by the median over its functions.

mod compared;
mod json;
mod judge;

use std::collections::BTreeMap;
use std::ops::Range;

use nodespy_analysis::FunctionChange;
use nodespy_model::{SmallSort, label_key};
use nodespy_store::{CPU_EVENT, SAMPLING_RATE, SeriesSpan, Store, UnixSeconds, WINDOW_SECONDS};

use super::marks::{PROCESS, Versions};
use super::sampling::weight_of_sample;
use super::{INSTANCE, QueryError};
use judge::Judge;

pub use json::regressions_json;
pub(crate) use json::{link, regression_json};

/// How many deployments of a service are judged, the latest first.
const MAX_DEPLOYMENTS: usize = 20;

/// The labels that are read: a week of processes is a lot, and what else they are tagged with is most of it.
const LABELS: [&str; 5] = [
    label_key::VERSION,
    INSTANCE,
    label_key::STARTED,
    label_key::NODE,
    SAMPLING_RATE,
];

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
    /// What was seen from then on is left out: how it looked at that time.
    pub until: UnixSeconds,
}

impl Default for RegressionOptions {
    fn default() -> Self {
        Self {
            warm_up: 300,
            min_length: 600,
            horizon: 86_400,
            min_change: 0.03,
            until: UnixSeconds::MAX,
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
    /// What a request costs, where requests are known.
    pub request: Option<RequestCost>,
    /// The functions that are slower, what is surest and largest first.
    pub slower: Vec<Slower>,
    /// Those that were at first, and are not any more.
    pub gone: Vec<Slower>,
}

impl Deployment {
    /// Whether it is of the same versions.
    fn is_of(&self, other: &Self) -> bool {
        let names = |it: &Self| [&it.service, &it.before_version, &it.version].map(String::clone);
        names(self) == names(other)
    }
}

/// A function that is slower than in the version before.
#[derive(Debug, Clone)]
pub struct Slower {
    /// By how much, and how sure that is.
    pub change: FunctionChange,
    /// The time of the later version that was compared; without its last third, where it is not slower any more in that.
    pub seen: Range<UnixSeconds>,
}

/// What the costs of an instance are taken of, so that those with more to do can be compared with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// The requests it answered: one costs more CPU time than before.
    Requests,
    /// What most of its functions take.
    Functions,
    /// All CPU time: too few functions have samples enough.
    CpuTime,
}

/// What is known of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestCost {
    /// So many are those of an instance, on average.
    pub each: u64,
    /// What one costs in nanoseconds of CPU time, the earlier version first.
    pub cpu_ns: [u64; 2],
}

impl Exposure {
    /// The word for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Requests => "requests",
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
    let end = time.end.min(options.until);
    let reach = time.start.saturating_sub(compared::REACH + options.horizon)..end;
    let is_meant =
        |span: &SeriesSpan| span.event == CPU_EVENT && service.is_none_or(|it| it == span.service);
    let mut spans = store.labels_of(reach.clone(), &is_meant, &LABELS)?;
    for span in &mut spans {
        span.last = span.last.min(options.until.saturating_sub(WINDOW_SECONDS));
    }
    let mut services: Vec<String> = spans.iter().map(|span| span.service.clone()).collect();
    services.small_sort();
    services.dedup();
    let mut versions = Versions::of_all(store, &reach)?;
    let mut found = Vec::new();
    for service in services {
        let versions = versions.remove(&service).unwrap_or_default();
        let of_service = spans.iter().filter(|span| span.service == service);
        let instances = instances(of_service, &versions);
        let judge = Judge {
            store,
            service: &service,
            instances: &instances,
            options,
        };
        for pair in deployments(&instances, &time, options) {
            let judged = match judge.judge(&pair) {
                // Others can be judged all the same.
                Err(QueryError::Store(error)) if error.is_of_data() => {
                    log::warn!("{service} {} is not judged: {error}", pair.after);
                    judge.without_verdict(&pair, &error)
                }
                judged => judged?,
            };
            found.push(judged);
        }
    }
    found.small_sort_by_key(|deployment| std::cmp::Reverse(deployment.first));
    Ok(found)
}

/// Keeps of what is slower what was found at an earlier time too. Who looks every few minutes for a day looks hundreds of times, and
/// chance has as many tries; what it shows once is mostly gone at the next.
pub fn keep_lasting(deployments: &mut [Deployment], earlier: &[Deployment]) {
    for deployment in deployments {
        let same = earlier.iter().find(|it| it.is_of(deployment));
        let was_found = |slower: &Slower| {
            let mut known = same.into_iter().flat_map(|it| &it.slower);
            known.any(|it| it.change.id == slower.change.id)
        };
        deployment.slower.retain(was_found);
    }
}

/// A process of a service.
#[derive(Debug)]
struct Instance {
    /// The name of its version.
    version: String,
    /// All its series: an agent that was started again with another rate or label has made one more.
    span: SeriesSpan,
    /// What one of its samples weighs, at most.
    sample_weight: u64,
}

/// The processes that series are of.
fn instances<'a>(
    spans: impl Iterator<Item = &'a SeriesSpan>,
    versions: &Versions,
) -> Vec<Instance> {
    let mut instances: BTreeMap<[&str; 3], Instance> = BTreeMap::new();
    for span in spans {
        let process = PROCESS.map(|key| span.labels.get(key).unwrap_or_default());
        let instance = instances.entry(process).or_insert_with(|| Instance {
            version: String::new(),
            span: span.clone(),
            sample_weight: 0,
        });
        instance.span.first = instance.span.first.min(span.first);
        instance.span.last = instance.span.last.max(span.last);
        instance.sample_weight = instance.sample_weight.max(weight_of_sample(span));
    }
    let mut instances: Vec<Instance> = instances.into_values().collect();
    for instance in &mut instances {
        instance.version = versions.name(&instance.span);
    }
    instances
}

/// Two versions, one of which came after the other.
#[derive(Debug, PartialEq, Eq)]
struct Pair {
    before: String,
    after: String,
    /// When the later was first seen.
    first: UnixSeconds,
    /// When each was last seen, the earlier first.
    ended: [UnixSeconds; 2],
    /// When the earlier was first seen.
    before_first: UnixSeconds,
}

/// A version of a service, and from when until when it was seen.
struct Seen<'a> {
    name: &'a str,
    first: UnixSeconds,
    ended: UnixSeconds,
    /// How many of its instances ran for long enough to be compared.
    comparable: usize,
}

/// The versions of a service, the earliest first.
fn versions<'a>(instances: &'a [Instance], options: &RegressionOptions) -> Vec<Seen<'a>> {
    let mut versions: BTreeMap<&str, Seen<'_>> = BTreeMap::new();
    for Instance { version, span, .. } in instances {
        let seen = versions.entry(version).or_insert(Seen {
            name: version,
            first: span.first,
            ended: 0,
            comparable: 0,
        });
        let ended = span.last + WINDOW_SECONDS;
        seen.first = seen.first.min(span.first);
        seen.ended = seen.ended.max(ended);
        let length = ended.saturating_sub(span.first + options.warm_up);
        seen.comparable += usize::from(length >= options.min_length);
    }
    let mut versions: Vec<Seen<'_>> = versions.into_values().collect();
    versions.small_sort_by_key(|seen| (seen.first, seen.ended));
    versions
}

/// The deployments of a service that began in a range of time. The version before is the latest that can be compared: one that was
/// rolled back after minutes does not hide the next one's regression.
fn deployments(
    instances: &[Instance],
    time: &Range<UnixSeconds>,
    options: &RegressionOptions,
) -> Vec<Pair> {
    let versions = versions(instances, options);
    let mut pairs = Vec::new();
    let mut comparable: Option<&Seen<'_>> = None;
    for (adjacent, after) in versions.iter().zip(versions.iter().skip(1)) {
        if adjacent.comparable >= nodespy_analysis::MIN_RUNS {
            comparable = Some(adjacent);
        }
        let before = comparable.unwrap_or(adjacent);
        if time.contains(&after.first) {
            pairs.push(Pair {
                before: before.name.to_owned(),
                after: after.name.to_owned(),
                first: after.first,
                ended: [before.ended, after.ended],
                before_first: before.first,
            });
        }
    }
    pairs.into_iter().rev().take(MAX_DEPLOYMENTS).collect()
}
