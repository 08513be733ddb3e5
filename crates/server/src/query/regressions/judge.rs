//! The verdict on one deployment.

use std::ops::Range;

use nodespy_analysis::{
    Basis, CompareOptions, Comparison, FunctionChange, RunCosts, Verdict, compare,
};
use nodespy_model::{About, EventType, Profile, WeightUnit, label_key};
use nodespy_store::{
    CPU_EVENT, Selection, Store, StoreError, UnixSeconds, WINDOW_SECONDS, profile_of,
};

use super::super::marks::PROCESS;
use super::super::requests::{Charged, cost_of_request, divide_by_requests};
use super::super::size_factors::level_out;
use super::super::{INSTANCE, QueryError};
use super::compared::{lately, one_after_the_other, same_hours, together};
use super::{Deployment, Exposure, Instance, Pair, RegressionOptions, RequestCost, Slower};

/// More runs than this a side make no verdict surer, and a merge each.
const MAX_INSTANCES: usize = 64;

/// How many stacks all runs of a comparison have together at most: some 100 bytes each.
const MAX_STACKS: usize = 1 << 22;

/// What the versions of a service are judged by.
pub(super) struct Judge<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) service: &'a str,
    pub(super) instances: &'a [Instance],
    pub(super) options: &'a RegressionOptions,
}

/// How far the middles of the two sides may be apart, as a part of the range that is compared, for them to have run at the same time.
const MAX_APART: f64 = 0.1;

/// Of two such sides, whatever drifts with the hours is a difference: of 20 quiet fleets it raised something in 8.
const REPLACED_SLOWLY: &str = "instances were replaced one by one, so that those of the earlier version are mostly from the beginning of the time \
     that both ran and those of the later from its end";

/// One instance, as a run.
struct Run {
    name: String,
    /// The part of its life that is compared.
    time: Range<UnixSeconds>,
    profile: Profile,
    /// What a request costs it, in nanoseconds of CPU time, where that is known.
    cost_of_request: Option<f64>,
}

impl Run {
    fn charged(&mut self) -> Charged<'_> {
        (&mut self.profile, self.cost_of_request)
    }
}

/// The instances of both versions, the earlier first.
type Sides = [Vec<Run>; 2];

