//! What runs are compared in.

use nodespy_model::{Profile, Sampling, WeightUnit};

use super::CompareError;

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
    /// The unit that all profiles have.
    pub(super) fn common<'a>(
        profiles: impl IntoIterator<Item = &'a Profile>,
    ) -> Result<Self, CompareError> {
        let mut common: Option<(Self, &Profile)> = None;
        for profile in profiles {
            let unit = Self::of(profile);
            let (first, with) = *common.get_or_insert((unit, profile));
            let has_other_event = matches!(unit, Self::Bytes | Self::Events)
                && profile.event().name != with.event().name;
            if first != unit || has_other_event {
                return Err(CompareError::OtherEvent {
                    one: described(with),
                    other: described(profile),
                });
            }
        }
        common.map(|(unit, _)| unit).ok_or(CompareError::NoRuns)
    }

    fn of(profile: &Profile) -> Self {
        let event = profile.event();
        match (event.unit, event.sampling) {
            (WeightUnit::Samples, Sampling::Rate(_)) | (WeightUnit::Nanoseconds, _) => {
                Self::Seconds
            }
            (WeightUnit::Samples, _) => Self::Samples,
            (WeightUnit::Bytes, _) => Self::Bytes,
            (WeightUnit::Events, _) => Self::Events,
        }
    }

    /// What a weight of one costs in a profile.
    pub(super) fn per_weight(self, profile: &Profile) -> f64 {
        match (profile.event().unit, profile.event().sampling) {
            (WeightUnit::Nanoseconds, _) => 1e-9,
            (WeightUnit::Samples, Sampling::Rate(rate_hz)) => 1.0 / f64::from(rate_hz.max(1)),
            _ => 1.0,
        }
    }
}

impl CostUnit {
    /// What one sample stands for. Many formats put equal samples together, so that counting them would not tell;
    /// none where the period is not known.
    pub(super) fn per_sample(self, profile: &Profile) -> Option<f64> {
        let event = profile.event();
        match (event.unit, event.sampling) {
            (WeightUnit::Samples, _) => Some(self.per_weight(profile)),
            (WeightUnit::Nanoseconds, Sampling::Rate(rate_hz)) => {
                Some(1.0 / f64::from(rate_hz.max(1)))
            }
            (_, Sampling::Period(period)) => Some(period as f64 * self.per_weight(profile)),
            _ => None,
        }
    }
}

fn described(profile: &Profile) -> String {
    format!(
        "{} in {}",
        profile.event().name,
        profile.event().unit.label()
    )
}
