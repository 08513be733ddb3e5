//! The threads of a file and their samples.

use std::borrow::Cow;

use nodespy_model::{
    ContextIndex, EventIndex, EventType, FastMap, Notes, Process, ProcessIndex, ProfileBuilder,
    Sample, StackIndex, Thread, ThreadIndex, ThreadRole, WeightUnit, classify,
};

use super::tables::{NONE, Tables};
use crate::budget::Excess;
use crate::export::name_with_event;
use crate::json::{JsonError, Kind, Number, Reader};

/// What is odd about a file.
#[derive(Debug, Default)]
pub(super) struct Oddities {
    pub(super) bad_frames: u64,
    pub(super) bad_parents: u64,
    bad_stacks: u64,
    negative: u64,
    rounded: u64,
    total: u64,
    /// Why stacks are missing, which samples then have none of.
    pub(super) exceeded: Option<Excess>,
}

impl Oddities {
    /// Says each of them.
    pub(super) fn report(&self, notes: &mut Notes) {
        if let Some(excess) = self.exceeded {
            notes.remark(format!("stacks were left out: {excess}"));
        }
        for (count, what) in [
            (
                self.bad_frames,
                "stacks have a frame that is not in the file",
            ),
            (
                self.bad_parents,
                "stacks come before their callers, which were left out",
            ),
            (
                self.bad_stacks,
                "samples have a stack that is not in the file",
            ),
            (
                self.negative,
                "samples weigh less than nothing and were left out",
            ),
            (self.rounded, "weights were rounded"),
        ] {
            if count > 0 {
                notes.remark(format!("{count} {what}"));
            }
        }
    }
}

/// A thread as it is in the file.
#[derive(Default)]
pub(super) struct ThreadText<'a> {
    process_name: Cow<'a, str>,
    name: Cow<'a, str>,
    pid: Cow<'a, str>,
    tid: Cow<'a, str>,
    is_main: bool,
    pub(super) tables: Tables<'a>,
    pub(super) samples: Samples,
}

impl<'a> ThreadText<'a> {
    /// Reads an array of threads as far as it goes.
    pub(super) fn read_all(
        reader: &mut Reader<'a>,
        threads: &mut Vec<Self>,
    ) -> Result<(), JsonError> {
        reader.enter_array()?;
        while reader.element()? {
            let mut thread = Self::default();
            thread.read(reader)?;
            threads.push(thread);
        }
        Ok(())
    }

    fn read(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            match (&*key, reader.kind()?) {
                ("processName", _) => self.process_name = reader.any_text()?,
                ("name", _) => self.name = reader.any_text()?,
                ("pid", _) => self.pid = reader.any_text()?,
                ("tid", _) => self.tid = reader.any_text()?,
                ("isMainThread", Kind::Word) => self.is_main = reader.raw()? == b"true",
                ("samples", Kind::Object) => self.samples.read(reader)?,
                _ => self.tables.read_field(&key, reader)?,
            }
        }
        Ok(())
    }
}

/// What all samples of a thread have in common, and what they are tagged with.
pub(super) struct Place {
    pub(super) thread: ThreadIndex,
    pub(super) event: EventIndex,
    pub(super) unit: WeightUnit,
    pub(super) contexts: Vec<ContextIndex>,
}

/// The samples of a thread, column by column.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// What the weights count.
    pub(super) unit: WeightUnit,
    stacks: Vec<i64>,
    /// In nanoseconds.
    times: Vec<i64>,
    has_deltas: bool,
    weights: Option<Vec<Number>>,
}

