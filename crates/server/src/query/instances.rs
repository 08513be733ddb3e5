//! The instances of a selection, and the odd one out: one that uses more or less CPU than its siblings, or spends it elsewhere.
//!
//! Siblings are the instances of one version, each seen for about as long. What is usual is their median, and how far one may be
//! from it their median absolute deviation (MAD): the odd one moves neither, as it would a mean and a standard deviation. A distance that so
//! few samples can't tell from chance is never odd.

use std::collections::BTreeMap;
use std::ops::Range;

use nodespy_model::{FastMap, SmallSort, label_key};
use nodespy_store::{
    Group, Matcher, SAMPLING_RATE, Selection, SeriesSpan, StackId, Store, StoredFunction, Symbols,
    UnixSeconds, WINDOW_SECONDS,
};
use serde_json::{Value, json};

use super::QueryError;
use super::sampling::weight_of_sample;

const INSTANCE: &str = "instance";
/// How many instances are asked for, the latest first: each has counts of its own in memory.
const MAX_INSTANCES: usize = 200;
/// With fewer nobody can say which one is odd.
const MIN_SIBLINGS: usize = 3;
/// One that was seen for less than this share of the longest of its siblings is not judged: it starts, or ended early.
const MIN_SEEN: f64 = 0.5;
/// One with fewer samples is not judged.
const MIN_SAMPLES: u64 = 100;
/// How many robust standard deviations from the median CPU is odd (Iglewicz and Hoaglin, 1993).
const ODD_CPU: f64 = 3.5;
/// The same for the share of a function: of many functions one is always far out.
const ODD_SHARE: f64 = 5.0;
/// The least relative difference of CPU that matters.
const MIN_CPU_CHANGE: f64 = 0.25;
/// The least difference between shares that matters.
const MIN_SHARE_CHANGE: f64 = 0.03;
/// The MAD of a normal distribution is its standard deviation divided by this.
const MAD_TO_SIGMA: f64 = 1.4826;
/// How many functions of an instance are named.
const MAX_FUNCTIONS: usize = 3;

/// Which instances.
#[derive(Debug, Clone)]
pub struct InstancesQuery {
    /// Of what.
    pub selection: Selection,
}

/// An instance in a range of time.
#[derive(Debug, Clone)]
pub struct SeenInstance {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// When it was first seen, in the range.
    pub first: UnixSeconds,
    /// When it was last seen, in the range.
    pub last: UnixSeconds,
    /// For how many seconds of the range.
    pub seconds: u64,
    /// What it weighs: nanoseconds of CPU time, for the event of CPU time.
    pub weight: u64,
    /// Its samples, at least: each may count for several that were not taken.
    pub samples: u64,
    /// Whether there are siblings and samples enough to judge it.
    pub is_judged: bool,
    /// What is odd about it, what is furthest from its siblings first.
    pub odd: Vec<Odd>,
}

impl SeenInstance {
    /// Its weight a second: nanoseconds of CPU time become CPUs.
    pub fn cores(&self) -> f64 {
        self.weight as f64 / 1e9 / self.seconds.max(1) as f64
    }
}

/// What is odd about an instance.
#[derive(Debug, Clone, PartialEq)]
pub enum Odd {
    /// How much CPU it uses.
    Cpu {
        /// In CPUs.
        cores: f64,
        /// Its siblings' median.
        median: f64,
    },
    /// How much of its CPU a function takes by itself.
    Function {
        /// The function.
        function: StoredFunction,
        /// Of its CPU, from 0 to 1.
        share: f64,
        /// Its siblings' median.
        median: f64,
    },
}

impl Odd {
    /// It in a sentence.
    pub fn sentence(&self) -> String {
        match self {
            Self::Cpu { cores, median } if cores > median => format!(
                "uses {} times the CPU of its siblings: {} cores, their median is {}",
                ratio(cores / median),
                two(*cores),
                two(*median)
            ),
            Self::Cpu { cores, median } => format!(
                "uses {:.0} % of the CPU of its siblings: {} cores, their median is {}",
                cores / median * 100.0,
                two(*cores),
                two(*median)
            ),
            Self::Function {
                function,
                share,
                median,
            } => format!(
                "spends {} of its CPU in {}, its siblings {}",
                percent(*share),
                function.name,
                percent(*median)
            ),
        }
    }
}

fn ratio(value: f64) -> String {
    match value >= 10.0 {
        true => format!("{value:.0}"),
        false => format!("{value:.1}"),
    }
}

