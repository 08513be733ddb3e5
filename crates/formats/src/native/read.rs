//! Reads a file of any version up to the newest. The bytes may come from anybody.

use nodespy_model::{
    About, AsyncCallers, Contents, ContextIndex, EventType, ExitReason, FastSet, Frame, FrameIndex,
    Function, FunctionIndex, Notes, Process, ProcessIndex, Profile, ProfileBuilder, Recording,
    Sample, Source, Stack, StackIndex, StringIndex, Thread, ThreadIndex, printable,
};

use super::columns::Columns;
use super::samples::{self, Before, Known};
use super::tags::{self, Tags};
use super::unpack::{Unpacker, read_header};
use super::{CATEGORIES, FRAME_KINDS, NAME_SOURCES, ROLES, TIERS, UNITS, section};
use crate::budget::Budget;
use crate::import::ImportError;

mod watched;

/// How much source text is kept, in all.
const SOURCE_BYTES: usize = 64 << 20;

/// Reads a whole file, or what is left of one that was cut short in its samples.
pub(super) fn read(input: &[u8], budget: Budget) -> Result<Recording, ImportError> {
    let version = read_header(input)?;
    let mut packed = Unpacker::new(input, budget.clone());
    let mut tables = Tables::new(version, budget);
    let end = loop {
        match packed.next_section() {
            Ok((section::END, ..)) => break packed.finish().map(Some),
            Ok((id, start, content)) => tables.take(id, &mut Columns::new(&content, start))?,
            Err(ImportError::Cut { at }) if !tables.samples.is_empty() => {
                tables.note_cut(at);
                break Ok(None);
            }
            Err(error) => return Err(error),
        }
    };
    match end {
        Ok(Some(extra)) if extra > 0 => tables.notes.remark(format!(
            "{extra} bytes after the end of the recording were left out"
        )),
        Ok(_) => {}
        // Everything is here but for gzip's checksum.
        Err(ImportError::Cut { at }) => tables.note_cut(at),
        Err(error) => return Err(error),
    }
    if version >= 4 {
        tables.check_weights()?;
    }
    let profile = tables.into_profile();
    Ok(Recording {
        about: profile.about.clone(),
        notes: profile.notes.clone(),
        contents: Contents::Named(Box::new(profile)),
        ..Recording::default()
    })
}

/// What was read so far. Rows refer only to rows before them, so one pass checks everything.
pub(super) struct Tables {
    version: u32,
    about: About,
    notes: Notes,
    events: Vec<EventType>,
    /// Where the contexts of the file are, the empty one first.
    contexts: Vec<ContextIndex>,
    /// What is said of the samples of the next section.
    tags: Option<Tags>,
    strings: Vec<StringIndex>,
    functions: Vec<Function>,
    frames: Vec<Frame>,
    stacks: Vec<Stack>,
    pub(super) threads: usize,
    pub(super) processes: usize,
    samples: Vec<Sample>,
    announced_samples: u64,
    before: Before,
    deopt_reasons: Vec<(FunctionIndex, StringIndex)>,
    generated_places: Vec<(FunctionIndex, StringIndex)>,
    sources: Vec<Source>,
    source_files: FastSet<StringIndex>,
    source_bytes: usize,
    pub(super) builder: ProfileBuilder,
    pub(super) budget: Budget,
}

impl Tables {
    pub(super) fn new(version: u32, budget: Budget) -> Self {
        Self {
            version,
            about: About::default(),
            notes: Notes::default(),
            events: Vec::new(),
            contexts: Vec::new(),
            tags: None,
            strings: Vec::new(),
            functions: Vec::new(),
            frames: Vec::new(),
            stacks: Vec::new(),
            threads: 0,
            processes: 0,
            samples: Vec::new(),
            announced_samples: 0,
            before: Before::default(),
            deopt_reasons: Vec::new(),
            generated_places: Vec::new(),
            sources: Vec::new(),
            source_files: FastSet::default(),
            source_bytes: 0,
            builder: ProfileBuilder::default(),
            budget,
        }
    }

