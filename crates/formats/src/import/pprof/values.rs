//! What the values of samples count: each is an event.

use nodespy_model::{EventType, MAX_EVENTS, WeightUnit};

use super::Tables;
use crate::recorded::Recorded;

/// The values that are read, each with its event.
#[derive(Debug, Clone)]
pub(super) struct Values {
    pub(super) list: Vec<ReadValue>,
    /// The one that pprof itself would show.
    pub(super) shown: usize,
    /// How many values there is no room for.
    pub(super) left_out: usize,
}

/// A value of each sample that is read.
#[derive(Debug, Clone)]
pub(super) struct ReadValue {
    /// Its position among the values of a sample.
    pub(super) at: usize,
    pub(super) event: EventType,
    /// How many of the model's one of the file's is.
    pub(super) factor: u64,
}

impl Values {
    /// The values of a file that nodespy wrote or another tool.
    pub(super) fn of(tables: &Tables<'_>, recorded: Option<&Recorded>) -> Self {
        match recorded.map(|recorded| &recorded.events[..]) {
            Some([event]) => Self::of_one(tables, event),
            Some(events) => Self::in_order(events.iter().cloned().map(|event| (event, 1)), 0),
            None => {
                let kinds = tables.value_types.iter();
                let names: Vec<_> = kinds.clone().map(|kind| tables.text(kind.name)).collect();
                let default = tables.text(tables.default_type);
                let named = names.iter().position(|name| *name == default);
                let shown = named.unwrap_or(names.len().saturating_sub(1));
                let events = kinds.zip(&names).map(|(kind, name)| {
                    let (unit, factor) = unit_of(tables.text(kind.unit));
                    let rate_hz = rate_hz(tables, unit);
                    (EventType::new(name, unit).at_rate(rate_hz), factor)
                });
                Self::in_order(events, shown)
            }
        }
    }

    /// What nodespy counted in samples comes with their time beside it, and the other way round.
    fn of_one(tables: &Tables<'_>, event: &EventType) -> Self {
        let at = match event.unit {
            WeightUnit::Samples => 0,
            _ => tables.value_types.len().saturating_sub(1),
        };
        Self {
            list: vec![ReadValue {
                at,
                event: event.clone(),
                factor: 1,
            }],
            shown: 0,
            left_out: 0,
        }
    }

    fn in_order(events: impl Iterator<Item = (EventType, u64)>, shown: usize) -> Self {
        let mut list = Vec::new();
        let mut left_out = 0;
        for (at, (event, factor)) in events.enumerate() {
            match list.len() < MAX_EVENTS {
                true => list.push(ReadValue { at, event, factor }),
                false => left_out += 1,
            }
        }
        if list.is_empty() {
            // A file that does not say what its values count has one.
            list.push(ReadValue {
                at: 0,
                event: EventType::default(),
                factor: 1,
            });
        }
        Self {
            shown: shown.min(list.len().saturating_sub(1)),
            list,
            left_out,
        }
    }
}

/// How many samples a second make one sample per period; 0 when periods are no time.
fn rate_hz(tables: &Tables<'_>, of_unit: WeightUnit) -> u32 {
    let (unit, factor) = unit_of(tables.text(tables.period_type.unit));
    let period = u64::try_from(tables.period).unwrap_or(0);
    let period = period.saturating_mul(factor);
    if unit != WeightUnit::Nanoseconds || period == 0 || of_unit == WeightUnit::Bytes {
        return 0;
    }
    u32::try_from((1_000_000_000 + period / 2) / period).unwrap_or(u32::MAX)
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
