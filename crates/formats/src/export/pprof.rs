//! pprof, as `go tool pprof`, speedscope and Pyroscope open it: gzipped, samples summed up by
//! thread and stack.
//!
//! A sample counts samples and, where the rate is known, the CPU time they stand for, which is
//! what pprof shows first. Threads are labels, named as perf_to_profile names them; inlined frames
//! share the location of the code they were put into. What was recorded is in the comments; the labels of
//! processes are on every sample, for `-tagfocus` and the like.

use std::io::Write;

use flate2::{Compression, GzBuilder};
use nodespy_model::{
    Category, ContextIndex, EventType, FastMap, FrameIndex, Profile, StackIndex, ThreadIndex,
    WeightUnit,
};

use super::{Detail, ExportError, Exporter};
use crate::protobuf::{put_bytes, put_field, put_numbers};
use crate::recorded::{self, HOST_LABEL};

/// What samples are summed up by.
type Key = (ThreadIndex, Option<StackIndex>, ContextIndex);

/// The exporter of pprof.
pub(crate) struct Pprof;

impl Exporter for Pprof {
    fn name(&self) -> &'static str {
        "pprof"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["pb.gz", "pprof"]
    }

    fn leaves_out(&self) -> &'static [Detail] {
        &[
            Detail::Times,
            Detail::Processors,
            Detail::Categories,
            Detail::Tiers,
            Detail::AsyncFrames,
            Detail::ThreadRoles,
            Detail::ProcessDetails,
            Detail::DeoptReasons,
            Detail::Sources,
            Detail::GeneratedPlaces,
        ]
    }

    fn holds_events(&self) -> bool {
        true
    }

    fn export(&self, profile: &Profile, output: &mut dyn Write) -> Result<(), ExportError> {
        // No time and no host in gzip's own header: equal profiles give equal bytes.
        let mut packed = GzBuilder::new()
            .operating_system(255)
            .write(output, Compression::default());
        packed.write_all(&File::of(profile))?;
        packed.finish()?;
        Ok(())
    }
}

/// The tables of the file while they are made.
struct File<'p> {
    profile: &'p Profile,
    strings: Strings,
    /// The file of each mapping, by its position; ids count from 1.
    mappings: FastMap<&'p str, u64>,
    mapping_rows: Vec<u8>,
    /// Locations of more than one frame by their frames, leaf first.
    inlined: FastMap<Box<[FrameIndex]>, u64>,
    /// Locations of a single frame, by the frame; zero where there is none yet.
    single: Vec<u64>,
    locations: u64,
    location_rows: Vec<u8>,
}

impl<'p> File<'p> {
    /// The bytes of the file. Samples come last, so that one that was cut off keeps its names.
    fn of(profile: &'p Profile) -> Vec<u8> {
        let mut file = Self {
            profile,
            strings: Strings::new(),
            mappings: FastMap::default(),
            mapping_rows: Vec::new(),
            inlined: FastMap::default(),
            single: vec![0; profile.frames.len()],
            locations: 0,
            location_rows: Vec::new(),
        };
        let head = file.head();
        let functions = file.functions();
        let samples = file.samples();
        [
            head,
            file.mapping_rows,
            functions,
            file.location_rows,
            file.strings.rows,
            samples,
        ]
        .concat()
    }

    /// What samples count, when and how they were taken.
    fn head(&mut self) -> Vec<u8> {
        let about = &self.profile.about;
        let mut rows = Vec::new();
        let kinds = value_kinds(self.profile);
        for (name, unit) in &kinds {
            let kind = self.value_type(name, unit);
            put_bytes(&mut rows, 1, &kind);
        }
        put_field(&mut rows, 9, about.started_unix);
        put_field(&mut rows, 10, about.duration);
        if let Some(period) = self.profile.event().interval() {
            let kind = self.value_type(time_name(self.profile), "nanoseconds");
            put_bytes(&mut rows, 11, &kind);
            put_field(&mut rows, 12, period);
        }
        let comments: Vec<u64> = recorded::lines_without_labels(self.profile)
            .iter()
            .map(|line| self.strings.index(line))
            .collect();
        put_numbers(&mut rows, 13, comments.into_iter());
        let shown = match self.profile.events.len() {
            0 | 1 => kinds.last(),
            _ => kinds.first(),
        };
        if let Some((name, _)) = shown {
            put_field(&mut rows, 14, self.strings.index(name));
        }
        rows
    }

    fn value_type(&mut self, name: &str, unit: &str) -> Vec<u8> {
        let mut row = Vec::new();
        put_field(&mut row, 1, self.strings.index(name));
        put_field(&mut row, 2, self.strings.index(unit));
        row
    }

