//! `perf script` text, with the threads, processors and times that folding throws away.
//!
//! The weight of a sample is its period, or one where all periods of its event are equal, as in the
//! perf.data it was printed from; text that nodespy wrote has the weights as periods and says so.

use std::borrow::Cow;

use nodespy_model::classify::{category_of_native, role_of_name};
use nodespy_model::{
    About, Category, Contents, Cpu, EventIndex, EventType, FastMap, FrameIndex, FrameKind,
    FrameSpec, FunctionSpec, Notes, Process, ProcessIndex, ProfileBuilder, Recording, Sample,
    StackIndex, Thread, ThreadIndex, ThreadRole, WeightUnit,
};

use super::{ImportError, ImportOptions, Importer, TextFormat};
use crate::budget::{Excess, Meter, left_out};
use crate::detect::{Confidence, head};
use crate::export::event_word;
use crate::frame_name::parse_jit_frame;
use crate::input::Input;
use crate::perf_script::frame::{FrameLine, file_name};
use crate::perf_script::header::{Details, Header, is_space, parse_number};
use crate::perf_script::walk::{Reader, Start, Walk};
use crate::recorded::{ProcessLabels, Recorded};

/// Comments further on are not looked at: nodespy writes some 1 KiB for a process.
const MAX_COMMENTS_BYTES: usize = 4 << 20;

/// The importer of `perf script` text.
pub(crate) struct PerfScript;

impl Importer for PerfScript {
    fn name(&self) -> &'static str {
        "perf-script"
    }

    fn text_format(&self) -> Option<TextFormat> {
        Some(TextFormat::PerfScript)
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        let after_comments = head(&bytes[comments_of(bytes).len()..]);
        let lines = after_comments.split(|byte| *byte == b'\n').take(2000);
        let mut is_header = false;
        let mut headers = 0;
        for line in lines {
            let line = line.trim_ascii_end();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            if is_header && FrameLine::parse(line).is_some() {
                return Confidence::Sure;
            }
            let header = Header::parse(line).map(|header| Details::of(header.rest));
            is_header = header.is_some_and(|details| details.event.is_some());
            match header {
                Some(details) if details.frame.is_some() => return Confidence::Sure,
                Some(details) if details.time.is_some() && is_header => headers += 1,
                Some(_) => {}
                None if headers == 0 => return Confidence::No,
                None => {}
            }
        }
        match headers {
            0 => Confidence::No,
            _ => Confidence::Likely,
        }
    }

    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        let meter = input.budget(&options.limits).meter();
        let mut script = Script::new(&input, &meter);
        Walk::new().text(&input, &mut script);
        script.finish()
    }
}

/// The sample that is being read.
#[derive(Clone, Copy, Default)]
struct Current {
    time: Option<u64>,
    thread: ThreadIndex,
    cpu: Option<Cpu>,
    event: EventIndex,
    weight: u64,
}

/// What is known so far.
struct Script<'a> {
    text: &'a [u8],
    meter: &'a Meter,
    /// Where reading stopped before the end, and why.
    stopped: Option<(usize, Excess)>,
    /// What nodespy itself wrote into the comments.
    recorded: Option<Recorded>,
    process_names: FastMap<u32, String>,
    has_source_lines: bool,
    builder: ProfileBuilder,
    processes: FastMap<u32, ProcessIndex>,
    threads: FastMap<(u32, u32), ThreadIndex>,
    names: Vec<String>,
    events: FastMap<&'a [u8], EventIndex>,
    /// Samples of events that there is no room for.
    over_limit: u64,
    current: Current,
    next: Current,
    next_name: &'a [u8],
    /// The stacks of the sample before, from root to leaf.
    stacks: Vec<StackIndex>,
    samples: Vec<Sample>,
    without_time: u64,
    earliest: u64,
    latest: u64,
    odd_lines: u64,
    first_odd: Option<(u64, String)>,
}

impl<'a> Script<'a> {
    fn new(text: &'a [u8], meter: &'a Meter) -> Self {
        let comments = Comments::of(text);
        let recorded = comments.recorded.as_ref();
        let events = recorded.map_or_else(Vec::new, |recorded| recorded.events.clone());
        Self {
            text,
            meter,
            stopped: None,
            recorded: comments.recorded,
            process_names: comments.process_names,
            has_source_lines: has_source_lines(head(text)),
            builder: ProfileBuilder::with_events(events),
            processes: FastMap::default(),
            threads: FastMap::default(),
            names: Vec::new(),
            events: FastMap::default(),
            over_limit: 0,
            current: Current::default(),
            next: Current::default(),
            next_name: b"",
            stacks: Vec::new(),
            samples: Vec::new(),
            without_time: 0,
            earliest: u64::MAX,
            latest: 0,
            odd_lines: 0,
            first_odd: None,
        }
    }

