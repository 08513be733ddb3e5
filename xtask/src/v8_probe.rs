//! Finds out what V8 does not export of itself, and whether nodespy's table still says so.
//!
//! Release builds of Node can print their objects. The probe lets one compile a few functions in
//! every way, has V8 print where they are and what is in them (`%DebugPrint`, `--print-opt-code`,
//! `--print-bytecode`), and looks in the process's memory for the place of everything printed.
//! It starts the binaries it is given: only those of `tools/node.sh` by default.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nodespy_capture::LiveOrigin;
use nodespy_model::Origin;
use nodespy_symbolize::v8_facts::{
    CodeStart, Exports, Facts, PositionEncoding, source_positions, table,
};

use crate::{Failure, root};

/// What Node runs: a function per kind of code, then prints.
const PROGRAM: &str = include_str!("v8_probe.js");
const FLAGS: [&str; 7] = [
    "--allow-natives-syntax",
    "--no-regexp-tier-up",
    "--no-enable-lazy-source-positions",
    "--print-opt-code",
    "--print-opt-code-filter=optimized*",
    "--print-bytecode",
    "--print-bytecode-filter=interpreted",
];
/// How long Node may take to get there.
const PATIENCE: Duration = Duration::from_secs(60);
/// No object that is looked at has more bytes.
const OBJECT_BYTES: u64 = 192;
/// No array that is looked at is longer.
const ARRAY_LIMIT: i64 = 4096;

/// Looks at each binary (every listed version when there is none) and compares; with `is_check`
/// the rows are not printed.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let is_check = arguments.iter().any(|argument| argument == "--check");
    let mut binaries: Vec<PathBuf> = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--"))
        .map(PathBuf::from)
        .collect();
    if binaries.is_empty() {
        binaries = listed_binaries()?;
    }
    let mut misfits = Vec::new();
    for binary in &binaries {
        let report = probe(binary).map_err(|error| format!("{}: {error}", binary.display()))?;
        println!("{}", report.text(is_check));
        if !report.fits() {
            misfits.push(report.title());
        }
    }
    if misfits.is_empty() {
        return Ok(());
    }
    Err(format!("the table does not fit {}", misfits.join(", ")).into())
}

/// The binaries of the versions in `tools/node-versions`.
fn listed_binaries() -> Result<Vec<PathBuf>, Failure> {
    let output = Command::new(root().join("tools/node.sh"))
        .arg("--all")
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("tools/node.sh could not install every version".into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(PathBuf::from).collect())
}

/// What the probe says of a field.
enum Found {
    /// Its value, as Rust.
    Value(String),
    /// Why it can't be told.
    Unknown(String),
}

/// What the probe says of a binary.
struct Report {
    binary: String,
    version: (u32, u32),
    row: Option<&'static Facts>,
    found: Vec<(&'static str, Found)>,
}

impl Report {
    fn title(&self) -> String {
        let (major, minor) = self.version;
        format!("{} (V8 {major}.{minor})", self.binary)
    }

    fn fits(&self) -> bool {
        let Some(row) = self.row else { return false };
        let known = fields(row);
        self.found.iter().all(|(field, found)| match found {
            Found::Value(value) => known.get(field) == Some(value),
            Found::Unknown(_) => true,
        })
    }

    fn text(&self, is_check: bool) -> String {
        let known = self.row.map(fields).unwrap_or_default();
        let mut text = format!("{}\n", self.title());
        for (field, found) in &self.found {
            let known = known.get(field).map_or("no row", String::as_str);
            text += &match found {
                Found::Value(value) if value == known => format!("  {field:18} {value}\n"),
                Found::Value(value) => {
                    format!("  {field:18} {value}   THE TABLE SAYS: {known}\n")
                }
                Found::Unknown(why) => {
                    format!("  {field:18} can't be told: {why} (the table says: {known})\n")
                }
            };
        }
        text += match (self.row, self.fits()) {
            (None, _) => "  the table has no row for this version\n",
            (_, true) => "  the table fits\n",
            (_, false) => "  the table does not fit\n",
        };
        if !is_check {
            text += &self.rust(&known);
        }
        text
    }

