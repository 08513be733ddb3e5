//! Weight over time.

use nodespy_store::{HOUR_SECONDS, Selection, Store, WINDOW_SECONDS};
use serde_json::{Value, json};

use super::QueryError;

/// How many steps an answer can have.
const MAX_STEPS: u64 = 5000;
/// How many there are when nothing is said.
const USUAL_STEPS: u64 = 180;
/// How many labels weights can be divided by.
const MAX_LABELS: usize = 4;
/// How many lines an answer can have; the heaviest are kept.
const MAX_SERIES: usize = 200;

/// Weight over time, divided by labels.
#[derive(Debug, Clone)]
pub struct SeriesQuery {
    /// Of what.
    pub selection: Selection,
    /// How long a step is, in seconds; chosen by the range when absent.
    pub step: Option<u64>,
    /// The labels it is divided by.
    pub by: Vec<String>,
}

/// Weight over time as JSON: for each set of values of the labels the weight of each step.
pub fn series_json(store: &dyn Store, query: &SeriesQuery) -> Result<Value, QueryError> {
    let length = query.selection.time.end - query.selection.time.start;
    let step = query.step.unwrap_or_else(|| usual_step(length));
    if step == 0 || !step.is_multiple_of(WINDOW_SECONDS) {
        return Err(QueryError::Bad(
            "a step is a multiple of 10 seconds".to_owned(),
        ));
    }
    if length / step > MAX_STEPS {
        return Err(QueryError::Bad(format!(
            "more than {MAX_STEPS} steps: ask for longer ones"
        )));
    }
    if query.by.len() > MAX_LABELS {
        return Err(QueryError::Bad(format!("at most {MAX_LABELS} labels")));
    }
    let by: Vec<&str> = query.by.iter().map(String::as_str).collect();
    let mut found = store.series(&query.selection, step, &by)?;
    let total = |weights: &[u64]| {
        weights
            .iter()
            .fold(0_u64, |sum, weight| sum.saturating_add(*weight))
    };
    let count = found.series.len();
    if count > MAX_SERIES {
        found
            .series
            .sort_by_key(|series| std::cmp::Reverse(total(&series.weights)));
        found.series.truncate(MAX_SERIES);
    }
    let series: Vec<Value> = found
        .series
        .iter()
        .map(|series| {
            let labels: serde_json::Map<String, Value> = by
                .iter()
                .zip(&series.values)
                .map(|(key, value)| ((*key).to_owned(), json!(value)))
                .collect();
            json!({ "labels": labels, "weights": series.weights })
        })
        .collect();
    Ok(json!({
        "start": found.start,
        "step": found.step,
        "series": series,
        "left_off": count.saturating_sub(MAX_SERIES),
        "missing_hours": found.missing_hours,
    }))
}

/// A step that makes a picture: a multiple of windows, of hours where it is that long.
fn usual_step(length: u64) -> u64 {
    let least = length.div_ceil(USUAL_STEPS);
    let unit = if least > HOUR_SECONDS / 2 {
        HOUR_SECONDS
    } else {
        WINDOW_SECONDS
    };
    least.div_ceil(unit).max(1) * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_whole_windows_or_hours() {
        assert_eq!(usual_step(60), 10);
        assert_eq!(usual_step(3600), 20);
        assert_eq!(usual_step(86_400), 480);
        assert_eq!(usual_step(30 * 86_400), 4 * HOUR_SECONDS);
    }
}
