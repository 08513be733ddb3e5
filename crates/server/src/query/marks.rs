//! Deployments that somebody marked, where the labels of processes don't tell them apart.
//!
//! A mark is a window of an event of its own, so that it is kept, read and dropped like any other. Processes that started after it are of
//! the marked version, until their own label says another.

use nodespy_model::{Labels, ThreadRole, WeightUnit, label_key};
use nodespy_store::{
    Batch, Count, Series, SeriesSpan, StackHash, Store, Symbols, UnixSeconds, WINDOW_SECONDS,
    Window,
};

use super::QueryError;

/// The event of marks.
pub const DEPLOYMENT_EVENT: &str = "deployment";

/// A deployment that was marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What was deployed.
    pub version: String,
    /// When: the start of a window.
    pub time: UnixSeconds,
}

/// Marks a deployment of a service. Marked again it changes nothing.
pub fn mark_deployment(
    store: &mut dyn Store,
    service: &str,
    version: &str,
    time: UnixSeconds,
) -> Result<(), QueryError> {
    let mut labels = Labels::default();
    labels.set(label_key::VERSION, version);
    store.append(&Batch {
        series: vec![Series {
            service: service.to_owned(),
            event: DEPLOYMENT_EVENT.to_owned(),
            unit: WeightUnit::Events,
            period: 1,
            labels,
        }],
        windows: vec![Window {
            series: 0,
            start: time / WINDOW_SECONDS * WINDOW_SECONDS,
            counts: vec![Count::new(StackHash::default(), ThreadRole::Other, 1)],
        }],
        symbols: Symbols {
            stacks: vec![Vec::new()],
            ..Symbols::default()
        },
    })?;
    Ok(())
}

/// The marks among the series of a service, the earliest first.
pub(super) fn marks_of<'a>(spans: impl Iterator<Item = &'a SeriesSpan>) -> Vec<Mark> {
    let marks = spans.filter(|span| span.event == DEPLOYMENT_EVENT);
    let mut marks: Vec<Mark> = marks
        .map(|span| Mark {
            version: label_of(span).to_owned(),
            time: span.first,
        })
        .collect();
    marks.sort_by_key(|mark| mark.time);
    marks
}

/// The version of a series: its label, with the latest mark before it started.
pub(super) fn version_of(span: &SeriesSpan, marks: &[Mark]) -> String {
    let label = label_of(span);
    let mark = marks.iter().rev().find(|mark| mark.time <= span.first);
    match (label, mark) {
        (label, None) => label.to_owned(),
        ("", Some(mark)) => mark.version.clone(),
        (label, Some(mark)) if label == mark.version => label.to_owned(),
        (label, Some(mark)) => format!("{label} ({})", mark.version),
    }
}

fn label_of(span: &SeriesSpan) -> &str {
    span.labels.get(label_key::VERSION).unwrap_or_default()
}
