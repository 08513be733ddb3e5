//! What the stores of AsyncLocalStorage say, as labels.

use nodespy_model::{FastSet, Labels, label_key};

use crate::v8::{StoreOptions, StoreValues};

/// How many values of a key a recording has, the one of all others included.
const MAX_VALUES: usize = 1000;
/// How many traces: each request may have its own.
const MAX_TRACES: usize = 1 << 16;
const OTHER: &str = "(other)";

/// What is wanted of stores, and the values that samples were labelled with.
#[derive(Debug, Default)]
pub(super) struct StoreLabels {
    options: StoreOptions,
    seen: Vec<FastSet<String>>,
    traces: FastSet<String>,
}

impl StoreLabels {
    pub(super) fn new(options: StoreOptions) -> Self {
        Self {
            seen: vec![FastSet::default(); options.keys.len()],
            options,
            traces: FastSet::default(),
        }
    }

    /// What is wanted; nothing where nothing is to be read.
    pub(super) fn wanted(&self) -> Option<&StoreOptions> {
        (!self.options.is_empty()).then_some(&self.options)
    }

    /// Adds what the stores of a sample say.
    pub(super) fn add_to(&mut self, labels: &mut Labels, values: StoreValues) {
        let keys = self.options.keys.iter().zip(&mut self.seen);
        for ((key, seen), value) in keys.zip(values.keys) {
            if let Some(value) = value {
                labels.set(key, bounded(seen, value, MAX_VALUES));
            }
        }
        if let (Some(trace), Some(span)) = (values.trace_id, values.span_id) {
            let trace = bounded(&mut self.traces, trace, MAX_TRACES);
            if trace != OTHER {
                labels.set(label_key::SPAN_ID, span);
            }
            labels.set(label_key::TRACE_ID, trace);
        }
    }
}

fn bounded(seen: &mut FastSet<String>, value: String, most: usize) -> String {
    if seen.contains(&value) {
        return value;
    }
    if seen.len() + 1 >= most {
        return OTHER.to_owned();
    }
    seen.insert(value.clone());
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(stores: &mut StoreLabels, tenant: &str, trace_id: &str) -> Labels {
        let mut labels = Labels::default();
        let values = StoreValues {
            keys: vec![Some(tenant.to_owned())],
            trace_id: Some(trace_id.to_owned()),
            span_id: Some("7".to_owned()),
        };
        stores.add_to(&mut labels, values);
        labels
    }

    #[test]
    fn there_are_only_so_many_values_and_traces() {
        let mut stores = StoreLabels::new(StoreOptions {
            traces: true,
            keys: vec!["tenant".to_owned()],
        });
        for number in 0..MAX_TRACES + 9 {
            labels(&mut stores, &number.to_string(), &number.to_string());
        }
        let late = labels(&mut stores, "late", "late");
        assert_eq!(late.get("tenant"), Some(OTHER));
        assert_eq!(late.get(label_key::TRACE_ID), Some(OTHER));
        assert_eq!(late.get(label_key::SPAN_ID), None);
        let early = labels(&mut stores, "7", "9");
        assert_eq!(early.get("tenant"), Some("7"));
        assert_eq!(early.get(label_key::TRACE_ID), Some("9"));
        assert_eq!(early.get(label_key::SPAN_ID), Some("7"));
    }
}
