//! One profile of a speedscope file, which becomes a thread.

use std::borrow::Cow;

use nodespy_model::{
    ContextIndex, EventIndex, FrameIndex, NO_STACK, Notes, ProfileBuilder, Sample, StackIndex,
    ThreadIndex, WeightUnit,
};

use crate::json::{JsonError, Kind, Number, Reader};

/// What the values of a profile count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    pub(super) weight: WeightUnit,
    /// How many of the model's one of the file's is.
    factor: f64,
}

impl Default for Unit {
    fn default() -> Self {
        Self::of("none")
    }
}

impl Unit {
    fn of(name: &str) -> Self {
        let (weight, factor) = match name {
            "seconds" => (WeightUnit::Nanoseconds, 1e9),
            "milliseconds" => (WeightUnit::Nanoseconds, 1e6),
            "microseconds" => (WeightUnit::Nanoseconds, 1e3),
            "nanoseconds" => (WeightUnit::Nanoseconds, 1.0),
            "bytes" => (WeightUnit::Bytes, 1.0),
            _ => (WeightUnit::Samples, 1.0),
        };
        Self { weight, factor }
    }

    /// A value in the model's unit, rounded; negative ones stay so.
    fn value(self, number: Number, oddities: &mut Oddities) -> i64 {
        match number {
            Number::Whole(value) => value.saturating_mul(self.factor as i64),
            Number::Fraction(value) => {
                let value = value * self.factor;
                let is_time = self.weight == WeightUnit::Nanoseconds;
                oddities.rounded += u64::from(!is_time && value.fract() != 0.0);
                value.round() as i64
            }
        }
    }
}

/// What is odd about the profiles of a file.
#[derive(Debug, Default)]
pub(super) struct Oddities {
    rounded: u64,
    negative: u64,
    without_weight: u64,
    bad_frames: u64,
    out_of_order: u64,
    unclosed: u64,
    cut: Option<JsonError>,
    total: u64,
}

impl Oddities {
    /// Says each of them.
    pub(super) fn report(&self, notes: &mut Notes) {
        for (count, what) in [
            (self.rounded, "weights were rounded"),
            (
                self.negative,
                "weights or times go backwards and count as nothing",
            ),
            (
                self.without_weight,
                "samples have no weight and were left out",
            ),
            (
                self.bad_frames,
                "frames of stacks are not in the file's list and were left out",
            ),
            (
                self.out_of_order,
                "frames end that are not the innermost, or never began",
            ),
            (self.unclosed, "frames begin and never end"),
        ] {
            if count > 0 {
                notes.remark(format!("{count} {what}"));
            }
        }
        if let Some(error) = &self.cut {
            notes.remark(format!("{error}; what comes before it was read"));
        }
    }

    /// As much of a weight as all weights together have room for.
    fn weight(&mut self, value: i64) -> u64 {
        let weight = u64::try_from(value).unwrap_or_else(|_| {
            self.negative += 1;
            0
        });
        let weight = weight.min(u64::MAX - self.total);
        self.total += weight;
        weight
    }
}

/// A profile as it is in the file: its arrays are read when it is known what they mean.
#[derive(Clone, Default)]
pub(super) struct ThreadText<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) unit: Unit,
    start: Option<Number>,
    samples: Option<Reader<'a>>,
    weights: Option<Reader<'a>>,
    events: Option<Reader<'a>>,
}

impl<'a> ThreadText<'a> {
    /// Reads an array of profiles as far as it goes.
    pub(super) fn read_all(
        reader: &mut Reader<'a>,
        profiles: &mut Vec<Self>,
    ) -> Result<(), JsonError> {
        reader.enter_array()?;
        while reader.element()? {
            let mut profile = Self::default();
            let read = profile.read(reader);
            if profile.samples.is_some() || profile.events.is_some() {
                profiles.push(profile);
            }
            read?;
        }
        Ok(())
    }