    /// The event of a sample, which text need not name.
    fn event_of(&mut self, name: Option<&'a [u8]>) -> Option<EventIndex> {
        match &self.recorded {
            // Words that nodespy wrote: without what would end them.
            Some(recorded) => {
                let mut events = recorded.events.iter();
                let name = name.unwrap_or(b"");
                let known = events.position(|event| event_word(event).as_bytes() == name);
                Some(EventIndex(known.unwrap_or(0) as u16))
            }
            None => self.event(name.unwrap_or(b"")),
        }
    }

    /// The event of this name; none when there are too many others.
    fn event(&mut self, name: &'a [u8]) -> Option<EventIndex> {
        if let Some(known) = self.events.get(name) {
            return Some(*known);
        }
        let mut event = EventType::new(&lossy(name), WeightUnit::Events);
        if event.is_clock() {
            event.unit = WeightUnit::Nanoseconds;
        }
        let event = self.builder.event(&event)?;
        self.events.insert(name, event);
        Some(event)
    }

    fn thread(&mut self, header: &Header<'_>) -> ThreadIndex {
        let number = |digits| {
            parse_number(digits).map_or(0, |number| u32::try_from(number).unwrap_or(u32::MAX))
        };
        // Without a process's number all threads are in one that nothing is known of.
        let pid = header.pid.map_or(0, number);
        let tid = number(header.tid);
        if let Some(thread) = self.threads.get(&(pid, tid)) {
            return *thread;
        }
        let process = *self.processes.entry(pid).or_insert_with(|| {
            self.builder.process(Process {
                pid,
                name: self.process_names.get(&pid).cloned().unwrap_or_default(),
                ..Process::default()
            })
        });
        let thread = self.builder.thread(Thread {
            process,
            tid,
            ..Thread::default()
        });
        self.threads.insert((pid, tid), thread);
        self.names.push(String::new());
        thread
    }

    fn finish(mut self) -> Result<Recording, ImportError> {
        if self.samples.is_empty() {
            return Err(self.nothing());
        }
        let mut notes = self.notes();
        let is_ours = self.recorded.is_some();
        let start = match is_ours || self.earliest == u64::MAX {
            true => 0,
            false => self.earliest,
        };
        for sample in std::mem::take(&mut self.samples) {
            self.builder.add_sample(Sample {
                time: sample.time.saturating_sub(start),
                ..sample
            });
        }
        let mut about = About {
            engine: "perf script".to_owned(),
            duration: self.latest.saturating_sub(start),
            ..About::default()
        };
        let header = Comments::of(self.text);
        about.host = header.host;
        let mut labels = ProcessLabels::default();
        if let Some(recorded) = self.recorded.take() {
            labels = recorded.labels;
            about = About {
                duration: about.duration,
                ..recorded.about
            };
            let said = std::mem::replace(&mut notes, recorded.notes);
            notes.add_sentences(&said);
        }
        let mut profile = self.builder.finish(about.clone(), notes.clone());
        if !is_ours {
            for event in &mut profile.events {
                *event = std::mem::take(event).at_rate(header.rate_hz);
            }
            profile.put_first(profile.main_event());
            profile.count_equal_periods();
        }
        labels.give_to(&mut profile.processes);
        for (thread, name) in profile.threads.iter_mut().zip(&self.names) {
            let process = &mut profile.processes[thread.process.at()];
            thread.name = nodespy_model::printable(name).into_owned();
            thread.role = match role_of_name(&thread.name) {
                ThreadRole::Other if thread.tid == process.pid => ThreadRole::Main,
                role => role,
            };
            let is_main = thread.tid == process.pid && process.pid != 0;
            if process.name.is_empty() && is_main {
                process.name = thread.name.clone();
            }
        }
        Ok(Recording {
            about,
            notes,
            contents: Contents::Named(Box::new(profile)),
            ..Recording::default()
        })
    }

    fn nothing(&self) -> ImportError {
        match &self.first_odd {
            Some((line, found)) => ImportError::BadLine {
                line: *line,
                found: found.clone(),
            },
            None => ImportError::NoStacks,
        }
    }

