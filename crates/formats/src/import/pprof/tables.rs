//! Everything in a pprof file that samples refer to.

use std::borrow::Cow;
use std::ops::Range;

use nodespy_model::{FastMap, Notes, cut_bytes};

use super::{Problems, field};
use crate::import::ImportError;
use crate::protobuf::{Field, Message, Problem, Value};

/// How many comments are looked at, and how much of each: nodespy's own are shorter.
const MAX_COMMENTS: usize = 1000;
const MAX_COMMENT_BYTES: usize = 64 << 10;

/// What a value of a sample counts, as indexes of strings.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ValueType {
    pub(super) name: u64,
    pub(super) unit: u64,
}

/// A function, with indexes of strings.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Function {
    pub(super) name: u64,
    pub(super) system_name: u64,
    pub(super) file: u64,
    pub(super) start_line: u64,
}

/// A library or program in memory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) file_offset: u64,
    pub(super) file: u64,
}

/// A line of a function.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Line {
    pub(super) function: u64,
    pub(super) line: u64,
    pub(super) column: u64,
}

/// A place in the program: an address, and the lines that were compiled into it.
#[derive(Debug, Clone, Default)]
pub(super) struct Location {
    pub(super) mapping: u64,
    pub(super) address: u64,
    /// Where its lines are in [`Tables::lines`], innermost first.
    pub(super) lines: Range<usize>,
}

/// The tables of a file, by the ids that the file gives them.
#[derive(Debug, Default)]
pub(super) struct Tables<'a> {
    strings: Vec<&'a [u8]>,
    /// The strings as names: looked at once, however often rows refer to them.
    names: Vec<Cow<'a, str>>,
    pub(super) value_types: Vec<ValueType>,
    pub(super) functions: FastMap<u64, Function>,
    pub(super) mappings: FastMap<u64, Mapping>,
    pub(super) locations: FastMap<u64, Location>,
    pub(super) lines: Vec<Line>,
    pub(super) period_type: ValueType,
    pub(super) period: i64,
    pub(super) time: i64,
    pub(super) duration: i64,
    pub(super) default_type: u64,
    comments: Vec<u64>,
    samples: u64,
}

impl<'a> Tables<'a> {
    /// Gathers the tables. What can't be read is left out and said in `notes`.
    pub(super) fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, ImportError> {
        let mut tables = Self::default();
        let mut problems = Problems::default();
        let mut cut = None;
        for field in Message::whole(bytes).fields() {
            match field {
                Ok(field) => {
                    if let Err(problem) = tables.take(field) {
                        problems.add(problem);
                    }
                }
                Err(problem) => cut = Some(problem),
            }
        }
        if tables.strings.is_empty() || tables.samples == 0 {
            return Err(match cut {
                Some(problem) => problem.into(),
                None if tables.strings.is_empty() => ImportError::NotThisFormat { format: "pprof" },
                None => ImportError::NoStacks,
            });
        }
        if let Some(problem) = cut {
            let Problem { at, what } = problem;
            notes.remark(format!("what follows byte {at} is missing: {what}"));
        }
        problems.report("rows of tables", notes);
        let names = tables.strings.iter();
        tables.names = names
            .map(|bytes| String::from_utf8_lossy(cut_bytes(bytes)))
            .collect();
        Ok(tables)
    }

    fn take(&mut self, field: Field<'a>) -> Result<(), Problem> {
        match (field.number, field.value) {
            (field::STRING, Value::Bytes(text)) => self.strings.push(text.bytes),
            (field::SAMPLE, Value::Bytes(_)) => self.samples += 1,
            (field::SAMPLE_TYPE, Value::Bytes(message)) => {
                self.value_types.push(value_type(message)?);
            }
            (field::PERIOD_TYPE, Value::Bytes(message)) => self.period_type = value_type(message)?,
            (field::FUNCTION, Value::Bytes(message)) => self.take_function(message)?,
            (field::MAPPING, Value::Bytes(message)) => self.take_mapping(message)?,
            (field::LOCATION, Value::Bytes(message)) => self.take_location(message)?,
            (field::TIME, Value::Number(number)) => self.time = number as i64,
            (field::DURATION, Value::Number(number)) => self.duration = number as i64,
            (field::PERIOD, Value::Number(number)) => self.period = number as i64,
            (field::DEFAULT_TYPE, Value::Number(number)) => self.default_type = number,
            (field::COMMENT, value) => value.each_number(|number| self.comments.push(number))?,
            _ => {}
        }
        Ok(())
    }

    fn take_function(&mut self, message: Message<'a>) -> Result<(), Problem> {
        let [id, name, system_name, file, start_line] = numbers(message)?;
        let function = Function {
            name,
            system_name,
            file,
            start_line,
        };
        self.functions.insert(id, function);
        Ok(())
    }

    fn take_mapping(&mut self, message: Message<'a>) -> Result<(), Problem> {
        let [id, start, _end, file_offset, file] = numbers(message)?;
        let mapping = Mapping {
            start,
            file_offset,
            file,
        };
        self.mappings.insert(id, mapping);
        Ok(())
    }

    fn take_location(&mut self, message: Message<'a>) -> Result<(), Problem> {
        let [id, mapping, address] = numbers(message)?;
        let start = self.lines.len();
        for field in message.fields() {
            let field = field?;
            if let (4, Value::Bytes(line)) = (field.number, field.value) {
                let [function, line, column] = numbers(line)?;
                self.lines.push(Line {
                    function,
                    line,
                    column,
                });
            }
        }
        let location = Location {
            mapping,
            address,
            lines: start..self.lines.len(),
        };
        self.locations.insert(id, location);
        Ok(())
    }

    /// The string with this index, as much of it as a name can be; empty when there is none.
    pub(super) fn text(&self, index: u64) -> &str {
        let index = usize::try_from(index).ok();
        let text = index.and_then(|index| self.names.get(index));
        text.map_or("", |text| text)
    }

    /// What the writer of the file said about it.
    pub(super) fn comments(&self) -> Vec<Cow<'a, str>> {
        let comments = self.comments.iter().take(MAX_COMMENTS);
        let strings = comments.map(|index| {
            let index = usize::try_from(*index).ok();
            let bytes = index.and_then(|index| self.strings.get(index).copied());
            bytes.unwrap_or_default()
        });
        strings
            .map(|bytes| String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_COMMENT_BYTES)]))
            .collect()
    }
}

fn value_type(message: Message<'_>) -> Result<ValueType, Problem> {
    let [name, unit] = numbers(message)?;
    Ok(ValueType { name, unit })
}

/// The numbers of the fields 1 to `N`; zero where there is none, the last where there are several.
fn numbers<const N: usize>(message: Message<'_>) -> Result<[u64; N], Problem> {
    let mut found = [0; N];
    for field in message.fields() {
        let field = field?;
        let place = usize::try_from(field.number - 1).unwrap_or(N);
        if let (Some(found), Some(number)) = (found.get_mut(place), field.value.number()) {
            *found = number;
        }
    }
    Ok(found)
}
