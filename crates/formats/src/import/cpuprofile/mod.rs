//! V8's CPU profile, `.cpuprofile`: Node 8 to 26 (`--cpu-prof`, the inspector), Chrome, and the
//! nested form of before Chrome 58.
//!
//! Weights are nanoseconds by the times of the samples ([`timeline`]), never by V8's hit counts,
//! which miss samples; only a file without samples goes by them. `(root)` is dropped, and a
//! sample of the garbage collector goes on top of the stack it interrupted, as DevTools show it.
//! One file is one thread.

mod lines;
mod nodes;
mod timeline;

use nodespy_model::{
    About, Category, Contents, EventType, FunctionIndex, Notes, Process, ProfileBuilder, Recording,
    Thread, ThreadIndex, ThreadRole, WeightUnit,
};

pub(crate) use self::nodes::{Functions, Nodes, Row, frame_at};
pub(crate) use self::timeline::{Placement, Timeline};

use self::lines::Lines;
use super::{ImportError, ImportOptions, Importer};
use crate::detect::{Confidence, ends_contain, head};
use crate::input::Input;
use crate::json::{JsonError, Kind, Reader};
use crate::recorded::{PLACE_KEY, Recorded};

/// How the samples were taken.
pub(crate) const ENGINE: &str = "V8 CPU profiler";
/// What V8's profiler samples by.
pub(crate) const EVENT: &str = "wall clock";

/// The importer of `.cpuprofile`.
pub(crate) struct CpuProfile;

impl Importer for CpuProfile {
    fn name(&self) -> &'static str {
        "cpuprofile"
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        let starts_as_object = Reader::new(head(bytes)).kind() == Ok(Kind::Object);
        let has = |key: &str| ends_contain(bytes, key.as_bytes());
        if !starts_as_object || has("\"traceEvents\"") || has("\"selfSize\"") {
            Confidence::No
        } else if has("\"callFrame\"") && (has("\"timeDeltas\"") || has("\"nodes\"")) {
            Confidence::Sure
        } else if has("\"hitCount\"") && (has("\"head\"") || has("\"functionName\"")) {
            Confidence::Likely
        } else {
            Confidence::No
        }
    }

    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        let meter = input.budget(&options.limits).meter();
        let mut builder = ProfileBuilder::new(EventType::new(EVENT, WeightUnit::Nanoseconds));
        let mut notes = Notes::default();
        let mut file = File::default();
        let read = file.read(&mut Reader::metered(&input, &meter), &mut builder);
        if file.nodes.len() == 0 {
            return Err(match read {
                Err(error) => error.into(),
                Ok(()) => ImportError::NoStacks,
            });
        }
        if let Err(error) = read {
            notes.remark(format!("{error}; what comes before it was read"));
        }
        let process = builder.process(Process::default());
        let File {
            mut nodes,
            timeline,
            place,
        } = file;
        nodes.join();
        let thread = builder.thread(Thread {
            process,
            role: role_of(&builder),
            ..Thread::default()
        });
        let placement = add_thread(&mut nodes, timeline, (thread, 0), &mut builder, &mut notes);
        nodes.remark(&mut notes);
        if builder.so_far().samples.is_empty() {
            return Err(meter.explain(ImportError::NoStacks));
        }
        Ok(recording(builder, &placement, notes, &place))
    }
}

/// What a file says.
#[derive(Default)]
struct File {
    nodes: Nodes,
    timeline: Timeline,
    /// Where our exporter says the process ran, as lines.
    place: Vec<String>,
}

impl File {
    /// Reads as far as the file goes.
    fn read<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        builder: &mut ProfileBuilder,
    ) -> Result<(), JsonError> {
        let mut functions = Functions::default();
        // The answer of the inspector has the profile one or two levels down.
        let wrappers = ["profile", "result"];
        let into = (&mut self.nodes, &mut self.timeline, &mut self.place);
        read_profile(reader, &wrappers, into, &mut functions, builder)?;
        match reader.is_at_end() {
            true => Ok(()),
            false => Err(reader.expected("nothing after the profile")),
        }
    }
}

