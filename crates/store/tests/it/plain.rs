//! A store that keeps every count in a list and goes through all of it for each question: slow, and easy to see right.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use nodespy_model::{ThreadRole, label_key};
use nodespy_store::{
    Appended, Batch, Count, Detail, Group, HOUR_SECONDS, Merged, NameBudget, Selection, Series,
    SeriesSpan, StackHash, StackId, StackWeight, Store, StoreError, StoredFrame, StoredFunction,
    Symbols, TimeSeries, TimeSeriesSet, UnixSeconds, WINDOW_SECONDS,
};

type Path = Vec<(StoredFunction, StoredFrame)>;

/// What a count is for: a stack, seen on threads of a role.
type Counted = (StackHash, u8, u64);

#[derive(Default)]
pub(crate) struct PlainStore {
    windows: BTreeMap<(usize, UnixSeconds), Vec<Counted>>,
    series: Vec<Series>,
    stacks: Vec<(StackHash, Path)>,
    windows_from: UnixSeconds,
    hours_from: UnixSeconds,
}

/// How a window counts for a selection.
enum Part {
    Yes,
    /// It was not asked for, but its hour was in part.
    Widened,
    /// It can't be told apart any more.
    Missing,
    No,
}

fn role_of(count: &Count) -> u8 {
    let is_role = |role: &&ThreadRole| Count::new(count.stack, **role, count.count) == *count;
    let role = ThreadRole::ALL.iter().find(is_role).unwrap();
    ThreadRole::ALL
        .iter()
        .position(|known| known == role)
        .unwrap() as u8
}

fn hour_of(start: UnixSeconds) -> UnixSeconds {
    start / HOUR_SECONDS * HOUR_SECONDS
}

fn windows_of(selection: &Selection) -> Range<UnixSeconds> {
    if selection.time.is_empty() {
        return 0..0;
    }
    let start = selection.time.start / WINDOW_SECONDS * WINDOW_SECONDS;
    let end = selection.time.end.min(u64::MAX / 2);
    start..end.next_multiple_of(WINDOW_SECONDS)
}

impl PlainStore {
    fn accepts(&self, series: &Series, selection: &Selection) -> bool {
        let label = |key: &str| series.labels.get(key).unwrap_or_default();
        series.service == selection.service
            && series.event == selection.event
            && selection.matchers.iter().all(|matcher| {
                matcher
                    .values
                    .iter()
                    .any(|value| value == label(&matcher.key))
            })
    }

    fn part(&self, start: UnixSeconds, selection: &Selection, by: &[&str]) -> Part {
        let windows = windows_of(selection);
        let hour = hour_of(start);
        let is_whole = windows.contains(&hour) && windows.end >= hour + HOUR_SECONDS;
        let is_touched = windows.start < hour + HOUR_SECONDS && windows.end > hour;
        let keys = selection.matchers.iter().map(|matcher| &*matcher.key);
        let is_of_versions = keys
            .chain(by.iter().copied())
            .all(|key| key == label_key::VERSION);
        match is_touched {
            true if start < self.hours_from && !is_of_versions => Part::Missing,
            true if is_whole => Part::Yes,
            true if start < self.windows_from => Part::Widened,
            true if windows.contains(&start) => Part::Yes,
            _ => Part::No,
        }
    }

