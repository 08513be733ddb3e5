//! The tables that all profiles of a request share: their texts, and their stacks cut to what a store takes.

use std::borrow::Cow;

use nodespy_model::classify::{category_of_file, category_of_native};
use nodespy_model::{Category, FastMap, FrameKind, SmallSort};
use nodespy_store::{MAX_DEPTH, MAX_TEXT_BYTES, StoredFrame, StoredFunction, Symbols};

use crate::attributes::FRAME_TYPE;
use crate::limits::{MAX_STACK_FRAMES, OtlpError, TextBudget};
use crate::messages::{AnyValue, Location, ProfilesDictionary, Value};

/// What stands for the callers that are left out of a stack that is too deep.
const TRUNCATED: &str = "[truncated]";
/// The longest value of an attribute: labels keep 512 characters.
const MAX_VALUE_BYTES: usize = 2048;

/// The texts of a dictionary.
#[derive(Clone, Copy)]
pub(crate) struct Strings<'a>(pub(crate) &'a ProfilesDictionary);

impl<'a> Strings<'a> {
    pub(crate) fn get(self, row: i32) -> &'a str {
        row_in(&self.0.string_table, row).map_or("", String::as_str)
    }

    /// The value of an attribute, its beginning where it is too long; none where it is empty.
    pub(crate) fn value(self, value: Option<&'a AnyValue>) -> Option<Cow<'a, str>> {
        let value: Cow<'a, str> = match value?.value.as_ref()? {
            Value::Text(text) => cut(text, MAX_VALUE_BYTES).into(),
            Value::Bool(it) => it.to_string().into(),
            Value::Number(number) => number.to_string().into(),
            Value::TextIndex(row) => cut(self.get(*row), MAX_VALUE_BYTES).into(),
        };
        (!value.is_empty()).then_some(value)
    }
}

/// A row of a table, if it is one.
pub(crate) fn row_in<T>(table: &[T], row: i32) -> Option<&T> {
    table.get(usize::try_from(row).ok()?)
}

/// The beginning of a text that is too long.
pub(crate) fn cut(text: &str, most_bytes: usize) -> &str {
    let mut end = text.len().min(most_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The stacks of a dictionary, in their order.
pub(crate) fn symbols_of(
    dictionary: &ProfilesDictionary,
    texts: &mut TextBudget,
) -> Result<Symbols, OtlpError> {
    let mut symbols = Symbols::default();
    let mut frames_of: Vec<std::ops::Range<u32>> =
        Vec::with_capacity(dictionary.location_table.len());
    let mut functions = Functions::new(dictionary, texts);
    for location in &dictionary.location_table {
        let first = symbols.frames.len() as u32;
        functions.add_frames(location, &mut symbols.frames)?;
        frames_of.push(first..symbols.frames.len() as u32);
    }
    let truncated = symbols.frames.len() as u32;
    symbols.frames.push(StoredFrame {
        function: functions.row(StoredFunction {
            name: TRUNCATED.to_owned(),
            ..StoredFunction::default()
        }),
        ..StoredFrame::default()
    });
    symbols.functions = functions.finish();
    let mut left = MAX_STACK_FRAMES;
    for stack in &dictionary.stack_table {
        let rows = stack.location_indices.iter();
        let frames = rows.filter_map(|row| row_in(&frames_of, *row)).cloned();
        let mut path: Vec<u32> = frames.flatten().take(MAX_DEPTH + 1).collect();
        if path.len() > MAX_DEPTH {
            path.truncate(MAX_DEPTH - 1);
            path.push(truncated);
        }
        left = left.checked_sub(path.len()).ok_or(OtlpError::TooMany {
            what: "frames of stacks",
            most: MAX_STACK_FRAMES,
        })?;
        path.reverse();
        symbols.stacks.push(path);
    }
    Ok(symbols)
}

/// What a function is known by before its texts are looked at: indexes of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FunctionKey {
    name: Name,
    file: i32,
    line: u32,
    code: Code,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    Row(i32),
    /// Of code that nobody named.
    Address(u64),
}

/// What made the code of a location, as far as it decides what its functions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Code {
    Kernel,
    Wasm,
    Native,
    Other,
}