    /// How many rows of a table of `T` follow, when each takes at least `bytes_each`.
    pub(super) fn rows<T>(
        &mut self,
        columns: &mut Columns<'_>,
        bytes_each: usize,
    ) -> Result<usize, ImportError> {
        let rows = columns.count(bytes_each)?;
        self.budget.draw_rows::<T>(rows)?;
        Ok(rows)
    }

    pub(super) fn take(&mut self, id: u64, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        match id {
            section::ABOUT => self.take_about(columns),
            section::NOTES => self.take_notes(columns),
            section::ASYNC_CALLERS => self.take_async_callers(columns),
            section::COUNTS => self.take_counts(columns),
            section::STRINGS => self.take_strings(columns),
            section::FUNCTIONS => self.take_functions(columns),
            section::FRAMES => self.take_frames(columns),
            section::STACKS => self.take_stacks(columns),
            section::DEOPTS => {
                let rows = self.of_functions(columns)?;
                self.deopt_reasons.extend(rows);
                Ok(())
            }
            section::GENERATED => {
                let rows = self.of_functions(columns)?;
                self.generated_places.extend(rows);
                Ok(())
            }
            section::PROCESSES => self.take_processes(columns),
            section::LABELS => self.take_labels(columns),
            section::THREADS => self.take_threads(columns),
            section::SCHEDULING => self.take_scheduling(columns),
            section::EVENT_LOOPS => self.take_event_loops(columns),
            section::POOLS => self.take_pools(columns),
            section::EXACT_WAITS => self.take_exact_waits(columns),
            section::GC_PAUSES => self.take_gc_pauses(columns),
            section::POOL_SUBMITTERS => self.take_pool_submitters(columns),
            section::GC_TIMELINES => self.take_gc_timelines(columns),
            section::LOOP_TIMELINES => self.take_loop_timelines(columns),
            section::POOL_TIMELINES => self.take_pool_timelines(columns),
            section::SAMPLES => self.take_samples(columns),
            section::SOURCES => self.take_sources(columns),
            section::EVENTS => self.take_events(columns),
            section::CONTEXTS => self.take_contexts(columns),
            section::TAGS => self.take_tags(columns),
            // A later nodespy may have more to say.
            _ => Ok(()),
        }
    }

    fn take_about(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let unit = columns.code(&UNITS, "unit")?;
        let app = clean(columns.string()?);
        let host = clean(columns.string()?);
        let engine = clean(columns.string()?);
        let event = EventType::new(columns.string()?, unit);
        let event = event.at_rate(columns.small()?);
        if self.events.is_empty() {
            self.events.push(event);
        }
        self.about = About {
            app,
            host,
            engine,
            started_unix: columns.number()?,
            duration: columns.number()?,
            nodespy_version: clean(columns.string()?),
        };
        Ok(())
    }

    fn take_notes(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let mut notes = Notes {
            lost_samples: columns.number()?,
            lost_records: columns.number()?,
            throttled: columns.number()?,
            cut_stacks: columns.number()?,
            incomplete_stacks: columns.number()?,
            unwound_stacks: columns.number()?,
            jit_frames: columns.number()?,
            ..Notes::default()
        };
        // A later nodespy may know more sources of names than this one.
        for position in 0..columns.count(1)? {
            let named = columns.number()?;
            if let Some(source) = NAME_SOURCES.get(position) {
                notes.jit_named[*source as usize] = named;
            }
        }
        for _ in 0..self.rows::<[String; 2]>(columns, 1)? {
            notes.take_sentence(&clean(columns.string()?));
        }
        self.notes = notes;
        Ok(())
    }

    fn take_async_callers(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        self.notes.async_callers = AsyncCallers {
            whole: columns.number()?,
            settled: columns.number()?,
            lost: columns.number()?,
            broken: columns.number()?,
            siblings: columns.number()?,
            callbacks: columns.number_if_any()?,
        };
        Ok(())
    }

    fn take_counts(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        for _ in 0..6 {
            columns.number()?;
        }
        self.announced_samples = columns.number()?;
        Ok(())
    }