/// Reads an object with nodes and times, which may be in objects of its own called like one of
/// `wrappers`.
pub(crate) fn read_profile<'a>(
    reader: &mut Reader<'a>,
    wrappers: &[&str],
    (nodes, timeline, place): (&mut Nodes, &mut Timeline, &mut Vec<String>),
    functions: &mut Functions<'a>,
    builder: &mut ProfileBuilder,
) -> Result<(), JsonError> {
    reader.enter_object()?;
    let mut depth = 1;
    while depth > 0 {
        let Some(key) = reader.key()? else {
            depth -= 1;
            continue;
        };
        let kind = reader.kind()?;
        match (&*key, kind) {
            (key, Kind::Object) if wrappers.contains(&key) => {
                reader.enter_object()?;
                depth += 1;
            }
            ("nodes", Kind::Array) => nodes.read_array(reader, functions, builder)?,
            ("head", Kind::Object) => nodes.read_node(reader, functions, builder)?,
            (PLACE_KEY, Kind::Array) => *place = read_lines(reader)?,
            (key, _) => {
                if !timeline.read_field(key, kind, reader)? {
                    reader.skip()?;
                }
            }
        }
    }
    Ok(())
}

/// Reads the lines that our exporter wrote.
pub(crate) fn read_lines(reader: &mut Reader<'_>) -> Result<Vec<String>, JsonError> {
    let mut lines = Vec::new();
    reader.enter_array()?;
    while reader.element()? {
        lines.push(reader.any_text()?.into_owned());
    }
    Ok(lines)
}