    /// The row, as it would stand in the table.
    fn rust(&self, known: &BTreeMap<&'static str, String>) -> String {
        let (major, minor) = self.version;
        let mut text = format!("    Facts {{\n        version: ({major}, {minor}),\n");
        for (field, found) in &self.found {
            text += &match found {
                Found::Value(value) => format!("        {field}: {value},\n"),
                Found::Unknown(_) => {
                    let value = known.get(field).map_or("0", String::as_str);
                    format!("        {field}: {value}, // can't be told from outside\n")
                }
            };
        }
        text + "    },\n"
    }
}

/// The fields of a row, as Rust.
fn fields(facts: &Facts) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("code_start", format!("CodeStart::{:?}", facts.code_start)),
        ("code_deopt", facts.code_deopt.to_string()),
        ("code_positions", facts.code_positions.to_string()),
        ("code_flags", facts.code_flags.to_string()),
        ("code_size", facts.code_size.to_string()),
        ("kind_regexp", facts.kind_regexp.to_string()),
        ("kind_baseline", facts.kind_baseline.to_string()),
        ("kind_maglev", facts.kind_maglev.to_string()),
        ("kind_turbofan", facts.kind_turbofan.to_string()),
        ("bytecode_positions", facts.bytecode_positions.to_string()),
        ("bytecode_data", facts.bytecode_data.to_string()),
        ("deopt_literals", facts.deopt_literals.to_string()),
        ("deopt_function", facts.deopt_function.to_string()),
        ("deopt_inlining", facts.deopt_inlining.to_string()),
        (
            "positions",
            format!("PositionEncoding::{:?}", facts.positions),
        ),
        ("function_types", facts.function_types.to_string()),
    ])
}

/// Looks at one binary.
fn probe(binary: &Path) -> Result<Report, Failure> {
    let exports = Exports::read(File::open(binary)?).ok_or("it holds no V8")?;
    let version = exports.version();
    let running = Running::start(binary)?;
    let memory = Memory {
        pid: running.child.id(),
        origin: LiveOrigin::new(),
        types: Types::of(&exports)?,
    };
    let printed = Printed::parse(&running.lines)?;
    let found = derive(&memory, &printed)
        .into_iter()
        .map(|(field, found)| {
            let found = match found {
                Ok(value) => Found::Value(value),
                Err(why) => Found::Unknown(why),
            };
            (field, found)
        })
        .collect();
    Ok(Report {
        binary: binary.display().to_string(),
        version,
        row: table().iter().find(|row| row.version == version),
        found,
    })
}

/// A Node that has printed everything and waits; killed when dropped.
struct Running {
    child: Child,
    lines: Vec<String>,
}