    fn take_strings(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let rows = self.rows::<String>(columns, 1)?;
        let lengths = columns.column(rows, Columns::number)?;
        self.strings.reserve(rows);
        for length in lengths {
            let text = columns.text(usize::try_from(length).unwrap_or(usize::MAX))?;
            self.strings.push(self.builder.string(text));
        }
        Ok(())
    }

    fn take_functions(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let rows = self.rows::<Function>(columns, 5)?;
        let strings = &self.strings;
        let names = columns.column(rows, |columns| columns.index(strings.len(), "strings"))?;
        let files = columns.column(rows, |columns| columns.index(strings.len() + 1, "strings"))?;
        let lines = columns.column(rows, Columns::small)?;
        let starts = columns.column(rows, Columns::small)?;
        self.functions.reserve(rows);
        for row in 0..rows {
            let file = files[row].checked_sub(1).map(|file| strings[file as usize]);
            let is_known =
                |file: &StringIndex| !self.builder.so_far().strings.get(*file).is_empty();
            self.functions.push(Function {
                name: strings[names[row] as usize],
                file: file.filter(is_known),
                line: lines[row],
                column: starts[row],
                category: columns.code(&CATEGORIES, "category")?,
            });
        }
        Ok(())
    }

    /// What is said of functions in a string each.
    fn of_functions(
        &mut self,
        columns: &mut Columns<'_>,
    ) -> Result<Vec<(FunctionIndex, StringIndex)>, ImportError> {
        let rows = self.rows::<(FunctionIndex, StringIndex)>(columns, 2)?;
        let functions = columns.column(rows, |columns| {
            columns.index(self.functions.len(), "functions")
        })?;
        let text_of = |function: u32| {
            let text = columns.index(self.strings.len(), "strings")?;
            Ok((FunctionIndex(function), self.strings[text as usize]))
        };
        functions.into_iter().map(text_of).collect()
    }

    fn take_frames(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let known = self.functions.len();
        let rows = self.rows::<Frame>(columns, 5)?;
        let functions = columns.column(rows, |columns| columns.index(known, "functions"))?;
        let lines = columns.column(rows, Columns::small)?;
        let starts = columns.column(rows, Columns::small)?;
        let tiers = columns.column(rows, |columns| columns.code(&TIERS, "tier"))?;
        self.frames.reserve(rows);
        for row in 0..rows {
            self.frames.push(Frame {
                function: FunctionIndex(functions[row]),
                line: lines[row],
                column: starts[row],
                tier: tiers[row],
                kind: columns.code(&FRAME_KINDS, "kind of frame")?,
            });
        }
        Ok(())
    }

    fn take_stacks(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let rows = self.rows::<Stack>(columns, 2)?;
        let first = self.stacks.len();
        if u32::try_from(first + rows).is_err() {
            return Err(columns.error("there are 2^32 stacks or more"));
        }
        let mut own = first;
        let parents = columns.column(rows, |columns| {
            // How far back the parent is: it can only be an earlier row.
            let distance = columns.index(own + 1, "stacks")? as usize;
            own += 1;
            Ok((distance > 0).then(|| StackIndex::new((own - 1 - distance) as u32)))
        })?;
        self.stacks.reserve(rows);
        for parent in parents {
            self.stacks.push(Stack {
                parent,
                frame: FrameIndex(columns.index(self.frames.len(), "frames")?),
            });
        }
        Ok(())
    }

    fn take_processes(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        for process in self.processes_in(columns)? {
            self.builder.process(process);
            self.processes += 1;
        }
        Ok(())
    }

