//! What is asked of a store, and its answers.

use std::ops::Range;

use nodespy_model::{Labels, ThreadRole, WeightUnit};

use crate::error::StoreError;
use crate::symbols::StoredFunction;
use crate::window::{HOUR_SECONDS, UnixSeconds, WINDOW_SECONDS, role_number};

/// How many steps a range is divided into at most.
const MAX_STEPS: u64 = 100_000;

/// How much memory series with their labels may take in an answer.
const MAX_SPAN_BYTES: usize = 256 << 20;
/// What a series or a label takes beside its text, about.
const SPAN_BYTES: usize = 192;
const LABEL_BYTES: usize = 64;
/// How much memory the names of stacks may take in an answer.
const MAX_SYMBOL_BYTES: usize = 256 << 20;
/// What a stack takes beside its frames, and a frame or function beside its text, about.
const STACK_BYTES: usize = 32;
const SYMBOL_BYTES: usize = 64;
/// How many weights the lines of an answer have together: 128 MiB.
const MAX_WEIGHTS: usize = 1 << 24;

/// A stack of one store; another store has other ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u64);

/// A label that has one of these values; without the label, its value is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    /// The label.
    pub key: String,
    /// The values.
    pub values: Vec<String>,
}

impl Matcher {
    /// A label with one value.
    pub fn new(key: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            values: vec![value.to_owned()],
        }
    }

    pub(crate) fn accepts(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key).unwrap_or_default();
        self.values.iter().any(|accepted| accepted == value)
    }
}

/// Which counts are meant: one event of one service, in a range of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The service.
    pub service: String,
    /// The event.
    pub event: String,
    /// From when until when; windows that reach into it belong to it.
    pub time: Range<UnixSeconds>,
    /// What labels have to be, all of them.
    pub matchers: Vec<Matcher>,
    /// The roles of threads; none for all.
    pub roles: Vec<ThreadRole>,
}

impl Selection {
    /// Everything of an event of a service in a range of time.
    pub fn new(service: &str, event: &str, time: Range<UnixSeconds>) -> Self {
        Self {
            service: service.to_owned(),
            event: event.to_owned(),
            time,
            matchers: Vec::new(),
            roles: Vec::new(),
        }
    }

    /// The same where a label has a value.
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.matchers.push(Matcher::new(key, value));
        self
    }

    /// The same of threads of a role.
    pub fn on(mut self, role: ThreadRole) -> Self {
        self.roles.push(role);
        self
    }

    pub(crate) fn accepts(&self, labels: &Labels) -> bool {
        self.matchers.iter().all(|matcher| matcher.accepts(labels))
    }

    /// The time, widened to whole windows.
    pub(crate) fn windows(&self) -> Range<UnixSeconds> {
        widened(&self.time, WINDOW_SECONDS)
    }

    /// The roles that are meant.
    pub fn asked_roles(&self) -> Vec<ThreadRole> {
        match self.roles.is_empty() {
            true => ThreadRole::ALL.to_vec(),
            false => self.roles.clone(),
        }
    }

    /// A bit for each role that is meant.
    pub(crate) fn role_mask(&self) -> u8 {
        match self.roles.is_empty() {
            true => u8::MAX,
            false => self
                .roles
                .iter()
                .fold(0, |mask, role| mask | 1 << role_number(*role)),
        }
    }
}

/// A range widened to multiples of `step`; an empty one stays empty.
pub(crate) fn widened(range: &Range<UnixSeconds>, step: u64) -> Range<UnixSeconds> {
    // Windows start before 2106, so nothing is beyond.
    let end = range.end.min(u64::from(u32::MAX) + HOUR_SECONDS);
    if range.start >= end {
        return 0..0;
    }
    range.start / step * step..end.div_ceil(step) * step
}

/// Hours of which every window is in a range.
pub(crate) fn whole_hours(range: &Range<UnixSeconds>) -> Range<UnixSeconds> {
    let start = range.start.next_multiple_of(HOUR_SECONDS);
    start..hour_of(range.end).max(start)
}

/// Hours of which some windows are in a range: none, one or two.
pub(crate) fn partial_hours(range: &Range<UnixSeconds>) -> Vec<UnixSeconds> {
    let whole = whole_hours(range);
    let ends = [range.start, range.end.saturating_sub(WINDOW_SECONDS)];
    let hours = ends.map(hour_of).into_iter();
    let mut hours: Vec<UnixSeconds> = hours
        .filter(|hour| !range.is_empty() && !whole.contains(hour))
        .collect();
    hours.dedup();
    hours
}

/// When the hour of a time starts.
pub(crate) fn hour_of(time: UnixSeconds) -> UnixSeconds {
    time / HOUR_SECONDS * HOUR_SECONDS
}

/// What a stack weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StackWeight {
    /// The stack.
    pub stack: StackId,
    /// How often it was counted, whatever the period.
    pub count: u64,
    /// What that weighs, in the event's unit.
    pub weight: u64,
}

/// The stacks of one set of values of the labels that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// The values, in the order of the labels; empty for a label that is missing.
    pub values: Vec<String>,
    /// Its stacks, by id.
    pub stacks: Vec<StackWeight>,
}

/// Windows merged by stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// What the weights are in; none when nothing was ever stored for that service and event.
    pub unit: Option<WeightUnit>,
    /// One group, or one for each set of values that occurs, by value.
    pub groups: Vec<Group>,
    /// Whether hours are in it as a whole of which only a part was asked for: their windows have been dropped.
    pub is_widened: bool,
    /// Hours that can't be told apart by the labels that were asked for any more, and are left out.
    pub missing_hours: u64,
}

