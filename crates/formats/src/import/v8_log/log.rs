//! The lines of a log, one after the other: code comes and goes, ticks become samples.

use memchr::memchr;
use nodespy_model::{
    About, EventType, FrameIndex, NameSource, Nanoseconds, Notes, Process, ProcessIndex, Profile,
    ProfileBuilder, StackIndex, Thread, ThreadIndex, ThreadRole, Tier, UnnamedFunction, WeightUnit,
    cut,
};

use crate::budget::{Meter, left_out};

use super::callers::{Callers, PlaceCount};
use super::fields::{Fields, parse_number, unescape};
use super::frames::{FrameList, Frames, collector_frame, idle_frame};
use super::isolate::{Code, CodeKind, Isolate, Library, Place, PlaceKind};
use super::source::{Script, Source};

/// No real program has more code objects.
const MAX_PIECES: usize = 64;
/// No list of inlined functions is longer in earnest.
const MAX_INLINED: usize = 1 << 16;

/// What V8 was doing, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VmState {
    Busy,
    Collecting,
    Idle,
}

/// A log while it is read.
#[derive(Debug)]
pub(super) struct Log<'a> {
    builder: ProfileBuilder,
    process: ProcessIndex,
    thread: ThreadIndex,
    isolate: Isolate<'a>,
    /// Every code object of every isolate.
    codes: Vec<Code<'a>>,
    libraries: Vec<Library>,
    frames: Frames,
    deopts: Vec<(u32, &'a [u8])>,
    notes: Notes,
    ticks: u64,
    end: Nanoseconds,
    interval_us: u64,
    app: Option<String>,
    /// How many lines make no sense, and the first of them.
    bad_lines: u64,
    first_bad_line: u64,
    moves_from_nowhere: u64,
    /// The callers of the tick before, and all its frames.
    callers: Callers<'a>,
    path: Vec<FrameIndex>,
    /// The stack up to each of these frames.
    stacks: Vec<StackIndex>,
    /// How often callers had been forgotten when that tick was taken.
    forgotten: u64,
}

/// A log that was read to its end.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) profile: Profile,
    pub(super) libraries: Vec<Library>,
    pub(super) unnamed: Vec<UnnamedFunction>,
    pub(super) ticks: u64,
}

impl<'a> Log<'a> {
    pub(super) fn new(functions_only: bool) -> Self {
        let mut builder = ProfileBuilder::new(EventType::new("tick", WeightUnit::Samples));
        let process = builder.process(Process {
            name: "node".to_owned(),
            ..Process::default()
        });
        let thread = builder.thread(Thread {
            process,
            role: ThreadRole::Main,
            ..Thread::default()
        });
        Self {
            builder,
            process,
            thread,
            isolate: Isolate::default(),
            codes: Vec::new(),
            libraries: Vec::new(),
            frames: Frames::new(functions_only),
            deopts: Vec::new(),
            notes: Notes::default(),
            ticks: 0,
            end: 0,
            interval_us: 0,
            app: None,
            bad_lines: 0,
            first_bad_line: 0,
            moves_from_nowhere: 0,
            callers: Callers::default(),
            path: Vec::new(),
            stacks: Vec::new(),
            forgotten: 0,
        }
    }

    /// Reads every line. A last line without an end was cut off.
    pub(super) fn read(mut self, bytes: &'a [u8], meter: &Meter) -> Read {
        let mut rest = bytes;
        let mut number = 0;
        while let Some(end) = memchr(b'\n', rest) {
            if let Err(excess) = meter.row_into(&self.builder) {
                self.notes
                    .remark(left_out(format_args!("line {number}"), excess));
                return self.finish();
            }
            number += 1;
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            rest = &rest[end + 1..];
            if self.take_line(line).is_none() {
                self.bad_lines += 1;
                if self.bad_lines == 1 {
                    self.first_bad_line = number;
                }
            }
        }
        if !rest.is_empty() && !rest.starts_with(b"profiler,") {
            self.notes.remark(format!(
                "the log is cut off in line {}, which is left out",
                number + 1
            ));
        }
        self.finish()
    }

