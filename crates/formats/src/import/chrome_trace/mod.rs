//! Chrome's trace events: an array of events, or an object with `traceEvents`.
//!
//! What is taken from a file is the best it has: V8's CPU profiles (`Profile` and `ProfileChunk`
//! events, or `CpuProfile` of before Chrome 59), else stack samples (`samples` and `stackFrames`,
//! as Hermes writes them), else the events that have a length, as stacks of what ran inside what.
//! Every thread of every process becomes a thread; events come in any order; the bracket at the
//! end may be missing, as Chrome's own documentation allows.

mod events;
mod sampled;
mod spans;

use nodespy_model::{
    About, EventType, FastMap, Notes, Process, ProcessIndex, ProfileBuilder, Recording, SmallSort,
    Thread, ThreadIndex, ThreadRole, WeightUnit, classify,
};

use self::events::{Event, Phase, ThreadKey};
use self::sampled::Sampled;
use self::spans::Spans;
use super::cpuprofile::{self, Functions, Nodes, Timeline, rate_hz};
use super::{ImportError, ImportOptions, Importer};
use crate::detect::{Confidence, ends_contain, head};
use crate::input::Input;
use crate::json::{JsonError, Kind, Problem, Reader};
use crate::recorded::PLACE_KEY;

/// Profiles that start later than this after the first one, two years, are not believed.
const FURTHEST: i64 = 1 << 56;

/// The importer of trace events.
pub(crate) struct ChromeTrace;

impl Importer for ChromeTrace {
    fn name(&self) -> &'static str {
        "chrome-trace"
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        let has = |key: &str| ends_contain(bytes, key.as_bytes());
        match Reader::new(head(bytes)).kind() {
            Ok(Kind::Object) if has("\"traceEvents\"") => Confidence::Sure,
            Ok(Kind::Array) if has("\"ph\"") && has("\"pid\"") => Confidence::Sure,
            Ok(Kind::Array) if has("\"ph\"") => Confidence::Likely,
            _ => Confidence::No,
        }
    }

    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        let meter = input.budget(&options.limits).meter();
        let mut notes = Notes::default();
        let mut trace = Trace::new();
        if let Err(error) = trace.read(&mut Reader::metered(&input, &meter)) {
            if trace.is_empty() {
                return Err(error.into());
            }
            notes.remark(format!("{error}; what comes before it was read"));
        }
        let recording = trace.into_recording(notes);
        recording.map_err(|error| meter.explain(error))
    }
}

/// What a file holds.
struct Trace<'a> {
    builder: ProfileBuilder,
    names: Names,
    profiles: Vec<PendingProfile<'a>>,
    profile_of_id: FastMap<(i64, String), usize>,
    spans: Spans,
    sampled: Sampled,
    /// Where our exporter says the processes ran, as lines.
    place: Vec<String>,
}

/// A CPU profile whose chunks are spread over the file.
struct PendingProfile<'a> {
    thread: ThreadKey,
    /// Whether the thread is that of the profile, and not of who wrote its chunks.
    has_thread: bool,
    /// The `args` of its events, with the time of each.
    chunks: Vec<(i64, Reader<'a>)>,
}

impl<'a> Trace<'a> {
    fn new() -> Self {
        Self {
            builder: ProfileBuilder::new(EventType::new(
                cpuprofile::EVENT,
                WeightUnit::Nanoseconds,
            )),
            names: Names::default(),
            profiles: Vec::new(),
            profile_of_id: FastMap::default(),
            spans: Spans::default(),
            sampled: Sampled::default(),
            place: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.profiles.is_empty() && self.spans.is_empty() && self.sampled.is_empty()
    }

    fn read(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        if reader.kind()? == Kind::Array {
            return self.read_events(reader);
        }
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            match (&*key, reader.kind()?) {
                ("traceEvents", Kind::Array) => self.read_events(reader)?,
                ("samples", Kind::Array) => self.sampled.read_samples(reader)?,
                ("stackFrames", Kind::Object) => {
                    self.sampled.read_frames(reader, &mut self.builder)?;
                }
                ("otherData", Kind::Object) => self.read_place(reader)?,
                _ => reader.skip()?,
            }
        }
        Ok(())
    }

