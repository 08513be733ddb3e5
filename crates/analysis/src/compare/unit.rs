//! What runs are compared in.

use nodespy_model::{EventType, Sampling, WeightUnit};

use super::run::RunCosts;
use super::{Basis, CompareError};

/// What a cost is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostUnit {
    /// Seconds of CPU time: samples at a known rate, or nanoseconds.
    Seconds,
    /// Samples at an unknown rate.
    Samples,
    /// Bytes.
    Bytes,
    /// Occurrences of the event.
    Events,
}

impl CostUnit {
    /// The unit that all runs have. Shares of CPU time can be told whether the rate is known or not.
    pub(super) fn common<'a>(
        runs: impl IntoIterator<Item = &'a RunCosts>,
        basis: Option<Basis>,
    ) -> Result<Self, CompareError> {
        let mut common: Option<(Self, &RunCosts)> = None;
        for run in runs {
            let unit = Self::of(&run.event);
            let (first, with) = *common.get_or_insert((unit, run));
            let is_time = |unit| matches!(unit, Self::Seconds | Self::Samples);
            let are_times = is_time(unit) && is_time(first);
            let has_other_event = !are_times && run.event.name != with.event.name;
            if first == unit && !has_other_event {
                continue;
            }
            if !are_times {
                return Err(CompareError::OtherEvent {
                    one: described(with),
                    other: described(run),
                });
            }
            if basis != Some(Basis::Share) {
                let (known, unknown) = match unit {
                    Self::Seconds => (run, with),
                    _ => (with, run),
                };
                return Err(CompareError::UnknownRate {
                    known: known.name.clone(),
                    unknown: unknown.name.clone(),
                });
            }
        }
        common.map(|(unit, _)| unit).ok_or(CompareError::NoRuns)
    }

    fn of(event: &EventType) -> Self {
        match (event.unit, event.sampling) {
            (WeightUnit::Samples, Sampling::Rate(_)) | (WeightUnit::Nanoseconds, _) => {
                Self::Seconds
            }
            (WeightUnit::Samples, _) => Self::Samples,
            (WeightUnit::Bytes, _) => Self::Bytes,
            (WeightUnit::Events, _) => Self::Events,
        }
    }
}

/// What a weight of one costs.
pub(super) fn per_weight(event: &EventType) -> f64 {
    match (event.unit, event.sampling) {
        (WeightUnit::Nanoseconds, _) => 1e-9,
        (WeightUnit::Samples, Sampling::Rate(rate_hz)) => 1.0 / f64::from(rate_hz.max(1)),
        _ => 1.0,
    }
}

/// What one sample stands for. Many formats put equal samples together, so that counting them would not tell;
/// none where the period is not known.
pub(super) fn per_sample(event: &EventType) -> Option<f64> {
    match (event.unit, event.sampling) {
        (WeightUnit::Samples, _) => Some(per_weight(event)),
        (WeightUnit::Nanoseconds, Sampling::Rate(rate_hz)) => Some(1.0 / f64::from(rate_hz.max(1))),
        (_, Sampling::Period(period)) => Some(period as f64 * per_weight(event)),
        _ => None,
    }
}

fn described(run: &RunCosts) -> String {
    let name = match run.event.name.as_str() {
        "" => "an event without a name",
        name => name,
    };
    format!("{} ({name} in {})", run.name, run.event.unit.label())
}
