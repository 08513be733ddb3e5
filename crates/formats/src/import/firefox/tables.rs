//! The tables of a thread, or those that all threads have in common.

use std::borrow::Cow;

use nodespy_model::cut;

use crate::json::{JsonError, Kind, Reader};

/// What stands for a missing value in a column.
pub(super) const NONE: i64 = -1;

/// A library.
#[derive(Debug, Default)]
pub(super) struct Lib<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) path: Cow<'a, str>,
}

impl<'a> Lib<'a> {
    pub(super) fn read_all(reader: &mut Reader<'a>) -> Result<Vec<Self>, JsonError> {
        let mut libs = Vec::new();
        reader.enter_array()?;
        while reader.element()? {
            let mut lib = Self::default();
            reader.enter_object()?;
            while let Some(key) = reader.key()? {
                match &*key {
                    "name" => lib.name = reader.any_text()?,
                    "path" => lib.path = reader.any_text()?,
                    _ => reader.skip()?,
                }
            }
            libs.push(lib);
        }
        Ok(libs)
    }
}

/// Columns of numbers by their names.
#[derive(Debug, Default)]
pub(super) struct Table {
    columns: Vec<(&'static str, Vec<i64>)>,
}

impl Table {
    /// Reads those of `wanted` that are there.
    fn read(reader: &mut Reader<'_>, wanted: &[&'static str]) -> Result<Self, JsonError> {
        let mut table = Self::default();
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            let name = wanted.iter().find(|name| **name == key);
            match (name, reader.kind()?) {
                (Some(name), Kind::Array) => {
                    let column = read_column(reader)?;
                    table.columns.push((name, column));
                }
                _ => reader.skip()?,
            }
        }
        Ok(table)
    }

    /// How many rows the column called `name` has.
    pub(super) fn rows(&self, name: &str) -> usize {
        self.column(name).len()
    }

    fn column(&self, name: &str) -> &[i64] {
        let found = self.columns.iter().find(|(known, _)| *known == name);
        found.map_or(&[], |(_, column)| column)
    }

    /// A number of the table; [`NONE`] when there is none.
    pub(super) fn get(&self, name: &str, row: usize) -> i64 {
        self.column(name).get(row).copied().unwrap_or(NONE)
    }

    /// A number of the table that is a position in another.
    pub(super) fn index(&self, name: &str, row: usize) -> Option<usize> {
        usize::try_from(self.get(name, row)).ok()
    }
}

fn read_column(reader: &mut Reader<'_>) -> Result<Vec<i64>, JsonError> {
    let mut column = Vec::new();
    reader.enter_array()?;
    while reader.element()? {
        column.push(match reader.kind()? {
            Kind::Number => reader.number()?.as_i64(),
            _ => reader.any_number()?.map_or(NONE, |number| number.as_i64()),
        });
    }
    Ok(column)
}

/// The tables, as far as they are there.
#[derive(Debug, Default)]
pub(super) struct Tables<'a> {
    strings: Option<Vec<Cow<'a, str>>>,
    stacks: Option<Table>,
    frames: Option<Table>,
    functions: Option<Table>,
    resources: Option<Table>,
    sources: Option<Table>,
}

impl<'a> Tables<'a> {
    /// Takes the value of `key` if it is a table, and passes over it otherwise.
    pub(super) fn read_field(
        &mut self,
        key: &str,
        reader: &mut Reader<'a>,
    ) -> Result<(), JsonError> {
        let (place, columns): (_, &[_]) = match (key, reader.kind()?) {
            ("stringArray" | "stringTable", Kind::Array) => {
                let mut strings = Vec::new();
                reader.enter_array()?;
                while reader.element()? {
                    strings.push(reader.any_text()?);
                }
                self.strings = Some(strings);
                return Ok(());
            }
            ("stackTable", Kind::Object) => (&mut self.stacks, &["prefix", "frame"]),
            ("frameTable", Kind::Object) => (
                &mut self.frames,
                &[
                    "func",
                    "category",
                    "subcategory",
                    "implementation",
                    "line",
                    "column",
                    "inlineDepth",
                ],
            ),
            ("funcTable", Kind::Object) => (
                &mut self.functions,
                &[
                    "name",
                    "resource",
                    "fileName",
                    "source",
                    "lineNumber",
                    "columnNumber",
                ],
            ),
            ("resourceTable", Kind::Object) => (&mut self.resources, &["lib", "name"]),
            ("sources", Kind::Object) => (&mut self.sources, &["filename"]),
            _ => return reader.skip(),
        };
        *place = Some(Table::read(reader, columns)?);
        Ok(())
    }

    /// Whether there are stacks of its own.
    pub(super) fn has_stacks(&self) -> bool {
        self.stacks.is_some()
    }

    /// These tables, and those of `shared` where one is missing.
    pub(super) fn with<'t>(&'t self, shared: &'t Self) -> AllTables<'t, 'a> {
        static EMPTY: Table = Table {
            columns: Vec::new(),
        };
        let table = |own: &'t Option<Table>, other: &'t Option<Table>| {
            own.as_ref().or(other.as_ref()).unwrap_or(&EMPTY)
        };
        AllTables {
            strings: match (&self.strings, &shared.strings) {
                (Some(strings), _) | (None, Some(strings)) => strings,
                (None, None) => &[],
            },
            stacks: table(&self.stacks, &shared.stacks),
            frames: table(&self.frames, &shared.frames),
            functions: table(&self.functions, &shared.functions),
            resources: table(&self.resources, &shared.resources),
            sources: table(&self.sources, &shared.sources),
        }
    }
}

/// All tables that a stack needs.
pub(super) struct AllTables<'t, 'a> {
    strings: &'t [Cow<'a, str>],
    pub(super) stacks: &'t Table,
    pub(super) frames: &'t Table,
    pub(super) functions: &'t Table,
    pub(super) resources: &'t Table,
    pub(super) sources: &'t Table,
}

impl<'t> AllTables<'t, '_> {
    /// The string at a position, as much of it as a name can be; empty when there is none.
    pub(super) fn text(&self, index: Option<usize>) -> &'t str {
        index
            .and_then(|index| self.strings.get(index))
            .map_or("", |text| cut(text))
    }
}
