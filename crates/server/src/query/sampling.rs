//! How many samples weights are of.
//!
//! Counts add up to what was used, and don't say how often anybody looked: an agent asks for samples faster than it usually takes them, so
//! that each it takes counts for several, and some senders count nanoseconds. How sure a figure is depends on the samples.

use nodespy_model::WeightUnit;
use nodespy_store::{SAMPLING_RATE, SeriesSpan};

/// The most that is believed where no label says it: what an agent takes unless it is told otherwise. Fewer samples than there were make a
/// verdict less sure than it could be, more would make it wrong.
const USUAL_RATE_HZ: u64 = 19;
const SECOND: u64 = 1_000_000_000;

/// What one sample of a series weighs.
pub(super) fn weight_of_sample(span: &SeriesSpan) -> u64 {
    let period = span.period.max(1);
    if span.unit != WeightUnit::Nanoseconds {
        return period;
    }
    let said = span.labels.get(SAMPLING_RATE);
    let rate_hz = said.and_then(|rate| rate.parse().ok());
    let rate_hz: u64 = rate_hz.unwrap_or(USUAL_RATE_HZ);
    period.max(SECOND / rate_hz.max(1))
}

#[cfg(test)]
mod tests {
    use nodespy_model::Labels;
    use nodespy_store::CPU_EVENT;

    use super::*;

    fn weight(unit: WeightUnit, period: u64, rate: &str) -> u64 {
        let mut labels = Labels::default();
        labels.set(SAMPLING_RATE, rate);
        weight_of_sample(&SeriesSpan {
            service: "shop".to_owned(),
            event: CPU_EVENT.to_owned(),
            unit,
            period,
            labels,
            first: 0,
            last: 0,
        })
    }

    #[test]
    fn a_sample_stands_for_what_lies_between_those_that_are_taken() {
        let of_time = |period_hz, rate| weight(WeightUnit::Nanoseconds, SECOND / period_hz, rate);
        // Asked for 95 times a second, and usually taken 19 times.
        assert_eq!(of_time(95, "19"), SECOND / 19);
        assert_eq!(of_time(495, "99"), SECOND / 99);
        assert_eq!(of_time(999, "999"), SECOND / 999);
        // More than are asked for can't be taken.
        assert_eq!(of_time(5, "999"), SECOND / 5);
    }

    #[test]
    fn without_a_rate_few_samples_are_believed() {
        let of_time = |period, rate| weight(WeightUnit::Nanoseconds, period, rate);
        assert_eq!(of_time(SECOND / 95, ""), SECOND / 19);
        assert_eq!(of_time(1, "often"), SECOND / 19);
        assert_eq!(of_time(SECOND, ""), SECOND);
        assert_eq!(weight(WeightUnit::Bytes, 1, ""), 1);
    }
}