    fn read_place(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            match (&*key, reader.kind()?) {
                (PLACE_KEY, Kind::Array) => self.place = cpuprofile::read_lines(reader)?,
                _ => reader.skip()?,
            }
        }
        Ok(())
    }

    fn read_events(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        reader.enter_array()?;
        loop {
            match reader.element() {
                Ok(true) if !reader.is_at_end() => self.read_event(reader)?,
                Ok(_) => return Ok(()),
                // Chrome leaves the last bracket out when it can't write it.
                Err(error) if error.problem == Problem::Cut => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn read_event(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        if reader.kind()? != Kind::Object {
            return reader.skip();
        }
        let event = Event::read(reader)?;
        match (&*event.name, event.phase) {
            ("Profile" | "ProfileChunk" | "CpuProfile", phase) if phase != Phase::Metadata => {
                self.add_piece(event);
            }
            ("process_name" | "thread_name", Phase::Metadata) => self.names.read(event)?,
            (_, Phase::Begin | Phase::End | Phase::Complete) => {
                self.spans.add(&event, &mut self.builder);
            }
            _ => {}
        }
        Ok(())
    }

    fn add_piece(&mut self, event: Event<'a>) {
        let Some(args) = event.args else {
            return;
        };
        let is_piece = event.name == "ProfileChunk";
        // The old events have no id: each is a profile of its own thread.
        let id = match &*event.id {
            "" => format!("thread {}", event.thread.tid),
            id => id.to_owned(),
        };
        let next = self.profiles.len();
        let at = *self
            .profile_of_id
            .entry((event.thread.pid, id))
            .or_insert(next);
        if at == next {
            self.profiles.push(PendingProfile {
                thread: event.thread,
                has_thread: false,
                chunks: Vec::new(),
            });
        }
        let profile = &mut self.profiles[at];
        if !is_piece && !profile.has_thread {
            profile.thread = event.thread;
            profile.has_thread = true;
        }
        profile.chunks.push((event.time, args));
    }

    fn into_recording(mut self, mut notes: Notes) -> Result<Recording, ImportError> {
        let mut summary = self.add_profiles(&mut notes);
        let builder = &mut self.builder;
        let names = &mut self.names;
        if builder.so_far().samples.is_empty() {
            summary = self.sampled.add(names, builder, &mut notes);
        } else {
            self.spans.remark_left_out(&mut notes);
        }
        if builder.so_far().samples.is_empty() {
            summary = self.spans.add_samples(names, builder, &mut notes);
        }
        if builder.so_far().samples.is_empty() {
            return Err(ImportError::NoStacks);
        }
        let about = About {
            engine: summary.engine.to_owned(),
            duration: summary.duration,
            ..About::default()
        };
        self.builder.set_rate(rate_hz(summary.interval));
        Ok(cpuprofile::placed(self.builder, about, notes, &self.place))
    }

    /// Adds the samples of V8's CPU profiles.
    fn add_profiles(&mut self, notes: &mut Notes) -> Summary {
        let mut summary = Summary::of(cpuprofile::ENGINE);
        let mut functions = Functions::default();
        let mut read = Vec::new();
        for mut profile in std::mem::take(&mut self.profiles) {
            profile.chunks.small_sort_by_key(|(time, _)| *time);
            let mut nodes = Nodes::default();
            let mut timeline = Timeline::default();
            for (_, mut chunk) in profile.chunks {
                let chunk = cpuprofile::read_profile(
                    &mut chunk,
                    &["data", "cpuProfile"],
                    (&mut nodes, &mut timeline, &mut self.place),
                    &mut functions,
                    &mut self.builder,
                );
                // A chunk without lines, or with too few, must not shift those of the next.
                timeline.lines.resize(timeline.nodes.len(), 0);
                if let Err(error) = chunk {
                    notes.remark(format!("{error}; the rest of that event was left out"));
                }
            }
            nodes.join();
            if nodes.len() > 0 {
                read.push((profile.thread, nodes, timeline));
            }
        }
        let starts = read.iter().filter_map(|(_, _, timeline)| timeline.start);
        let first = starts.min().unwrap_or(0);
        for (key, mut nodes, timeline) in read {
            let start = timeline.start.unwrap_or(first);
            let offset = start.saturating_sub(first).clamp(0, FURTHEST) as u64;
            let thread = self.names.thread(key, &mut self.builder);
            let place = (thread, offset);
            let placement =
                cpuprofile::add_thread(&mut nodes, timeline, place, &mut self.builder, notes);
            nodes.remark(notes);
            summary.interval = summary.interval.max(placement.interval);
            summary.duration = summary.duration.max(offset + placement.duration);
        }
        summary
    }
}

/// What is said of the recording as a whole.
struct Summary {
    engine: &'static str,
    /// The usual time between samples; 0 when there are none.
    interval: u64,
    duration: u64,
}

impl Summary {
    fn of(engine: &'static str) -> Self {
        Self {
            engine,
            interval: 0,
            duration: 0,
        }
    }
}

/// The names of processes and threads, and which of them are in the profile already.
#[derive(Default)]
struct Names {
    of_processes: FastMap<i64, String>,
    of_threads: FastMap<ThreadKey, String>,
    processes: FastMap<i64, ProcessIndex>,
    threads: FastMap<ThreadKey, ThreadIndex>,
}

impl Names {
    fn read(&mut self, event: Event<'_>) -> Result<(), JsonError> {
        let Some(mut args) = event.args else {
            return Ok(());
        };
        args.enter_object()?;
        while let Some(key) = args.key()? {
            if key != "name" {
                args.skip()?;
                continue;
            }
            let name = args.any_text()?.into_owned();
            match &*event.name {
                "process_name" => self.of_processes.insert(event.thread.pid, name),
                _ => self.of_threads.insert(event.thread, name),
            };
        }
        Ok(())
    }

    /// The thread in the profile.
    fn thread(&mut self, key: ThreadKey, builder: &mut ProfileBuilder) -> ThreadIndex {
        if let Some(thread) = self.threads.get(&key) {
            return *thread;
        }
        let process = *self.processes.entry(key.pid).or_insert_with(|| {
            builder.process(Process {
                pid: u32::try_from(key.pid).unwrap_or(0),
                name: self.of_processes.get(&key.pid).cloned().unwrap_or_default(),
                ..Process::default()
            })
        });
        let name = self.of_threads.get(&key).cloned().unwrap_or_default();
        let thread = builder.thread(Thread {
            process,
            tid: u32::try_from(key.tid).unwrap_or(0),
            role: role_of(&name, key),
            name,
            ..Thread::default()
        });
        self.threads.insert(key, thread);
        thread
    }
}

/// What a thread is for, by the names of Node and Chrome.
fn role_of(name: &str, key: ThreadKey) -> ThreadRole {
    match classify::role_of_name(name) {
        ThreadRole::Other => {}
        role => return role,
    }
    let workers = ["DedicatedWorker", "[worker "];
    if workers.iter().any(|start| name.starts_with(start)) || name.contains("orker thread") {
        ThreadRole::Worker
    } else if key.pid == key.tid || name == "CrRendererMain" || name == "JavaScriptMainThread" {
        ThreadRole::Main
    } else {
        ThreadRole::Other
    }
}
