//! Where in memory everything is that was printed.

use nodespy_symbolize::v8_facts::{CodeStart, PositionEncoding, source_positions};

use super::memory::Memory;
use super::printed::{Printed, PrintedCode, PrintedObject};

/// No object that is looked at has more bytes.
const OBJECT_BYTES: u64 = 192;

pub(super) type Derived = Result<String, String>;

/// Every field and what was found.
pub(super) fn derive(memory: &Memory, printed: &Printed) -> Vec<(&'static str, Derived)> {
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
        (
            "bytecode_loop",
            printed
                .bytecode_loop
                .map(|number| number.to_string())
                .ok_or("no loop was printed".to_owned()),
        ),
        ("deopt_literals", deopt_index(|deopt| deopt.literals)),
        ("deopt_function", deopt_index(|deopt| deopt.function)),
        ("deopt_inlining", deopt_index(|deopt| deopt.inlining)),
        (
            "positions",
            positions.map(|(_, encoding)| format!("PositionEncoding::{encoding:?}")),
        ),
        ("function_types", derive_function_types(memory, printed)),
        ("script_source_url", not_printed()),
        ("has_baseline_data", not_printed()),
        ("scope", not_printed()),
        ("wasm_kind_bits", not_printed()),
    ]
}

/// What the live tests of a version show to be right or wrong.
fn not_printed() -> Derived {
    Err("V8 prints nothing that shows it".to_owned())
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