impl Samples {
    pub(super) fn len(&self) -> usize {
        self.stacks.len()
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), JsonError> {
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            let kind = reader.kind()?;
            match (&*key, kind) {
                ("stack", Kind::Array) => each(reader, |number| {
                    self.stacks.push(number.map_or(NONE, Number::as_i64));
                })?,
                ("time" | "timeDeltas", Kind::Array) => {
                    self.has_deltas = key == "timeDeltas";
                    each(reader, |number| {
                        let nanoseconds = number.map_or(0, millions);
                        self.times.push(nanoseconds);
                    })?;
                }
                ("weight", Kind::Array) => {
                    let mut weights = Vec::new();
                    each(reader, |number| {
                        weights.push(number.unwrap_or(Number::Whole(1)));
                    })?;
                    self.weights = Some(weights);
                }
                ("weightType", _) => {
                    self.unit = match &*reader.any_text()? {
                        "tracing-ms" => WeightUnit::Nanoseconds,
                        "bytes" => WeightUnit::Bytes,
                        _ => WeightUnit::Samples,
                    };
                }
                _ => reader.skip()?,
            }
        }
        Ok(())
    }

    /// Adds the samples to a profile.
    pub(super) fn add(
        &self,
        place: &Place,
        stacks: &[StackIndex],
        builder: &mut ProfileBuilder,
        oddities: &mut Oddities,
    ) {
        let mut now = 0i64;
        for (row, stack) in self.stacks.iter().enumerate() {
            let time = self.times.get(row).copied().unwrap_or(0);
            now = match self.has_deltas {
                true => now.saturating_add(time),
                false => time,
            };
            let stack = match usize::try_from(*stack) {
                Ok(stack) => {
                    let stack = stacks.get(stack).copied();
                    oddities.bad_stacks += u64::from(stack.is_none());
                    stack
                }
                Err(_) => None,
            };
            let weight = self.weight(row, place.unit, oddities);
            if weight > 0 {
                let time = u64::try_from(now).unwrap_or(0);
                builder.add_sample(Sample {
                    time,
                    weight,
                    thread: place.thread,
                    stack,
                    context: place.contexts.get(row).copied().unwrap_or_default(),
                    event: place.event,
                    ..Sample::default()
                });
            }
        }
    }

    fn weight(&self, row: usize, unit: WeightUnit, oddities: &mut Oddities) -> u64 {
        let weight = match &self.weights {
            Some(weights) => weights.get(row).copied().unwrap_or(Number::Whole(0)),
            None => Number::Whole(1),
        };
        let weight = match (unit, weight) {
            (WeightUnit::Nanoseconds, weight) => millions(weight),
            (_, Number::Whole(weight)) => weight,
            (_, Number::Fraction(weight)) => {
                oddities.rounded += u64::from(weight.fract() != 0.0);
                weight.round() as i64
            }
        };
        let weight = u64::try_from(weight).unwrap_or_else(|_| {
            oddities.negative += 1;
            0
        });
        let weight = weight.min(u64::MAX - oddities.total);
        oddities.total += weight;
        weight
    }
}

/// Nanoseconds of milliseconds.
fn millions(number: Number) -> i64 {
    match number {
        Number::Whole(value) => value.saturating_mul(1_000_000),
        Number::Fraction(value) => (value * 1e6).round() as i64,
    }
}

/// Hands over the numbers of an array; none where there is something else.
fn each(reader: &mut Reader<'_>, mut take: impl FnMut(Option<Number>)) -> Result<(), JsonError> {
    reader.enter_array()?;
    while reader.element()? {
        take(reader.any_number()?);
    }
    Ok(())
}

/// The processes that threads belong to.
#[derive(Default)]
pub(super) struct Threads {
    processes: FastMap<(String, String), ProcessIndex>,
    known: FastMap<(ProcessIndex, String, String), ThreadIndex>,
}

impl Threads {
    /// Adds a thread, and its process if it is new. With `is_further` it has the samples of an event
    /// after the first, and its name says so.
    pub(super) fn thread(
        &mut self,
        text: &ThreadText<'_>,
        event: Option<&EventType>,
        is_further: bool,
        builder: &mut ProfileBuilder,
    ) -> ThreadIndex {
        let number = |text: &str| text.trim().parse().unwrap_or(0);
        let key = (text.pid.to_string(), text.process_name.to_string());
        let process = *self.processes.entry(key).or_insert_with(|| {
            builder.process(Process {
                pid: number(&text.pid),
                name: text.process_name.to_string(),
                ..Process::default()
            })
        });
        let suffix = event.map(|event| name_with_event("", event));
        let bare = suffix.and_then(|suffix| text.name.strip_suffix(&*suffix));
        let name = bare.filter(|_| is_further).unwrap_or(&text.name);
        let key = (process, text.tid.to_string(), name.to_owned());
        if let Some(known) = self.known.get(&key).filter(|_| is_further) {
            return *known;
        }
        let thread = builder.thread(Thread {
            process,
            tid: number(&text.tid),
            role: match text.is_main {
                true => ThreadRole::Main,
                false => classify::role_of_name(name),
            },
            name: name.to_owned(),
            ..Thread::default()
        });
        self.known.insert(key, thread);
        thread
    }
}