impl Judge<'_> {
    /// Compares the instances of two versions.
    pub(super) fn judge(&self, pair: &Pair) -> Result<Deployment, QueryError> {
        let mut compared = together(pair, self.options.warm_up);
        let mut sides = self.sides(pair, &compared)?;
        let is_apart = is_enough(&sides) && is_apart(&sides, &compared[0]);
        let is_concurrent = is_enough(&sides) && !is_apart;
        let mut remarks = Vec::new();
        if !is_concurrent {
            let (why, matched) = match is_apart {
                true => (REPLACED_SLOWLY, same_hours(pair, self.options.horizon)),
                false => (
                    "the versions did not run at the same time long enough",
                    Some(one_after_the_other(pair, self.options.horizon)),
                ),
            };
            let Some((times, how)) = matched else {
                return Ok(Deployment {
                    instances: sides.each_ref().map(Vec::len),
                    remarks: vec![format!(
                        "no verdict: {why}, and the earlier one did not run at the same hours of the day before"
                    )],
                    ..self.deployment(pair)
                });
            };
            compared = times;
            sides = self.sides(pair, &compared)?;
            remarks.push(format!(
                "{why}: compared with {how}, so what else changed since is in it"
            ));
        }
        let mut deployment = Deployment {
            is_concurrent,
            instances: sides.each_ref().map(Vec::len),
            remarks,
            compared,
            ..self.deployment(pair)
        };
        if !is_enough(&sides) {
            deployment.remarks = vec![too_few(&sides, self.options)];
            return Ok(deployment);
        }
        match self.fill_in(&mut deployment, sides, pair) {
            // Two programs of one name, for instance. Other deployments can be judged all the same.
            Err(QueryError::Compare(why)) => {
                deployment.remarks = vec![format!("no verdict: {why}")]
            }
            filled => filled?,
        }
        Ok(deployment)
    }

    /// Of which nothing is known yet.
    fn deployment(&self, pair: &Pair) -> Deployment {
        Deployment {
            service: self.service.to_owned(),
            version: pair.after.clone(),
            before_version: pair.before.clone(),
            first: pair.first,
            is_concurrent: false,
            instances: [0; 2],
            smallest_seen: None,
            remarks: Vec::new(),
            compared: together(pair, self.options.warm_up),
            exposure: Exposure::Functions,
            request: None,
            slower: Vec::new(),
            gone: Vec::new(),
        }
    }

    /// Where what is stored of it can't be read.
    pub(super) fn without_verdict(&self, pair: &Pair, why: &StoreError) -> Deployment {
        Deployment {
            remarks: vec![format!("no verdict: {why}")],
            ..self.deployment(pair)
        }
    }

    /// Says what is slower.
    fn fill_in(
        &self,
        deployment: &mut Deployment,
        mut sides: Sides,
        pair: &Pair,
    ) -> Result<(), QueryError> {
        let by_requests = self.compare_by_requests(&mut sides)?;
        deployment.request = by_requests.as_ref().map(|(_, request)| *request);
        let is_dearer =
            |(all, _): &(Comparison, RequestCost)| all.total.verdict == Verdict::Regression;
        // Where a request costs more, so may all functions. Otherwise the median over functions sees more: hosts that
        // are slower are no matter to it.
        let (comparison, exposure) = match by_requests.filter(is_dearer) {
            Some((comparison, _)) => (comparison, Exposure::Requests),
            None => self.compare_by_functions(sides)?,
        };
        deployment.exposure = exposure;
        if exposure == Exposure::CpuTime {
            deployment.remarks.push(
                "too few functions have samples enough to tell load from code: these are changes of their shares of CPU time, which are smaller than those of their cost".to_owned(),
            );
        }
        deployment.smallest_seen = comparison.smallest_seen;
        deployment.remarks.extend(comparison.remarks);
        let is_slower = |change: &FunctionChange| change.own.verdict == Verdict::Regression;
        let slower: Vec<FunctionChange> = (comparison.functions.into_iter())
            .filter(is_slower)
            .collect();
        if slower.is_empty() {
            return Ok(());
        }
        let recent = self.recently(pair, deployment)?;
        for mut change in slower {
            // Before and after are other hours: that is never sure.
            if !deployment.is_concurrent {
                change.own.verdict = Verdict::LikelySlower;
            }
            let mut seen = deployment.compared[1].clone();
            let list = match has_gone(&change, &recent, self.options.min_change) {
                true => {
                    seen.end = lately(&seen).start;
                    &mut deployment.gone
                }
                false => &mut deployment.slower,
            };
            list.push(Slower { change, seen });
        }
        Ok(())
    }

    /// The same comparison of the last third of the time; nothing where that is too short or can't be compared.
    fn recently(
        &self,
        pair: &Pair,
        deployment: &Deployment,
    ) -> Result<Vec<FunctionChange>, QueryError> {
        let [before, after] = &deployment.compared;
        let recent = lately(after);
        let before = match deployment.is_concurrent {
            true => recent.clone(),
            false => before.clone(),
        };
        let mut sides = self.sides(pair, &[before, recent])?;
        if !is_enough(&sides) {
            return Ok(Vec::new());
        }
        let compared = match deployment.exposure {
            Exposure::Requests => self
                .compare_by_requests(&mut sides)
                .map(|found| found.map(|(it, _)| it)),
            _ => self.compare_by_functions(sides).map(|(it, _)| Some(it)),
        };
        match compared {
            Ok(comparison) => Ok(comparison.map_or_else(Vec::new, |it| it.functions)),
            Err(QueryError::Compare(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn sides(&self, pair: &Pair, times: &[Range<UnixSeconds>; 2]) -> Result<Sides, QueryError> {
        let mut room = MAX_STACKS;
        Ok([
            self.runs(&pair.before, &times[0], &mut room)?,
            self.runs(&pair.after, &times[1], &mut room)?,
        ])
    }

    /// By what a request costs, where the requests of all instances are known; they are divided by these then.
    fn compare_by_requests(
        &self,
        sides: &mut Sides,
    ) -> Result<Option<(Comparison, RequestCost)>, QueryError> {
        let mut charged = sides
            .each_mut()
            .map(|side| side.iter_mut().map(Run::charged).collect());
        let Some(request) = divide_by_requests(&mut charged) else {
            return Ok(None);
        };
        Ok(Some((self.compare(sides, true)?, request)))
    }

    /// By what most functions of an instance take, whatever it has to do.
    fn compare_by_functions(&self, mut sides: Sides) -> Result<(Comparison, Exposure), QueryError> {
        let mut profiles = sides
            .each_mut()
            .map(|side| side.iter_mut().map(|run| &mut run.profile).collect());
        let exposure = match level_out(&mut profiles) {
            true => Exposure::Functions,
            false => Exposure::CpuTime,
        };
        Ok((self.compare(&sides, false)?, exposure))
    }

    fn compare(&self, sides: &Sides, keeps_common: bool) -> Result<Comparison, QueryError> {
        let costs = |run: &Run| RunCosts::of(&run.name, &run.profile, None);
        let [before, after] = sides
            .each_ref()
            .map(|side| side.iter().map(costs).collect::<Vec<_>>());
        let options = CompareOptions {
            min_change: self.options.min_change,
            basis: Some(Basis::Run),
            keeps_common,
            ..CompareOptions::default()
        };
        Ok(compare(before, after, &options)?)
    }

    /// The instances of a version in a range of time, each without its warm-up.
    fn runs(
        &self,
        version: &str,
        time: &Range<UnixSeconds>,
        room: &mut usize,
    ) -> Result<Vec<Run>, QueryError> {
        let mut runs = Vec::new();
        for instance in self.instances.iter().filter(|it| it.version == version) {
            let span = &instance.span;
            let start = time.start.max(span.first + self.options.warm_up);
            let end = time.end.min(span.last + WINDOW_SECONDS);
            let is_short = end.saturating_sub(start) < self.options.min_length;
            if runs.len() >= MAX_INSTANCES || is_short {
                continue;
            }
            runs.extend(self.run(instance, start..end, room)?);
        }
        Ok(runs)
    }

    /// An instance in a range of time, if anything was sampled.
    fn run(
        &self,
        instance: &Instance,
        time: Range<UnixSeconds>,
        room: &mut usize,
    ) -> Result<Option<Run>, QueryError> {
        let span = &instance.span;
        let mut selection = Selection::new(self.service, CPU_EVENT, time.clone());
        for key in PROCESS {
            selection = selection.with(key, span.labels.get(key).unwrap_or_default());
        }
        let merged = self.store.merge(&selection, &[])?;
        let stacks: Vec<_> = merged
            .groups
            .into_iter()
            .flat_map(|group| group.stacks)
            .collect();
        if stacks.iter().all(|stack| stack.weight == 0) {
            return Ok(None);
        }
        *room = (room.checked_sub(stacks.len()))
            .ok_or(StoreError::Refused("its instances have too many stacks"))?;
        let ids: Vec<_> = stacks.iter().map(|stack| stack.stack).collect();
        let symbols = self.store.stacks(&ids)?;
        // It tells how many samples there are, and with that which functions have enough.
        let rate_hz = (1e9 / instance.sample_weight as f64).round().max(1.0) as u32;
        let about = About {
            app: self.service.to_owned(),
            nodespy_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..About::default()
        };
        let event = EventType::new("cpu-clock", WeightUnit::Nanoseconds).at_rate(rate_hz);
        let mut profile = profile_of(about, event, &symbols, &stacks);
        for process in &mut profile.processes {
            process.node_version = span.labels.get(label_key::NODE).map(str::to_owned);
        }
        let name = span.labels.get(INSTANCE).unwrap_or("instance").to_owned();
        Ok(Some(Run {
            name,
            time,
            profile,
            cost_of_request: cost_of_request(self.store, &selection)?,
        }))
    }
}

fn is_enough(sides: &Sides) -> bool {
    sides
        .iter()
        .all(|side| side.len() >= nodespy_analysis::MIN_RUNS)
}

/// Whether one side is of an earlier part of a range than the other.
fn is_apart(sides: &Sides, range: &Range<UnixSeconds>) -> bool {
    let [before, after] = sides.each_ref().map(|side| {
        let middles = side
            .iter()
            .map(|run| (run.time.start + run.time.end) as f64 / 2.0);
        middles.sum::<f64>() / side.len() as f64
    });
    let length = range.end.saturating_sub(range.start) as f64;
    (after - before).abs() > MAX_APART * length
}

fn too_few([before, after]: &Sides, options: &RegressionOptions) -> String {
    format!(
        "no verdict: {} and {} instances ran for {} s and longer, each side needs {}",
        before.len(),
        after.len(),
        options.min_length,
        nodespy_analysis::MIN_RUNS
    )
}

/// Whether a function that was slower over all of the time costs lately what it did before: an incident, a cache that filled, a
/// neighbour that has left. What can't be told stays.
fn has_gone(change: &FunctionChange, recent: &[FunctionChange], min_change: f64) -> bool {
    let same = recent.iter().find(|it| it.id == change.id);
    same.is_some_and(|recent| {
        let highest = recent.own.interval.map_or(f64::INFINITY, |(_, high)| high);
        recent.own.ratio < 1.0 + min_change && highest < change.own.ratio
    })
}