impl Timeline {
    /// Reads the value of `key` if it is about times.
    fn read_field(
        &mut self,
        key: &str,
        kind: Kind,
        reader: &mut Reader<'_>,
    ) -> Result<bool, JsonError> {
        let number = |reader: &mut Reader<'_>| -> Result<Option<i64>, JsonError> {
            Ok(reader.any_number()?.map(|number| number.thousandths()))
        };
        match (key, kind) {
            ("samples", Kind::Array) => {
                reader.enter_array()?;
                while reader.element()? {
                    let id = reader.any_number()?.map_or(-1, |id| id.as_i64());
                    self.nodes.push(u32::try_from(id).unwrap_or(u32::MAX));
                }
            }
            ("timeDeltas" | "timestamps", Kind::Array) => {
                let times = match key {
                    "timeDeltas" => &mut self.deltas,
                    _ => &mut self.timestamps,
                };
                reader.enter_array()?;
                while reader.element()? {
                    times.push(number(reader)?.unwrap_or(0));
                }
            }
            ("lines", Kind::Array) => {
                reader.enter_array()?;
                while reader.element()? {
                    let line = reader.any_number()?.map_or(0, |line| line.as_i64());
                    self.lines.push(u32::try_from(line).unwrap_or(0));
                }
            }
            ("startTime", _) => self.start = number(reader)?,
            ("endTime", _) => self.end = number(reader)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Adds the samples of one thread, whose profile starts at `offset` nanoseconds.
pub(crate) fn add_thread(
    nodes: &mut Nodes,
    timeline: Timeline,
    (thread, offset): (ThreadIndex, u64),
    builder: &mut ProfileBuilder,
    notes: &mut Notes,
) -> Placement {
    if timeline.nodes.is_empty() || (timeline.deltas.is_empty() && timeline.timestamps.is_empty()) {
        return add_hits(nodes, &timeline, thread, builder, notes);
    }
    let placement = timeline.place(|id| nodes.row_of(id), notes);
    let mut lines = Lines::new(nodes, &placement.samples);
    let mut interrupted = None;
    for (position, sample) in placement.samples.iter().enumerate() {
        let function = nodes.function(sample.row);
        let category = function.map(|function| builder.so_far().function(function).category);
        let is_last = position + 1 == placement.samples.len();
        if is_last && sample.weight == 0 && category == Some(Category::Idle) {
            // It only marks when the one before it ended.
            break;
        }
        let stack = match (category, function) {
            (Some(Category::Gc), Some(gc)) if is_collector(gc, sample.row, nodes, builder) => {
                let frame = builder.frame_of(frame_at(gc, 0));
                Some(builder.stack(interrupted, frame))
            }
            _ => {
                let stack = match sample.line {
                    0 => lines.next_stack(sample.row, nodes, builder),
                    line => nodes.stack_at(sample.row, line, builder),
                };
                interrupted = stack.filter(|_| runs_code(category, nodes.is_outermost(sample.row)));
                stack
            }
        };
        builder.sample(offset + sample.time, thread, stack, sample.weight);
    }
    if nodes.is_without_idle(builder) {
        notes.remark(
            "the file knows no (idle): before Node 14 waiting counts as (program)".to_owned(),
        );
    }
    placement
}

/// Whether a node is V8's own for the garbage collector, which has no callers.
fn is_collector(
    function: FunctionIndex,
    row: Row,
    nodes: &Nodes,
    builder: &ProfileBuilder,
) -> bool {
    nodes.is_outermost(row) && builder.so_far().name_of(function) == "(garbage collector)"
}

/// Whether the garbage collector can have interrupted such a sample: not `(idle)`, not
/// `(program)`.
fn runs_code(category: Option<Category>, is_outermost: bool) -> bool {
    match category {
        None | Some(Category::Idle) => false,
        Some(Category::Native) => !is_outermost,
        Some(_) => true,
    }
}

/// Adds one sample for each node, by V8's own counts: all there is in a file without samples.
fn add_hits(
    nodes: &mut Nodes,
    timeline: &Timeline,
    thread: ThreadIndex,
    builder: &mut ProfileBuilder,
    notes: &mut Notes,
) -> Placement {
    let hits: Vec<_> = nodes.counts().collect();
    let total = hits
        .iter()
        .fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    let duration = timeline.stated_duration(total);
    notes.remark(match duration {
        0 => "the file has no times: each sample V8 counted is taken for a millisecond".to_owned(),
        _ => "the file has no times of samples: its duration is shared out by V8's own counts"
            .to_owned(),
    });
    let duration = match duration {
        0 => total.saturating_mul(1_000_000),
        duration => duration,
    };
    let share = |count: u64| u128::from(count) * u128::from(duration) / u128::from(total.max(1));
    let mut before = 0u64;
    for (row, count) in hits {
        let stack = nodes.stack(row, builder);
        let until = before.saturating_add(count);
        // Shares of the whole, so that what is rounded off here is given there.
        let weight = share(until) - share(before);
        builder.sample(0, thread, stack, u64::try_from(weight).unwrap_or(u64::MAX));
        before = until;
    }
    Placement {
        duration,
        ..Placement::default()
    }
}

/// What the thread is for: Node starts a Worker with a script of its own.
fn role_of(builder: &ProfileBuilder) -> ThreadRole {
    let profile = builder.so_far();
    let is_worker_start = |file: &str| file.contains("internal/main/worker_thread");
    match profile.strings.iter().any(is_worker_start) {
        true => ThreadRole::Worker,
        false => ThreadRole::Main,
    }
}

fn recording(
    mut builder: ProfileBuilder,
    placement: &Placement,
    notes: Notes,
    place: &[String],
) -> Recording {
    let about = About {
        engine: ENGINE.to_owned(),
        duration: placement.duration,
        ..About::default()
    };
    builder.set_rate(rate_hz(placement.interval));
    placed(builder, about, notes, place)
}

/// The recording, with what our exporter says of where it was taken.
pub(crate) fn placed(
    builder: ProfileBuilder,
    mut about: About,
    notes: Notes,
    place: &[String],
) -> Recording {
    let said = Recorded::from_lines(place.iter().map(|line| &**line)).unwrap_or_default();
    about.app = said.about.app;
    about.host = said.about.host;
    let mut profile = builder.finish(about.clone(), notes.clone());
    said.labels.give_to(&mut profile.processes);
    Recording {
        about,
        notes,
        contents: Contents::Named(Box::new(profile)),
        ..Recording::default()
    }
}

/// Samples a second at this interval; 0 when it is not known.
pub(crate) fn rate_hz(interval: u64) -> u32 {
    match interval {
        0 => 0,
        interval => u32::try_from(1_000_000_000 / interval).unwrap_or(0),
    }
}
