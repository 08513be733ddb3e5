//! A thread with its own tables: what it uses of the profile's, numbered anew.

use nodespy_model::{
    Category, EventType, FastMap, FastSet, Function, Nanoseconds, Profile, Sample, StackIndex,
    ThreadIndex, ThreadRole, Tier, WeightUnit,
};

use super::{GC_MARKER, Strings, array, has_source};
use crate::export::by_thread::stacks_of;
use crate::json::Writer;

/// What a thread with the samples of an event after the first goes by.
pub(crate) fn name_with_event(thread: &str, event: &EventType) -> String {
    format!("{thread} ({})", event.label())
}

/// A marker that has a start and an end.
const INTERVAL: i128 = 1;
/// Kinds of resources.
const LIBRARY: i128 = 1;
const URL: i128 = 5;

/// Rows of the profile's tables that something uses, numbered anew.
#[derive(Default)]
struct Used {
    /// The new number of each row that is used.
    numbers: FastMap<usize, u32>,
    /// The rows in their new order.
    rows: Vec<usize>,
}

impl Used {
    fn number(&mut self, row: usize) -> u32 {
        *self.numbers.entry(row).or_insert_with(|| {
            self.rows.push(row);
            self.rows.len() as u32 - 1
        })
    }
}

/// What the tables of a thread hold.
pub(super) struct ThreadTables<'p> {
    profile: &'p Profile,
    thread: ThreadIndex,
    samples: Vec<&'p Sample>,
    stacks: Used,
    frames: Used,
    functions: Used,
}

impl<'p> ThreadTables<'p> {
    pub(super) fn of(profile: &'p Profile, thread: ThreadIndex, samples: Vec<&'p Sample>) -> Self {
        let mut stacks = Used::default();
        let mut frames = Used::default();
        let mut functions = Used::default();
        for stack in stacks_of(profile, &samples) {
            stacks.number(stack.at());
            let frame = profile.stacks[stack.at()].frame;
            frames.number(frame.at());
            functions.number(profile.frame(frame).function.at());
        }
        Self {
            profile,
            thread,
            samples,
            stacks,
            frames,
            functions,
        }
    }

    pub(super) fn write(
        &self,
        libs: &FastMap<&str, u32>,
        has_event_name: bool,
        strings: &mut Strings,
        json: &mut Writer<'_>,
    ) {
        let profile = self.profile;
        let thread = &profile.threads[self.thread.at()];
        let process = &profile.processes[thread.process.at()];
        json.begin_object();
        json.string_field("processType", "default");
        json.string_field("processName", &process.name);
        match has_event_name {
            true => json.string_field("name", &name_with_event(&thread.name, profile.event())),
            false => json.string_field("name", &thread.name),
        }
        json.key("isMainThread");
        let is_main = thread.role == ThreadRole::Main || thread.tid == process.pid;
        json.word(if is_main { "true" } else { "false" });
        json.string_field("pid", &process.pid.to_string());
        json.string_field("tid", &thread.tid.to_string());
        json.key("processStartupTime");
        json.millionths(process.started);
        json.key("registerTime");
        json.millionths(process.started);
        for end in ["processShutdownTime", "unregisterTime"] {
            json.key(end);
            match process.ended {
                Some(ended) => json.millionths(ended),
                None => json.word("null"),
            }
        }
        json.key("pausedRanges");
        json.begin_array();
        json.end_array();
        self.write_samples(json);
        self.write_markers(strings, json);
        self.write_stacks(json);
        self.write_frames(json);
        let resources = self.write_functions(libs, strings, json);
        write_resources(&resources, json);
        write_native_symbols(json);
        json.end_object();
    }

    fn write_samples(&self, json: &mut Writer<'_>) {
        let samples = || self.samples.iter();
        json.key("samples");
        json.begin_object();
        json.number_field("length", self.samples.len() as u64);
        column(json, "stack", samples(), |json, sample| {
            self.write_stack(json, sample.stack);
        });
        column(json, "time", samples(), |json, sample| {
            json.millionths(sample.time);
        });
        let unit = self.profile.unit();
        column(json, "weight", samples(), |json, sample| match unit {
            WeightUnit::Nanoseconds => json.millionths(sample.weight),
            _ => json.number(sample.weight.into()),
        });
        let kind = match unit {
            WeightUnit::Samples => "samples",
            WeightUnit::Nanoseconds => "tracing-ms",
            WeightUnit::Bytes => "bytes",
            // The profiler has no word for other counts.
            WeightUnit::Events => "samples",
        };
        json.string_field("weightType", kind);
        json.end_object();
    }