    fn functions(&mut self) -> Vec<u8> {
        let mut rows = Vec::new();
        for (position, function) in self.profile.functions.iter().enumerate() {
            let name = self.strings.index(self.profile.strings.get(function.name));
            let file = function
                .file
                .map_or("", |file| self.profile.strings.get(file));
            let mut row = Vec::new();
            put_field(&mut row, 1, position as u64 + 1);
            put_field(&mut row, 2, name);
            put_field(&mut row, 3, name);
            put_field(&mut row, 4, self.strings.index(file));
            put_field(&mut row, 5, u64::from(function.line));
            put_bytes(&mut rows, 5, &row);
        }
        rows
    }

    /// Samples, summed up by thread, stack and context in the order in which these first appear.
    fn samples(&mut self) -> Vec<u8> {
        let mut order = Vec::new();
        let mut places: FastMap<Key, usize> = FastMap::default();
        let events = self.profile.events.len().max(1);
        // The samples and weights of each event, one key after the other.
        let mut sums: Vec<(u64, u64)> = Vec::new();
        for sample in &self.profile.samples {
            let key = (sample.thread, sample.stack, sample.context);
            let place = *places.entry(key).or_insert_with(|| {
                order.push(key);
                sums.resize(order.len() * events, (0, 0));
                order.len() - 1
            });
            let (count, weight) = &mut sums[place * events + sample.event.at()];
            *count += 1;
            *weight = weight.saturating_add(sample.weight);
        }
        let contexts: Vec<Vec<u8>> = (0..self.profile.contexts.len())
            .map(|context| self.context(ContextIndex(context as u32)))
            .collect();
        let labels: Vec<Vec<u8>> = (0..self.profile.threads.len())
            .map(|thread| self.labels(ThreadIndex(thread as u32)))
            .collect();
        let unit = self.profile.unit();
        let period = self.profile.event().interval();
        // Samples without times were summed up before: each stands for many.
        let is_summed = self.profile.samples.iter().all(|sample| sample.time == 0);
        let mut rows = Vec::new();
        for (place, (thread, stack, context)) in order.into_iter().enumerate() {
            let of_events = &sums[place * events..][..events];
            let (count, weight) = of_events[0];
            let locations = stack.map_or_else(Vec::new, |stack| self.locations_of(stack));
            let mut row = Vec::new();
            put_numbers(&mut row, 1, locations.into_iter());
            let values = match (unit, period) {
                _ if events > 1 => of_events.iter().map(|(_, weight)| *weight).collect(),
                (WeightUnit::Samples, None) => vec![weight],
                (WeightUnit::Samples, Some(period)) => vec![weight, weight.saturating_mul(period)],
                (WeightUnit::Nanoseconds, Some(period)) if is_summed => {
                    vec![(weight / period).max(count), weight]
                }
                _ => vec![count, weight],
            };
            let values = values.into_iter().map(|value| value.min(i64::MAX as u64));
            put_numbers(&mut row, 2, values);
            row.extend_from_slice(&labels[thread.at()]);
            row.extend_from_slice(&contexts[context.0 as usize]);
            put_bytes(&mut rows, 2, &row);
        }
        rows
    }

    fn labels(&mut self, thread: ThreadIndex) -> Vec<u8> {
        let thread = &self.profile.threads[thread.at()];
        let process = &self.profile.processes[thread.process.at()];
        let mut rows = Vec::new();
        let names = [
            ("comm", &*process.name),
            ("thread_comm", &*thread.name),
            (HOST_LABEL, &*self.profile.about.host),
        ];
        for (key, name) in names.into_iter().chain(process.labels.iter()) {
            if !name.is_empty() {
                self.put_label(&mut rows, key, name);
            }
        }
        for (key, id) in [("pid", process.pid), ("tid", thread.tid)] {
            if id > 0 {
                let mut row = Vec::new();
                put_field(&mut row, 1, self.strings.index(key));
                put_field(&mut row, 3, u64::from(id));
                put_bytes(&mut rows, 3, &row);
            }
        }
        rows
    }

    /// What samples are tagged with.
    fn context(&mut self, context: ContextIndex) -> Vec<u8> {
        let profile = self.profile;
        let mut rows = Vec::new();
        for (key, value) in profile.contexts.get(context).iter() {
            self.put_label(&mut rows, key, value);
        }
        rows
    }

    fn put_label(&mut self, rows: &mut Vec<u8>, key: &str, value: &str) {
        let mut row = Vec::new();
        put_field(&mut row, 1, self.strings.index(key));
        put_field(&mut row, 2, self.strings.index(value));
        put_bytes(rows, 3, &row);
    }

