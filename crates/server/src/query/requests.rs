//! Requests as what the costs of an instance are divided by, where they are known.
//!
//! The median over functions ([`super::size_factors`]) can't tell an instance with more to do from a version that does more of everything
//! for each request. Requests can. Those of an instance are counted in the minutes in which they are known and set beside its CPU time of just
//! these minutes, so that a few which are not known move nothing.

use nodespy_model::Profile;
use nodespy_store::{REQUESTS_EVENT, Selection, Store, TimeSeriesSet, UnixSeconds};

use super::QueryError;
use super::regressions::RequestCost;

/// The steps in which requests are known or not: shorter ones may have none.
const STEP: u64 = 60;
/// Requests are stored a little after the samples of the same time: the end of a range is not compared.
const LAG: u64 = 60;
/// How much of the CPU time of an instance has to be in minutes with requests.
const MIN_KNOWN: f64 = 0.9;
/// Fewer requests of an instance say little: their number alone varies by a tenth.
const MIN_REQUESTS: u64 = 100;

/// What a request costs an instance, in nanoseconds of CPU time. `sampled` is its CPU time in the range of time that is compared; none
/// where its requests are not known for nearly all of that.
pub(super) fn cost_of_request(
    store: &dyn Store,
    sampled: &Selection,
) -> Result<Option<f64>, QueryError> {
    let counted = Selection {
        event: REQUESTS_EVENT.to_owned(),
        ..sampled.clone()
    };
    let requests = store.series(&counted, STEP, &[])?;
    if requests.series.is_empty() {
        return Ok(None);
    }
    let cpu = store.series(sampled, STEP, &[])?;
    let whole = sampled.time.start..sampled.time.end.saturating_sub(LAG);
    let is_whole = |start: UnixSeconds| whole.start <= start && start + STEP <= whole.end;
    let (mut all, mut known, mut count) = (0.0, 0.0, 0_u64);
    for ((start, cpu), (_, requests)) in steps(&cpu).zip(steps(&requests)) {
        if !is_whole(start) {
            continue;
        }
        all += cpu as f64;
        if requests > 0 {
            known += cpu as f64;
            count = count.saturating_add(requests);
        }
    }
    let is_known = known > 0.0 && known >= MIN_KNOWN * all && count >= MIN_REQUESTS;
    Ok(is_known.then(|| known / count as f64))
}

/// When each step starts and what it weighs; nothing where there are no series.
fn steps(set: &TimeSeriesSet) -> impl Iterator<Item = (UnixSeconds, u64)> {
    let weights = set.series.first().map_or(&[][..], |it| &it.weights);
    let starts = (set.start..).step_by(set.step as usize);
    starts.zip(weights.iter().copied())
}

/// An instance: its profile, and what a request costs it, if that is known.
pub(super) type Charged<'a> = (&'a mut Profile, Option<f64>);

/// Divides the weights of each profile by its requests, those of both versions together: each then has those of the mean one. None, and
/// nothing is changed, where the requests of any are not known.
pub(super) fn divide_by_requests(versions: &mut [Vec<Charged<'_>>; 2]) -> Option<RequestCost> {
    let of_version = |instances: &Vec<Charged<'_>>| -> Option<Vec<(f64, f64)>> {
        let instances = instances.iter();
        instances
            .map(|(profile, cost)| {
                let weight: f64 = profile.samples.iter().map(|it| it.weight as f64).sum();
                Some((weight, weight / (*cost)?))
            })
            .collect()
    };
    let figures = [of_version(&versions[0])?, of_version(&versions[1])?];
    let total = |figures: &[(f64, f64)]| -> (f64, f64) {
        let add = |sum: (f64, f64), it: &(f64, f64)| (sum.0 + it.0, sum.1 + it.1);
        figures.iter().fold((0.0, 0.0), add)
    };
    let (_, requests) = total(&figures.concat());
    let mean = requests / figures.concat().len().max(1) as f64;
    if !mean.is_finite() || figures.iter().flatten().any(|(_, it)| *it <= 0.0) {
        return None;
    }
    let profiles = versions.iter_mut().flatten();
    for ((profile, _), (_, requests)) in profiles.zip(figures.iter().flatten()) {
        for sample in &mut profile.samples {
            sample.weight = (sample.weight as f64 * mean / requests).round() as u64;
        }
    }
    Some(RequestCost {
        each: mean.round().max(1.0) as u64,
        cpu_ns: figures.each_ref().map(|figures| {
            let (weight, requests) = total(figures);
            (weight / requests).round() as u64
        }),
    })
}

#[cfg(test)]
mod tests {
    use nodespy_model::{EventType, Process, ProfileBuilder, Sample, Thread, WeightUnit};

    use super::*;

    fn profile(weight: u64) -> Profile {
        let event = EventType::new("cpu-clock", WeightUnit::Nanoseconds);
        let mut builder = ProfileBuilder::new(event);
        let process = builder.process(Process::default());
        let thread = builder.thread(Thread {
            process,
            ..Thread::default()
        });
        builder.add_sample(Sample {
            weight,
            thread,
            ..Sample::default()
        });
        builder.finish(Default::default(), Default::default())
    }

    #[test]
    fn instances_are_compared_as_if_each_had_as_many_requests() {
        // 10, 30 and 20 requests.
        let mut profiles = [profile(1000), profile(3000), profile(2400)];
        let [one, other, later] = &mut profiles;
        let mut versions = [
            vec![(one, Some(100.0)), (other, Some(100.0))],
            vec![(later, Some(120.0))],
        ];
        let exposure = divide_by_requests(&mut versions).unwrap();
        let expected = RequestCost {
            each: 20,
            cpu_ns: [100, 120],
        };
        assert_eq!(exposure, expected);
        let weights = profiles.each_ref().map(|it| it.samples[0].weight);
        assert_eq!(weights, [2000, 2000, 2400]);
    }

    #[test]
    fn one_instance_without_requests_is_too_many() {
        let mut profiles = [profile(1000), profile(3000)];
        let [one, other] = &mut profiles;
        let mut versions = [vec![(one, Some(100.0))], vec![(other, None)]];
        assert_eq!(divide_by_requests(&mut versions), None);
        assert_eq!(profiles[0].samples[0].weight, 1000);
    }
}
