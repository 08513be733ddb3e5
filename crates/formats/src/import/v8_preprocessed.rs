//! The JSON that `node --prof-process --preprocess` writes of a V8 log, for 0x and flamebearer.
//!
//! Code is listed first, then ticks as pairs of code and offset, leaf first; -1 is unknown code.
//! Positions and sources are passed over: lines being run are in the log itself, which nodespy
//! reads too.

use nodespy_model::classify::category_of_native;
use nodespy_model::{
    About, Category, Contents, EventType, Frame, FrameIndex, FrameKind, FrameSpec, FunctionSpec,
    NameSource, Notes, Process, ProfileBuilder, Recording, StackIndex, Thread, ThreadIndex,
    ThreadRole, Tier, WeightUnit,
};

use super::v8_log::{CodeKind, ENGINE, collector_frame, function_of_code, idle_frame};
use super::{ImportError, ImportOptions, Importer};
use crate::detect::{Confidence, ends_contain, head};
use crate::input::Input;
use crate::json::{JsonError, Kind, Reader};
use crate::module_name::name_in_module;

/// The numbers of V8's states since V8 7.2.
const STATE_GC: i64 = 1;
const STATES_IDLE: [i64; 2] = [8, 10];

/// The importer of preprocessed V8 logs.
pub(crate) struct V8Preprocessed;

impl Importer for V8Preprocessed {
    fn name(&self) -> &'static str {
        "v8-preprocessed"
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        let mut reader = Reader::new(head(bytes));
        let first = reader.enter_object().and_then(|()| reader.key());
        let starts_with_code = matches!(&first, Ok(Some(key)) if key == "code");
        let has = |key: &str| ends_contain(bytes, key.as_bytes());
        match starts_with_code && has("\"type\"") {
            true if has("\"ticks\"") || has("\"scripts\"") => Confidence::Sure,
            true => Confidence::Likely,
            false => Confidence::No,
        }
    }

    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        let meter = input.budget(&options.limits).meter();
        let mut file = File::new();
        let read = file.read(&mut Reader::metered(&input, &meter));
        if file.builder.so_far().samples.is_empty() {
            return Err(match read {
                Err(error) => error.into(),
                Ok(()) => ImportError::NoStacks,
            });
        }
        if let Err(error) = read {
            file.notes
                .remark(format!("{error}; what comes before it was read"));
        }
        Ok(file.finish())
    }
}

/// One code of the file.
#[derive(Debug, Clone, Copy)]
enum Code {
    Frame(FrameIndex),
    /// A library, by the string of its path.
    Library(nodespy_model::StringIndex),
}

struct File {
    builder: ProfileBuilder,
    thread: ThreadIndex,
    codes: Vec<Code>,
    notes: Notes,
    end: u64,
    stack: Vec<(i64, u64)>,
}

