//! How much an instance does of everything: its requests, its host, how long it was seen.
//!
//! The factor of an instance is the median over functions of what it spends in each beside the mean of all instances (DESeq2's median of
//! ratios). Unlike its share of the total it stands still when one function grows.

use nodespy_analysis::{RunCosts, own_weights};
use nodespy_model::{FastMap, Profile};

/// Functions with fewer samples an instance don't count.
const MIN_SAMPLES: f64 = 40.0;
/// Below so many functions their median is one function's: the total has to do.
const MIN_FUNCTIONS: usize = 5;

/// What a function is known by across instances and versions, which may have folders of their own.
type Key = (String, String);

/// Divides the weights of each profile by its factor, those of all versions together; false where that is its total, because
/// too few functions have enough samples. Weights are in nanoseconds, at a known rate.
pub(super) fn level_out(versions: &mut [Vec<&mut Profile>]) -> bool {
    let costs = |profile: &&mut Profile| RunCosts::of("", profile, None);
    let of_version =
        |profiles: &Vec<&mut Profile>| own_weights(&profiles.iter().map(costs).collect::<Vec<_>>());
    let weights: Vec<FastMap<Key, u64>> = versions.iter().flat_map(of_version).collect();
    let rates = versions.iter().flatten();
    let slowest = rates.map(|profile| profile.event().rate_hz().max(1)).min();
    let least = MIN_SAMPLES * 1e9 / f64::from(slowest.unwrap_or(1));
    let (factors, is_by_function) = factors(&weights, least);
    for (profile, factor) in versions.iter_mut().flatten().zip(factors) {
        for sample in &mut profile.samples {
            sample.weight = (sample.weight as f64 / factor).round() as u64;
        }
    }
    is_by_function
}

/// The factor of each instance; 1 is that of the mean one. And whether there were functions enough for that.
fn factors(instances: &[FastMap<Key, u64>], least: f64) -> (Vec<f64>, bool) {
    let count = instances.len().max(1) as f64;
    let mut means: FastMap<&Key, f64> = FastMap::default();
    for (key, weight) in instances.iter().flatten() {
        *means.entry(key).or_default() += *weight as f64 / count;
    }
    means.retain(|_, mean| *mean >= least);
    let is_by_function = means.len() >= MIN_FUNCTIONS;
    let total =
        |instance: &FastMap<Key, u64>| instance.values().map(|&weight| weight as f64).sum::<f64>();
    let mean_total = instances.iter().map(total).sum::<f64>() / count;
    let of_instance = |instance: &FastMap<Key, u64>| {
        let weight = |key: &Key| instance.get(key).copied().unwrap_or(0) as f64;
        let ratio = |(key, mean): (&&Key, &f64)| weight(key) / mean;
        if !is_by_function {
            return total(instance) / mean_total;
        }
        let mut ratios: Vec<f64> = means.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let middle = ratios.len() / 2;
        match ratios.len().is_multiple_of(2) {
            true => (ratios[middle - 1] + ratios[middle]) / 2.0,
            false => ratios[middle],
        }
    };
    let usable = |factor: f64| match factor.is_finite() && factor > 0.0 {
        true => factor,
        false => 1.0,
    };
    let factors = instances.iter().map(of_instance).map(usable);
    (factors.collect(), is_by_function)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(weights: &[u64]) -> FastMap<Key, u64> {
        let keys = (0..).map(|number: usize| (format!("f{number}"), String::new()));
        keys.zip(weights.iter().copied()).collect()
    }

    #[test]
    fn one_function_that_grows_does_not_move_the_others() {
        let plain = [100; 6];
        let mut slower = plain;
        slower[0] = 1000;
        let double = plain.map(|weight| 2 * weight);
        let (found, is_by_function) = factors(
            &[instance(&plain), instance(&slower), instance(&double)],
            1.0,
        );
        assert!(is_by_function);
        assert!((found[0] - found[1]).abs() < 1e-9, "{found:?}");
        assert!((found[2] / found[0] - 2.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn with_few_functions_the_total_has_to_do() {
        let (found, is_by_function) =
            factors(&[instance(&[1, 1]), instance(&[3, 3]), instance(&[])], 0.0);
        assert!((found[1] / found[0] - 3.0).abs() < 1e-9, "{found:?}");
        assert_eq!((found[2], is_by_function), (1.0, false));
    }
}