impl Running {
    fn start(binary: &Path) -> Result<Self, Failure> {
        let mut child = Command::new(binary)
            .args(FLAGS)
            .args(["-e", PROGRAM])
            .env_remove("NODE_OPTIONS")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut running = Self {
            child,
            lines: Vec::new(),
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = receiver
                .recv_timeout(left)
                .map_err(|_| "it did not print what it was asked to")?;
            if line == "ready" {
                return Ok(running);
            }
            running.lines.push(line);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A block of `--print-opt-code`.
#[derive(Debug, Default)]
struct PrintedCode {
    name: String,
    start: u64,
    size: u64,
    /// Offsets into the code and into the source.
    positions: Vec<(i64, u32)>,
    inlined: Vec<u64>,
}

/// A block of `%DebugPrint`.
#[derive(Debug, Default)]
struct PrintedObject {
    address: u64,
    shared: u64,
    code: u64,
    /// What follows the address of the code.
    code_kind: String,
    bytecode: u64,
}

/// What V8 printed.
#[derive(Debug, Default)]
struct Printed {
    codes: Vec<PrintedCode>,
    /// Address of the first bytecode, and of the source position table.
    bytecodes: u64,
    bytecode_positions: u64,
    objects: BTreeMap<&'static str, PrintedObject>,
}

/// The objects the program prints, in its order.
const PRINTED: [&str; 7] = [
    "optimizedOne",
    "optimizedTwo",
    "baselined",
    "interpreted",
    "maglevved",
    "regexp",
    "constructors",
];

impl Printed {
    fn parse(lines: &[String]) -> Result<Self, Failure> {
        let mut printed = Self::default();
        let mut next = PRINTED.iter();
        let mut object = None;
        let mut section = "";
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let Some(rest) = line.strip_prefix("DebugPrint: ") {
                object = next.next().copied();
                let name = object.ok_or("it printed more than it was asked to")?;
                let address = address_in(rest).ok_or("it printed no address")?;
                let entry = printed.objects.entry(name).or_default();
                entry.address = address;
                section = "";
            } else if let Some(name) = object {
                let entry = printed.objects.entry(name).or_default();
                let address = words.get(2).and_then(|word| address_in(word)).unwrap_or(0);
                match words.get(..2) {
                    Some(["-", "shared_info:"]) => entry.shared = address,
                    Some(["-", "bytecode:"]) => entry.bytecode = address,
                    Some(["-", "code:"]) => {
                        entry.code = address;
                        entry.code_kind = words[3..].join(" ");
                    }
                    _ => {}
                }
            } else if let Some(name) = line.strip_prefix("name = ") {
                printed.codes.push(PrintedCode {
                    name: name.to_owned(),
                    ..Default::default()
                });
                section = "";
            } else if line.starts_with("Instructions (size = ") {
                section = "instructions";
                if let Some(code) = printed.codes.last_mut() {
                    let size = words
                        .last()
                        .and_then(|word| word.trim_end_matches(')').parse().ok());
                    code.size = size.unwrap_or(0);
                }
            } else if line.starts_with("Source positions:") {
                section = "positions";
            } else if line.starts_with("Inlined functions") {
                section = "inlined";
            } else if line.starts_with("[generated bytecode") {
                section = "bytecode";
            } else if line.starts_with("Source Position Table") && section == "bytecode" {
                section = "bytecode positions";
            } else if words.is_empty() {
                section = if section == "bytecode" { section } else { "" };
            } else {
                printed.line(section, &words);
            }
        }
        Ok(printed)
    }

    /// A line inside a section.
    fn line(&mut self, section: &str, words: &[&str]) {
        let address = words.iter().find_map(|word| address_in(word));
        match (section, self.codes.last_mut(), address) {
            ("instructions", Some(code), Some(address)) if code.start == 0 => code.start = address,
            ("inlined", Some(code), Some(address)) => code.inlined.push(address),
            ("positions", Some(code), None) => {
                let at = i64::from_str_radix(words[0], 16);
                let place = words.get(1).and_then(|word| word.parse().ok());
                if let (Ok(at), Some(place)) = (at, place) {
                    code.positions.push((at, place));
                }
            }
            ("bytecode", _, Some(address)) if self.bytecodes == 0 && words.contains(&"@") => {
                self.bytecodes = address;
            }
            ("bytecode positions", _, Some(address)) if self.bytecode_positions == 0 => {
                self.bytecode_positions = address;
            }
            _ => {}
        }
    }

    fn object(&self, name: &str) -> Result<&PrintedObject, String> {
        self.objects
            .get(name)
            .ok_or_else(|| format!("{name} was not printed"))
    }

    /// The optimized functions: what was printed of their code, and the function.
    fn optimized(&self) -> Result<Vec<(&PrintedCode, &PrintedObject)>, String> {
        ["optimizedOne", "optimizedTwo"]
            .into_iter()
            .map(|name| {
                let code = self.codes.iter().find(|code| code.name == name);
                let code = code.ok_or_else(|| format!("the code of {name} was not printed"))?;
                Ok((code, self.object(name)?))
            })
            .collect()
    }
}

/// The number a word starts with, if it is an address.
fn address_in(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x")?;
    let end = digits
        .find(|digit: char| !digit.is_ascii_hexdigit())
        .unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], 16).ok()
}

/// Instance types V8 exports.
struct Types {
    code: u16,
    instruction_stream: Option<u16>,
    shared: u16,
    shared_wrapper: Option<u16>,
    bytecode_array: u16,
    function: u16,
}

impl Types {
    fn of(exports: &Exports) -> Result<Self, Failure> {
        let find = |name: &str| {
            exports
                .constant(&format!("type_{name}"))
                .and_then(|value| u16::try_from(value).ok())
        };
        let need = |name: &str| find(name).ok_or(format!("it does not export v8dbg_type_{name}"));
        Ok(Self {
            code: need("Code__CODE_TYPE")?,
            instruction_stream: find("InstructionStream__INSTRUCTION_STREAM_TYPE"),
            shared: need("SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?,
            shared_wrapper: find("SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE"),
            bytecode_array: need("BytecodeArray__BYTECODE_ARRAY_TYPE")?,
            function: need("JSFunction__JS_FUNCTION_TYPE")?,
        })
    }
}

/// The memory of the process, by object. Pointers carry their tag.
struct Memory {
    pid: u32,
    origin: LiveOrigin,
    types: Types,
}

impl Memory {
    fn read(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        (self.origin.read_memory(self.pid, address, &mut bytes) == length).then_some(bytes)
    }