    /// Takes a batch; windows that are there grow, or stay as they are.
    fn take(&mut self, batch: &Batch, grows: bool) -> Result<Appended, StoreError> {
        let named = batch.symbols.hashes();
        let counts = batch.windows.iter().flat_map(|window| &window.counts);
        let unknown = counts.filter(|count| {
            !named.contains(&count.stack)
                && !self.stacks.iter().any(|(known, _)| *known == count.stack)
        });
        match unknown.count() {
            0 => {}
            unknown => return Err(StoreError::UnknownStacks(unknown)),
        }
        let mut appended = Appended::default();
        for window in &batch.windows {
            if window.start < self.hours_from {
                appended.too_old += 1;
                continue;
            }
            let series = &batch.series[window.series];
            let known = self.series.iter().position(|known| known == series);
            let index = known.unwrap_or_else(|| {
                self.series.push(series.clone());
                self.series.len() - 1
            });
            if !grows && self.windows.contains_key(&(index, window.start)) {
                appended.repeated += 1;
                continue;
            }
            appended.windows += 1;
            for count in &window.counts {
                if !self.stacks.iter().any(|(known, _)| *known == count.stack) {
                    let position = named.iter().position(|hash| *hash == count.stack).unwrap();
                    let frames = batch.symbols.stacks[position].iter();
                    let path = frames.map(|frame| {
                        let frame = batch.symbols.frames[*frame as usize];
                        let function = &batch.symbols.functions[frame.function as usize];
                        (
                            function.clone(),
                            StoredFrame {
                                function: 0,
                                ..frame
                            },
                        )
                    });
                    self.stacks.push((count.stack, path.collect()));
                }
            }
            let counts = window.counts.iter();
            let counts = counts.map(|count| (count.stack, role_of(count), count.count));
            let known = self.windows.entry((index, window.start)).or_default();
            known.extend(counts);
        }
        Ok(appended)
    }

    fn values(series: &Series, by: &[&str]) -> Vec<String> {
        let value = |key: &&str| series.labels.get(key).unwrap_or_default().to_owned();
        by.iter().map(value).collect()
    }

    fn is_asked(selection: &Selection, role: u8) -> bool {
        selection.roles.is_empty()
            || selection
                .roles
                .contains(&ThreadRole::ALL[usize::from(role)])
    }
}

impl Store for PlainStore {
    fn unknown_stacks(&self, stacks: &[StackHash]) -> Result<Vec<StackHash>, StoreError> {
        let is_known = |hash: &&StackHash| self.stacks.iter().any(|(known, _)| known == *hash);
        Ok(stacks
            .iter()
            .filter(|hash| !is_known(hash))
            .copied()
            .collect())
    }

    fn append(&mut self, batch: &Batch) -> Result<Appended, StoreError> {
        self.take(batch, false)
    }

    fn add(&mut self, batch: &Batch) -> Result<Appended, StoreError> {
        self.take(batch, true)
    }

    fn merge(&self, selection: &Selection, by: &[&str]) -> Result<Merged, StoreError> {
        let mut groups: BTreeMap<Vec<String>, BTreeMap<u64, (u64, u64)>> = BTreeMap::new();
        let mut is_widened = false;
        let mut missing = BTreeSet::new();
        let mut unit = None;
        for ((index, start), counts) in &self.windows {
            let series = &self.series[*index];
            if series.service == selection.service && series.event == selection.event {
                unit = Some(series.unit);
                if matches!(self.part(*start, selection, by), Part::Missing) && !counts.is_empty() {
                    missing.insert(hour_of(*start));
                }
            }
            if !self.accepts(series, selection) {
                continue;
            }
            match self.part(*start, selection, by) {
                Part::Yes => {}
                Part::Widened => is_widened |= !counts.is_empty(),
                Part::Missing | Part::No => continue,
            }
            for (stack, role, count) in counts {
                if Self::is_asked(selection, *role) {
                    let id = self
                        .stacks
                        .iter()
                        .position(|(known, _)| known == stack)
                        .unwrap();
                    let group = groups.entry(Self::values(series, by)).or_default();
                    let sums = group.entry(id as u64).or_default();
                    sums.0 += count;
                    sums.1 += count * series.period;
                }
            }
        }
        let groups = groups.into_iter().map(|(values, stacks)| Group {
            values,
            stacks: stacks
                .into_iter()
                .map(|(stack, (count, weight))| StackWeight {
                    stack: StackId(stack),
                    count,
                    weight,
                })
                .collect(),
        });
        Ok(Merged {
            unit,
            groups: groups.collect(),
            is_widened,
            missing_hours: missing.len() as u64,
        })
    }