    fn read(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            let array = match &*key {
                "name" => {
                    self.name = reader.any_text()?;
                    continue;
                }
                "unit" => {
                    self.unit = Unit::of(&reader.any_text()?);
                    continue;
                }
                "startValue" => {
                    self.start = reader.any_number()?;
                    continue;
                }
                "samples" => Some(&mut self.samples),
                "weights" => Some(&mut self.weights),
                "events" => Some(&mut self.events),
                _ => None,
            };
            if let Some(array) = array.filter(|_| reader.kind() == Ok(Kind::Array)) {
                *array = Some(reader.clone());
            }
            reader.skip()?;
        }
        Ok(())
    }

    /// Adds the samples or events to a profile.
    pub(super) fn import(
        &self,
        place: &Place,
        frames: &[FrameIndex],
        builder: &mut ProfileBuilder,
        oddities: &mut Oddities,
    ) {
        let mut target = Target {
            place,
            added: 0,
            frames,
            has_times: self.unit.weight == WeightUnit::Nanoseconds,
            builder,
        };
        let read = match (&self.samples, &self.events) {
            (Some(samples), _) => self.import_samples(samples.clone(), &mut target, oddities),
            (None, Some(events)) => self.import_events(events.clone(), &mut target, oddities),
            (None, None) => Ok(()),
        };
        if let Err(error) = read {
            oddities.cut.get_or_insert(error);
        }
    }

    fn import_samples(
        &self,
        mut samples: Reader<'a>,
        target: &mut Target<'_>,
        oddities: &mut Oddities,
    ) -> Result<(), JsonError> {
        let mut time = match self.start {
            Some(start) => u64::try_from(self.unit.value(start, oddities)).unwrap_or(0),
            None => 0,
        };
        let mut weights = self.weights.clone();
        if let Some(weights) = &mut weights {
            weights.enter_array()?;
        }
        let mut path = Vec::new();
        samples.enter_array()?;
        while samples.element()? {
            path.clear();
            samples.enter_array()?;
            while samples.element()? {
                let number = samples.any_number()?;
                match number.and_then(|number| target.frame(number)) {
                    Some(frame) => path.push(frame),
                    None => oddities.bad_frames += 1,
                }
            }
            let value = match &mut weights {
                Some(weights) => match weights.element()? {
                    true => weights.any_number()?.unwrap_or(Number::Whole(0)),
                    false => {
                        oddities.without_weight += 1;
                        continue;
                    }
                },
                None => Number::Whole(1),
            };
            let value = self.unit.value(value, oddities);
            if !(path.is_empty() && target.has_times) {
                let weight = oddities.weight(value);
                target.add(time, &path, weight);
            }
            time = time.saturating_add(u64::try_from(value).unwrap_or(0));
        }
        Ok(())
    }

    fn import_events(
        &self,
        mut events: Reader<'a>,
        target: &mut Target<'_>,
        oddities: &mut Oddities,
    ) -> Result<(), JsonError> {
        let mut open = OpenFrames {
            stacks: Vec::new(),
            counts: vec![0; target.frames.len()],
        };
        let mut now = None;
        events.enter_array()?;
        while events.element()? {
            let event = EventText::read(&mut events)?;
            let (Some(at), Some(frame)) = (event.at, event.frame) else {
                oddities.bad_frames += 1;
                continue;
            };
            let Some(position) = usize::try_from(frame.as_i64())
                .ok()
                .filter(|position| *position < target.frames.len())
            else {
                oddities.bad_frames += 1;
                continue;
            };
            let at = self.unit.value(at, oddities);
            let before = *now.get_or_insert(at);
            if at < before {
                oddities.negative += 1;
            } else if let Some(stack) = open.stacks.last().filter(|_| at > before) {
                let weight = oddities.weight(at.saturating_sub(before));
                target.add_stack(u64::try_from(before).unwrap_or(0), Some(stack.1), weight);
            }
            now = Some(at.max(before));
            match event.is_open {
                true => open.open(position, target),
                false => oddities.out_of_order += open.close(position),
            }
        }
        oddities.unclosed += open.stacks.len() as u64;
        Ok(())
    }
}

/// The frames that have begun and not ended.
struct OpenFrames {
    /// Their positions and the stacks up to them.
    stacks: Vec<(usize, StackIndex)>,
    /// How often each frame is open.
    counts: Vec<u32>,
}

impl OpenFrames {
    fn open(&mut self, position: usize, target: &mut Target<'_>) {
        let parent = self.stacks.last().map(|(_, stack)| *stack);
        let stack = target.builder.stack(parent, target.frames[position]);
        self.stacks.push((position, stack));
        self.counts[position] += 1;
    }

    /// Closes a frame and everything it called; how many frames were closed out of order.
    fn close(&mut self, position: usize) -> u64 {
        if self.counts[position] == 0 {
            return 1;
        }
        let mut closed = 0;
        while let Some((other, _)) = self.stacks.pop() {
            self.counts[other] -= 1;
            if other == position {
                break;
            }
            closed += 1;
        }
        closed
    }
}

/// An event as it is written.
struct EventText {
    is_open: bool,
    frame: Option<Number>,
    at: Option<Number>,
}

impl EventText {
    fn read(reader: &mut Reader<'_>) -> Result<Self, JsonError> {
        let mut event = Self {
            is_open: false,
            frame: None,
            at: None,
        };
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            match &*key {
                "type" => event.is_open = reader.any_text()? == "O",
                "frame" => event.frame = reader.any_number()?,
                "at" => event.at = reader.any_number()?,
                _ => reader.skip()?,
            }
        }
        Ok(event)
    }
}

/// What all samples of a profile have in common, and what they are tagged with.
pub(super) struct Place {
    pub(super) thread: ThreadIndex,
    pub(super) event: EventIndex,
    /// Set when weights are the time of whole samples.
    pub(super) period: Option<u64>,
    pub(super) contexts: Vec<ContextIndex>,
}

/// Where samples go.
struct Target<'b> {
    place: &'b Place,
    /// How many samples were there.
    added: usize,
    frames: &'b [FrameIndex],
    has_times: bool,
    builder: &'b mut ProfileBuilder,
}

impl Target<'_> {
    fn frame(&self, number: Number) -> Option<FrameIndex> {
        let position = usize::try_from(number.as_i64()).ok()?;
        self.frames.get(position).copied()
    }

    /// Adds a sample with frames that come root first.
    fn add(&mut self, time: u64, path: &[FrameIndex], weight: u64) {
        let mut stack = None;
        for frame in path {
            stack = Some(self.builder.stack(stack, *frame));
        }
        if let [only] = path {
            let profile = self.builder.so_far();
            let function = profile.frame(*only).function;
            let is_nothing = profile.name_of(function) == NO_STACK;
            stack = stack.filter(|_| !is_nothing);
        }
        self.add_stack(time, stack, weight);
    }

    fn add_stack(&mut self, time: u64, stack: Option<StackIndex>, weight: u64) {
        let context = self.place.contexts.get(self.added).copied();
        self.added += 1;
        let weight = match self.place.period {
            Some(period) => weight / period,
            None => weight,
        };
        let time = if self.has_times { time } else { 0 };
        if weight > 0 {
            self.builder.add_sample(Sample {
                time,
                weight,
                thread: self.place.thread,
                stack,
                context: context.unwrap_or_default(),
                event: self.place.event,
                ..Sample::default()
            });
        }
    }
}