    /// Takes a line; none if it is damaged.
    fn take_line(&mut self, line: &'a [u8]) -> Option<()> {
        let mut fields = Fields::new(line, self.isolate.has_quotes);
        let event = fields.next()?;
        match event {
            b"tick" => self.take_tick(fields),
            b"code-creation" => self.take_code(fields),
            b"code-source-info" => self.take_source(fields),
            b"code-move" | b"code-moved" => {
                let (from, to) = (fields.number()?, fields.number()?);
                self.moves_from_nowhere += u64::from(!self.isolate.move_code(from, to));
                Some(())
            }
            b"code-delete" => {
                self.isolate.remove_code(fields.number()?);
                Some(())
            }
            b"sfi-move" | b"function-move" => {
                let (from, to) = (fields.number()?, fields.number()?);
                self.isolate.move_function(from, to);
                Some(())
            }
            b"code-deopt" => self.take_deopt(fields),
            b"script-source" => self.take_script(fields),
            b"shared-library" => self.take_library(line, fields),
            b"new" if fields.next() == Some(b"CodeRange") => {
                self.isolate.set_code_range(fields.number()?);
                Some(())
            }
            b"profiler" => {
                if matches!(fields.next()?, b"begin" | b"\"begin\"") {
                    self.interval_us = fields.number().unwrap_or(0);
                }
                Some(())
            }
            b"v8-version" => {
                self.take_version(fields);
                Some(())
            }
            b"v8-platform" => Some(()),
            // What is not about code or time, and an empty line, is passed over.
            _ => event
                .iter()
                .all(|byte| is_event_letter(*byte))
                .then_some(()),
        }
    }

    /// Every log starts so: one that was written after another into the same file is of another
    /// isolate.
    fn take_version(&mut self, mut fields: Fields<'a>) {
        if self.isolate.v8_version.is_some() {
            self.isolate = Isolate::default();
            self.callers.clear();
            self.thread = self.builder.thread(Thread {
                process: self.process,
                tid: self.builder.so_far().threads.len() as u32,
                role: ThreadRole::Worker,
                name: "isolate".to_owned(),
                ..Thread::default()
            });
        }
        let version = (fields.number().unwrap_or(0), fields.number().unwrap_or(0));
        self.isolate.v8_version = Some(version);
    }

    fn take_library(&mut self, line: &'a [u8], mut fields: Fields<'a>) -> Option<()> {
        if !self.isolate.has_quotes && line.starts_with(b"shared-library,\"") {
            self.isolate.has_quotes = true;
            fields = Fields::new(line, true);
            fields.next()?;
        }
        let path = cut(&unescape(fields.next()?, self.isolate.has_quotes)).to_owned();
        let (start, end) = (fields.number()?, fields.number()?);
        // Memory without a file has its addresses for a name.
        let is_file = path.starts_with('[') || path.contains(['/', '\\']);
        if !is_file || end <= start {
            return Some(());
        }
        // A program with several code segments has a line for each, all from its start.
        let is_same = |library: &Library| library.start == start && library.path == path;
        let id = match self.libraries.last().is_some_and(is_same) {
            true => self.libraries.len() - 1,
            false => {
                self.libraries.push(Library {
                    path,
                    start,
                    ends: Vec::new(),
                });
                self.libraries.len() - 1
            }
        };
        let ends = &mut self.libraries[id].ends;
        if ends.len() < MAX_PIECES {
            ends.push(end);
        }
        let end = ends.iter().copied().max().unwrap_or(end);
        self.isolate.add_library(id as u32, start, end);
        Some(())
    }

    fn take_code(&mut self, mut fields: Fields<'a>) -> Option<()> {
        let tag = fields.next()?;
        fields.next()?;
        let mut address = fields.next()?;
        // V8 5.8 has no time here.
        if !address.starts_with(b"0x") {
            address = fields.next()?;
        }
        let start = parse_number(address)?;
        let size = fields.number()?;
        let name = fields.next()?;
        let function = fields.next().and_then(parse_number);
        let mark = std::str::from_utf8(fields.next().unwrap_or_default());
        let kind = match tag {
            b"RegExp" => CodeKind::RegExp,
            b"BytecodeHandler" => CodeKind::BytecodeHandler,
            b"Script" if function.is_some() && !name.contains(&b' ') => CodeKind::Script,
            _ if function.is_some() => CodeKind::Function,
            b"LazyCompile" | b"Function" | b"Script" | b"Eval" | b"JS" => CodeKind::Function,
            _ => CodeKind::Builtin,
        };
        let id = u32::try_from(self.codes.len()).ok()?;
        self.codes.push(Code {
            kind,
            tier: Tier::split_mark(mark.unwrap_or_default()).0,
            name,
            source: None,
        });
        self.isolate.add_code(id, kind, (start, size), function);
        Some(())
    }