    fn notes(&self) -> Notes {
        let mut notes = Notes::default();
        if let Some((samples, excess)) = self.stopped {
            notes.remark(left_out(format_args!("sample {samples}"), excess));
        }
        if self.over_limit > 0 {
            notes.remark(format!(
                "{} samples are of more events than are read and were left out",
                self.over_limit
            ));
        }
        if let Some((line, _)) = &self.first_odd {
            notes.remark(format!(
                "{} lines are not perf script text and were left out, the first is line {line}",
                self.odd_lines
            ));
        }
        if self.without_time > 0 {
            notes.remark(format!("{} samples have no time", self.without_time));
        }
        let end = self.text.len().saturating_sub(2);
        if self.recorded.is_none() && !self.text[end..].ends_with(b"\n\n") {
            notes.remark("the text does not end with an empty line: the last stack may be cut off");
        }
        notes
    }
}

impl<'a> Reader<'a> for Script<'a> {
    fn start(&mut self, line: &'a [u8], _is_indented: bool) -> Start<'a> {
        let Some(header) = Header::parse(line) else {
            return Start::No;
        };
        if self.stopped.is_some() {
            return Start::LeftOut;
        }
        if let Err(excess) = self.meter.row_into(&self.builder) {
            self.stopped = Some((self.samples.len(), excess));
            return Start::LeftOut;
        }
        let details = Details::of(header.rest);
        let Some(event) = self.event_of(details.event) else {
            self.over_limit += 1;
            return Start::LeftOut;
        };
        self.next = Current {
            time: details.time,
            thread: self.thread(&header),
            cpu: details.cpu.and_then(Cpu::new),
            event,
            weight: details.period.unwrap_or(1),
        };
        self.next_name = header.comm;
        details.frame.map_or(Start::Sample, Start::Whole)
    }

    fn begin(&mut self) {
        self.current = self.next;
        // A program gets its name when it starts another; the last one stays.
        let name = &mut self.names[self.current.thread.at()];
        if name.as_bytes() != self.next_name {
            *name = lossy(self.next_name).into_owned();
        }
    }

    fn frames(&mut self, lines: &'a [u8], frames: &mut Vec<u32>) -> bool {
        let mut lines = lines.split(|byte| *byte == b'\n');
        let Some(frame) = lines.next().and_then(FrameLine::parse) else {
            return false;
        };
        let name = lossy(frame.name_without_offset().0);
        let place = lines.next().and_then(source_line);
        let module = lossy(frame.module);
        if name.contains("->") && frame.is_jit() {
            // What Java's compiler inlined, as `outer->inner`.
            for (position, part) in name.split("->").enumerate() {
                let spec = spec_of(&frame, part, &module, None);
                frames.push(self.intern(FrameSpec {
                    kind: FrameKind::inlined_if(position > 0),
                    ..spec
                }));
            }
        } else {
            let spec = spec_of(&frame, &name, &module, place);
            frames.push(self.intern(spec));
        }
        true
    }

    fn continuation(&self, _: &'a [u8], following: &'a [u8]) -> usize {
        if !self.has_source_lines {
            return 0;
        }
        let end = memchr::memchr(b'\n', following).unwrap_or(following.len());
        let line = &following[..end];
        match is_source_line(line) {
            true => (end + 1).min(following.len()),
            false => 0,
        }
    }

    fn sample(&mut self, path: &[u32], same: usize) {
        self.stacks.truncate(same);
        for frame in &path[self.stacks.len()..] {
            let parent = self.stacks.last().copied();
            self.stacks
                .push(self.builder.stack(parent, FrameIndex(*frame)));
        }
        match self.current.time {
            Some(time) => {
                self.earliest = self.earliest.min(time);
                self.latest = self.latest.max(time);
            }
            None => self.without_time += 1,
        }
        self.samples.push(Sample {
            time: self.current.time.unwrap_or(0),
            weight: self.current.weight,
            thread: self.current.thread,
            stack: self.stacks.last().copied(),
            event: self.current.event,
            cpu: self.current.cpu,
            ..Sample::default()
        });
    }

    fn odd_line(&mut self, line: &'a [u8], at: usize) {
        self.odd_lines += 1;
        let text = self.text;
        self.first_odd.get_or_insert_with(|| {
            let before = memchr::memchr_iter(b'\n', &text[..at.min(text.len())]).count();
            let start = &line[..line.len().min(60)];
            (before as u64 + 1, lossy(start).into_owned())
        });
    }

    fn ends_at_next_start(&self) -> bool {
        true
    }

    fn keeps_unfinished(&self) -> bool {
        true
    }
}

