//! Which value of the samples is the weight, and what it counts.

use nodespy_model::{Notes, WeightUnit, printable};

use super::Tables;
use crate::import::ImportError;
use crate::recorded::Recorded;

/// The value that becomes the weight.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    /// Its position among the values of a sample.
    pub(super) at: usize,
    /// What pprof calls it, such as `cpu`.
    pub(super) name: String,
    /// What the weights count.
    pub(super) unit: WeightUnit,
    /// How many of them one of the file's are.
    pub(super) factor: u64,
    others: Vec<String>,
}

impl Chosen {
    /// The value called `event`, or the one that pprof would show.
    pub(super) fn of(
        tables: &Tables<'_>,
        recorded: Option<&Recorded>,
        event: Option<&str>,
    ) -> Result<Self, ImportError> {
        let names: Vec<(String, String)> = tables
            .value_types
            .iter()
            .map(|kind| {
                let text = |index| tables.text(index).into_owned();
                (text(kind.name), text(kind.unit))
            })
            .collect();
        let labels: Vec<String> = names
            .iter()
            .map(|(name, unit)| printable(&format!("{name}/{unit}")).into_owned())
            .collect();
        let at = match event {
            Some(event) => names
                .iter()
                .zip(&labels)
                .position(|((name, _), label)| name == event || label == event)
                .ok_or_else(|| ImportError::NoSuchEvent {
                    wanted: event.to_owned(),
                    known: labels.join(", "),
                })?,
            // What nodespy counted in samples comes with their time beside it.
            None if recorded.is_some_and(|it| it.unit == WeightUnit::Samples) => 0,
            None => {
                let default = tables.text(tables.default_type);
                let named = names.iter().position(|(name, _)| *name == default);
                named.unwrap_or(names.len().saturating_sub(1))
            }
        };
        let (name, unit) = names.get(at).cloned().unwrap_or_default();
        let (unit, factor) = unit_of(&unit);
        let mut others = labels;
        if at < others.len() {
            others.remove(at);
        }
        Ok(Self {
            at,
            name,
            unit,
            factor,
            others,
        })
    }

    /// Says which values the profile leaves out.
    pub(super) fn tell_others(&self, notes: &mut Notes) {
        let is_only_count = matches!(&self.others[..], [one] if one == "samples/count");
        if !self.others.is_empty() && !is_only_count && !self.is_time_beside() {
            notes.remark(format!(
                "the weight is {:?}; the file also holds {} (--event chooses)",
                printable(&self.name),
                self.others.join(", ")
            ));
        }
    }

    /// Whether the other value is the same samples in time.
    fn is_time_beside(&self) -> bool {
        self.name == "samples" && matches!(&self.others[..], [one] if one.ends_with("/nanoseconds"))
    }

    /// How many samples a second make one sample per period; 0 when periods are no time.
    pub(super) fn rate_hz(&self, tables: &Tables<'_>) -> u32 {
        let (unit, factor) = unit_of(&tables.text(tables.period_type.unit));
        let period = u64::try_from(tables.period).unwrap_or(0);
        let period = period.saturating_mul(factor);
        if unit != WeightUnit::Nanoseconds || period == 0 || self.unit == WeightUnit::Bytes {
            return 0;
        }
        u32::try_from((1_000_000_000 + period / 2) / period).unwrap_or(u32::MAX)
    }
}

/// The unit of the model for one of pprof, and how many of it make one of pprof's.
fn unit_of(unit: &str) -> (WeightUnit, u64) {
    match unit {
        "nanoseconds" | "nanosecond" | "ns" => (WeightUnit::Nanoseconds, 1),
        "microseconds" | "microsecond" | "us" | "µs" => (WeightUnit::Nanoseconds, 1_000),
        "milliseconds" | "millisecond" | "ms" => (WeightUnit::Nanoseconds, 1_000_000),
        "seconds" | "second" | "s" => (WeightUnit::Nanoseconds, 1_000_000_000),
        "bytes" | "byte" | "b" | "B" => (WeightUnit::Bytes, 1),
        "kilobytes" | "kilobyte" | "kb" | "kB" | "KB" => (WeightUnit::Bytes, 1 << 10),
        "megabytes" | "megabyte" | "mb" | "MB" => (WeightUnit::Bytes, 1 << 20),
        _ => (WeightUnit::Samples, 1),
    }
}