    fn write_stack(&self, json: &mut Writer<'_>, stack: Option<StackIndex>) {
        match stack.and_then(|stack| self.stacks.numbers.get(&stack.at()).copied()) {
            Some(number) => json.number(number.into()),
            None => json.word("null"),
        }
    }

    /// The garbage collections that samples show: from the first of a run to the end of the last.
    fn collections(&self) -> Vec<Collection> {
        let profile = self.profile;
        let mut in_gc: FastSet<usize> = FastSet::default();
        for row in &self.stacks.rows {
            let stack = &profile.stacks[*row];
            let function = profile.frame(stack.frame).function;
            if profile.function(function).category == Category::Gc
                || stack
                    .parent
                    .is_some_and(|parent| in_gc.contains(&parent.at()))
            {
                in_gc.insert(*row);
            }
        }
        let length = match profile.unit() {
            WeightUnit::Samples => profile.event().interval().unwrap_or(0),
            WeightUnit::Nanoseconds => 1,
            WeightUnit::Bytes | WeightUnit::Events => 0,
        };
        let mut collections: Vec<Collection> = Vec::new();
        let mut was_in_gc = false;
        for sample in &self.samples {
            let is_in_gc = sample
                .stack
                .is_some_and(|stack| in_gc.contains(&stack.at()));
            let end = sample
                .time
                .saturating_add(sample.weight.saturating_mul(length));
            match collections.last_mut() {
                Some(last) if is_in_gc && was_in_gc => {
                    last.end = end;
                    last.samples += 1;
                }
                _ if is_in_gc => collections.push(Collection {
                    start: sample.time,
                    end,
                    samples: 1,
                }),
                _ => {}
            }
            was_in_gc = is_in_gc;
        }
        collections
    }

    fn write_markers(&self, strings: &mut Strings, json: &mut Writer<'_>) {
        let collections = self.collections();
        let name = match collections.is_empty() {
            true => 0,
            false => strings.index("GC"),
        };
        let rows = || collections.iter();
        json.key("markers");
        json.begin_object();
        json.number_field("length", collections.len() as u64);
        column(json, "name", rows(), |json, _| json.number(name.into()));
        column(json, "startTime", rows(), |json, row| {
            json.millionths(row.start);
        });
        column(json, "endTime", rows(), |json, row| {
            json.millionths(row.end)
        });
        column(json, "phase", rows(), |json, _| json.number(INTERVAL));
        column(json, "category", rows(), |json, _| {
            json.number(place_of(&Category::ALL, Category::Gc));
        });
        column(json, "data", rows(), |json, row| {
            json.begin_object();
            json.string_field("type", GC_MARKER);
            json.number_field("samples", row.samples);
            json.end_object();
        });
        json.end_object();
    }

    fn write_stacks(&self, json: &mut Writer<'_>) {
        let rows = || {
            let rows = self.stacks.rows.iter();
            rows.map(|row| self.profile.stacks[*row])
        };
        json.key("stackTable");
        json.begin_object();
        json.number_field("length", self.stacks.rows.len() as u64);
        column(json, "prefix", rows(), |json, stack| {
            self.write_stack(json, stack.parent);
        });
        column(json, "frame", rows(), |json, stack| {
            json.optional(self.frames.numbers.get(&stack.frame.at()).copied());
        });
        json.end_object();
    }

    fn write_frames(&self, json: &mut Writer<'_>) {
        let rows = || {
            let rows = self.frames.rows.iter();
            rows.map(|row| self.profile.frames[*row])
        };
        json.key("frameTable");
        json.begin_object();
        json.number_field("length", self.frames.rows.len() as u64);
        column(json, "func", rows(), |json, frame| {
            json.optional(self.functions.numbers.get(&frame.function.at()).copied());
        });
        column(json, "category", rows(), |json, frame| {
            let category = self.profile.function(frame.function).category;
            json.number(place_of(&Category::ALL, category));
        });
        column(json, "subcategory", rows(), |json, frame| {
            json.number(place_of(&Tier::ALL, frame.tier));
        });
        column(json, "line", rows(), |json, frame| {
            json.optional(known(frame.line));
        });
        column(json, "column", rows(), |json, frame| {
            json.optional(known(frame.column));
        });
        column(json, "inlineDepth", rows(), |json, frame| {
            json.number(frame.kind.is_inlined().into());
        });
        column(json, "address", rows(), |json, _| json.number(-1));
        column(json, "nativeSymbol", rows(), |json, _| json.word("null"));
        column(json, "innerWindowID", rows(), |json, _| json.number(0));
        json.end_object();
    }