impl File {
    fn new() -> Self {
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
            thread,
            codes: Vec::new(),
            notes: Notes::default(),
            end: 0,
            stack: Vec::new(),
        }
    }

    /// Reads as far as the file goes.
    fn read<'a>(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        reader.enter_object()?;
        // Ticks name code by its number, so they wait for it wherever it comes.
        let mut ticks = None;
        while let Some(key) = reader.key()? {
            match (&*key, reader.kind()?) {
                ("code", Kind::Array) if self.codes.is_empty() => self.read_codes(reader)?,
                ("ticks", Kind::Array) if !self.codes.is_empty() => self.read_ticks(reader)?,
                ("ticks", Kind::Array) => ticks = Some(reader.raw()?),
                _ => reader.skip()?,
            }
        }
        match ticks {
            Some(ticks) => self.read_ticks(&mut reader.part(ticks)),
            None => Ok(()),
        }
    }

    fn read_codes(&mut self, reader: &mut Reader<'_>) -> Result<(), JsonError> {
        reader.enter_array()?;
        while reader.element()? {
            if reader.kind()? != Kind::Object {
                reader.skip()?;
                let unknown = self.unknown();
                self.codes.push(Code::Frame(unknown));
                continue;
            }
            let (mut name, mut kind_of_code, mut kind, mut reason) = Default::default();
            reader.enter_object()?;
            while let Some(key) = reader.key()? {
                match (&*key, reader.kind()?) {
                    ("name", Kind::String) => name = reader.string()?,
                    ("type", Kind::String) => kind_of_code = reader.string()?,
                    ("kind", Kind::String) => kind = reader.string()?,
                    ("deopt", Kind::Object) => reason = read_reason(reader)?,
                    _ => reader.skip()?,
                }
            }
            let code = self.code(&name, &kind_of_code, &kind);
            if let (Code::Frame(frame), Some(reason)) = (code, reason) {
                let function = self.builder.so_far().frame(frame).function;
                self.builder.deopt_reason(function, &reason);
            }
            self.codes.push(code);
        }
        Ok(())
    }

    fn code(&mut self, name: &str, kind_of_code: &str, kind: &str) -> Code {
        let (code_kind, tier) = match (kind_of_code, kind) {
            ("SHARED_LIB", _) => return Code::Library(self.builder.string(name)),
            ("CPP", _) => {
                let category = category_of_native(name);
                return Code::Frame(constant(&mut self.builder, name, category));
            }
            ("CODE", "RegExp") => (CodeKind::RegExp, Tier::None),
            ("CODE", "BytecodeHandler") => (CodeKind::BytecodeHandler, Tier::None),
            ("CODE", "LazyCompile" | "Function" | "Script" | "Eval" | "JS") => {
                (CodeKind::Function, Tier::None)
            }
            ("CODE", _) => (CodeKind::Builtin, Tier::None),
            (_, "Unopt") => (CodeKind::Function, Tier::Interpreted),
            (_, "Sparkplug" | "Baseline") => (CodeKind::Function, Tier::Baseline),
            (_, "Maglev") => (CodeKind::Function, Tier::Maglev),
            (_, "Opt") => (CodeKind::Function, Tier::Optimized),
            _ => (CodeKind::Function, Tier::None),
        };
        let function = function_of_code(code_kind, name, &mut self.builder);
        Code::Frame(self.builder.frame_of(Frame {
            function,
            line: 0,
            column: 0,
            tier,
            kind: FrameKind::Physical,
        }))
    }

    fn unknown(&mut self) -> FrameIndex {
        constant(&mut self.builder, "[unknown]", Category::Unknown)
    }

    fn read_ticks(&mut self, reader: &mut Reader<'_>) -> Result<(), JsonError> {
        reader.enter_array()?;
        while reader.element()? {
            reader.pay_for(&self.builder)?;
            let (mut time, mut state) = (0, 0);
            self.stack.clear();
            reader.enter_object()?;
            while let Some(key) = reader.key()? {
                match (&*key, reader.kind()?) {
                    ("tm", Kind::Number) => time = reader.number()?.thousandths(),
                    ("vm", Kind::Number) => state = reader.number()?.as_i64(),
                    ("s", Kind::Array) => self.read_stack(reader)?,
                    _ => reader.skip()?,
                }
            }
            let time = u64::try_from(time).unwrap_or(0);
            self.end = self.end.max(time);
            let stack = self.stack_of_tick(state);
            self.builder.sample(time, self.thread, stack, 1);
        }
        Ok(())
    }

    fn read_stack(&mut self, reader: &mut Reader<'_>) -> Result<(), JsonError> {
        reader.enter_array()?;
        while reader.element()? {
            let code = reader.number()?.as_i64();
            let offset = match reader.element()? {
                true => reader.number()?.as_i64(),
                false => return Ok(()),
            };
            self.stack.push((code, u64::try_from(offset).unwrap_or(0)));
        }
        Ok(())
    }

    fn stack_of_tick(&mut self, state: i64) -> Option<StackIndex> {
        let mut stack = None;
        let mut is_in_collector = state != STATE_GC;
        for position in (0..self.stack.len()).rev() {
            let (code, offset) = self.stack[position];
            let frame = self.frame(code, offset);
            let is_native = {
                let profile = self.builder.so_far();
                let category = profile.function(profile.frame(frame).function).category;
                !category.is_javascript()
            };
            if position == 0 && !is_in_collector && is_native {
                stack = Some(self.push_collector(stack));
                is_in_collector = true;
            }
            stack = Some(self.builder.stack(stack, frame));
        }
        if !is_in_collector {
            stack = Some(self.push_collector(stack));
        }
        if STATES_IDLE.contains(&state) {
            let idle = idle_frame(&mut self.builder);
            stack = Some(self.builder.stack(stack, idle));
        }
        stack
    }

    fn push_collector(&mut self, stack: Option<StackIndex>) -> StackIndex {
        let collector = collector_frame(&mut self.builder);
        self.builder.stack(stack, collector)
    }

    fn frame(&mut self, code: i64, offset: u64) -> FrameIndex {
        let found = usize::try_from(code)
            .ok()
            .and_then(|code| self.codes.get(code).copied());
        match found {
            Some(Code::Frame(frame)) => {
                self.notes.jit_frames += 1;
                self.notes.jit_named[NameSource::File.at()] += 1;
                frame
            }
            Some(Code::Library(path)) => {
                let path = self.builder.so_far().strings.get(path).to_owned();
                let name = name_in_module(&path, format_args!("0x{offset:x}"));
                self.builder.frame(FrameSpec {
                    function: FunctionSpec {
                        name: &name,
                        file: &path,
                        category: Category::Native,
                        ..FunctionSpec::default()
                    },
                    ..FrameSpec::default()
                })
            }
            None => {
                self.notes.jit_frames += 1;
                self.unknown()
            }
        }
    }

    fn finish(self) -> Recording {
        let about = About {
            engine: ENGINE.to_owned(),
            duration: self.end,
            ..About::default()
        };
        let profile = self.builder.finish(about.clone(), self.notes.clone());
        Recording {
            about,
            notes: self.notes,
            contents: Contents::Named(Box::new(profile)),
            ..Recording::default()
        }
    }
}

/// The reason in what a file says of a deoptimization.
fn read_reason(reader: &mut Reader<'_>) -> Result<Option<String>, JsonError> {
    let mut reason = None;
    reader.enter_object()?;
    while let Some(key) = reader.key()? {
        match (&*key, reader.kind()?) {
            ("reason", Kind::String) => reason = Some(reader.string()?.into_owned()),
            _ => reader.skip()?,
        }
    }
    Ok(reason)
}

fn constant(builder: &mut ProfileBuilder, name: &str, category: Category) -> FrameIndex {
    builder.frame(FrameSpec {
        function: FunctionSpec {
            name,
            category,
            ..FunctionSpec::default()
        },
        ..FrameSpec::default()
    })
}
