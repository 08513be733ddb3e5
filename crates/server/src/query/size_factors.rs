//! How much an instance does of everything: its requests, its host, how long it was seen.
//!
//! The factor of an instance is the median over functions of what it spends in each beside the mean of all instances (DESeq2's median of
//! ratios). Unlike its share of the total it stands still when one function grows.

use nodespy_model::{FastMap, Profile};

/// Functions with fewer samples an instance don't count.
const MIN_SAMPLES: f64 = 40.0;
/// Below so many functions their median is one function's: the total has to do.
const MIN_FUNCTIONS: usize = 5;

/// What a function is known by across instances.
type Key = (String, String);

/// Divides the weights of each profile by its factor. Weights are in nanoseconds, at a known rate.
pub(super) fn level_out<'a>(profiles: impl Iterator<Item = &'a mut Profile>) {
    let mut profiles: Vec<&mut Profile> = profiles.collect();
    let weights: Vec<FastMap<Key, f64>> = profiles
        .iter()
        .map(|profile| self_weights(profile))
        .collect();
    let least = profiles.first().map_or(0.0, |profile| {
        MIN_SAMPLES * 1e9 / f64::from(profile.event().rate_hz().max(1))
    });
    for (profile, factor) in profiles.iter_mut().zip(factors(&weights, least)) {
        for sample in &mut profile.samples {
            sample.weight = (sample.weight as f64 / factor).round() as u64;
        }
    }
}

fn self_weights(profile: &Profile) -> FastMap<Key, f64> {
    let mut weights = FastMap::default();
    for sample in &profile.samples {
        let Some(stack) = sample.stack else { continue };
        let function = profile.function_of(stack);
        let key = (
            profile.name_of(function).to_owned(),
            profile.file_of(function).to_owned(),
        );
        *weights.entry(key).or_insert(0.0) += sample.weight as f64;
    }
    weights
}

/// The factor of each instance; 1 is that of the mean one.
fn factors(instances: &[FastMap<Key, f64>], least: f64) -> Vec<f64> {
    let count = instances.len().max(1) as f64;
    let mut means: FastMap<&Key, f64> = FastMap::default();
    for (key, weight) in instances.iter().flatten() {
        *means.entry(key).or_default() += weight / count;
    }
    means.retain(|_, mean| *mean >= least);
    let total = |instance: &FastMap<Key, f64>| instance.values().sum::<f64>();
    let mean_total = instances.iter().map(total).sum::<f64>() / count;
    let of_instance = |instance: &FastMap<Key, f64>| {
        let ratio = |(key, mean): (&&Key, &f64)| instance.get(*key).copied().unwrap_or(0.0) / mean;
        let mut ratios: Vec<f64> = means.iter().map(ratio).collect();
        if ratios.len() < MIN_FUNCTIONS {
            return total(instance) / mean_total;
        }
        ratios.sort_by(f64::total_cmp);
        let middle = ratios.len() / 2;
        match ratios.len().is_multiple_of(2) {
            true => (ratios[middle - 1] + ratios[middle]) / 2.0,
            false => ratios[middle],
        }
    };
    let factors = instances.iter().map(of_instance);
    factors
        .map(|factor| {
            if factor.is_finite() && factor > 0.0 {
                factor
            } else {
                1.0
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(weights: &[f64]) -> FastMap<Key, f64> {
        let keys = (0..).map(|number: usize| (format!("f{number}"), String::new()));
        keys.zip(weights.iter().copied()).collect()
    }

    #[test]
    fn one_function_that_grows_does_not_move_the_others() {
        let plain = [100.0; 6];
        let mut slower = plain;
        slower[0] = 1000.0;
        let double = plain.map(|weight| 2.0 * weight);
        let found = factors(
            &[instance(&plain), instance(&slower), instance(&double)],
            1.0,
        );
        assert!((found[0] - found[1]).abs() < 1e-9, "{found:?}");
        assert!((found[2] / found[0] - 2.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn with_few_functions_the_total_has_to_do() {
        let found = factors(
            &[instance(&[1.0, 1.0]), instance(&[3.0, 3.0]), instance(&[])],
            0.0,
        );
        assert!((found[1] / found[0] - 3.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found[2], 1.0);
    }
}