fn two(value: f64) -> String {
    match value < 0.095 {
        true => format!("{value:.3}"),
        false => format!("{value:.2}"),
    }
}

fn percent(share: f64) -> String {
    match share < 0.095 {
        true => format!("{:.1} %", share * 100.0),
        false => format!("{:.0} %", share * 100.0),
    }
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct SeenInstances {
    /// The instances: odd ones first, then by what they use.
    pub instances: Vec<SeenInstance>,
    /// How many there are beyond.
    pub left_off: usize,
    /// Hours of which instances are not known any more.
    pub missing_hours: u64,
}

/// The instances of a selection.
pub fn instances(store: &dyn Store, query: &InstancesQuery) -> Result<SeenInstances, QueryError> {
    let selection = &query.selection;
    let (seen, left_off) = seen_instances(store, selection)?;
    let mut asked = selection.clone();
    if left_off > 0 {
        let names = seen.keys().map(|(name, _)| name.clone());
        asked.matchers.push(Matcher {
            key: INSTANCE.to_owned(),
            values: names.collect(),
        });
    }
    let merged = store.merge(&asked, &[INSTANCE, label_key::VERSION])?;
    let names = Names::of(store, &merged.groups)?;
    let mut versions: BTreeMap<String, Vec<Costs>> = BTreeMap::new();
    for group in merged.groups {
        let [name, version] = &group.values[..] else {
            continue;
        };
        let Some(seen) = seen.get(&(name.clone(), version.clone())) else {
            continue;
        };
        let costs = Costs::of(name, version, seen, &group, &names);
        versions.entry(version.clone()).or_default().push(costs);
    }
    let mut instances = Vec::new();
    for mut siblings in versions.into_values() {
        judge(&mut siblings, &names.symbols.functions);
        instances.extend(siblings.into_iter().map(|costs| costs.instance));
    }
    instances.small_sort_by(|left, right| {
        let key = |it: &SeenInstance| (it.odd.is_empty(), -it.cores());
        let ((is_usual, cores), (other_is_usual, other_cores)) = (key(left), key(right));
        let by_cores = cores.total_cmp(&other_cores);
        is_usual.cmp(&other_is_usual).then(by_cores)
    });
    Ok(SeenInstances {
        instances,
        left_off,
        missing_hours: merged.missing_hours,
    })
}

/// Instance and version.
type Key = (String, String);

/// What the series of an instance say of it.
#[derive(Debug, Default)]
struct Seen {
    /// When it was seen, as ranges that don't overlap.
    times: Vec<Range<UnixSeconds>>,
    /// What one of its samples weighs, at most.
    sample_weight: u64,
}

impl Seen {
    fn end(&self) -> UnixSeconds {
        self.times.last().map_or(0, |range| range.end)
    }
}

/// The instances of a selection that were seen last, and how many there are beyond.
fn seen_instances(
    store: &dyn Store,
    selection: &Selection,
) -> Result<(BTreeMap<Key, Seen>, usize), QueryError> {
    let time = &selection.time;
    let mut seen: BTreeMap<Key, Seen> = BTreeMap::new();
    let is_meant =
        |span: &SeriesSpan| span.service == selection.service && span.event == selection.event;
    let keys = [INSTANCE, label_key::VERSION, SAMPLING_RATE];
    for span in store.labels_of(time.clone(), &is_meant, &keys)? {
        let label = |key: &str| span.labels.get(key).unwrap_or_default().to_owned();
        // Versions of which nothing but rollups is left have no instances.
        let name = label(INSTANCE);
        if name.is_empty() {
            continue;
        }
        let range = span.first.max(time.start)..(span.last + WINDOW_SECONDS).min(time.end);
        let instance = seen.entry((name, label(label_key::VERSION))).or_default();
        instance.times.push(range);
        instance.sample_weight = instance.sample_weight.max(weight_of_sample(&span));
    }
    for instance in seen.values_mut() {
        instance.times = united(std::mem::take(&mut instance.times));
    }
    let mut ends: Vec<UnixSeconds> = seen.values().map(Seen::end).collect();
    let left_off = ends.len().saturating_sub(MAX_INSTANCES);
    if left_off > 0 {
        ends.small_sort();
        let oldest = ends[left_off];
        let mut room = MAX_INSTANCES;
        seen.retain(|_, instance| {
            let is_kept = room > 0 && instance.end() >= oldest;
            room -= usize::from(is_kept);
            is_kept
        });
    }
    Ok((seen, left_off))
}

/// Ranges joined where they overlap, the earliest first.
fn united(mut ranges: Vec<Range<UnixSeconds>>) -> Vec<Range<UnixSeconds>> {
    ranges.retain(|range| !range.is_empty());
    ranges.small_sort_by_key(|range| range.start);
    let mut united: Vec<Range<UnixSeconds>> = Vec::new();
    for range in ranges {
        match united.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => united.push(range),
        }
    }
    united
}

