//! The only way to make a profile: it interns and keeps the invariants.

use crate::FastSet;
use crate::about::{About, EventLoop, ExactWaits, GcPauses, Pool, Process, Scheduling, Thread};
use crate::context::{ContextIndex, ContextIndexer};
use crate::event::{self, EventIndex, EventType};
use crate::gc_timeline::GcTimeline;
use crate::labels::Labels;
use crate::moved_stacks::StackMoves;
use crate::notes::Notes;
use crate::over_time::{LoopTimeline, PoolTimeline};
use crate::profile::{
    Category, Frame, FrameIndex, FrameKind, Function, FunctionIndex, Nanoseconds, ProcessIndex,
    Profile, Sample, Source, Stack, StackIndex, StringIndex, StringTable, ThreadIndex, Tier,
};
use crate::rows::RowIndex;
use crate::stack_index::StackIndexer;
use crate::text::printable;

/// A function to intern.
#[derive(Debug, Clone, Copy, Default)]
pub struct FunctionSpec<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its file or module; empty when not known.
    pub file: &'a str,
    /// The line it starts at, from 1; 0 when not known.
    pub line: u32,
    /// The column it starts at, from 1; 0 when not known.
    pub column: u32,
    /// What kind of code it is.
    pub category: Category,
}

/// A frame to intern.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameSpec<'a> {
    /// The function.
    pub function: FunctionSpec<'a>,
    /// The line being run; 0 when not known.
    pub line: u32,
    /// The column being run; 0 when not known.
    pub column: u32,
    /// Which compiler made the code.
    pub tier: Tier,
    /// How it came to be on the stack.
    pub kind: FrameKind,
}

/// Builds a [`Profile`]. Equal strings, functions, frames and stacks are held once; names are
/// made printable on the way in, so nothing that leaves a profile can hold control characters.
#[derive(Debug, Default)]
pub struct ProfileBuilder {
    profile: Profile,
    strings: RowIndex,
    functions: RowIndex,
    frames: RowIndex,
    stacks: StackIndexer,
    contexts: ContextIndexer,
    deopt_rows: FastSet<(FunctionIndex, StringIndex)>,
    generated_rows: FastSet<(FunctionIndex, StringIndex)>,
    source_files: FastSet<StringIndex>,
}

impl ProfileBuilder {
    /// An empty profile of one event, or of what a unit of weights alone says of it.
    pub fn new(event: impl Into<EventType>) -> Self {
        Self::with_events(vec![event.into()])
    }

    /// An empty profile of these events.
    pub fn with_events(events: Vec<EventType>) -> Self {
        let mut builder = Self::default();
        builder.profile.events = events;
        builder
    }

    /// Where an event of this name and unit is; none when there are [`crate::MAX_EVENTS`] others.
    pub fn event(&mut self, event: &EventType) -> Option<EventIndex> {
        event::intern(&mut self.profile.events, event)
    }

    /// Sets how many samples a second the first event makes; 0 when not known.
    pub fn set_rate(&mut self, rate_hz: u32) {
        if let Some(first) = self.profile.events.first_mut() {
            *first = std::mem::take(first).at_rate(rate_hz);
        }
    }

    /// Interns the labels of samples.
    pub fn context(&mut self, labels: Labels) -> ContextIndex {
        self.contexts.intern(&mut self.profile.contexts, labels)
    }

    /// Interns a string.
    pub fn string(&mut self, text: &str) -> StringIndex {
        let text = printable(text);
        StringIndex(self.strings.intern_text(
            &mut self.profile.strings,
            &text,
            |table, position| table.get(StringIndex(position)),
            |table, text| table.push(text).0,
        ))
    }

    /// Interns a function.
    pub fn function(&mut self, spec: FunctionSpec<'_>) -> FunctionIndex {
        let function = Function {
            name: self.string(spec.name),
            file: (!spec.file.is_empty()).then(|| self.string(spec.file)),
            line: spec.line,
            column: spec.column,
            category: spec.category,
        };
        FunctionIndex(self.functions.intern(&mut self.profile.functions, function))
    }

    /// Interns a frame.
    pub fn frame(&mut self, spec: FrameSpec<'_>) -> FrameIndex {
        let function = self.function(spec.function);
        self.frame_of(Frame {
            function,
            line: spec.line,
            column: spec.column,
            tier: spec.tier,
            kind: spec.kind,
        })
    }

    /// Interns a frame of a function that is interned already.
    pub fn frame_of(&mut self, frame: Frame) -> FrameIndex {
        assert!(frame.function.at() < self.profile.functions.len());
        FrameIndex(self.frames.intern(&mut self.profile.frames, frame))
    }

