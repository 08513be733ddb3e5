//! The samples of a pprof file, put into a profile one by one.

use nodespy_model::{
    About, ContextIndex, EventIndex, FastMap, Frame, FrameIndex, FrameKind, FunctionIndex,
    FunctionSpec, Labels, Notes, Process, ProcessIndex, Profile, ProfileBuilder, Sample,
    StackIndex, Thread, ThreadIndex, ThreadRole, classify,
};

use super::{Problems, Tables, Values, field};
use crate::budget::{Excess, Meter, left_out};
use crate::code_kind::category_of;
use crate::import::ImportError;
use crate::module_name::name_in_module;
use crate::protobuf::{Message, Problem, Value};
use crate::recorded::HOST_LABEL;

/// Each byte of the file may stand for this many frames of stacks, and some more. Locations with
/// many inlined functions take less than one byte a frame; nothing real needs eight.
const FRAMES_PER_BYTE: usize = 8;
const FRAMES_OF_ANY_FILE: usize = 1 << 16;

/// So many locations of a sample count as a row: deep stacks that come again and again pack well.
const LOCATIONS_PER_ROW: usize = 16;

/// How many sets of labels are found again without reading their texts.
const CONTEXTS_REMEMBERED: usize = 1 << 20;

/// What the labels of a sample record of where it was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct ThreadKey {
    pid: u32,
    tid: u32,
    /// Indexes of strings.
    process_name: u64,
    thread_name: u64,
}

/// A sample as it is in the file, with times from whenever the file has them.
#[derive(Debug, Default)]
struct Found {
    /// Ids of locations, leaf first.
    locations: Vec<u64>,
    /// Those that are read, in their order.
    values: Vec<i64>,
    thread: ThreadKey,
    time: Option<i64>,
    /// Further labels of the process.
    labels: Vec<LabelText>,
    /// Further labels of the sample.
    context: Vec<LabelText>,
}

/// A label as it is in the file: indexes of its key and of its text, or a number instead of that.
type LabelText = (u64, u64, u64);

/// Takes samples and makes the profile.
pub(super) struct Samples<'t, 'a> {
    tables: &'t Tables<'a>,
    values: Values,
    builder: ProfileBuilder,
    functions: FastMap<(u64, u64), FunctionIndex>,
    /// The frames of each location that was met, outermost first.
    frames: FastMap<u64, Box<[FrameIndex]>>,
    threads: FastMap<ThreadKey, ThreadIndex>,
    processes: FastMap<(u32, u64), ProcessIndex>,
    /// Which labels are of samples, where the others are of processes, as nodespy writes them.
    context_keys: Option<Vec<String>>,
    contexts: FastMap<Vec<LabelText>, ContextIndex>,
    /// The path of the sample before, root first: the next one mostly starts the same.
    path: Vec<(u64, Option<StackIndex>)>,
    samples: Vec<(Option<i64>, Sample)>,
    /// The weight of each event.
    totals: Vec<u64>,
    /// How many more frames may be added to stacks.
    frames_left: usize,
    meter: Meter,
    /// Where reading stopped before the end, and why.
    stopped: Option<(usize, Excess)>,
    problems: Problems,
    negative: u64,
    dangling: u64,
    overdone: u64,
}

impl<'t, 'a> Samples<'t, 'a> {
    /// For a file of so many bytes, which nodespy wrote or another tool.
    pub(super) fn new(
        tables: &'t Tables<'a>,
        values: Values,
        meter: Meter,
        file_bytes: usize,
        context_keys: Option<Vec<String>>,
    ) -> Self {
        let events = values.list.iter().map(|value| value.event.clone());
        Self {
            context_keys,
            contexts: FastMap::default(),
            tables,
            builder: ProfileBuilder::with_events(events.collect()),
            totals: vec![0; values.list.len()],
            values,
            functions: FastMap::default(),
            frames: FastMap::default(),
            threads: FastMap::default(),
            processes: FastMap::default(),
            path: Vec::new(),
            samples: Vec::new(),
            frames_left: file_bytes
                .saturating_mul(FRAMES_PER_BYTE)
                .saturating_add(FRAMES_OF_ANY_FILE),
            meter,
            stopped: None,
            problems: Problems::default(),
            negative: 0,
            dangling: 0,
            overdone: 0,
        }
    }

