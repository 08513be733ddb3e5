//! What so many samples can tell, and no more: margins that follow from what was counted.
//!
//! How many samples a recording has depends on how much of a CPU its target got. A margin that suits a quiet machine
//! fails at random on a busy one, and one that suits the busy one lets faults pass on the quiet one.

/// How many standard deviations a right answer may be off: more once in 150,000 times.
const DEVIATIONS: f64 = 4.5;

/// The standard deviation of a share that so many samples find.
fn deviation(share: f64, samples: f64) -> f64 {
    let share = share.clamp(0.0, 1.0);
    (share * (1.0 - share) / samples.max(1.0)).sqrt()
}

/// How far from a true share so many samples may find it.
pub(crate) fn margin(share: f64, samples: f64) -> f64 {
    DEVIATIONS * deviation(share, samples)
}

/// How far apart two recordings, of so many samples each, may find the same share.
pub(crate) fn margin_between(share: f64, samples: [f64; 2]) -> f64 {
    let [one, other] = samples.map(|samples| deviation(share, samples));
    DEVIATIONS * one.hypot(other)
}

/// How many samples of equal weight tell as much as some of these weights.
pub(crate) fn effective(weights: impl Iterator<Item = u64>) -> f64 {
    let (sum, squares) = weights.fold((0.0, 0.0), |(sum, squares), weight| {
        let weight = weight as f64;
        (sum + weight, squares + weight * weight)
    });
    if squares == 0.0 {
        return 0.0;
    }
    sum * sum / squares
}

/// Whether something that one side has in `count` of its samples and the other in none is the work of chance: not if the
/// samples would fall on one side only less than once in a million times.
pub(crate) fn is_chance(count: u64, samples: u64, of_other: u64) -> bool {
    let on_this_side = samples as f64 / (samples + of_other).max(1) as f64;
    count as f64 * on_this_side.ln() > 1e-6_f64.ln()
}

#[test]
fn margins_get_smaller_with_samples() {
    assert!((margin(0.5, 2025.0) - 0.05).abs() < 1e-9);
    assert_eq!(margin(1.0, 10.0), 0.0);
    let between = margin_between(0.5, [1000.0, 1000.0]);
    assert!((between / margin(0.5, 500.0) - 1.0).abs() < 1e-9);
    assert_eq!(effective([3, 3, 3].into_iter()), 3.0);
    assert!(effective([100, 1, 1].into_iter()) < 1.1);
    assert!(is_chance(19, 500, 500) && !is_chance(20, 500, 500));
}
