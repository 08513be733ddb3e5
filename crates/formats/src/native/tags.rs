//! Sections 15 to 17: the events of a profile, its contexts, and which of them samples have. A
//! profile with one event and no contexts has none of them.

use nodespy_model::{
    ContextIndex, EventIndex, EventType, Labels, MAX_EVENTS, Profile, ProfileBuilder, Sample,
    Sampling, WeightUnit,
};

use super::columns::{Columns, put, put_string};
use super::{UNITS, VERSION, VERSION_OF_ONE_EVENT, VERSION_WITHOUT_ASYNC, code_of};
use crate::budget::Budget;
use crate::import::ImportError;

/// How a column of tags is held.
const ALL_EQUAL: u64 = 0;
const EACH: u64 = 1;

/// The version that a profile is written as. Readers of the older one pass these sections over,
/// which is right only where there is one event; and they know no async frames.
pub(super) fn version_of(profile: &Profile) -> u32 {
    let has_async = profile.frames.iter().any(|frame| frame.kind.is_async());
    match profile.events.len() > 1 {
        _ if has_async => VERSION,
        true => VERSION_WITHOUT_ASYNC,
        false => VERSION_OF_ONE_EVENT,
    }
}

/// Whether the section with what a profile is of does not say everything of its events.
pub(super) fn has_events(profile: &Profile) -> bool {
    let event = profile.event();
    profile.events.len() > 1
        || event.unit == WeightUnit::Events
        || matches!(event.sampling, Sampling::Period(_))
}

/// Section 15.
pub(super) fn events(profile: &Profile) -> Vec<u8> {
    let mut content = Vec::new();
    put(&mut content, profile.events.len() as u64);
    for event in &profile.events {
        put_string(&mut content, &event.name);
        put(&mut content, code_of(&UNITS, &event.unit));
        let (kind, value) = match event.sampling {
            Sampling::Unknown => (0, 0),
            Sampling::Rate(rate_hz) => (1, u64::from(rate_hz)),
            Sampling::Period(period) => (2, period),
        };
        put(&mut content, kind);
        put(&mut content, value);
    }
    content
}

/// Reads section 15.
pub(super) fn read_events(columns: &mut Columns<'_>) -> Result<Vec<EventType>, ImportError> {
    let rows = columns.count(4)?;
    if rows > MAX_EVENTS {
        return Err(columns.error(format!("{rows} events, of which {MAX_EVENTS} are read")));
    }
    let mut events = Vec::with_capacity(rows);
    for _ in 0..rows {
        let name = columns.string()?;
        let unit = columns.code(&UNITS, "unit")?;
        let (kind, value) = (columns.number()?, columns.number()?);
        events.push(EventType {
            sampling: match kind {
                1 => Sampling::Rate(u32::try_from(value).unwrap_or(u32::MAX)),
                2 => Sampling::Period(value),
                _ => Sampling::Unknown,
            },
            ..EventType::new(name, unit)
        });
    }
    Ok(events)
}

/// Section 16: the sets of labels after the first `from`; the empty one is none of them.
pub(super) fn contexts(profile: &Profile, from: usize) -> Vec<u8> {
    let mut content = Vec::new();
    let sets = profile.contexts.iter().skip(from);
    put(&mut content, sets.len() as u64);
    for labels in sets {
        put(&mut content, labels.iter().len() as u64);
        for (key, value) in labels.iter() {
            put_string(&mut content, key);
            put_string(&mut content, value);
        }
    }
    content
}

/// Reads section 16, and returns where each context of the file is; the empty one is the first.
pub(super) fn read_contexts(
    columns: &mut Columns<'_>,
    builder: &mut ProfileBuilder,
    budget: &mut Budget,
) -> Result<Vec<ContextIndex>, ImportError> {
    let rows = columns.count(1)?;
    budget.draw_rows::<Labels>(rows)?;
    let mut places = vec![ContextIndex::NONE];
    for _ in 0..rows {
        let mut labels = Labels::default();
        let count = columns.count(2)?;
        budget.draw_rows::<[String; 2]>(count)?;
        for _ in 0..count {
            let key = columns.string()?;
            labels.set(key, columns.string()?);
        }
        places.push(builder.context(labels));
    }
    Ok(places)
}

/// Section 17: the events and contexts of the samples in the section that follows; nothing where
/// all of them have the first event and no context.
pub(super) fn tags(rows: &[Sample]) -> Option<Vec<u8>> {
    let is_plain = |sample: &Sample| sample.event.0 == 0 && sample.context.0 == 0;
    if rows.iter().all(is_plain) {
        return None;
    }
    let mut content = Vec::new();
    put_column(&mut content, rows, |sample| u64::from(sample.event.0));
    put_column(&mut content, rows, |sample| u64::from(sample.context.0));
    Some(content)
}

fn put_column(content: &mut Vec<u8>, rows: &[Sample], value: impl Fn(&Sample) -> u64) {
    let first = rows.first().map_or(0, &value);
    if rows.iter().all(|sample| value(sample) == first) {
        put(content, ALL_EQUAL);
        put(content, first);
        return;
    }
    put(content, EACH);
    put(content, rows.len() as u64);
    for sample in rows {
        put(content, value(sample));
    }
}

/// A column of section 17.
#[derive(Debug)]
enum Column {
    AllEqual(u32),
    Each(Vec<u32>),
}

impl Column {
    fn read(
        columns: &mut Columns<'_>,
        known: usize,
        what: &'static str,
    ) -> Result<Self, ImportError> {
        match columns.number()? {
            ALL_EQUAL => Ok(Self::AllEqual(columns.index(known, what)?)),
            EACH => {
                let rows = columns.count(1)?;
                let each = columns.column(rows, |columns| columns.index(known, what))?;
                Ok(Self::Each(each))
            }
            other => Err(columns.error(format!("there is no way {other} to hold {what}"))),
        }
    }

    /// The value of a row; none when there are fewer.
    fn get(&self, row: usize) -> Option<u32> {
        match self {
            Self::AllEqual(value) => Some(*value),
            Self::Each(values) => values.get(row).copied(),
        }
    }
}

/// What section 17 says of the samples that follow.
#[derive(Debug)]
pub(super) struct Tags {
    events: Column,
    contexts: Column,
}

impl Tags {
    /// Reads section 17.
    pub(super) fn read(
        columns: &mut Columns<'_>,
        events: usize,
        contexts: usize,
    ) -> Result<Self, ImportError> {
        Ok(Self {
            events: Column::read(columns, events, "events")?,
            contexts: Column::read(columns, contexts, "contexts")?,
        })
    }

    /// Gives samples their tags; none when there are too few.
    pub(super) fn give_to(&self, rows: &mut [Sample], contexts: &[ContextIndex]) -> Option<()> {
        for (row, sample) in rows.iter_mut().enumerate() {
            sample.event = EventIndex(self.events.get(row)? as u16);
            sample.context = contexts[self.contexts.get(row)? as usize];
        }
        Some(())
    }
}