    fn word(&self, address: u64) -> Option<u64> {
        let bytes = self.read(address, 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
    }

    fn half(&self, address: u64) -> Option<u32> {
        let bytes = self.read(address, 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
    }

    fn field(&self, object: u64, at: u64) -> Option<u64> {
        (object & 1 == 1).then(|| self.word((object & !3) + at))?
    }

    fn type_of(&self, object: u64) -> Option<u16> {
        let map = self.field(object, 0)?;
        let meta = self.field(map, 0)?;
        // Only a map has a map whose map is itself.
        if self.field(meta, 0)? != meta {
            return None;
        }
        let bytes = self.read((map & !3) + 12, 2)?;
        Some(u16::from_ne_bytes(bytes.try_into().expect("two bytes")))
    }

    fn is(&self, object: u64, kind: u16) -> bool {
        self.type_of(object) == Some(kind)
    }

    fn length(&self, array: u64) -> Option<i64> {
        self.type_of(array)?;
        let length = self.field(array, 8)?;
        let length = (length & 0xffff_ffff == 0).then_some((length as i64) >> 32)?;
        (0..=ARRAY_LIMIT).contains(&length).then_some(length)
    }

    fn elements(&self, array: u64) -> Vec<u64> {
        let length = self.length(array).unwrap_or(0) as u64;
        (0..length)
            .map_while(|index| self.field(array, 16 + index * 8))
            .collect()
    }

    fn bytes(&self, array: u64) -> Option<Vec<u8>> {
        let length = self.length(array)?;
        self.read((array & !3) + 16, length as usize)
    }

    /// Whether this is the function, or wraps it.
    fn is_shared(&self, object: u64, shared: u64) -> bool {
        let object = object & !2;
        object == shared
            || (self.types.shared_wrapper.is_some()
                && self.type_of(object) == self.types.shared_wrapper
                && self.field(object, 8) == Some(shared))
    }

    /// The first `Code` that can be reached from an object in a few steps.
    fn reach_code(&self, object: u64, steps: u32) -> Option<u64> {
        let fields: Vec<u64> = (1..16)
            .filter_map(|slot| self.field(object, slot * 8))
            .filter(|&field| field & 3 == 1 && self.type_of(field).is_some())
            .collect();
        let found = fields
            .iter()
            .copied()
            .find(|&field| self.is(field, self.types.code));
        found.or_else(|| {
            let steps = steps.checked_sub(1)?;
            fields
                .iter()
                .find_map(|&field| self.reach_code(field, steps))
        })
    }
}

type Derived = Result<String, String>;

/// Every field and what was found.
fn derive(memory: &Memory, printed: &Printed) -> Vec<(&'static str, Derived)> {
    let kinds = derive_kinds(memory, printed);
    let kind = |pick: fn(&Kinds) -> Derived| kinds.as_ref().map_err(Clone::clone).and_then(pick);
    let positions = derive_positions(memory, printed);
    // An array of bytes read as one of pointers reaches into what follows it.
    let table = positions.as_ref().map_or(0, |(at, _)| *at);
    let deopt = derive_deopt(memory, printed, table);
    let deopt_index = |pick: fn(&Deopt) -> u64| {
        deopt
            .as_ref()
            .map(|deopt| pick(deopt).to_string())
            .map_err(Clone::clone)
    };
    vec![
        ("code_start", derive_start(memory, printed)),
        ("code_deopt", deopt_index(|deopt| deopt.field)),
        (
            "code_positions",
            positions.clone().map(|(at, _)| at.to_string()),
        ),
        ("code_flags", kind(|kinds| Ok(kinds.flags.to_string()))),
        ("code_size", derive_size(memory, printed)),
        ("kind_regexp", kind(|kinds| Ok(kinds.regexp.to_string()))),
        (
            "kind_baseline",
            kind(|kinds| Ok(kinds.baseline.to_string())),
        ),
        ("kind_maglev", kind(|kinds| kinds.maglev.clone())),
        (
            "kind_turbofan",
            kind(|kinds| Ok(kinds.turbofan.to_string())),
        ),
        (
            "bytecode_positions",
            derive_bytecode_positions(memory, printed),
        ),
        ("bytecode_data", derive_bytecode_data(printed)),
        ("deopt_literals", deopt_index(|deopt| deopt.literals)),
        ("deopt_function", deopt_index(|deopt| deopt.function)),
        ("deopt_inlining", deopt_index(|deopt| deopt.inlining)),
        (
            "positions",
            positions.map(|(_, encoding)| format!("PositionEncoding::{encoding:?}")),
        ),
        ("function_types", derive_function_types(memory, printed)),
    ]
}

/// The one candidate that is left.
fn only<T: std::fmt::Debug + Copy>(candidates: &[T]) -> Result<T, String> {
    match candidates {
        [one] => Ok(*one),
        [] => Err("nothing fits".to_owned()),
        many => Err(format!("several fit: {many:?}")),
    }
}

/// Offsets a field can have.
fn offsets(step: usize) -> impl Iterator<Item = u64> {
    (8..OBJECT_BYTES).step_by(step)
}

/// Where the printed instructions are.
fn derive_start(memory: &Memory, printed: &Printed) -> Derived {
    let optimized = printed.optimized()?;
    let starts_inside = |(code, object): &(&PrintedCode, &PrintedObject)| {
        code.start
            .checked_sub(object.code & !3)
            .filter(|&at| at < OBJECT_BYTES)
    };
    let inside: Option<Vec<u64>> = optimized.iter().map(starts_inside).collect();
    if let Some(mut inside) = inside {
        inside.dedup();
        return only(&inside).map(|at| format!("CodeStart::{:?}", CodeStart::Inline(at)));
    }
    let stream = memory
        .types
        .instruction_stream
        .ok_or("it does not export the type of InstructionStream")?;
    let pointers: Vec<u64> = offsets(8)
        .filter(|&at| {
            optimized
                .iter()
                .all(|(code, object)| memory.field(object.code, at) == Some(code.start))
        })
        .collect();
    let headers: Vec<u64> = offsets(8)
        .filter(|&length| {
            optimized.iter().all(|(code, object)| {
                let header = (code.start - length) | 1;
                memory.is(header, stream) && memory.field(header, 8) == Some(object.code)
            })
        })
        .collect();
    let start = CodeStart::Pointer {
        at: only(&pointers)?,
        header: only(&headers)?,
    };
    Ok(format!("CodeStart::{start:?}"))
}

/// Where the printed sizes are.
fn derive_size(memory: &Memory, printed: &Printed) -> Derived {
    let optimized = printed.optimized()?;
    let candidates: Vec<u64> = offsets(4)
        .filter(|&at| {
            optimized.iter().all(|(code, object)| {
                memory.half((object.code & !3) + at).map(u64::from) == Some(code.size)
            })
        })
        .collect();
    only(&candidates).map(|at| at.to_string())
}

struct Kinds {
    flags: u64,
    regexp: u32,
    baseline: u32,
    maglev: Derived,
    turbofan: u32,
}

/// The kinds of code, and where they are: the lowest four bits of a number that is the same for
/// code of one kind and grows with the kind, in V8's order: builtin, regular expression, baseline,
/// TurboFan.
fn derive_kinds(memory: &Memory, printed: &Printed) -> Result<Kinds, String> {
    let code_of = |name: &str, kind: &str| -> Result<u64, String> {
        let object = printed.object(name)?;
        if !object.code_kind.contains(kind) || !memory.is(object.code, memory.types.code) {
            return Err(format!("{name} has code {:?}", object.code_kind));
        }
        Ok(object.code)
    };
    let turbofan = [
        code_of("optimizedOne", "TURBOFAN")?,
        code_of("optimizedTwo", "TURBOFAN")?,
    ];
    let baseline = code_of("baselined", "BASELINE")?;
    let builtin = code_of("interpreted", "BUILTIN")?;
    let regexp = memory
        .reach_code(printed.object("regexp")?.address, 3)
        .ok_or("the code of a regular expression was not found")?;
    let kind_at = |code: u64, at: u64| Some(memory.half((code & !3) + at)? & 15);
    let fits = |at: u64| -> Option<bool> {
        let kinds = [
            kind_at(builtin, at)?,
            kind_at(regexp, at)?,
            kind_at(baseline, at)?,
            kind_at(turbofan[0], at)?,
        ];
        Some(
            kind_at(turbofan[1], at)? == kinds[3]
                && kinds[0] > 0
                && kinds[1] == kinds[0] + 1
                && kinds.is_sorted_by(|before, after| before < after),
        )
    };
    let candidates: Vec<u64> = offsets(4).filter(|&at| fits(at) == Some(true)).collect();
    let flags = only(&candidates)?;
    let kind = |code: u64| kind_at(code, flags).ok_or("its memory is gone".to_owned());
    let maglev = match code_of("maglevved", "MAGLEV") {
        Ok(code) => kind(code).map(|kind| kind.to_string()),
        Err(_) => Err("this build does not compile with Maglev".to_owned()),
    };
    Ok(Kinds {
        flags,
        regexp: kind(regexp)?,
        baseline: kind(baseline)?,
        maglev,
        turbofan: kind(turbofan[0])?,
    })
}

/// Where a table is that says the same as was printed, and how it is written.
fn derive_positions(memory: &Memory, printed: &Printed) -> Result<(u64, PositionEncoding), String> {
    let optimized = printed.optimized()?;
    let mut candidates = Vec::new();
    for encoding in [PositionEncoding::Signed, PositionEncoding::Flagged] {
        for at in offsets(8) {
            let fits = optimized.iter().all(|(code, object)| {
                let table = memory
                    .field(object.code, at)
                    .and_then(|table| memory.bytes(table));
                let entries: Vec<(i64, u32)> = table
                    .map(|table| source_positions(&table, encoding))
                    .unwrap_or_default()
                    .into_iter()
                    .map(|(at, place, _)| (at, place))
                    .collect();
                !entries.is_empty() && entries == code.positions
            });
            if fits {
                candidates.push((at, encoding));
            }
        }
    }
    only(&candidates)
}

struct Deopt {
    field: u64,
    function: u64,
    literals: u64,
    inlining: u64,
}

/// Deoptimization data is the array that holds the function itself; its literals are an array
/// that holds the inlined function; its table of inlined functions has 16 bytes for each, with the
/// position among the literals.
fn derive_deopt(memory: &Memory, printed: &Printed, table: u64) -> Result<Deopt, String> {
    let optimized = printed.optimized()?;
    let mut candidates = Vec::new();
    for field in offsets(8).filter(|&field| field != table) {
        let found: Option<Vec<[u64; 3]>> = optimized
            .iter()
            .map(|(code, object)| deopt_indexes(memory, code, object, field))
            .collect();
        if let Some(mut found) = found {
            found.dedup();
            if let [[function, literals, inlining]] = found[..] {
                candidates.push([field, function, literals, inlining]);
            }
        }
    }
    let [field, function, literals, inlining] = only(&candidates)?;
    Ok(Deopt {
        field,
        function,
        literals,
        inlining,
    })
}

fn deopt_indexes(
    memory: &Memory,
    code: &PrintedCode,
    object: &PrintedObject,
    field: u64,
) -> Option<[u64; 3]> {
    let elements = memory.elements(memory.field(object.code, field)?);
    let inlined = *code.inlined.first()?;
    if !memory.is(object.shared, memory.types.shared) {
        return None;
    }
    let function = elements
        .iter()
        .position(|&element| memory.is_shared(element, object.shared))?;
    // As above, for the arrays inside: both must agree on the place.
    let mut pairs = Vec::new();
    for (literals, &array) in elements.iter().enumerate() {
        let place = memory
            .elements(array)
            .iter()
            .position(|&literal| memory.is_shared(literal, inlined));
        let Some(place) = place.and_then(|place| i32::try_from(place).ok()) else {
            continue;
        };
        for (inlining, &array) in elements.iter().enumerate() {
            let bytes = memory.bytes(array).unwrap_or_default();
            let mut entries = bytes.chunks_exact(16).map(|entry| &entry[8..12]);
            if !bytes.is_empty()
                && bytes.len().is_multiple_of(16)
                && entries.all(|entry| entry == place.to_ne_bytes())
            {
                pairs.push((literals, inlining));
            }
        }
    }
    let (literals, inlining) = only(&pairs).ok()?;
    Some([function as u64, literals as u64, inlining as u64])
}

/// The printed address of the first bytecode, from its array.
fn derive_bytecode_data(printed: &Printed) -> Derived {
    let array = printed.object("interpreted")?.bytecode & !3;
    let at = printed.bytecodes.checked_sub(array);
    at.filter(|&at| array != 0 && at < OBJECT_BYTES)
        .map(|at| at.to_string())
        .ok_or("bytecode was not printed".to_owned())
}

/// Where the printed table of the bytecode is.
fn derive_bytecode_positions(memory: &Memory, printed: &Printed) -> Derived {
    let array = printed.object("interpreted")?.bytecode;
    if printed.bytecode_positions == 0 || !memory.is(array, memory.types.bytecode_array) {
        return Err("the table was not printed".to_owned());
    }
    let candidates: Vec<u64> = offsets(8)
        .filter(|&at| memory.field(array, at) == Some(printed.bytecode_positions))
        .collect();
    only(&candidates).map(|at| at.to_string())
}

/// How far the types of all kinds of constructors are from that of a plain function.
fn derive_function_types(memory: &Memory, printed: &Printed) -> Derived {
    let array = printed.object("constructors")?.address;
    let elements = memory.field(array, 16).unwrap_or(0);
    let first = memory.types.function;
    memory
        .elements(elements)
        .iter()
        .filter_map(|&function| memory.type_of(function)?.checked_sub(first))
        // Elements that are not in use hold something else.
        .filter(|&distance| distance < 64)
        .max()
        .map(|last| last.to_string())
        .ok_or("no constructor was found".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What to look at, or nothing when the test is to be skipped.
    fn binaries() -> Option<Vec<PathBuf>> {
        match listed_binaries() {
            Ok(binaries) => Some(binaries),
            Err(error) => {
                assert!(
                    std::env::var_os("NODESPY_REQUIRE_LIVE").is_none_or(|value| value != "1"),
                    "NODESPY_REQUIRE_LIVE=1, but there is no Node to look at: {error}"
                );
                eprintln!("skipped: there is no Node to look at: {error}");
                None
            }
        }
    }

    #[test]
    fn the_table_fits_the_newest_release_of_each_major() {
        for binary in binaries().unwrap_or_default() {
            let report = probe(&binary).unwrap();
            assert!(report.fits(), "{}", report.text(false));
            // What can't be told must stay the exception.
            let unknown = report
                .found
                .iter()
                .filter(|(_, found)| matches!(found, Found::Unknown(_)))
                .count();
            assert!(unknown <= 1, "{}", report.text(false));
        }
    }

    #[test]
    fn a_wrong_or_missing_row_does_not_fit() {
        let report = |row, value: &str| Report {
            binary: "node".to_owned(),
            version: (9, 4),
            row,
            found: vec![
                ("code_size", Found::Value(value.to_owned())),
                ("kind_maglev", Found::Unknown("no Maglev".to_owned())),
            ],
        };
        let row = &table()[0];
        let right = row.code_size.to_string();
        assert!(report(Some(row), &right).fits());
        assert!(!report(Some(row), "41").fits());
        assert!(
            report(Some(row), "41")
                .text(true)
                .contains("THE TABLE SAYS: 40")
        );
        assert!(!report(None, &right).fits());
        assert!(
            report(None, &right)
                .text(true)
                .contains("no row for this version")
        );
    }

    #[test]
    fn printed_code_is_read() {
        let lines = [
            "name = optimizedOne",
            "Instructions (size = 640)",
            "0x7fe338002940     0  55                   push rbp",
            "0x7fe338002941     1  4889e5               REX.W movq rbp,rsp",
            "",
            "Source positions:",
            " pc offset  position",
            "         b        58",
            "        19        93",
            "",
            "Inlined functions (count = 1)",
            " 0x0f95ed5e7d91 <SharedFunctionInfo inner>",
            "",
            "DebugPrint: 0x2a15fbf2d879: [Function]",
            " - shared_info: 0x0f95ed5e7dd9 <SharedFunctionInfo optimizedOne>",
            " - code: 0x0fadf9930aa9 <Code TURBOFAN_JS>",
        ];
        let lines: Vec<String> = lines.map(str::to_owned).to_vec();
        let printed = Printed::parse(&lines).unwrap();
        let code = &printed.codes[0];
        assert_eq!((code.start, code.size), (0x7fe3_3800_2940, 640));
        assert_eq!(code.positions, [(0xb, 58), (0x19, 93)]);
        assert_eq!(code.inlined, [0x0f95_ed5e_7d91]);
        let object = printed.object("optimizedOne").unwrap();
        assert_eq!(object.address, 0x2a15_fbf2_d879);
        assert_eq!(object.shared, 0x0f95_ed5e_7dd9);
        assert_eq!(object.code, 0x0fad_f993_0aa9);
        assert_eq!(object.code_kind, "<Code TURBOFAN_JS>");
    }
}
