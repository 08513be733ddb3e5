//! The lines of a log, one after the other: code comes and goes, ticks become samples.

use memchr::memchr;
use nodespy_model::{
    About, FrameIndex, NameSource, Nanoseconds, Notes, Process, ProcessIndex, Profile,
    ProfileBuilder, StackIndex, Thread, ThreadIndex, ThreadRole, Tier, UnnamedFunction, WeightUnit,
};

use super::fields::{Fields, parse_number, unescape};
use super::frames::{Frames, collector_frame, idle_frame};
use super::isolate::{Code, CodeKind, Isolate, Library, Place};
use super::source::{Script, Source};

/// No stack of V8's sampler is deeper than 256; what is deeper is damaged.
const DEEPEST_STACK: usize = 4096;
/// No program has more pieces of code in earnest.
const MOST_PIECES: usize = 64;
/// No list of inlined functions is longer in earnest.
const MOST_INLINED: usize = 1 << 16;

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
    /// Every piece of code of every isolate.
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
    /// The stack of the tick before, outermost first, and where each address led to.
    last: Vec<(u64, StackIndex)>,
    last_generation: u64,
    /// Reused from tick to tick, leaf first.
    addresses: Vec<u64>,
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
    pub(super) fn new() -> Self {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
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
            frames: Frames::default(),
            deopts: Vec::new(),
            notes: Notes::default(),
            ticks: 0,
            end: 0,
            interval_us: 0,
            app: None,
            bad_lines: 0,
            first_bad_line: 0,
            moves_from_nowhere: 0,
            last: Vec::new(),
            last_generation: 0,
            addresses: Vec::new(),
        }
    }

    /// Reads every line. A last line without an end was cut off.
    pub(super) fn read(mut self, bytes: &'a [u8]) -> Read {
        let mut rest = bytes;
        let mut number = 0;
        while let Some(end) = memchr(b'\n', rest) {
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
            self.last.clear();
            self.thread = self.builder.thread(Thread {
                process: self.process,
                tid: self.builder.so_far().threads.len() as u32,
                role: ThreadRole::Worker,
                name: "isolate".to_owned(),
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
        let path = unescape(fields.next()?, self.isolate.has_quotes).into_owned();
        let (start, end) = (fields.number()?, fields.number()?);
        // Memory without a file has its addresses for a name.
        let is_file = path.starts_with('[') || path.contains(['/', '\\']);
        if !is_file || end <= start {
            return Some(());
        }
        // A program with several pieces of code has a line for each, all from its start.
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
        if ends.len() < MOST_PIECES {
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
        let mark = fields.next().unwrap_or_default();
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
            tier: tier_of(mark),
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
            .take(MOST_INLINED)
            .map(|address| {
                parse_number(address).map_or(super::source::UNKNOWN_CODE, |address| {
                    self.isolate.code_of_function(address)
                })
            })
            .collect();
        let source = Source::new(script, positions, calls, functions);
        self.codes[code as usize].source = Some(Box::new(source));
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
        self.addresses.clear();
        if is_external && top_of_stack != 0 {
            // The callback is what runs, wherever in it or below it the program counter is.
            self.addresses.push(top_of_stack);
        } else {
            self.addresses.push(pc);
            if !is_external && top_of_stack != 0 && self.is_function(top_of_stack) {
                // The callee has not made its frame yet, so its caller is not in the stack.
                self.addresses.push(top_of_stack);
            }
        }
        let mut previous = self.addresses[0];
        for field in fields {
            let address = match field {
                [b'+', distance @ ..] => previous.wrapping_add(parse_number(distance)?),
                [b'-', distance @ ..] => previous.wrapping_sub(parse_number(distance)?),
                // `overflow`
                [b'o', ..] => continue,
                absolute => parse_number(absolute)?,
            };
            previous = address;
            if self.addresses.len() < DEEPEST_STACK {
                self.addresses.push(address);
            }
        }
        let stack = self.stack(state);
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
            // V8 14 tells idle in native code apart.
            10 => VmState::Idle,
            number if number == idle => VmState::Idle,
            _ => VmState::Busy,
        }
    }

    /// The stack of `self.addresses`.
    fn stack(&mut self, state: VmState) -> Option<StackIndex> {
        let mut stack = self.stack_of_callers();
        let place = self.isolate.place(self.addresses[0]);
        let is_code = matches!(place, Place::Code(..));
        if state == VmState::Collecting && !is_code {
            let collector = collector_frame(&mut self.builder);
            stack = Some(self.builder.stack(stack, collector));
        }
        stack = self.push_place(stack, place, self.addresses[0], true);
        let pushed = match state {
            VmState::Collecting if is_code => Some(collector_frame(&mut self.builder)),
            VmState::Idle => Some(idle_frame(&mut self.builder)),
            _ => None,
        };
        match pushed {
            Some(frame) => Some(self.builder.stack(stack, frame)),
            None => stack,
        }
    }

    /// The stack without its leaf. Most of it is as it was at the tick before.
    fn stack_of_callers(&mut self) -> Option<StackIndex> {
        if self.last_generation != self.isolate.generation {
            self.last_generation = self.isolate.generation;
            self.last.clear();
        }
        let callers = self.addresses.len() - 1;
        let same = self
            .last
            .iter()
            .zip(self.addresses[1..].iter().rev())
            .take_while(|((known, _), address)| known == *address)
            .count();
        self.last.truncate(same);
        self.count_known(same as u64);
        for position in same..callers {
            let address = self.addresses[callers - position];
            let place = self.isolate.place(address);
            let parent = self.last.last().map(|(_, stack)| *stack);
            if let Some(stack) = self.push_place(parent, place, address, false) {
                self.last.push((address, stack));
            }
        }
        self.last.last().map(|(_, stack)| *stack)
    }

    fn push_place(
        &mut self,
        parent: Option<StackIndex>,
        place: Place,
        address: u64,
        is_leaf: bool,
    ) -> Option<StackIndex> {
        match place {
            Place::Code(..) => self.count_known(1),
            Place::Unknown => self.notes.jit_frames += 1,
            Place::Library(_) => {}
        }
        let frames = self.frames.of_place(
            (place, address, is_leaf),
            &mut self.isolate,
            &mut self.codes,
            &self.libraries,
            &mut self.builder,
        );
        push_frames(&mut self.builder, parent, frames)
    }

    fn count_known(&mut self, frames: u64) {
        self.notes.jit_frames += frames;
        self.notes.jit_named[NameSource::File.at()] += frames;
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
                "{} of the log's moves of code are of code it does not tell of",
                self.moves_from_nowhere
            ));
        }
        let about = About {
            app: self.app.unwrap_or_default(),
            engine: super::ENGINE.to_owned(),
            event: "tick".to_owned(),
            rate_hz: 1_000_000u64
                .checked_div(self.interval_us)
                .and_then(|rate| u32::try_from(rate).ok())
                .unwrap_or(0),
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

fn push_frames(
    builder: &mut ProfileBuilder,
    parent: Option<StackIndex>,
    frames: &[FrameIndex],
) -> Option<StackIndex> {
    frames
        .iter()
        .fold(parent, |parent, frame| Some(builder.stack(parent, *frame)))
}

fn is_event_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_' | b':' | b'.')
}

/// The compiler that V8's mark stands for; `o` before it is on-stack replacement, `'` after it
/// compilation beside the running code.
fn tier_of(mark: &[u8]) -> Tier {
    match mark.strip_prefix(b"o").unwrap_or(mark).first() {
        Some(b'~') => Tier::Interpreted,
        Some(b'^') => Tier::Baseline,
        Some(b'+') => Tier::Maglev,
        Some(b'*') => Tier::Optimized,
        _ => Tier::None,
    }
}