    /// Writes the functions, and returns the resources they come from: a kind, a name and the
    /// position of the library.
    fn write_functions(
        &self,
        libs: &FastMap<&str, u32>,
        strings: &mut Strings,
        json: &mut Writer<'_>,
    ) -> Vec<Resource> {
        let profile = self.profile;
        let mut resources: Vec<Resource> = Vec::new();
        let mut known_resources = FastMap::default();
        let rows = || {
            self.functions
                .rows
                .iter()
                .map(|row| profile.functions[*row])
        };
        let file = |function: &Function| function.file.map(|file| profile.strings.get(file));
        json.key("funcTable");
        json.begin_object();
        json.number_field("length", self.functions.rows.len() as u64);
        column(json, "name", rows(), |json, function| {
            json.number(strings.index(profile.strings.get(function.name)).into());
        });
        column(json, "isJS", rows(), |json, function| {
            json.word(match function.category.is_javascript() {
                true => "true",
                false => "false",
            });
        });
        column(json, "relevantForJS", rows(), |json, _| json.word("false"));
        column(json, "resource", rows(), |json, function| {
            let Some(file) = file(&function) else {
                return json.number(-1);
            };
            let lib = libs.get(file).copied().filter(|_| !has_source(&function));
            let row = *known_resources.entry((file, lib)).or_insert_with(|| {
                resources.push(Resource {
                    name: strings.index(file),
                    lib,
                });
                resources.len() as u32 - 1
            });
            json.number(row.into());
        });
        column(json, "fileName", rows(), |json, function| {
            let source = file(&function).filter(|_| has_source(&function));
            json.optional(source.map(|source| strings.index(source)));
        });
        column(json, "lineNumber", rows(), |json, function| {
            json.optional(known(function.line));
        });
        column(json, "columnNumber", rows(), |json, function| {
            json.optional(known(function.column));
        });
        json.end_object();
        resources
    }
}

/// A run of samples in the garbage collector.
struct Collection {
    start: Nanoseconds,
    end: Nanoseconds,
    samples: u64,
}

/// Where code comes from: a library, or else a source.
struct Resource {
    name: u32,
    lib: Option<u32>,
}

/// The position of a category or tier in the lists of the file.
fn place_of<T: PartialEq>(list: &[T], item: T) -> i128 {
    let place = list.iter().position(|known| *known == item);
    place.unwrap_or(0) as i128
}

/// A line or column, unless it is not known.
fn known(number: u32) -> Option<u32> {
    (number > 0).then_some(number)
}

fn write_resources(resources: &[Resource], json: &mut Writer<'_>) {
    let rows = || resources.iter();
    json.key("resourceTable");
    json.begin_object();
    json.number_field("length", resources.len() as u64);
    column(json, "lib", rows(), |json, row| json.optional(row.lib));
    column(json, "name", rows(), |json, row| {
        json.number(row.name.into())
    });
    column(json, "host", rows(), |json, _| json.word("null"));
    column(json, "type", rows(), |json, row| {
        json.number(if row.lib.is_some() { LIBRARY } else { URL });
    });
    json.end_object();
}

/// Symbols are for the profiler to look up names by; ours have theirs.
fn write_native_symbols(json: &mut Writer<'_>) {
    json.key("nativeSymbols");
    json.begin_object();
    json.number_field("length", 0);
    for name in ["libIndex", "address", "name", "functionSize"] {
        column(json, name, std::iter::empty::<()>(), |_, ()| {});
    }
    json.end_object();
}

/// Writes a column of a table.
fn column<T>(
    json: &mut Writer<'_>,
    name: &str,
    rows: impl Iterator<Item = T>,
    write: impl FnMut(&mut Writer<'_>, T),
) {
    json.key(name);
    array(json, rows, write);
}
