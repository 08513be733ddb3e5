//! Deployments that somebody marked, where the labels of processes don't tell them apart.
//!
//! A mark is a window of an event of its own, so that it is kept, read and dropped like any other. Processes that started after it are of
//! the marked version, until their own label says another.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use nodespy_model::{Labels, SmallSort, WeightUnit, label_key};
use nodespy_store::{
    Batch, Matcher, Selection, Series, SeriesSpan, Store, StoreError, UnixSeconds, WINDOW_SECONDS,
};

use super::{INSTANCE, QueryError};

/// The labels that tell processes of a service apart.
pub(super) const PROCESS: [&str; 3] = [label_key::VERSION, INSTANCE, label_key::STARTED];
/// How far before a range of time marks are looked for, in seconds.
const REACH: u64 = 30 * 86_400;

/// How much memory versions may take, and what one takes beside its name, about.
const MAX_VERSION_BYTES: usize = 64 << 20;
const VERSION_BYTES: usize = 64;

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
    let series = Series {
        service: service.to_owned(),
        event: DEPLOYMENT_EVENT.to_owned(),
        unit: WeightUnit::Events,
        period: 1,
        labels,
    };
    let start = time / WINDOW_SECONDS * WINDOW_SECONDS;
    store.append(&Batch::counted(vec![series], &[(0, start, 1)]))?;
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
    marks.small_sort_by_key(|mark| mark.time);
    marks
}

/// What the versions of a service are called: their labels, and with a mark where the label stayed the same.
#[derive(Debug, Default)]
pub(super) struct Versions {
    marks: Vec<Mark>,
    /// When each label was first seen.
    labels: BTreeMap<String, UnixSeconds>,
}

impl Versions {
    /// Of all services, as known at the end of a range of time.
    pub(super) fn of_all(
        store: &dyn Store,
        time: &Range<UnixSeconds>,
    ) -> Result<BTreeMap<String, Self>, QueryError> {
        let mut services: BTreeMap<String, Self> = BTreeMap::new();
        let mut bytes = 0;
        // Not a list of them: a month of processes is a lot, and their versions are few.
        let reach = time.start.saturating_sub(REACH)..time.end;
        store.each_series(reach, &mut |span| {
            if !services.contains_key(&span.service) {
                bytes += span.service.len() + VERSION_BYTES;
                services.insert(span.service.clone(), Self::default());
            }
            if let Some(known) = services.get_mut(&span.service) {
                bytes += known.add(&span);
            }
            match bytes > MAX_VERSION_BYTES {
                true => Err(StoreError::Refused("too many versions in that time")),
                false => Ok(()),
            }
        })?;
        for known in services.values_mut() {
            known.marks.small_sort_by_key(|mark| mark.time);
        }
        Ok(services)
    }

    /// Adds what a series says, and returns about how many bytes more that is.
    fn add(&mut self, span: &SeriesSpan) -> usize {
        let label = label_of(span);
        if span.event == DEPLOYMENT_EVENT {
            self.marks.extend(marks_of(std::iter::once(span)));
            return label.len() + VERSION_BYTES;
        }
        if let Some(first) = self.labels.get_mut(label) {
            *first = span.first.min(*first);
            return 0;
        }
        self.labels.insert(label.to_owned(), span.first);
        label.len() + VERSION_BYTES
    }

    /// Of one service.
    pub(super) fn of(
        store: &dyn Store,
        service: &str,
        time: &Range<UnixSeconds>,
    ) -> Result<Self, QueryError> {
        let known = Self::of_all(store, time)?.remove(service);
        Ok(known.unwrap_or_default())
    }

    /// The version of a series: its label, with the latest mark before it started if the label was there before that.
    pub(super) fn name(&self, span: &SeriesSpan) -> String {
        let label = label_of(span);
        let mark = self.marks.iter().rev().find(|mark| mark.time <= span.first);
        // A label that came with the deployment, or after it, tells the version by itself.
        let is_older = |mark: &&Mark| self.labels.get(label).is_none_or(|it| *it < mark.time);
        match (label, mark) {
            ("", Some(mark)) => mark.version.clone(),
            (label, Some(mark)) if label != mark.version && is_older(&mark) => {
                format!("{label} ({})", mark.version)
            }
            (label, _) => label.to_owned(),
        }
    }

    /// The names of the versions of processes, by what [`PROCESS`] is for them.
    pub(super) fn of_processes(
        &self,
        store: &dyn Store,
        selection: &Selection,
    ) -> Result<BTreeMap<Vec<String>, String>, QueryError> {
        let spans = spans_of(store, selection)?;
        let label = |span: &SeriesSpan, key| span.labels.get(key).unwrap_or_default().to_owned();
        let process = |span: &SeriesSpan| PROCESS.map(|key| label(span, key)).to_vec();
        let names = spans.iter().map(|span| (process(span), self.name(span)));
        Ok(names.collect())
    }

    /// Whether any was marked: else a version is its label.
    pub(super) fn has_marks(&self) -> bool {
        !self.marks.is_empty()
    }
}

/// The same selection, of processes instead of the label where a version that was marked is meant.
pub(super) fn with_marked_versions(
    store: &dyn Store,
    selection: &Selection,
) -> Result<Selection, QueryError> {
    let mut selection = selection.clone();
    let is_version = |matcher: &Matcher| matcher.key == label_key::VERSION;
    let Some(place) = selection.matchers.iter().position(is_version) else {
        return Ok(selection);
    };
    let versions = Versions::of(store, &selection.service, &selection.time)?;
    if !versions.has_marks() {
        return Ok(selection);
    }
    let spans = spans_of(store, &selection)?;
    let asked = selection.matchers[place].values.clone();
    let (meant, others): (Vec<&SeriesSpan>, Vec<&SeriesSpan>) = spans
        .iter()
        .partition(|span| asked.contains(&versions.name(span)));
    let labels = values_of(&meant, label_key::VERSION);
    if meant.is_empty() {
        return Ok(selection);
    }
    // Hours of processes are kept for less long than those of labels.
    if others
        .iter()
        .any(|span| labels.contains(&label_of(span).to_owned()))
    {
        for key in [INSTANCE, label_key::STARTED] {
            selection.matchers.push(Matcher {
                key: key.to_owned(),
                values: values_of(&meant, key),
            });
        }
    }
    selection.matchers[place].values = labels;
    Ok(selection)
}

/// The series of the event of a service, with the labels of [`PROCESS`].
fn spans_of(store: &dyn Store, selection: &Selection) -> Result<Vec<SeriesSpan>, StoreError> {
    let is_meant =
        |span: &SeriesSpan| span.service == selection.service && span.event == selection.event;
    store.labels_of(selection.time.clone(), &is_meant, &PROCESS)
}

/// What a label is among series, each value once.
fn values_of(spans: &[&SeriesSpan], key: &str) -> Vec<String> {
    let values = spans
        .iter()
        .map(|span| span.labels.get(key).unwrap_or_default());
    let values: BTreeSet<&str> = values.collect();
    values.into_iter().map(str::to_owned).collect()
}

fn label_of(span: &SeriesSpan) -> &str {
    span.labels.get(label_key::VERSION).unwrap_or_default()
}
