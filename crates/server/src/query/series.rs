//! Weight over time.

use std::collections::{BTreeMap, BTreeSet};

use nodespy_model::{SmallSort, label_key};
use nodespy_store::{HOUR_SECONDS, Selection, Store, TimeSeries, TimeSeriesSet, WINDOW_SECONDS};
use serde_json::{Value, json};

use super::QueryError;
use super::marks::{PROCESS, Versions, with_marked_versions};

/// How many steps an answer can have.
const MAX_STEPS: u64 = 5000;
/// How many there are when nothing is said.
const USUAL_STEPS: u64 = 180;
/// How many labels weights can be divided by.
const MAX_LABELS: usize = 4;
/// How many lines an answer can have; the heaviest are kept.
const MAX_SERIES: usize = 200;
/// How many weights the lines of all services may have together: 128 MiB.
const MAX_WEIGHTS: usize = 1 << 24;
/// What stands for the name of the service among the labels.
const SERVICE: &str = "service";

/// Weight over time, divided by labels.
#[derive(Debug, Clone)]
pub struct SeriesQuery {
    /// Of what; of all services where its service is empty.
    pub selection: Selection,
    /// How long a step is, in seconds; chosen by the range when absent.
    pub step: Option<u64>,
    /// The labels it is divided by; `service` is one.
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
    let selection = with_marked_versions(store, &query.selection)?;
    let mut found = match by.contains(&SERVICE) {
        true => of_services(store, &selection, step, &by)?,
        false => series_by(store, &selection, step, &by)?,
    };
    let total = |weights: &[u64]| {
        weights
            .iter()
            .fold(0_u64, |sum, weight| sum.saturating_add(*weight))
    };
    let count = found.series.len();
    if count > MAX_SERIES {
        found
            .series
            .small_sort_by_key(|series| std::cmp::Reverse(total(&series.weights)));
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

/// The series of every service that is meant, with its name among their values.
fn of_services(
    store: &dyn Store,
    selection: &Selection,
    step: u64,
    by: &[&str],
) -> Result<TimeSeriesSet, QueryError> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    store.each_series(selection.time.clone(), &mut |span| {
        let is_meant = selection.service.is_empty() || span.service == selection.service;
        if is_meant && span.event == selection.event {
            names.insert(span.service);
        }
        Ok(())
    })?;
    let labels: Vec<&str> = by.iter().copied().filter(|key| *key != SERVICE).collect();
    let mut all = store.series(&Selection::new("", "", selection.time.clone()), step, &[])?;
    let mut weights = 0;
    for name in names {
        let of_service = Selection {
            service: name.clone(),
            ..selection.clone()
        };
        let found = series_by(store, &of_service, step, &labels)?;
        all.missing_hours = all.missing_hours.max(found.missing_hours);
        weights += found
            .series
            .iter()
            .map(|it| it.weights.len())
            .sum::<usize>();
        if weights > MAX_WEIGHTS {
            return Err(QueryError::Bad(
                "too many lines of too many steps: ask for longer steps, or for one service"
                    .to_owned(),
            ));
        }
        for mut series in found.series {
            let mut values = series.values.into_iter();
            let value = |key: &&str| match *key {
                SERVICE => name.clone(),
                _ => values.next().unwrap_or_default(),
            };
            series.values = by.iter().map(value).collect();
            all.series.push(series);
        }
    }
    Ok(all)
}

/// Weight over time by labels, where a version is what it was marked as.
fn series_by(
    store: &dyn Store,
    selection: &Selection,
    step: u64,
    by: &[&str],
) -> Result<TimeSeriesSet, QueryError> {
    let place = by.iter().position(|key| *key == label_key::VERSION);
    let versions = match place {
        Some(_) => Versions::of(store, &selection.service, &selection.time)?,
        None => Versions::default(),
    };
    let Some(place) = place.filter(|_| versions.has_marks()) else {
        return Ok(store.series(selection, step, by)?);
    };
    let names = versions.of_processes(store, selection)?;
    let finer: Vec<&str> = by.iter().copied().chain(PROCESS).collect();
    let mut found = store.series(selection, step, &finer)?;
    let mut merged: BTreeMap<Vec<String>, Vec<u64>> = BTreeMap::new();
    for mut series in found.series {
        let process = series.values.split_off(by.len());
        if let Some(name) = names.get(&process) {
            series.values[place].clone_from(name);
        }
        let length = series.weights.len();
        let sums = merged.entry(series.values);
        let sums = sums.or_insert_with(|| vec![0; length]);
        for (sum, weight) in sums.iter_mut().zip(series.weights) {
            *sum = sum.saturating_add(weight);
        }
    }
    let merged = merged.into_iter();
    found.series = merged
        .map(|(values, weights)| TimeSeries { values, weights })
        .collect();
    Ok(found)
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