    /// Interns the stack that adds `frame` to `parent`.
    pub fn stack(&mut self, parent: Option<StackIndex>, frame: FrameIndex) -> StackIndex {
        assert!(parent.is_none_or(|parent| parent.at() < self.profile.stacks.len()));
        assert!(frame.at() < self.profile.frames.len());
        self.stacks.child(&mut self.profile.stacks, parent, frame)
    }

    /// Interns all `stacks` of another profile, whose frames are `frames` here, and returns where
    /// each is.
    pub fn stacks_from(&mut self, stacks: &[Stack], frames: &[FrameIndex]) -> Vec<StackIndex> {
        let is_known = |frame: &FrameIndex| frame.at() < self.profile.frames.len();
        assert!(frames.iter().all(is_known));
        if self.profile.stacks.is_empty() {
            let mut moves = StackMoves::of(stacks);
            for stack in stacks {
                moves.next(Some(frames[stack.frame.at()]));
            }
            let moved = moves.finish();
            self.profile.stacks = moved.stacks;
            return moved.moved.into_iter().flatten().collect();
        }
        let mut moved: Vec<StackIndex> = Vec::with_capacity(stacks.len());
        for stack in stacks {
            let parent = stack.parent.map(|parent| moved[parent.at()]);
            moved.push(self.stack(parent, frames[stack.frame.at()]));
        }
        moved
    }

    /// Adds a process.
    pub fn process(&mut self, process: Process) -> ProcessIndex {
        self.profile.processes.push(printable_process(process));
        ProcessIndex(self.profile.processes.len() as u32 - 1)
    }

    /// Sets a label of a process that was added before.
    pub fn label(&mut self, process: ProcessIndex, key: &str, value: &str) {
        self.profile.processes[process.at()].labels.set(key, value);
    }

    /// Adds a thread of a process that was added before.
    pub fn thread(&mut self, thread: Thread) -> ThreadIndex {
        assert!(thread.process.at() < self.profile.processes.len());
        self.profile.threads.push(printable_thread(thread));
        ThreadIndex(self.profile.threads.len() as u32 - 1)
    }

    /// Replaces a process that was added before.
    pub fn set_process(&mut self, index: ProcessIndex, process: Process) {
        self.profile.processes[index.at()] = printable_process(process);
    }

    /// Replaces a thread that was added before.
    pub fn set_thread(&mut self, index: ThreadIndex, thread: Thread) {
        assert!(thread.process.at() < self.profile.processes.len());
        self.profile.threads[index.at()] = printable_thread(thread);
    }

    /// Says how a thread that was added before shared the CPUs.
    pub fn scheduling(&mut self, thread: ThreadIndex, scheduling: Scheduling) {
        self.profile.threads[thread.at()].scheduling = Some(scheduling);
    }

    /// Says what the thread pool of a process that was added before did.
    pub fn pool(&mut self, process: ProcessIndex, mut pool: Pool) {
        for jobs in &mut pool.jobs {
            jobs.kind = printable(&jobs.kind).into_owned();
            jobs.about = printable(&jobs.about).into_owned();
        }
        for submitter in &mut pool.submitters {
            submitter.function = printable(&submitter.function).into_owned();
            submitter.place = printable(&submitter.place).into_owned();
        }
        self.profile.processes[process.at()].pool = Some(pool);
    }

    /// Says what the event loop of a thread that was added before did.
    pub fn event_loop(&mut self, thread: ThreadIndex, event_loop: EventLoop) {
        self.profile.threads[thread.at()].event_loop = Some(event_loop);
    }

    /// Says how the garbage collector paused a thread that was added before.
    pub fn gc_pauses(&mut self, thread: ThreadIndex, pauses: Vec<GcPauses>) {
        self.profile.threads[thread.at()].gc_pauses = pauses;
    }

    /// Adds to the pauses over time of a thread that was added before.
    pub fn gc_timeline(&mut self, thread: ThreadIndex, timeline: &GcTimeline) {
        self.profile.threads[thread.at()]
            .gc_timeline
            .merge(timeline);
    }

    /// Says what a thread that was added before waited for.
    pub fn exact_waits(&mut self, thread: ThreadIndex, mut waits: Vec<ExactWaits>) {
        for of_kind in &mut waits {
            of_kind.what = printable(&of_kind.what).into_owned();
            of_kind.histogram.truncate(ExactWaits::BUCKETS);
        }
        self.profile.threads[thread.at()].exact_waits = waits;
    }