    fn processes_in(&mut self, columns: &mut Columns<'_>) -> Result<Vec<Process>, ImportError> {
        let rows = self.rows::<Process>(columns, 9)?;
        let pids = columns.column(rows, Columns::small)?;
        let parents = columns.column(rows, Columns::small)?;
        let names = columns.column(rows, Columns::string)?;
        let commands = columns.column(rows, Columns::string)?;
        let versions = columns.column(rows, |columns| columns.option(Columns::string))?;
        let started = columns.column(rows, Columns::number)?;
        let ended = columns.column(rows, |columns| columns.option(Columns::number))?;
        let exits = columns.column(rows, |columns| match columns.number()? {
            0 => Ok(None),
            1 => Ok(Some(ExitReason::Ended)),
            2 => Ok(Some(ExitReason::Status(columns.signed()?))),
            3 => Ok(Some(ExitReason::Signal(columns.signed()?))),
            other => Err(columns.error(format!("there is no exit reason {other}"))),
        })?;
        let mut processes = Vec::with_capacity(rows);
        for row in 0..rows {
            processes.push(Process {
                pid: pids[row],
                parent_pid: parents[row],
                name: names[row].to_owned(),
                command: commands[row].to_owned(),
                node_version: versions[row].map(clean),
                started: started[row],
                ended: ended[row],
                exit: exits[row],
                cpu_time: columns.option(Columns::number)?,
                ..Process::default()
            });
        }
        Ok(processes)
    }

    fn take_labels(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let known = self.processes;
        let rows = self.rows::<[String; 2]>(columns, 3)?;
        let processes = columns.column(rows, |columns| columns.index(known, "processes"))?;
        let keys = columns.column(rows, Columns::string)?;
        for row in 0..rows {
            let process = ProcessIndex(processes[row]);
            self.builder.label(process, keys[row], columns.string()?);
        }
        Ok(())
    }

    fn take_threads(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        for thread in self.threads_in(columns)? {
            self.builder.thread(thread);
            self.threads += 1;
        }
        Ok(())
    }

    fn threads_in(&mut self, columns: &mut Columns<'_>) -> Result<Vec<Thread>, ImportError> {
        let known = self.processes;
        let rows = self.rows::<Thread>(columns, 4)?;
        let processes = columns.column(rows, |columns| columns.index(known, "processes"))?;
        let tids = columns.column(rows, Columns::small)?;
        let names = columns.column(rows, Columns::string)?;
        let mut threads = Vec::with_capacity(rows);
        for row in 0..rows {
            threads.push(Thread {
                process: ProcessIndex(processes[row]),
                tid: tids[row],
                name: names[row].to_owned(),
                role: columns.code(&ROLES, "thread role")?,
                ..Thread::default()
            });
        }
        Ok(threads)
    }

    fn take_samples(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let known = Known {
            threads: self.threads,
            stacks: self.stacks.len(),
        };
        // Every row takes a byte for its time, its thread and its stack.
        let rows = self.rows::<Sample>(columns, 3)?;
        let samples = samples::read(self.version, columns, rows, known, &mut self.before)?;
        let start = self.samples.len();
        self.samples.extend(samples);
        match self.tags.take() {
            Some(tags) => tags
                .give_to(&mut self.samples[start..], &self.contexts)
                .ok_or_else(|| columns.error("some samples have no event or context")),
            None => Ok(()),
        }
    }

    fn take_events(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        if !self.samples.is_empty() || self.tags.is_some() {
            return Err(columns.error("events come after samples"));
        }
        self.events = tags::read_events(columns)?;
        Ok(())
    }

    fn take_contexts(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let more = tags::read_contexts(columns, &mut self.builder, &mut self.budget)?;
        // The first is the empty one, every time.
        let known = usize::from(!self.contexts.is_empty());
        self.contexts.extend(&more[known..]);
        Ok(())
    }

    /// In a journal, the samples of a block start at a time of their own.
    pub(super) fn restart(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        self.before.restart(columns.number()?);
        Ok(())
    }

    /// In a journal, rows of processes that were read before and differ now.
    pub(super) fn change_processes(
        &mut self,
        columns: &mut Columns<'_>,
    ) -> Result<(), ImportError> {
        let rows = self.changed_rows(columns, self.processes, "processes")?;
        let processes = self.processes_in(columns)?;
        for (row, process) in rows.into_iter().zip(processes) {
            let index = ProcessIndex(row);
            let known = &self.builder.so_far().processes[index.at()];
            let process = Process {
                labels: known.labels.clone(),
                pool_timeline: known.pool_timeline.clone(),
                ..process
            };
            self.builder.set_process(index, process);
        }
        Ok(())
    }

