//! Medians and ranges: on a noisy machine the mean says little.

use std::fmt;

/// The middle of some numbers, and how far they spread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    lowest: f64,
    highest: f64,
}

impl Spread {
    /// The spread of `values`; not a number when there are none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        Self {
            median: median(values.iter().copied()),
            lowest: values.iter().copied().fold(f64::NAN, f64::min),
            highest: values.iter().copied().fold(f64::NAN, f64::max),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.median < 10.0 { 3 } else { 0 };
        write!(
            formatter,
            "{:.digits$} ({:.digits$}..{:.digits$})",
            self.median, self.lowest, self.highest
        )
    }
}

/// The middle value; not a number when there are none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[odd / 2],
        even => (values[even / 2 - 1] + values[even / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median([]).is_nan());
        assert_eq!(
            Spread::of([1.0, 2.0, 1.5]).to_string(),
            "1.500 (1.000..2.000)"
        );
    }
}