    fn take_source(&mut self, mut fields: Fields<'a>) -> Option<()> {
        let start = fields.number()?;
        let script = u32::try_from(fields.number()?).ok()?;
        fields.next()?;
        fields.next()?;
        let positions = fields.next()?;
        let calls = fields.next().unwrap_or_default();
        let functions = fields.next().unwrap_or_default();
        let code = self.isolate.code_starting_at(start)?;
        let functions = functions
            .split(|byte| *byte == b'S')
            .skip(1)
            .take(MAX_INLINED)
            .map(|address| {
                parse_number(address).map_or(super::source::UNKNOWN_CODE, |address| {
                    self.isolate.code_of_function(address)
                })
            })
            .collect();
        let source = Source::new(script, positions, calls, functions);
        self.codes[code as usize].source = Some(Box::new(source));
        self.isolate.known.forget_code(code);
        Some(())
    }

    fn take_deopt(&mut self, mut fields: Fields<'a>) -> Option<()> {
        let code = fields.by_ref().nth(2).and_then(parse_number)?;
        // After it: which inlined function, position, how, position as text.
        let reason = fields.nth(4)?;
        if let Some(code) = self.isolate.code_starting_at(code) {
            self.deopts.push((code, reason));
        }
        Some(())
    }

    fn take_script(&mut self, mut fields: Fields<'a>) -> Option<()> {
        let id = u32::try_from(fields.number()?).ok()?;
        let url = fields.next()?;
        let source = fields.next().unwrap_or_default();
        self.isolate.scripts.insert(id, Script::new(source));
        let is_application = url.starts_with(b"/") || url.starts_with(b"file:");
        if self.app.is_none() && is_application {
            let url = unescape(url, self.isolate.has_quotes);
            self.app = url.rsplit('/').next().map(str::to_owned);
        }
        Some(())
    }

    fn take_tick(&mut self, mut fields: Fields<'a>) -> Option<()> {
        let pc = fields.number()?;
        let time_us = fields.number()?;
        let is_external = fields.number()? != 0;
        let top_of_stack = fields.number()?;
        let state = self.vm_state(fields.number()?);
        let (leaf, unlisted_caller) = match (is_external, top_of_stack) {
            (_, 0) => (pc, None),
            // The callback is what runs, wherever in it or below it the program counter is.
            (true, callback) => (callback, None),
            // The callee has not made its frame yet, so its caller is not in the stack.
            (false, caller) => (pc, Some(caller).filter(|caller| self.is_function(*caller))),
        };
        if self.forgotten != self.isolate.known.forgotten {
            self.forgotten = self.isolate.known.forgotten;
            self.callers.clear();
        }
        self.callers.read(fields.rest(), leaf)?;
        let stack = self.take_stack(leaf, unlisted_caller, state);
        let time = time_us.saturating_mul(1000);
        self.end = self.end.max(time);
        self.ticks += 1;
        self.builder.sample(time, self.thread, stack, 1);
        Some(())
    }

    /// Whether an address is in code of a function.
    fn is_function(&self, address: u64) -> bool {
        match self.isolate.place(address) {
            Place::Code(code, _) => matches!(
                self.codes[code as usize].kind,
                CodeKind::Function | CodeKind::Script
            ),
            _ => false,
        }
    }

    /// What a number in a tick means, which changed with V8 6.2 (parser and bytecode compiler
    /// came) and 7.2 (waiting in Atomics came).
    fn vm_state(&self, number: u64) -> VmState {
        let idle = match self.isolate.v8_version {
            Some(version) if version < (6, 2) => 5,
            Some(version) if version < (7, 2) => 7,
            _ => 8,
        };
        match number {
            1 => VmState::Collecting,
            // V8 14 distinguishes idle in native code.
            10 => VmState::Idle,
            number if number == idle => VmState::Idle,
            _ => VmState::Busy,
        }
    }