    /// The ids of a stack's locations, leaf first.
    fn locations_of(&mut self, stack: StackIndex) -> Vec<u64> {
        let profile = self.profile;
        let mut ids = Vec::new();
        let mut group = Vec::new();
        for frame in profile.frames_of(stack) {
            group.push(frame);
            if !profile.frame(frame).kind.is_inlined() {
                ids.push(self.location(&group));
                group.clear();
            }
        }
        if !group.is_empty() {
            ids.push(self.location(&group));
        }
        ids
    }

    /// The id of the location that these frames, leaf first, were compiled into.
    fn location(&mut self, frames: &[FrameIndex]) -> u64 {
        let known = match frames {
            [frame] => self.single[frame.at()],
            frames => self.inlined.get(frames).copied().unwrap_or(0),
        };
        if known > 0 {
            return known;
        }
        self.locations += 1;
        let id = self.locations;
        match frames {
            [frame] => self.single[frame.at()] = id,
            frames => drop(self.inlined.insert(frames.into(), id)),
        }
        let mut row = Vec::new();
        put_field(&mut row, 1, id);
        put_field(&mut row, 2, self.mapping_of(frames));
        for frame in frames {
            let frame = self.profile.frame(*frame);
            let mut line = Vec::new();
            put_field(&mut line, 1, u64::from(frame.function.0) + 1);
            put_field(&mut line, 2, u64::from(frame.line));
            put_field(&mut line, 3, u64::from(frame.column));
            put_bytes(&mut row, 4, &line);
        }
        put_bytes(&mut self.location_rows, 4, &row);
        id
    }

    /// The id of the mapping for the module of native code; zero for other code. A native
    /// function with a line has its source file where others have their module.
    fn mapping_of(&mut self, frames: &[FrameIndex]) -> u64 {
        let profile = self.profile;
        let is_native = |frame: &FrameIndex| {
            let frame = profile.frame(*frame);
            let function = profile.function(frame.function);
            let is_native = matches!(
                function.category,
                Category::Native
                    | Category::Gc
                    | Category::Builtin
                    | Category::Internal
                    | Category::Kernel
            );
            is_native && function.file.is_some() && function.line == 0 && frame.line == 0
        };
        if !frames.iter().all(is_native) {
            return 0;
        }
        let outermost = frames[frames.len() - 1];
        let file = profile.file_of(profile.frame(outermost).function);
        let next = self.mappings.len() as u64 + 1;
        let id = *self.mappings.entry(file).or_insert(next);
        if id == next {
            let mut row = Vec::new();
            put_field(&mut row, 1, id);
            put_field(&mut row, 5, self.strings.index(file));
            // Has functions, files, lines and inlined frames: pprof need not look for names.
            for flag in 7..=10 {
                put_field(&mut row, flag, 1);
            }
            put_bytes(&mut self.mapping_rows, 3, &row);
        }
        id
    }
}

/// Names and units of the values of a sample: of several events each is one. Of one event pprof
/// shows the last.
fn value_kinds(profile: &Profile) -> Vec<(&str, &str)> {
    if profile.events.len() > 1 {
        let kind = |event| (EventType::label(event), unit_name(event.unit));
        return profile.events.iter().map(kind).collect();
    }
    let mut values = vec![("samples", "count")];
    let event = profile.event();
    match event.unit {
        WeightUnit::Samples if event.interval().is_none() => {}
        WeightUnit::Samples | WeightUnit::Nanoseconds => {
            values.push((time_name(profile), "nanoseconds"));
        }
        WeightUnit::Bytes => values.push(("space", "bytes")),
        WeightUnit::Events => values.push((event.label(), "count")),
    }
    values
}

fn unit_name(unit: WeightUnit) -> &'static str {
    match unit {
        WeightUnit::Samples | WeightUnit::Events => "count",
        WeightUnit::Nanoseconds => "nanoseconds",
        WeightUnit::Bytes => "bytes",
    }
}

/// What pprof calls the time that was measured.
fn time_name(profile: &Profile) -> &'static str {
    match profile.event().name.contains("wall") {
        true => "wall",
        false => "cpu",
    }
}

/// The strings of the file, each once; the first is empty.
struct Strings {
    known: FastMap<Box<str>, u64>,
    rows: Vec<u8>,
}

impl Strings {
    fn new() -> Self {
        let mut strings = Self {
            known: FastMap::default(),
            rows: Vec::new(),
        };
        strings.index("");
        strings
    }

    fn index(&mut self, text: &str) -> u64 {
        if let Some(&index) = self.known.get(text) {
            return index;
        }
        let index = self.known.len() as u64;
        self.known.insert(text.into(), index);
        put_bytes(&mut self.rows, 6, text.as_bytes());
        index
    }
}