/// Weight over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeSeries {
    /// The values of the labels that were asked for.
    pub values: Vec<String>,
    /// The weight of each step, from the start of the range.
    pub weights: Vec<u64>,
}

/// Several of them over the same steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeSeriesSet {
    /// When the first step starts.
    pub start: UnixSeconds,
    /// How long a step is.
    pub step: u64,
    /// One for each set of values that occurs, by value.
    pub series: Vec<TimeSeries>,
    /// Hours that can't be divided by these labels or steps any more, and are left out.
    pub missing_hours: u64,
}

impl TimeSeriesSet {
    /// None of them yet, over the steps of a selection; and how many steps that are.
    pub(crate) fn over(selection: &Selection, step: u64) -> Result<(Self, usize), StoreError> {
        if step == 0 || !step.is_multiple_of(WINDOW_SECONDS) {
            return Err(StoreError::Refused("a step is a multiple of 10 seconds"));
        }
        let range = widened(&selection.time, step);
        let steps = (range.end - range.start) / step;
        if steps > MAX_STEPS {
            return Err(StoreError::Refused(
                "a range has at most 100,000 steps; take longer ones",
            ));
        }
        let set = Self {
            start: range.start,
            step,
            series: Vec::new(),
            missing_hours: 0,
        };
        Ok((set, steps as usize))
    }
}

/// A series and when it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesSpan {
    /// The service.
    pub service: String,
    /// The event.
    pub event: String,
    /// What its weights are in.
    pub unit: WeightUnit,
    /// What one count weighs.
    pub period: u64,
    /// Its labels.
    pub labels: Labels,
    /// When its first window started, though that may have been dropped since.
    pub first: UnixSeconds,
    /// When its last window starts.
    pub last: UnixSeconds,
}

/// What is left of the memory for the series of an answer.
#[derive(Debug)]
pub(crate) struct SpanBudget(usize);

impl Default for SpanBudget {
    fn default() -> Self {
        Self(MAX_SPAN_BYTES)
    }
}

impl SpanBudget {
    #[cfg(test)]
    pub(crate) fn of(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Takes what a series needs, or refuses it.
    pub(crate) fn take(&mut self, span: &SeriesSpan) -> Result<(), StoreError> {
        let labels = span.labels.iter();
        let labels = labels.map(|(key, value)| key.len() + value.len() + LABEL_BYTES);
        let names = span.service.len() + span.event.len();
        let bytes = names + labels.sum::<usize>() + SPAN_BYTES;
        let left = self.0.checked_sub(bytes);
        self.0 = left.ok_or(StoreError::Refused(
            "too many series in that time: ask for a shorter range",
        ))?;
        Ok(())
    }
}

/// What is left of the memory for the names of stacks.
#[derive(Debug)]
pub struct NameBudget(usize);

impl Default for NameBudget {
    fn default() -> Self {
        Self(MAX_SYMBOL_BYTES)
    }
}

impl NameBudget {
    /// So many bytes.
    pub fn of(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Takes what a stack of so many frames needs, or refuses it.
    pub(crate) fn take_stack(&mut self, frames: usize) -> Result<(), StoreError> {
        self.take(STACK_BYTES + frames * size_of::<u32>())
    }

    /// Takes what a frame needs that is not a function of its own, or refuses it.
    pub(crate) fn take_frame(&mut self) -> Result<(), StoreError> {
        self.take(SYMBOL_BYTES)
    }

    /// Takes what a function needs, or refuses it.
    pub(crate) fn take_function(&mut self, function: &StoredFunction) -> Result<(), StoreError> {
        self.take(SYMBOL_BYTES + function.name.len() + function.file.len())
    }

    fn take(&mut self, bytes: usize) -> Result<(), StoreError> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.ok_or(StoreError::Refused(
            "too many stacks in that time: ask for a shorter range",
        ))?;
        Ok(())
    }
}

/// What is left of the memory for lines over time.
#[derive(Debug)]
pub(crate) struct WeightBudget(usize);

impl Default for WeightBudget {
    fn default() -> Self {
        Self(MAX_WEIGHTS)
    }
}

impl WeightBudget {
    /// Takes what a line of so many steps needs, or refuses it.
    pub(crate) fn take(&mut self, steps: usize) -> Result<(), StoreError> {
        let left = self.0.checked_sub(steps);
        self.0 = left.ok_or(StoreError::Refused(
            "too many lines of too many steps: ask for longer steps, a shorter range or other labels",
        ))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_as_many_series_as_there_is_memory_for() {
        let mut labels = Labels::default();
        for number in 0..8 {
            labels.set(&format!("label-{number}"), "x".repeat(500));
        }
        let span = SeriesSpan {
            service: "shop".to_owned(),
            event: "cpu-clock".to_owned(),
            unit: WeightUnit::Nanoseconds,
            period: 1,
            labels,
            first: 0,
            last: 0,
        };
        let mut budget = SpanBudget::default();
        let taken = (0..1_000_000).take_while(|_| budget.take(&span).is_ok());
        // An hour of as many as a server takes, with labels as long as it takes them, and not two.
        let taken = taken.count();
        assert!((50_000..60_000).contains(&taken), "{taken}");
        let refused = budget.take(&span).unwrap_err().to_string();
        assert!(refused.contains("ask for a shorter range"), "{refused}");
    }
}