    /// Adds to what the event loop of a thread that was added before did over time.
    pub fn loop_timeline(&mut self, thread: ThreadIndex, timeline: &LoopTimeline) {
        let known = &mut self.profile.threads[thread.at()].loop_timeline;
        known.get_or_insert_default().merge(timeline);
    }

    /// Adds to what the thread pool of a process that was added before did over time.
    pub fn pool_timeline(&mut self, process: ProcessIndex, timeline: &PoolTimeline) {
        let known = &mut self.profile.processes[process.at()].pool_timeline;
        known.get_or_insert_default().merge(timeline);
    }

    /// Adds a sample of the first event, of which nothing else is known.
    pub fn sample(
        &mut self,
        time: Nanoseconds,
        thread: ThreadIndex,
        stack: Option<StackIndex>,
        weight: u64,
    ) {
        self.add_sample(Sample {
            time,
            weight,
            thread,
            stack,
            ..Sample::default()
        });
    }

    /// Adds a sample.
    pub fn add_sample(&mut self, sample: Sample) {
        assert!(sample.thread.at() < self.profile.threads.len());
        assert!(sample.event.at() < self.profile.events.len());
        assert!((sample.context.0 as usize) < self.profile.contexts.len());
        assert!(
            sample
                .stack
                .is_none_or(|stack| stack.at() < self.profile.stacks.len())
        );
        self.profile.samples.push(sample);
    }

    /// Notes why V8 dropped optimized code of a function.
    pub fn deopt_reason(&mut self, function: FunctionIndex, reason: &str) {
        assert!(function.at() < self.profile.functions.len());
        let row = (function, self.string(reason));
        if self.deopt_rows.insert(row) {
            self.profile.deopt_reasons.push(row);
        }
    }

    /// Notes where a function is in the code that ran, as `file:line:column`.
    pub fn generated_place(&mut self, function: FunctionIndex, place: &str) {
        assert!(function.at() < self.profile.functions.len());
        let row = (function, self.string(place));
        if self.generated_rows.insert(row) {
            self.profile.generated_places.push(row);
        }
    }

    /// Adds the text of a source file, unless one is there already.
    pub fn source(&mut self, file: &str, text: String) {
        let file = self.string(file);
        if self.source_files.insert(file) {
            self.profile.sources.push(Source { file, text });
        }
    }

    /// The profile as it is so far.
    pub fn so_far(&self) -> &Profile {
        &self.profile
    }

    /// Ends the work: samples are put in order of time, and events without samples are left out.
    pub fn finish(mut self, about: About, notes: Notes) -> Profile {
        self.profile.drop_empty_events();
        Sample::sort_by_time(&mut self.profile.samples);
        for thread in &mut self.profile.threads {
            if let Some(timeline) = &mut thread.loop_timeline {
                timeline.keep_longest();
            }
            thread.gc_timeline.keep_longest();
        }
        self.profile.about = about;
        self.profile.notes = notes;
        self.profile
    }
}

fn printable_process(process: Process) -> Process {
    Process {
        name: printable(&process.name).into_owned(),
        command: printable(&process.command).into_owned(),
        ..process
    }
}

fn printable_thread(thread: Thread) -> Thread {
    Thread {
        name: printable(&thread.name).into_owned(),
        ..thread
    }
}

impl StringTable {
    /// Adds a string. The table stops growing at 4 GiB: later strings become empty.
    pub fn push(&mut self, text: &str) -> StringIndex {
        if u32::try_from(self.bytes.len() + text.len()).is_ok() {
            self.bytes.push_str(text);
        }
        self.ends.push(self.bytes.len() as u32);
        StringIndex(self.ends.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::WeightUnit;

    #[test]
    fn equal_stacks_are_held_once_and_names_are_printable() {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let spec = FrameSpec {
            function: FunctionSpec {
                name: "evil\nname",
                file: "app.js",
                line: 3,
                ..Default::default()
            },
            ..Default::default()
        };
        let frame = builder.frame(spec);
        assert_eq!(frame, builder.frame(spec));
        let stack = builder.stack(None, frame);
        assert_eq!(stack, builder.stack(None, frame));
        let profile = builder.finish(About::default(), Notes::default());
        assert_eq!(profile.name_of(FunctionIndex(0)), "evil\u{fffd}name");
        assert_eq!(profile.location_of(FunctionIndex(0)), "app.js:3");
        assert_eq!(profile.stacks.len(), 1);
    }
}