    /// The same for threads.
    pub(super) fn change_threads(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let rows = self.changed_rows(columns, self.threads, "threads")?;
        let threads = self.threads_in(columns)?;
        for (row, thread) in rows.into_iter().zip(threads) {
            let index = ThreadIndex(row);
            let known = &self.builder.so_far().threads[index.at()];
            let thread = Thread {
                loop_timeline: known.loop_timeline.clone(),
                gc_timeline: known.gc_timeline.clone(),
                ..thread
            };
            self.builder.set_thread(index, thread);
        }
        Ok(())
    }

    fn changed_rows(
        &mut self,
        columns: &mut Columns<'_>,
        known: usize,
        table: &str,
    ) -> Result<Vec<u32>, ImportError> {
        let rows = self.rows::<u32>(columns, 1)?;
        columns.column(rows, |columns| columns.index(known, table))
    }

    pub(super) fn has_samples(&self) -> bool {
        !self.samples.is_empty()
    }

    /// How many stacks and threads there are.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.stacks.len(), self.threads)
    }

    pub(super) fn has_processes(&self) -> bool {
        self.processes > 0
    }

    /// Empty tables for what follows in the same journal, which draw from the same budget.
    pub(super) fn afresh(&self) -> Self {
        Self {
            source_bytes: self.source_bytes,
            ..Self::new(self.version, self.budget.clone())
        }
    }

    /// The profile of a journal, whose blocks may overlap in time.
    pub(super) fn into_sorted_profile(mut self) -> Result<Profile, ImportError> {
        self.check_weights()?;
        Sample::sort_by_time(&mut self.samples);
        Ok(self.into_profile())
    }

    fn take_tags(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        if self.contexts.is_empty() {
            self.contexts.push(ContextIndex::NONE);
        }
        self.tags = Some(Tags::read(columns, self.events.len(), self.contexts.len())?);
        Ok(())
    }

    fn take_sources(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let rows = self.rows::<Source>(columns, 2)?;
        let files = columns.column(rows, |columns| columns.index(self.strings.len(), "strings"))?;
        let mut left_out = 0;
        for file in files {
            let file = self.strings[file as usize];
            let text = columns.string()?;
            let fits = text.len() <= SOURCE_BYTES - self.source_bytes;
            if !fits {
                left_out += 1;
            } else if self.source_files.insert(file) {
                self.source_bytes += text.len();
                self.sources.push(Source {
                    file,
                    text: text.to_owned(),
                });
            }
        }
        if left_out > 0 {
            self.notes.remark(format!(
                "{left_out} of {rows} source files were left out: all together may have {} MiB",
                SOURCE_BYTES >> 20
            ));
        }
        Ok(())
    }

    fn note_cut(&mut self, at: u64) {
        let read = self.samples.len() as u64;
        self.notes.remark(match self.announced_samples {
            announced if announced > read => format!(
                "the file is cut off at byte {at}: {read} of {announced} samples could be read"
            ),
            _ => format!("the file is cut off at byte {at}; every sample could be read"),
        });
    }

    /// Every sum of weights of an event is part of one of these, so none of them can overflow.
    fn check_weights(&self) -> Result<(), ImportError> {
        let mut totals = vec![0u64; self.events.len().max(1)];
        for sample in &self.samples {
            let total = &mut totals[sample.event.at()];
            *total = total
                .checked_add(sample.weight)
                .ok_or_else(|| ImportError::BadContent {
                    at: 0,
                    what: samples::TOO_HEAVY.to_owned(),
                })?;
        }
        Ok(())
    }

    fn into_profile(self) -> Profile {
        let mut profile = self.builder.finish(self.about, self.notes);
        profile.events = match self.events.is_empty() {
            true => vec![EventType::default()],
            false => self.events,
        };
        profile.functions = self.functions;
        profile.frames = self.frames;
        profile.stacks = self.stacks;
        profile.samples = self.samples;
        profile.deopt_reasons = self.deopt_reasons;
        profile.generated_places = self.generated_places;
        profile.sources = self.sources;
        profile
    }
}

fn clean(text: &str) -> String {
    printable(text).into_owned()
}
