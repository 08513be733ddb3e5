//! The JSON that `node --prof-process --preprocess` writes and 0x and flamebearer read: code by
//! name, kind and compiler, functions, and ticks as lists of code.
//!
//! A profile knows nothing of addresses: the offset in each code, which those readers pass over,
//! is 0, and there are no sources in `scripts`. Every tick counts as one there, so a sample that
//! weighs more is written as often, up to [`MAX_TICKS`] in all.

use std::io::Write;

use nodespy_model::{
    Category, FastMap, Frame, FunctionIndex, Profile, Sample, StackIndex, Tier, WeightUnit,
};

use super::{Detail, ExportError, Exporter};
use crate::json::Writer;

/// What a profile weighs is scaled down to this many ticks.
const MAX_TICKS: u64 = 2_000_000;
/// A tick where weights are times.
const TICK_NANOSECONDS: u64 = 1_000_000;

/// The numbers of V8's states.
const STATE_JS: u64 = 0;
const STATE_GC: u64 = 1;
const STATE_OTHER: u64 = 5;
const STATE_IDLE: u64 = 8;

/// The exporter of preprocessed V8 logs.
pub(crate) struct V8Preprocessed;

impl Exporter for V8Preprocessed {
    fn name(&self) -> &'static str {
        "v8-preprocessed"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &[]
    }

    fn leaves_out(&self) -> &'static [Detail] {
        &[
            Detail::Processors,
            Detail::CurrentLines,
            Detail::CallerLines,
            Detail::Inlining,
            Detail::AsyncFrames,
            Detail::Threads,
            Detail::ThreadRoles,
            Detail::ProcessDetails,
            Detail::Labels,
            Detail::WeightUnit,
            Detail::Notes,
            Detail::Sources,
            Detail::GeneratedPlaces,
            Detail::Contexts,
        ]
    }

    fn export(&self, profile: &Profile, output: &mut dyn Write) -> Result<(), ExportError> {
        let table = CodeTable::of(profile);
        let mut writer = Writer::new(output);
        writer.begin_object();
        table.write(profile, &mut writer);
        write_ticks(profile, &table, &mut writer);
        writer.key("scripts");
        writer.begin_array();
        writer.end_array();
        writer.end_object();
        Ok(writer.finish()?)
    }
}

/// What a frame is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Code(usize, u64),
    Unknown,
    /// Says what V8 was doing, and is no code.
    State(u64),
    /// Inlined code has no place of its own.
    Inlined,
}

/// Code that frames stand for, each once.
struct CodeTable {
    /// The frame each code is made from.
    codes: Vec<Frame>,
    /// The codes of each function of JavaScript.
    functions: Vec<(FunctionIndex, Vec<usize>)>,
    /// Which of `functions` each code is of.
    function_of_code: Vec<Option<usize>>,
    places: Vec<Place>,
}

impl CodeTable {
    fn of(profile: &Profile) -> Self {
        let mut table = Self {
            codes: Vec::new(),
            functions: Vec::new(),
            function_of_code: Vec::new(),
            places: Vec::with_capacity(profile.frames.len()),
        };
        let mut codes: FastMap<(String, Tier), usize> = FastMap::default();
        let mut functions: FastMap<FunctionIndex, usize> = FastMap::default();
        for frame in &profile.frames {
            let place = match place_of(profile, frame) {
                Place::Code(_, offset) => {
                    let key = (code_key(profile, frame), frame.tier);
                    let code = *codes.entry(key).or_insert_with(|| {
                        table.add_code(profile, frame, &mut functions);
                        table.codes.len() - 1
                    });
                    Place::Code(code, offset)
                }
                place => place,
            };
            table.places.push(place);
        }
        table
    }

    fn add_code(
        &mut self,
        profile: &Profile,
        frame: &Frame,
        functions: &mut FastMap<FunctionIndex, usize>,
    ) {
        let function = has_source(profile, frame).then(|| {
            *functions.entry(frame.function).or_insert_with(|| {
                self.functions.push((frame.function, Vec::new()));
                self.functions.len() - 1
            })
        });
        if let Some(function) = function {
            self.functions[function].1.push(self.codes.len());
        }
        self.codes.push(*frame);
        self.function_of_code.push(function);
    }

    fn write(&self, profile: &Profile, writer: &mut Writer<'_>) {
        let mut deopts: FastMap<FunctionIndex, &str> = FastMap::default();
        for (function, reason) in &profile.deopt_reasons {
            deopts
                .entry(*function)
                .or_insert_with(|| profile.strings.get(*reason));
        }
        writer.key("code");
        writer.begin_array();
        for (frame, function) in self.codes.iter().zip(&self.function_of_code) {
            writer.begin_object();
            write_code(profile, frame, writer);
            if let Some(function) = function {
                writer.number_field("func", *function as i128);
                writer.number_field("tm", 0);
            }
            if let Some(reason) = deopts.get(&frame.function)
                && matches!(frame.tier, Tier::Optimized | Tier::Maglev)
            {
                writer.key("deopt");
                writer.begin_object();
                writer.string_field("reason", reason);
                writer.end_object();
            }
            writer.end_object();
        }
        writer.end_array();
        writer.key("functions");
        writer.begin_array();
        for (function, codes) in &self.functions {
            writer.begin_object();
            writer.string_field("name", &name_with_place(profile, *function));
            writer.key("codes");
            writer.begin_array();
            for code in codes {
                writer.number(*code as i128);
            }
            writer.end_array();
            writer.end_object();
        }
        writer.end_array();
    }
}