impl Script<'_> {
    fn intern(&mut self, spec: FrameSpec<'_>) -> u32 {
        self.builder.frame(spec).0
    }
}

/// The frame of a line, by its name and the file it is in.
fn spec_of<'n>(
    frame: &FrameLine<'_>,
    name: &'n str,
    module: &'n str,
    place: Option<(&'n str, u32)>,
) -> FrameSpec<'n> {
    let is_unknown = matches!(name, "" | "[unknown]");
    if frame.is_jit() && !is_unknown {
        return parse_jit_frame(name);
    }
    let file = match module {
        "[unknown]" | "inlined" => "",
        module => module,
    };
    let (file, line) = place.unwrap_or((file, 0));
    FrameSpec {
        function: FunctionSpec {
            name: if is_unknown { "[unknown]" } else { name },
            file,
            category: match is_unknown {
                _ if is_kernel(frame) => Category::Kernel,
                true => Category::Unknown,
                false => category_of_native(name),
            },
            ..FunctionSpec::default()
        },
        line,
        kind: FrameKind::inlined_if(module == "inlined"),
        ..FrameSpec::default()
    }
}

/// Memory that has no file is in brackets, like the kernel's modules.
fn is_kernel(frame: &FrameLine<'_>) -> bool {
    let is_memory = matches!(frame.module, b"[vdso]" | b"[heap]" | b"[stack]")
        || frame.module.starts_with(b"[anon");
    frame.is_kernel() && !is_memory
}

fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Whether frames are followed by lines with the source line.
fn has_source_lines(head: &[u8]) -> bool {
    let mut is_frame = false;
    let mut lines = head.split(|byte| *byte == b'\n');
    lines.any(|line| {
        let is_source = is_frame && is_source_line(line);
        is_frame = FrameLine::parse(line).is_some();
        is_source
    })
}

/// `  file.c:137` or `  libc.so[27b25]`.
fn is_source_line(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    line.first().is_some_and(|byte| is_space(*byte))
        && !text.is_empty()
        && !text.ends_with(b")")
        && (source_line(line).is_some() || text.ends_with(b"]"))
}

/// The file and line of `  file.c:137`.
fn source_line(line: &[u8]) -> Option<(&str, u32)> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let (file, line) = text.rsplit_once(':')?;
    let line = line.parse().ok().filter(|line| *line > 0)?;
    let file = std::str::from_utf8(file_name(file.as_bytes())).ok()?;
    (!file.is_empty() && !file.contains(char::is_whitespace)).then_some((file, line))
}

/// The comments at the start of a text, not endlessly many.
fn comments_of(text: &[u8]) -> &[u8] {
    let start = &text[..text.len().min(MAX_COMMENTS_BYTES)];
    let comments = start
        .split_inclusive(|byte| *byte == b'\n')
        .take_while(|line| line.starts_with(b"#"));
    &start[..comments.map(<[u8]>::len).sum()]
}

/// What the comments at the start of a text hold.
#[derive(Default)]
struct Comments {
    host: String,
    rate_hz: u32,
    recorded: Option<Recorded>,
    process_names: FastMap<u32, String>,
}

impl Comments {
    fn of(text: &[u8]) -> Self {
        let mut comments = Self::default();
        let lines: Vec<Cow<'_, str>> = comments_of(text)
            .split(|byte| *byte == b'\n')
            .filter_map(|line| Some(lossy(line.strip_prefix(b"#")?.trim_ascii())))
            .collect();
        for line in &lines {
            let (key, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.trim();
            match key.trim() {
                "hostname" => comments.host = value.to_owned(),
                "event" => {
                    let rate = value.split_once("sample_freq } = ").map(|(_, rest)| rest);
                    let digits = rate.and_then(|rest| rest.split(',').next());
                    let rate = digits.and_then(|digits| digits.trim().parse().ok());
                    comments.rate_hz = rate.unwrap_or(comments.rate_hz);
                }
                key => {
                    if let Some(pid) = key.strip_prefix("process ")
                        && let Ok(pid) = pid.parse()
                    {
                        comments.process_names.insert(pid, value.to_owned());
                    }
                }
            }
        }
        comments.recorded = Recorded::from_lines(lines.iter().map(|line| &**line));
        comments
    }
}