    /// The stack of a tick whose callers are read.
    fn take_stack(
        &mut self,
        leaf: u64,
        unlisted_caller: Option<u64>,
        state: VmState,
    ) -> Option<StackIndex> {
        let shared = self.callers.list.last().map_or(0, |caller| caller.frames);
        self.path.truncate(shared);
        self.stacks.truncate(shared);
        let mut count = self.push_callers();
        if let Some(caller) = unlisted_caller {
            let frames = self.known_caller(caller);
            self.frames.extend(&mut self.path, frames);
            count.add(frames.kind);
        }
        count.add(self.push_leaf(leaf, state));
        self.notes.jit_frames += count.named + count.unknown;
        self.notes.jit_named[NameSource::File.at()] += count.named;
        for frame in &self.path[shared..] {
            let caller = self.stacks.last().copied();
            self.stacks.push(self.builder.stack(caller, *frame));
        }
        self.stacks.last().copied()
    }

    /// Adds the frames of callers that the tick before did not have.
    fn push_callers(&mut self) -> PlaceCount {
        let last = self.callers.list.last();
        let mut count = last.map_or(PlaceCount::default(), |caller| caller.count);
        for at in 0..self.callers.new.len() {
            let frames = self.known_caller(self.callers.new[at].address);
            self.frames.extend(&mut self.path, frames);
            count.add(frames.kind);
            self.callers.push(at, self.path.len(), count);
        }
        count
    }

    /// The frames that the address of a caller stands for.
    fn known_caller(&mut self, address: u64) -> FrameList {
        if let Some(known) = self.isolate.known.get(address) {
            return known;
        }
        let (place, is_outside) = self.isolate.place_and_outside(address);
        let frames = self.frames_of(place, address, false);
        let known = &mut self.isolate.known;
        known.insert(address, place, frames, is_outside);
        frames
    }

    fn push_leaf(&mut self, address: u64, state: VmState) -> PlaceKind {
        let place = self.isolate.place(address);
        let is_code = matches!(place, Place::Code(..));
        if state == VmState::Collecting && !is_code {
            self.path.push(collector_frame(&mut self.builder));
        }
        let frames = self.frames_of(place, address, true);
        self.frames.extend(&mut self.path, frames);
        match state {
            VmState::Collecting if is_code => self.path.push(collector_frame(&mut self.builder)),
            VmState::Idle => self.path.push(idle_frame(&mut self.builder)),
            _ => {}
        }
        frames.kind
    }

    fn frames_of(&mut self, place: Place, address: u64, is_leaf: bool) -> FrameList {
        self.frames.of_place(
            (place, address, is_leaf),
            &mut self.isolate,
            &mut self.codes,
            &self.libraries,
            &mut self.builder,
        )
    }

    fn finish(mut self) -> Read {
        for (code, reason) in std::mem::take(&mut self.deopts) {
            if let Some(function) = self.frames.function_seen(code) {
                let reason = unescape(reason, false);
                self.builder.deopt_reason(function, &reason);
            }
        }
        if self.bad_lines > 0 {
            let (count, first) = (self.bad_lines, self.first_bad_line);
            self.notes.remark(match count {
                1 => format!("line {first} of the log makes no sense and is left out"),
                _ => format!(
                    "{count} lines of the log make no sense and are left out; line {first} is the first"
                ),
            });
        }
        if self.moves_from_nowhere > 0 {
            self.notes.remark(format!(
                "{} of the log's moves of code are of code it does not record",
                self.moves_from_nowhere
            ));
        }
        let rate_hz = 1_000_000u64.checked_div(self.interval_us);
        let rate_hz = rate_hz.and_then(|rate| u32::try_from(rate).ok());
        self.builder.set_rate(rate_hz.unwrap_or(0));
        let about = About {
            app: self.app.unwrap_or_default(),
            engine: super::ENGINE.to_owned(),
            duration: self.end,
            ..About::default()
        };
        Read {
            profile: self.builder.finish(about, self.notes),
            libraries: self.libraries,
            unnamed: self.frames.unnamed,
            ticks: self.ticks,
        }
    }
}

fn is_event_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_' | b':' | b'.')
}