/// The names of all stacks of some groups.
struct Names {
    symbols: Symbols,
    /// The function at the top of each stack.
    tops: FastMap<StackId, u32>,
}

impl Names {
    fn of(store: &dyn Store, groups: &[Group]) -> Result<Self, QueryError> {
        let stacks = groups.iter().flat_map(|group| &group.stacks);
        let mut ids: Vec<StackId> = stacks.map(|stack| stack.stack).collect();
        ids.small_sort();
        ids.dedup();
        let symbols = store.stacks(&ids)?;
        let top = |stack: &Vec<u32>| {
            let frame = symbols.frames.get(*stack.last()? as usize)?;
            Some(frame.function)
        };
        let tops = ids.iter().zip(&symbols.stacks);
        let tops = tops.filter_map(|(id, stack)| Some((*id, top(stack)?)));
        Ok(Self {
            tops: tops.collect(),
            symbols,
        })
    }
}

/// An instance and what its functions take by themselves.
struct Costs {
    instance: SeenInstance,
    functions: FastMap<u32, u64>,
}

impl Costs {
    fn of(name: &str, version: &str, seen: &Seen, group: &Group, names: &Names) -> Self {
        let times = &seen.times;
        let mut functions: FastMap<u32, u64> = FastMap::default();
        let mut weight = 0_u64;
        for stack in &group.stacks {
            weight = weight.saturating_add(stack.weight);
            if let Some(function) = names.tops.get(&stack.stack) {
                let sum = functions.entry(*function).or_default();
                *sum = sum.saturating_add(stack.weight);
            }
        }
        Self {
            instance: SeenInstance {
                name: name.to_owned(),
                version: version.to_owned(),
                first: times.first().map_or(0, |range| range.start),
                last: times.last().map_or(0, |range| range.end),
                seconds: times.iter().map(|range| range.end - range.start).sum(),
                weight,
                samples: weight / seen.sample_weight.max(1),
                is_judged: false,
                odd: Vec::new(),
            },
            functions,
        }
    }

    fn share(&self, function: u32) -> f64 {
        let weight = self.functions.get(&function).copied().unwrap_or(0);
        weight as f64 / self.instance.weight.max(1) as f64
    }
}

/// Compares the instances of a version with one another.
fn judge(siblings: &mut [Costs], functions: &[StoredFunction]) {
    let seconds = |costs: &Costs| costs.instance.seconds as f64;
    let longest = siblings.iter().map(seconds).fold(0.0, f64::max);
    for costs in siblings.iter_mut() {
        costs.instance.is_judged =
            seconds(costs) >= longest * MIN_SEEN && costs.instance.samples >= MIN_SAMPLES;
    }
    let judged = siblings.iter().filter(|costs| costs.instance.is_judged);
    if judged.count() < MIN_SIBLINGS {
        siblings
            .iter_mut()
            .for_each(|costs| costs.instance.is_judged = false);
        return;
    }
    let mut found: Vec<Vec<(f64, Odd)>> = siblings.iter().map(|_| Vec::new()).collect();
    odd_cpu(siblings, &mut found);
    odd_shares(siblings, functions, &mut found);
    for (costs, mut odd) in siblings.iter_mut().zip(found) {
        odd.small_sort_by(|(one, _), (other, _)| other.total_cmp(one));
        costs.instance.odd = odd.into_iter().map(|(_, odd)| odd).collect();
    }
}

fn odd_cpu(siblings: &[Costs], found: &mut [Vec<(f64, Odd)>]) {
    let all = siblings.iter().zip(found);
    let judged: Vec<_> = all.filter(|(costs, _)| costs.instance.is_judged).collect();
    let usual = Usual::of(judged.iter().map(|(costs, _)| costs.instance.cores()));
    for (costs, odd) in judged {
        let cores = costs.instance.cores();
        // What as many samples differ by from one time to another.
        let chance = cores / (costs.instance.samples as f64).sqrt();
        let distance = usual.distance(cores, chance);
        let change = (cores - usual.median).abs();
        if distance >= ODD_CPU && change >= MIN_CPU_CHANGE * usual.median && usual.median > 0.0 {
            let median = usual.median;
            // Before all functions: it is what the others may follow from.
            odd.push((f64::INFINITY, Odd::Cpu { cores, median }));
        }
    }
}