/// The functions of locations, each once.
struct Functions<'a> {
    dictionary: &'a ProfilesDictionary,
    texts: &'a mut TextBudget,
    known: FastMap<FunctionKey, u32>,
    rows: FastMap<StoredFunction, u32>,
}

impl<'a> Functions<'a> {
    fn new(dictionary: &'a ProfilesDictionary, texts: &'a mut TextBudget) -> Self {
        Self {
            dictionary,
            texts,
            known: FastMap::default(),
            rows: FastMap::default(),
        }
    }

    /// Adds the frames of a location, the innermost first.
    fn add_frames(
        &mut self,
        location: &Location,
        frames: &mut Vec<StoredFrame>,
    ) -> Result<(), OtlpError> {
        let dictionary = self.dictionary;
        let strings = Strings(dictionary);
        let code = self.code_of(location);
        let mapping = row_in(&dictionary.mapping_table, location.mapping_index);
        let module = mapping.map_or(0, |it| it.filename_strindex);
        if location.lines.is_empty() {
            let function = self.function(FunctionKey {
                name: Name::Address(location.address),
                file: module,
                line: 0,
                code,
            })?;
            frames.push(StoredFrame {
                function,
                ..StoredFrame::default()
            });
        }
        let outermost = location.lines.len().saturating_sub(1);
        for (position, line) in location.lines.iter().enumerate() {
            let function = row_in(&dictionary.function_table, line.function_index);
            let function = function.copied().unwrap_or_default();
            let function = self.function(FunctionKey {
                name: Name::Row(function.name_strindex),
                file: match strings.get(function.filename_strindex) {
                    "" => module,
                    _ => function.filename_strindex,
                },
                line: number(function.start_line),
                code,
            })?;
            frames.push(StoredFrame {
                function,
                line: number(line.line),
                column: number(line.column),
                kind: FrameKind::inlined_if(position < outermost),
                ..StoredFrame::default()
            });
        }
        Ok(())
    }

    fn code_of(&self, location: &Location) -> Code {
        let strings = Strings(self.dictionary);
        let frame_type = location.attribute_indices.iter().find_map(|row| {
            let attribute = row_in(&self.dictionary.attribute_table, *row)?;
            let is_type = strings.get(attribute.key_strindex) == FRAME_TYPE;
            is_type.then(|| strings.value(attribute.value.as_ref()))?
        });
        match frame_type.as_deref() {
            Some("kernel") => Code::Kernel,
            Some("wasm") => Code::Wasm,
            Some("native") => Code::Native,
            _ => Code::Other,
        }
    }

    /// The row of a function, whose texts are copied when it is met for the first time.
    fn function(&mut self, key: FunctionKey) -> Result<u32, OtlpError> {
        if let Some(row) = self.known.get(&key) {
            return Ok(*row);
        }
        let strings = Strings(self.dictionary);
        let name: Cow<'_, str> = match key.name {
            Name::Row(row) => cut(strings.get(row), MAX_TEXT_BYTES).into(),
            Name::Address(0) => "".into(),
            Name::Address(address) => format!("0x{address:x}").into(),
        };
        let file = cut(strings.get(key.file), MAX_TEXT_BYTES);
        self.texts.draw(name.len() + file.len())?;
        let category = match key.code {
            Code::Kernel => Category::Kernel,
            Code::Wasm => Category::Wasm,
            Code::Native => category_of_native(&name),
            Code::Other if name.is_empty() => Category::Unknown,
            Code::Other => category_of_file(file),
        };
        let row = self.row(StoredFunction {
            name: name.into_owned(),
            file: file.to_owned(),
            line: key.line,
            column: 0,
            category,
        });
        self.known.insert(key, row);
        Ok(row)
    }

    fn row(&mut self, function: StoredFunction) -> u32 {
        let next = self.rows.len() as u32;
        *self.rows.entry(function).or_insert(next)
    }

    fn finish(self) -> Vec<StoredFunction> {
        let mut functions: Vec<(StoredFunction, u32)> = self.rows.into_iter().collect();
        functions.small_sort_by_key(|(_, row)| *row);
        functions.into_iter().map(|(it, _)| it).collect()
    }
}

/// A line or column; those that can't be are not known.
fn number(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}
