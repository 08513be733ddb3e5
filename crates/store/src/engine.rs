//! What every engine of a store does.

use std::ops::Range;

use nodespy_model::{Labels, SmallSort, ThreadRole};

use crate::error::StoreError;
use crate::selection::{
    Merged, NameBudget, Selection, SeriesSpan, SpanBudget, StackId, TimeSeriesSet,
};
use crate::symbols::{StackHash, Symbols};
use crate::window::{Batch, UnixSeconds};

/// What became of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Appended {
    /// Windows that are in the store now and were not before.
    pub windows: u64,
    /// Windows that were there already.
    pub repeated: u64,
    /// Windows from before what was dropped.
    pub too_old: u64,
}

/// How finely something is known. Each is kept longer than the one before, and dropped by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Detail {
    /// Windows of ten seconds.
    Windows,
    /// Hours of each series.
    Hours,
    /// Hours of each version of a service.
    Rollups,
}

/// A store of windows. Reading answers from one moment, whatever is written meanwhile.
pub trait Store {
    /// Which of these stacks have to be named when they are first counted.
    fn unknown_stacks(&self, stacks: &[StackHash]) -> Result<Vec<StackHash>, StoreError>;

    /// Appends a batch; when this returns, it survives a crash. Windows that are there already change nothing.
    fn append(&mut self, batch: &Batch) -> Result<Appended, StoreError>;

    /// The same for senders whose profiles are shorter than a window: counts are added to those of a window that is there,
    /// unless its hour has been made a block. What is sent again has to be recognized by the caller.
    fn add(&mut self, batch: &Batch) -> Result<Appended, StoreError>;

    /// Adds up by stack, for each set of values of the labels in `by`; without any, all in one group.
    fn merge(&self, selection: &Selection, by: &[&str]) -> Result<Merged, StoreError>;

    /// Adds up by stack, for each thread role that was asked for and has any. Engines that read everything anyway do it in one pass.
    fn merge_roles(&self, selection: &Selection) -> Result<Vec<(ThreadRole, Merged)>, StoreError> {
        let mut merged = Vec::new();
        for role in selection.asked_roles() {
            let of_role = Selection {
                roles: vec![role],
                ..selection.clone()
            };
            merged.push((role, self.merge(&of_role, &[])?));
        }
        Ok(merged)
    }

    /// Adds up over time, in steps of whole windows.
    fn series(
        &self,
        selection: &Selection,
        step: u64,
        by: &[&str],
    ) -> Result<TimeSeriesSet, StoreError>;

    /// Hands out the series that have windows or hours in a range of time, with their labels, in no order. An error of `each` ends it.
    fn each_series(
        &self,
        time: Range<UnixSeconds>,
        each: &mut dyn FnMut(SeriesSpan) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Those series in a list, by service, event and first window. Refused where they would take hundreds of megabytes: whoever may
    /// write can send that many.
    fn labels(&self, time: Range<UnixSeconds>) -> Result<Vec<SeriesSpan>, StoreError> {
        self.labels_where(time, &|_| true)
    }

    /// The same of some of the series.
    fn labels_where(
        &self,
        time: Range<UnixSeconds>,
        is_meant: &dyn Fn(&SeriesSpan) -> bool,
    ) -> Result<Vec<SeriesSpan>, StoreError> {
        list(self, time, is_meant, None, SpanBudget::default())
    }

    /// The same with some of their labels alone: there is room for more series then.
    fn labels_of(
        &self,
        time: Range<UnixSeconds>,
        is_meant: &dyn Fn(&SeriesSpan) -> bool,
        keys: &[&str],
    ) -> Result<Vec<SeriesSpan>, StoreError> {
        list(self, time, is_meant, Some(keys), SpanBudget::default())
    }

    /// The latest hours before a time that have windows, or had them; the latest first.
    fn newest_hours(&self, before: UnixSeconds, max: usize)
    -> Result<Vec<UnixSeconds>, StoreError>;

    /// When the oldest windows start that it has, or had: it may be earlier than what is left. None in an empty store.
    fn oldest(&self) -> Result<Option<UnixSeconds>, StoreError>;

    /// The names of stacks, in the order of their ids. Refused where they would take hundreds of megabytes.
    fn stacks(&self, stacks: &[StackId]) -> Result<Symbols, StoreError> {
        self.stacks_within(stacks, &mut NameBudget::default())
    }

    /// The same for one of several answers that are held together.
    fn stacks_within(
        &self,
        stacks: &[StackId],
        budget: &mut NameBudget,
    ) -> Result<Symbols, StoreError>;

    /// Makes hours and rollups of windows whose hour ended before `time`. Answers stay the same.
    fn compact(&mut self, time: UnixSeconds) -> Result<(), StoreError>;

    /// Drops a detail of all hours that ended before `time`, and gives the space back.
    fn drop_before(&mut self, detail: Detail, time: UnixSeconds) -> Result<(), StoreError>;

    /// How many bytes it takes.
    fn bytes(&self) -> Result<u64, StoreError>;
}

fn list(
    store: &(impl Store + ?Sized),
    time: Range<UnixSeconds>,
    is_meant: &dyn Fn(&SeriesSpan) -> bool,
    keys: Option<&[&str]>,
    mut budget: SpanBudget,
) -> Result<Vec<SeriesSpan>, StoreError> {
    let mut spans = Vec::new();
    store.each_series(time, &mut |mut span| {
        if !is_meant(&span) {
            return Ok(());
        }
        if let Some(keys) = keys {
            let mut labels = Labels::default();
            for key in keys {
                if let Some(value) = span.labels.get(key) {
                    labels.set(key, value);
                }
            }
            span.labels = labels;
        }
        budget.take(&span)?;
        spans.push(span);
        Ok(())
    })?;
    let key = |span: &SeriesSpan| (span.service.clone(), span.event.clone(), span.first);
    spans.small_sort_by(|left, right| key(left).cmp(&key(right)));
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use nodespy_model::WeightUnit;

    use super::*;
    use crate::sqlite::{OpenMode, SqliteStore};
    use crate::window::Series;

    #[test]
    fn labels_that_are_not_asked_for_take_no_room() {
        const SERIES: usize = 100;
        let folder = tempfile::tempdir().unwrap();
        let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
        let series = (0..SERIES).map(|number| {
            let mut labels = Labels::default();
            labels.set("instance", number.to_string());
            labels.set("command", "x".repeat(2000));
            Series {
                service: "shop".to_owned(),
                event: "cpu".to_owned(),
                unit: WeightUnit::Events,
                period: 1,
                labels,
            }
        });
        let counted: Vec<_> = (0..SERIES).map(|number| (number, 0, 1)).collect();
        let batch = Batch::counted(series.collect(), &counted);
        store.append(&batch).unwrap();
        let listed = |keys| list(&store, 0..10, &|_| true, keys, SpanBudget::of(SERIES * 300));
        assert!(listed(None).is_err());
        let spans = listed(Some(&["instance", "version"])).unwrap();
        assert_eq!(spans.len(), SERIES);
        assert!(spans.iter().all(|span| span.labels.iter().count() == 1));
    }
}