fn has_source(profile: &Profile, frame: &Frame) -> bool {
    matches!(
        profile.function(frame.function).category,
        Category::App | Category::Dependency | Category::NodeCore | Category::Wasm
    )
}

fn place_of(profile: &Profile, frame: &Frame) -> Place {
    let name = profile.name_of(frame.function);
    let file = profile.file_of(frame.function);
    match profile.function(frame.function).category {
        _ if frame.kind.is_inlined() => Place::Inlined,
        Category::Gc if file.is_empty() => Place::State(STATE_GC),
        Category::Idle => Place::State(STATE_IDLE),
        Category::Unknown => Place::Unknown,
        _ => Place::Code(0, library_offset(name).unwrap_or(0)),
    }
}

/// The address in `[node+0x1234]`, which stands for code of a library without a name.
fn library_offset(name: &str) -> Option<u64> {
    let (_, offset) = name
        .strip_prefix('[')?
        .strip_suffix(']')?
        .rsplit_once("+0x")?;
    u64::from_str_radix(offset, 16).ok()
}

/// What frames of one code have in common.
fn code_key(profile: &Profile, frame: &Frame) -> String {
    match library_offset(profile.name_of(frame.function)) {
        Some(_) => profile.file_of(frame.function).to_owned(),
        None => frame.function.0.to_string(),
    }
}

/// A name as V8 writes it: nothing for an anonymous function, then where it starts.
fn name_with_place(profile: &Profile, function: FunctionIndex) -> String {
    let name = match profile.name_of(function) {
        "(anonymous)" | "(script)" => "",
        name => name,
    };
    match profile.location_of(function) {
        place if place.is_empty() => name.to_owned(),
        place => format!("{name} {place}"),
    }
}

fn write_code(profile: &Profile, frame: &Frame, writer: &mut Writer<'_>) {
    let name = profile.name_of(frame.function);
    let (name, kind_of_code, kind) = match profile.function(frame.function).category {
        _ if has_source(profile, frame) => (
            name_with_place(profile, frame.function),
            "JS",
            Some(kind_of_tier(frame.tier)),
        ),
        _ if library_offset(name).is_some() => {
            let file = profile.file_of(frame.function);
            (file.to_owned(), "SHARED_LIB", None)
        }
        Category::RegExp => (name.to_owned(), "CODE", Some("RegExp")),
        Category::Internal if profile.file_of(frame.function).is_empty() => {
            match name.strip_suffix("Handler") {
                Some(bytecode) => (bytecode.to_owned(), "CODE", Some("BytecodeHandler")),
                None => (name.to_owned(), "CODE", Some("Builtin")),
            }
        }
        Category::Builtin => (name.to_owned(), "CODE", Some("Builtin")),
        _ => (name.to_owned(), "CPP", None),
    };
    writer.string_field("name", &name);
    writer.string_field("type", kind_of_code);
    if let Some(kind) = kind {
        writer.string_field("kind", kind);
    }
}

fn kind_of_tier(tier: Tier) -> &'static str {
    match tier {
        Tier::None => "Builtin",
        Tier::Interpreted => "Unopt",
        Tier::Baseline => "Sparkplug",
        Tier::Maglev => "Maglev",
        Tier::Optimized => "Opt",
    }
}

fn write_ticks(profile: &Profile, table: &CodeTable, writer: &mut Writer<'_>) {
    let ticks_of = |sample: &Sample| match profile.unit() {
        WeightUnit::Nanoseconds => sample.weight.div_ceil(TICK_NANOSECONDS),
        _ => sample.weight,
    };
    let total = profile
        .samples
        .iter()
        .fold(0u64, |sum, sample| sum.saturating_add(ticks_of(sample)));
    let scale = |ticks: u64| match total {
        0..=MAX_TICKS => ticks,
        total => (u128::from(ticks) * u128::from(MAX_TICKS) / u128::from(total)) as u64,
    };
    let (mut seen, mut written) = (0u64, 0u64);
    writer.key("ticks");
    writer.begin_array();
    for sample in &profile.samples {
        seen = seen.saturating_add(ticks_of(sample));
        let due = scale(seen);
        for _ in written..due {
            write_tick(profile, table, sample, writer);
        }
        written = due.max(written);
    }
    writer.end_array();
}

fn write_tick(profile: &Profile, table: &CodeTable, sample: &Sample, writer: &mut Writer<'_>) {
    let places = |stack: StackIndex| {
        profile
            .frames_of(stack)
            .map(|frame| table.places[frame.at()])
    };
    let state = sample.stack.and_then(|stack| {
        places(stack).find_map(|place| match place {
            Place::State(state) => Some(state),
            _ => None,
        })
    });
    let has_code = sample
        .stack
        .is_some_and(|stack| places(stack).any(|place| matches!(place, Place::Code(..))));
    let usual = if has_code { STATE_JS } else { STATE_OTHER };
    writer.begin_object();
    writer.number_field("tm", sample.time / 1000);
    writer.number_field("vm", state.unwrap_or(usual));
    writer.key("s");
    writer.begin_array();
    for place in sample.stack.into_iter().flat_map(places) {
        match place {
            Place::Code(code, offset) => {
                writer.number(code as i128);
                writer.number(i128::from(offset));
            }
            Place::Unknown => {
                writer.number(-1);
                writer.number(0);
            }
            Place::State(_) | Place::Inlined => {}
        }
    }
    writer.end_array();
    writer.end_object();
}