    /// Takes every sample of the file.
    pub(super) fn read_all(&mut self, bytes: &[u8]) {
        let mut found = Found::default();
        let mut fields = Message::whole(bytes).fields();
        loop {
            let place = fields.place();
            let Some(Ok(field)) = fields.next() else {
                return;
            };
            let (field::SAMPLE, Value::Bytes(message)) = (field.number, field.value) else {
                continue;
            };
            let taken = match self.parse(message, &mut found) {
                Ok(()) => self.take(&found),
                Err(problem) => {
                    self.problems.add(problem);
                    continue;
                }
            };
            if let Err(excess) = taken {
                self.stopped = Some((place, excess));
                return;
            }
        }
    }

    fn parse(&self, message: Message<'_>, found: &mut Found) -> Result<(), Problem> {
        found.locations.clear();
        found.values.clear();
        found.values.resize(self.values.list.len(), 0);
        found.context.clear();
        found.thread = ThreadKey::default();
        found.time = None;
        found.labels.clear();
        let mut at = 0;
        for field in message.fields() {
            let field = field?;
            match (field.number, field.value) {
                (1, value) => value.each_number(|id| found.locations.push(id))?,
                (2, numbers) => numbers.each_number(|number| {
                    // Values are read in their order: all of them, or only one.
                    let place = match self.values.list[..] {
                        [ref only] => (only.at == at).then_some(0),
                        _ => (at < found.values.len()).then_some(at),
                    };
                    if let Some(place) = place {
                        found.values[place] = number as i64;
                    }
                    at += 1;
                })?,
                (3, Value::Bytes(label)) => self.take_label(label, found)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Labels as perf_to_profile, Datadog's profilers and nodespy name them.
    fn take_label(&self, label: Message<'_>, found: &mut Found) -> Result<(), Problem> {
        let mut numbers = [0; 3];
        for field in label.fields() {
            let field = field?;
            if let (1..=3, Some(number)) = (field.number, field.value.number()) {
                numbers[field.number as usize - 1] = number;
            }
        }
        let [key, text, number] = numbers;
        let id = || match text {
            0 => u32::try_from(number).unwrap_or(0),
            text => self.tables.text(text).trim().parse().unwrap_or(0),
        };
        match self.tables.text(key) {
            "pid" | "process_id" => found.thread.pid = id(),
            "tid" | "os thread id" | "thread_id" => found.thread.tid = id(),
            "thread id" if found.thread.tid == 0 => found.thread.tid = id(),
            "comm" | "process_name" => found.thread.process_name = text,
            "thread_comm" | "thread name" | "thread_name" | "thread" => {
                found.thread.thread_name = text;
            }
            "timestamp_ns" | "end_timestamp_ns" => found.time = Some(number as i64),
            key_text => match &self.context_keys {
                Some(keys) if keys.iter().all(|known| known != key_text) => {
                    found.labels.push((key, text, number));
                }
                _ => found.context.push((key, text, number)),
            },
        }
        Ok(())
    }

    fn take(&mut self, found: &Found) -> Result<(), Excess> {
        let rows = 1 + found.locations.len() / LOCATIONS_PER_ROW;
        self.meter.rows_into(rows, &self.builder)?;
        let mut sample = None;
        for (position, value) in found.values.iter().enumerate() {
            let Ok(value) = u64::try_from(*value) else {
                self.negative += 1;
                continue;
            };
            let weight = value.saturating_mul(self.values.list[position].factor);
            let weight = weight.min(u64::MAX - self.totals[position]);
            if weight == 0 {
                continue;
            }
            self.totals[position] += weight;
            let common = match sample {
                Some(sample) => sample,
                None => *sample.insert(Sample {
                    thread: self.thread(found.thread, &found.labels)?,
                    stack: self.stack(&found.locations),
                    context: self.context(&found.context)?,
                    ..Sample::default()
                }),
            };
            let event = EventIndex(position as u16);
            let of_event = Sample {
                weight,
                event,
                ..common
            };
            self.samples.push((found.time, of_event));
        }
        Ok(())
    }

    fn context(&mut self, labels: &[LabelText]) -> Result<ContextIndex, Excess> {
        if labels.is_empty() {
            return Ok(ContextIndex::NONE);
        }
        if let Some(known) = self.contexts.get(labels) {
            return Ok(*known);
        }
        self.meter.names(label_bytes(self.tables, labels))?;
        let context = self.builder.context(labels_of(self.tables, labels));
        if self.contexts.len() < CONTEXTS_REMEMBERED {
            self.contexts.insert(labels.to_vec(), context);
        }
        Ok(context)
    }

    /// The stack of locations that come leaf first.
    fn stack(&mut self, locations: &[u64]) -> Option<StackIndex> {
        let same = self
            .path
            .iter()
            .zip(locations.iter().rev())
            .take_while(|((known, _), id)| known == *id)
            .count();
        self.path.truncate(same);
        let mut stack = self.path.last().and_then(|(_, stack)| *stack);
        for &id in locations.iter().rev().skip(same) {
            if !self.frames.contains_key(&id) {
                let frames = self.frames_of(id);
                self.frames.insert(id, frames);
            }
            let frames = &self.frames[&id];
            if frames.len() > self.frames_left {
                self.overdone += 1;
                break;
            }
            self.frames_left -= frames.len();
            for frame in frames {
                stack = Some(self.builder.stack(stack, *frame));
            }
            self.path.push((id, stack));
        }
        stack
    }

    /// The frames of a location, outermost first.
    fn frames_of(&mut self, id: u64) -> Box<[FrameIndex]> {
        let tables = self.tables;
        let Some(location) = tables.locations.get(&id) else {
            self.dangling += 1;
            return Box::default();
        };
        let lines = &tables.lines[location.lines.clone()];
        if lines.is_empty() {
            let function = self.address_function(location.mapping, location.address);
            return Box::new([self.frame(function, 0, 0, false)]);
        }
        let mut frames = Vec::with_capacity(lines.len());
        for (place, line) in lines.iter().rev().enumerate() {
            let function = self.function(line.function, location.mapping);
            frames.push(self.frame(function, line.line, line.column, place > 0));
        }
        frames.into()
    }

    fn frame(
        &mut self,
        function: FunctionIndex,
        line: u64,
        column: u64,
        is_inlined: bool,
    ) -> FrameIndex {
        self.builder.frame_of(Frame {
            function,
            line: small(line),
            column: small(column),
            tier: Default::default(),
            kind: FrameKind::inlined_if(is_inlined),
        })
    }

    fn function(&mut self, id: u64, mapping: u64) -> FunctionIndex {
        if let Some(&function) = self.functions.get(&(id, mapping)) {
            return function;
        }
        let tables = self.tables;
        let found = tables.functions.get(&id);
        self.dangling += u64::from(found.is_none());
        let found = found.copied().unwrap_or_default();
        let mut name = tables.text(found.name);
        if name.is_empty() {
            name = tables.text(found.system_name);
        }
        let mut file = tables.text(found.file);
        if file.is_empty() {
            let mapping = tables.mappings.get(&mapping);
            file = tables.text(mapping.map_or(0, |mapping| mapping.file));
        }
        let function = self.builder.function(FunctionSpec {
            name: match name {
                "" => "[unknown]",
                name => name,
            },
            file,
            line: small(found.start_line),
            column: 0,
            category: category_of(name, file),
        });
        self.functions.insert((id, mapping), function);
        function
    }

    /// What stands for code without a name.
    fn address_function(&mut self, mapping: u64, address: u64) -> FunctionIndex {
        let mapping = self.tables.mappings.get(&mapping).copied();
        let mapping = mapping.unwrap_or_default();
        let file = self.tables.text(mapping.file);
        let place = match file.is_empty() {
            true => address,
            false => address
                .wrapping_sub(mapping.start)
                .wrapping_add(mapping.file_offset),
        };
        let name = name_in_module(file, format_args!("0x{place:x}"));
        self.builder.function(FunctionSpec {
            name: &name,
            file,
            category: category_of(&name, file),
            ..FunctionSpec::default()
        })
    }

    fn thread(&mut self, key: ThreadKey, labels: &[LabelText]) -> Result<ThreadIndex, Excess> {
        if let Some(&thread) = self.threads.get(&key) {
            return Ok(thread);
        }
        let tables = self.tables;
        let names = tables.text(key.process_name).len() + tables.text(key.thread_name).len();
        self.meter.names(names + label_bytes(tables, labels))?;
        let builder = &mut self.builder;
        let process = *self
            .processes
            .entry((key.pid, key.process_name))
            .or_insert_with(|| {
                builder.process(Process {
                    pid: key.pid,
                    name: tables.text(key.process_name).to_owned(),
                    labels: labels_of(tables, labels),
                    ..Process::default()
                })
            });
        let name = tables.text(key.thread_name).to_owned();
        let thread = builder.thread(Thread {
            process,
            tid: key.tid,
            role: match key.tid == key.pid && key.pid > 0 {
                true => ThreadRole::Main,
                false => classify::role_of_name(&name),
            },
            name,
            ..Thread::default()
        });
        self.threads.insert(key, thread);
        Ok(thread)
    }

    /// The profile, unless there is nothing in it.
    pub(super) fn finish(
        mut self,
        about: About,
        notes: &mut Notes,
    ) -> Result<Profile, ImportError> {
        self.report(notes);
        if self.samples.is_empty() {
            return Err(ImportError::NoStacks);
        }
        let start = self.start();
        for (time, sample) in self.samples {
            let time = time.map_or(0, |time| time.saturating_sub(start));
            self.builder.add_sample(Sample {
                time: u64::try_from(time).unwrap_or(0),
                ..sample
            });
        }
        let shown = self.values.list[self.values.shown].event.clone();
        let mut profile = self.builder.finish(about, notes.clone());
        if let Some(shown) = profile.events.iter().position(|event| *event == shown) {
            profile.put_first(EventIndex(shown as u16));
        }
        Ok(profile)
    }

    /// The time from which samples are counted: the file's own when theirs are on the same clock.
    fn start(&self) -> i64 {
        let times = self.samples.iter().filter_map(|(time, _)| *time);
        let first = times.min().unwrap_or(0);
        let recording = self.tables.time..=self.tables.time.saturating_add(self.tables.duration);
        match recording.contains(&first) {
            true => self.tables.time,
            false => first,
        }
    }

    fn report(&self, notes: &mut Notes) {
        self.problems.report("samples", notes);
        if let Some((place, excess)) = self.stopped {
            notes.remark(left_out(format_args!("byte {place}"), excess));
        }
        if self.negative > 0 {
            notes.remark(format!(
                "{} samples weigh less than nothing, as in a difference of two profiles, and were left out",
                self.negative
            ));
        }
        if self.values.left_out > 0 {
            notes.remark(format!(
                "{} kinds of values are more than are read and were left out",
                self.values.left_out
            ));
        }
        if self.dangling > 0 {
            notes.remark(format!(
                "{} locations or functions that stacks refer to are missing",
                self.dangling
            ));
        }
        if self.overdone > 0 {
            notes.remark(format!(
                "{} stacks were cut: they have more frames than a file of this size should",
                self.overdone
            ));
        }
    }
}

/// What copies of these labels take.
fn label_bytes(tables: &Tables<'_>, rows: &[LabelText]) -> usize {
    let texts = rows
        .iter()
        .map(|(key, text, _)| tables.text(*key).len() + tables.text(*text).len());
    texts.sum()
}

/// The labels of a process; the machine it ran on is kept with the recording as a whole.
fn labels_of(tables: &Tables<'_>, rows: &[LabelText]) -> Labels {
    let mut labels = Labels::default();
    for (key, text, number) in rows {
        let key = tables.text(*key);
        match text {
            _ if key == HOST_LABEL => {}
            0 => labels.set(key, number.to_string()),
            text => labels.set(key, tables.text(*text)),
        }
    }
    labels
}

/// A line or column; none when it makes no sense.
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}