    fn series(
        &self,
        selection: &Selection,
        step: u64,
        by: &[&str],
    ) -> Result<TimeSeriesSet, StoreError> {
        let time = &selection.time;
        let (start, end) = (time.start / step * step, time.end.next_multiple_of(step));
        let steps = end.saturating_sub(start) / step;
        let mut sums: BTreeMap<Vec<String>, Vec<u64>> = BTreeMap::new();
        let windows = windows_of(selection);
        for ((index, window), counts) in &self.windows {
            let series = &self.series[*index];
            if !self.accepts(series, selection) || !windows.contains(window) {
                continue;
            }
            let counts = counts.iter();
            let count: u64 = counts
                .filter(|(_, role, _)| Self::is_asked(selection, *role))
                .map(|(_, _, count)| count)
                .sum();
            if count > 0 {
                let empty = || vec![0; steps as usize];
                let sums = sums.entry(Self::values(series, by)).or_insert_with(empty);
                sums[((window - start) / step) as usize] += count * series.period;
            }
        }
        let series = sums.into_iter();
        Ok(TimeSeriesSet {
            start,
            step,
            series: series
                .map(|(values, weights)| TimeSeries { values, weights })
                .collect(),
            missing_hours: 0,
        })
    }

    fn each_series(
        &self,
        time: Range<UnixSeconds>,
        each: &mut dyn FnMut(SeriesSpan) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut spans: BTreeMap<usize, SeriesSpan> = BTreeMap::new();
        for (index, start) in self.windows.keys() {
            let series = &self.series[*index];
            let span = spans.entry(*index).or_insert_with(|| SeriesSpan {
                service: series.service.clone(),
                event: series.event.clone(),
                unit: series.unit,
                period: series.period,
                labels: series.labels.clone(),
                first: *start,
                last: *start,
            });
            span.first = span.first.min(*start);
            span.last = span.last.max(*start);
        }
        let mut spans = spans
            .into_values()
            .filter(|span| span.first < time.end && span.last + WINDOW_SECONDS > time.start);
        spans.try_for_each(each)
    }

    fn newest_hours(
        &self,
        before: UnixSeconds,
        max: usize,
    ) -> Result<Vec<UnixSeconds>, StoreError> {
        let starts = self.windows.keys().map(|(_, start)| *start);
        let hours: BTreeSet<UnixSeconds> = starts
            .filter(|start| *start < before)
            .map(hour_of)
            .collect();
        Ok(hours.into_iter().rev().take(max).collect())
    }

    fn oldest(&self) -> Result<Option<UnixSeconds>, StoreError> {
        Ok(self.windows.keys().map(|(_, start)| *start).min())
    }

    fn stacks_within(&self, stacks: &[StackId], _: &mut NameBudget) -> Result<Symbols, StoreError> {
        let mut symbols = Symbols::default();
        for stack in stacks {
            let (_, path) = self
                .stacks
                .get(stack.0 as usize)
                .ok_or(StoreError::Damaged("no such stack"))?;
            let mut frames = Vec::new();
            for (function, frame) in path {
                frames.push(symbols.frames.len() as u32);
                symbols.frames.push(StoredFrame {
                    function: symbols.functions.len() as u32,
                    ..*frame
                });
                symbols.functions.push(function.clone());
            }
            symbols.stacks.push(frames);
        }
        Ok(symbols)
    }

    fn compact(&mut self, _: UnixSeconds) -> Result<(), StoreError> {
        Ok(())
    }

    fn drop_before(&mut self, detail: Detail, time: UnixSeconds) -> Result<(), StoreError> {
        let cut = hour_of(time);
        self.windows_from = self.windows_from.max(cut);
        if detail != Detail::Windows {
            self.hours_from = self.hours_from.max(cut);
        }
        if detail == Detail::Rollups {
            self.windows.retain(|(_, start), _| *start >= cut);
        }
        Ok(())
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        Ok(self.windows.len() as u64)
    }
}
