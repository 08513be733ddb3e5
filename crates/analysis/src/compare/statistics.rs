//! Student's t on the logarithms of two sets of runs, and what it needs.
//!
//! The run is the unit: samples within a run share its machine, its heap layout and its luck, so counting them
//! as independent gives false alarms on every busy machine (docs/decisions/0012).

use nodespy_model::SmallSort;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// What two sets of logarithms differ by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Contrast {
    /// The difference of the means, after minus before.
    pub(super) difference: f64,
    /// Its standard error.
    standard_error: f64,
    freedom: f64,
}

impl Contrast {
    /// Of at least two values on each side. Variances are pooled unless one side has more than twice as many runs
    /// as the other.
    pub(super) fn of(before: &[f64], after: &[f64]) -> Self {
        let (m, n) = (before.len() as f64, after.len() as f64);
        let (a, b) = (variance(before), variance(after));
        let is_balanced = m <= 2.0 * n && n <= 2.0 * m;
        let (squared_error, freedom) = if is_balanced {
            let pooled = (a * (m - 1.0) + b * (n - 1.0)) / (m + n - 2.0);
            (pooled * (1.0 / m + 1.0 / n), m + n - 2.0)
        } else {
            welch(a / m, b / n, m, n)
        };
        Self {
            difference: mean(after) - mean(before),
            // Runs that agree to the last digit say nothing about the next one.
            standard_error: squared_error.sqrt().max(1e-6),
            freedom,
        }
    }

    /// The half width of the 95 % interval.
    pub(super) fn half_width(&self) -> f64 {
        self.standard_error * self.t().inverse_cdf(0.975)
    }

    /// How likely a difference as large as this is if the true one is no larger than `margin` in size.
    pub(super) fn p_beyond(&self, margin: f64) -> f64 {
        let size = self.difference.abs();
        let beyond = |distance: f64| self.t().sf(distance / self.standard_error);
        (beyond(size - margin) + beyond(size + margin)).min(1.0)
    }

    /// The smallest difference that would be seen four times in five, where `tests` are made at once.
    pub(super) fn smallest_seen(&self, tests: usize) -> f64 {
        let level = 1.0 - 0.025 / tests.max(1) as f64;
        (self.t().inverse_cdf(level) + self.t().inverse_cdf(0.8)) * self.standard_error
    }

    fn t(&self) -> StudentsT {
        StudentsT::new(0.0, 1.0, self.freedom)
            .expect("two runs on each side leave a degree of freedom")
    }
}

/// Welch's error and degrees of freedom, for sides of very different size.
fn welch(a: f64, b: f64, m: f64, n: f64) -> (f64, f64) {
    let squared_error = a + b;
    let spread = a * a / (m - 1.0) + b * b / (n - 1.0);
    let freedom = if spread > 0.0 {
        squared_error * squared_error / spread
    } else {
        m.min(n) - 1.0
    };
    (squared_error, freedom.max(1.0))
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    squares / (values.len() as f64 - 1.0).max(1.0)
}

/// The middle value; 0 of none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        length if length % 2 == 1 => values[length / 2],
        length => (values[length / 2 - 1] + values[length / 2]) / 2.0,
    }
}

/// Benjamini and Hochberg's adjusted p values, in the order given: keeping those below 5 % keeps one false alarm
/// in twenty of what is reported.
pub(super) fn adjusted(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.small_sort_by(|&a, &b| p_values[b].total_cmp(&p_values[a]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 1.0_f64;
    for (from_last, index) in order.into_iter().enumerate() {
        let rank = (p_values.len() - from_last) as f64;
        least = least.min(p_values[index] * p_values.len() as f64 / rank);
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_close(left: f64, right: f64) -> bool {
        (left - right).abs() < 5e-4
    }

    #[test]
    fn student_t_is_that_of_the_textbook() {
        // t = 3.674 with 4 degrees of freedom, p = 0.0213 (two-sided).
        let contrast = Contrast::of(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert!(is_close(contrast.difference, 3.0));
        assert!(is_close(contrast.p_beyond(0.0), 0.0213));
        assert!(is_close(contrast.half_width(), 2.2669));
    }

    #[test]
    fn a_difference_within_the_margin_is_no_evidence() {
        let contrast = Contrast::of(&[1.0, 1.001, 0.999], &[1.01, 1.011, 1.009]);
        assert!(contrast.p_beyond(0.0) < 0.01);
        assert!(contrast.p_beyond(0.02) > 0.5);
    }

    #[test]
    fn sides_of_very_different_size_are_not_pooled() {
        let many: Vec<f64> = (0..12).map(|run| f64::from(run % 4)).collect();
        let welch = Contrast::of(&many, &[5.0, 5.1, 4.9]);
        assert!(welch.freedom < 13.0);
        assert!(welch.p_beyond(0.0) < 0.001);
    }

    #[test]
    fn adjusted_p_values_are_those_of_benjamini_and_hochberg() {
        let adjusted = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in adjusted.iter().zip([0.02, 0.04, 0.04, 0.02]) {
            assert!(is_close(*found, expected), "{adjusted:?}");
        }
    }

    #[test]
    fn equal_runs_have_an_interval_without_infinities() {
        let contrast = Contrast::of(&[1.0; 3], &[1.0; 3]);
        assert!(contrast.half_width().is_finite());
        assert!(contrast.p_beyond(0.02) > 0.5);
    }
}