fn odd_shares(siblings: &[Costs], functions: &[StoredFunction], found: &mut [Vec<(f64, Odd)>]) {
    let is_judged = |costs: &&Costs| costs.instance.is_judged;
    // A function without that share anywhere can't be so far from any median.
    let mut candidates: Vec<u32> = siblings
        .iter()
        .filter(is_judged)
        .flat_map(|costs| costs.functions.keys().copied().map(move |it| (costs, it)))
        .filter(|(costs, function)| costs.share(*function) >= MIN_SHARE_CHANGE)
        .map(|(_, function)| function)
        .collect();
    candidates.small_sort();
    candidates.dedup();
    for function in candidates {
        let shares = siblings.iter().filter(is_judged);
        let usual = Usual::of(shares.map(|costs| costs.share(function)));
        let Some(named) = functions.get(function as usize) else {
            continue;
        };
        for (costs, odd) in siblings.iter().zip(&mut *found) {
            if !costs.instance.is_judged {
                continue;
            }
            let share = costs.share(function);
            let spread = usual.median.max(share);
            let chance = (spread * (1.0 - spread) / costs.instance.samples as f64).sqrt();
            let distance = usual.distance(share, chance);
            if distance >= ODD_SHARE && (share - usual.median).abs() >= MIN_SHARE_CHANGE {
                let odd_function = Odd::Function {
                    function: named.clone(),
                    share,
                    median: usual.median,
                };
                odd.push((distance, odd_function));
            }
        }
    }
    for odd in found {
        odd.small_sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let of_functions = odd
            .iter()
            .filter(|(_, it)| matches!(it, Odd::Function { .. }));
        let beyond = of_functions.count().saturating_sub(MAX_FUNCTIONS);
        odd.truncate(odd.len() - beyond);
    }
}

/// Median and spread of a few values.
struct Usual {
    median: f64,
    sigma: f64,
}

impl Usual {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let middle = median(values.clone());
        let deviations = values.iter().map(|value| (value - middle).abs());
        Self {
            median: middle,
            sigma: MAD_TO_SIGMA * median(deviations.collect()),
        }
    }

    /// How far a value is from the median, in standard deviations, `chance` being the least of them.
    fn distance(&self, value: f64, chance: f64) -> f64 {
        let sigma = self.sigma.max(chance).max(f64::MIN_POSITIVE);
        (value - self.median).abs() / sigma
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length.is_multiple_of(2) => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// The instances of a selection as JSON.
pub fn instances_json(store: &dyn Store, query: &InstancesQuery) -> Result<Value, QueryError> {
    let found = instances(store, query)?;
    let odd = |odd: &Odd| match odd {
        Odd::Cpu { cores, median } => json!({
            "kind": "cpu", "value": cores, "median": median, "sentence": odd.sentence(),
        }),
        Odd::Function {
            function,
            share,
            median,
        } => json!({
            "kind": "function", "function": function.name, "file": function.file, "line": function.line,
            "value": share, "median": median, "sentence": odd.sentence(),
        }),
    };
    let instance = |it: &SeenInstance| {
        json!({
            "instance": it.name, "version": it.version, "first": it.first, "last": it.last, "seconds": it.seconds,
            "weight": it.weight, "samples": it.samples, "cores": it.cores(), "judged": it.is_judged,
            "odd": it.odd.iter().map(odd).collect::<Vec<_>>(),
        })
    };
    Ok(json!({
        "from": query.selection.time.start,
        "until": query.selection.time.end,
        "instances": found.instances.iter().map(instance).collect::<Vec<_>>(),
        "left_off": found.left_off,
        "missing_hours": found.missing_hours,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_where_they_overlap() {
        assert_eq!(united(vec![5..9, 1..3, 3..4, 8..12, 7..7]), [1..4, 5..12]);
    }

    #[test]
    fn the_odd_value_moves_neither_median_nor_spread() {
        let values = |odd: f64| Usual::of([1.0, 1.1, 0.9, 1.05, odd].into_iter());
        let (one, other) = (values(2.0), values(200.0));
        assert_eq!((one.median, one.sigma), (other.median, other.sigma));
        assert!(one.distance(2.0, 0.0) > ODD_CPU);
        assert!(one.distance(1.1, 0.0) < ODD_CPU);
        // What chance may do is not odd, however close the others are.
        assert!(Usual::of([1.0; 5].into_iter()).distance(1.2, 0.1) < ODD_CPU);
    }
}
