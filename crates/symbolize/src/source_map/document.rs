//! The JSON of a source map, version 3: one map, or several one after the other (`sections`).
//!
//! Lists are walked when it is known which of their entries are wanted; texts of sources, which are
//! most of a map, are only skipped until then.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use nodespy_model::{FastMap, SmallSort};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::mappings::{self, Questions, Written};

/// No map has more sections than this (a bundle of bundles has some ten).
const SECTION_LIMIT: usize = 1 << 16;

/// Why a map can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum DocumentError {
    #[error("it is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it is of version {0}, and only version 3 is known")]
    Version(String),
    #[error("it has no mappings")]
    NoMappings,
    #[error("it has more than {SECTION_LIMIT} sections")]
    Sections,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default)]
    version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    mappings: Option<&'a RawValue>,
    #[serde(borrow, default)]
    sources: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "sourcesContent")]
    contents: Option<&'a RawValue>,
    #[serde(borrow, default)]
    names: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "sourceRoot")]
    root: Option<&'a RawValue>,
    #[serde(borrow, default)]
    file: Option<&'a RawValue>,
    #[serde(borrow, default)]
    sections: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct SectionFields<'a> {
    offset: Offset,
    /// None where the section's map is elsewhere, behind a `url`: that part stays as it is.
    #[serde(borrow, default)]
    map: Option<&'a RawValue>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Offset {
    line: u32,
    column: u32,
}

/// A map whose outermost fields were read.
pub(super) struct Document<'a> {
    parts: Vec<Part<'a>>,
    /// The script it says it is for.
    pub(super) file: String,
}

/// One map, and where in the script it begins.
struct Part<'a> {
    offset: Offset,
    mappings: Cow<'a, str>,
    fields: Fields<'a>,
}

/// A source of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceText {
    /// Its name with the map's `sourceRoot` before it, as the map has both.
    pub(super) root: String,
    pub(super) name: String,
    /// What it holds, where that was asked for and the map has it.
    pub(super) text: Option<String>,
}

/// Where something was written, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Its source in [`Answered::sources`].
    pub(super) source: usize,
    /// From 0.
    pub(super) line: u32,
    /// From 0.
    pub(super) column: u32,
    /// What it is called there, where the map says so.
    pub(super) name: Option<String>,
    /// Whether a segment starts at the very place that was asked for.
    pub(super) is_exact: bool,
}

/// What a map says of the places that were asked for.
#[derive(Debug, Default)]
pub(super) struct Answered {
    pub(super) points: Vec<Option<Place>>,
    /// The source and line, from 0, of lines of which no column is known.
    pub(super) lines: Vec<Option<(usize, u32)>>,
    pub(super) sources: Vec<SourceText>,
    /// The byte of the mappings from which on they could not be read.
    pub(super) damaged_at: Option<usize>,
}

impl<'a> Document<'a> {
    /// Reads the outermost fields.
    pub(super) fn read(text: &'a str) -> Result<Self, DocumentError> {
        // A first line that keeps browsers from running it as a script.
        let text = match text.strip_prefix(")]}'") {
            Some(rest) => rest.split_once('\n').map_or("", |(_, rest)| rest),
            None => text.trim_start_matches('\u{feff}'),
        };
        let fields: Fields<'a> = serde_json::from_str(text)?;
        let version = fields.version.map_or("3", RawValue::get);
        if version.trim_matches('"') != "3" {
            return Err(DocumentError::Version(version.chars().take(20).collect()));
        }
        let file = fields
            .file
            .and_then(string)
            .unwrap_or_default()
            .into_owned();
        let parts = match fields.sections {
            Some(sections) => read_sections(sections)?,
            None => vec![Part::read(Offset { line: 0, column: 0 }, fields)?],
        };
        Ok(Self { parts, file })
    }

    /// Whether all of it comes from one source.
    pub(super) fn has_one_source(&self) -> bool {
        matches!(&self.parts[..], [part] if part.source_count() == 1)
    }

    /// Answers questions, with the texts of the sources where they are wanted.
    pub(super) fn ask(&self, questions: &Questions, wants_text: bool) -> Answered {
        let mut answered = Answered {
            points: vec![None; questions.points.len()],
            lines: vec![None; questions.lines.len()],
            ..Answered::default()
        };
        for (position, part) in self.parts.iter().enumerate() {
            let end = self.parts.get(position + 1).map(|next| next.offset);
            part.ask(end, questions, wants_text, &mut answered);
        }
        answered
    }
}

fn read_sections(sections: &RawValue) -> Result<Vec<Part<'_>>, DocumentError> {
    let sections: Vec<SectionFields<'_>> = serde_json::from_str(sections.get())?;
    if sections.len() > SECTION_LIMIT {
        return Err(DocumentError::Sections);
    }
    let mut parts = Vec::new();
    for section in &sections {
        // A section within a section has no mappings of its own: it is left out.
        let Some(map) = section.map else { continue };
        match serde_json::from_str(map.get()).map(|fields| Part::read(section.offset, fields))? {
            Ok(part) => parts.push(part),
            Err(DocumentError::NoMappings) => {}
            Err(error) => return Err(error),
        }
    }
    // They have to be in order; a later one that starts earlier would take its part all the same.
    parts.small_sort_by_key(|part| part.offset);
    match parts.is_empty() {
        true => Err(DocumentError::NoMappings),
        false => Ok(parts),
    }
}

impl<'a> Part<'a> {
    fn read(offset: Offset, fields: Fields<'a>) -> Result<Self, DocumentError> {
        let mappings = fields.mappings.and_then(string);
        Ok(Self {
            offset,
            mappings: mappings.ok_or(DocumentError::NoMappings)?,
            fields,
        })
    }

    fn source_count(&self) -> usize {
        self.fields.sources.map_or(0, |list| {
            let count = serde_json::from_str::<Counted>(list.get());
            count.map_or(0, |counted| counted.0)
        })
    }

    /// Answers the questions about places from here to `end`.
    fn ask(&self, end: Option<Offset>, all: &Questions, wants_text: bool, answered: &mut Answered) {
        let (asked, points, lines) = self.questions(end, all);
        if points.is_empty() && lines.is_empty() {
            return;
        }
        let answers = mappings::answer(self.mappings.as_bytes(), &asked);
        answered.damaged_at = answered.damaged_at.or(answers.damaged_at);
        let places = answers.points.iter().flatten();
        let mut sources: BTreeMap<u32, usize> = BTreeMap::new();
        let mut names: FastMap<u32, String> = FastMap::default();
        for Written { source, name, .. } in places {
            sources.insert(*source, 0);
            if let Some(name) = name {
                names.insert(*name, String::new());
            }
        }
        let in_lines = answers.lines.iter().flatten();
        sources.extend(in_lines.map(|(source, _)| (*source, 0)));
        self.add_sources(&mut sources, wants_text, answered);
        fill(self.fields.names, &mut names);
        for (question, written) in points.iter().zip(&answers.points) {
            answered.points[*question] = written.and_then(|written| {
                let name = written.name.and_then(|name| names.get(&name));
                Some(Place {
                    source: *sources.get(&written.source)?,
                    line: written.line,
                    column: written.column,
                    name: name.filter(|name| !name.is_empty()).cloned(),
                    is_exact: written.is_exact,
                })
            });
        }
        for (question, written) in lines.iter().zip(&answers.lines) {
            answered.lines[*question] =
                written.and_then(|(source, line)| Some((*sources.get(&source)?, line)));
        }
    }

    /// The questions about places from here to `end`, counted from here, and which they are.
    fn questions(
        &self,
        end: Option<Offset>,
        all: &Questions,
    ) -> (Questions, Vec<usize>, Vec<usize>) {
        let start = self.offset;
        let mut asked = Questions::default();
        let mut points = Vec::new();
        let mut lines = Vec::new();
        for (position, &(line, column)) in all.points.iter().enumerate() {
            let place = Offset { line, column };
            if place >= start && end.is_none_or(|end| place < end) {
                let first = if line == start.line { start.column } else { 0 };
                asked.points.push((line - start.line, column - first));
                points.push(position);
            }
        }
        for (position, &line) in all.lines.iter().enumerate() {
            // A line that two sections share is no one's.
            let is_whole = line > start.line || (line == start.line && start.column == 0);
            if is_whole && end.is_none_or(|end| line < end.line) {
                asked.lines.push(line - start.line);
                lines.push(position);
            }
        }
        (asked, points, lines)
    }

    /// Adds the sources of these numbers to the answers; those that have no name are taken out.
    fn add_sources(
        &self,
        wanted: &mut BTreeMap<u32, usize>,
        wants_text: bool,
        answered: &mut Answered,
    ) {
        let numbers = wanted.keys().map(|number| (*number, String::new()));
        let mut names: FastMap<u32, String> = numbers.clone().collect();
        fill(self.fields.sources, &mut names);
        let mut texts: FastMap<u32, String> = FastMap::default();
        if wants_text {
            texts = numbers.collect();
            fill(self.fields.contents, &mut texts);
        }
        let root = self.fields.root.and_then(string).unwrap_or_default();
        wanted.retain(|number, index| {
            let Some(name) = names.remove(number).filter(|name| !name.is_empty()) else {
                return false;
            };
            *index = answered.sources.len();
            answered.sources.push(SourceText {
                root: root.clone().into_owned(),
                name,
                text: texts.remove(number).filter(|text| !text.is_empty()),
            });
            true
        });
    }
}

/// The text of a JSON string; none for anything else.
fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    match serde_json::from_str::<&str>(value.get()) {
        Ok(text) => Some(Cow::Borrowed(text)),
        Err(_) => serde_json::from_str(value.get()).ok().map(Cow::Owned),
    }
}

/// Takes the texts with these numbers out of a list. What is not there, or no text, stays empty.
fn fill(list: Option<&RawValue>, texts: &mut FastMap<u32, String>) {
    if let (Some(list), false) = (list, texts.is_empty()) {
        let mut reader = serde_json::Deserializer::from_str(list.get());
        // A list that is damaged after what was wanted still had it.
        let _ = reader.deserialize_seq(Picked(texts));
    }
}

struct Picked<'m>(&'m mut FastMap<u32, String>);

impl<'de> Visitor<'de> for Picked<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of texts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        for number in 0u32.. {
            let slot = self.0.get_mut(&number);
            let more = match slot {
                None => list.next_element::<IgnoredAny>()?.is_some(),
                Some(slot) => match list.next_element::<&RawValue>()? {
                    None => false,
                    Some(value) => {
                        *slot = string(value).unwrap_or_default().into_owned();
                        true
                    }
                },
            };
            if !more {
                break;
            }
        }
        Ok(())
    }
}

/// How many entries a list has.
struct Counted(usize);

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Counter)
    }
}

struct Counter;

impl<'de> Visitor<'de> for Counter {
    type Value = Counted;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Counted, A::Error> {
        let mut count = 0;
        while list.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Counted(count))
    }
}

#[cfg(test)]
mod tests {
    use super::super::urls::file_of_source;
    use super::*;
    use std::path::Path;

    /// The answers to all of a list of places, as the list has them.
    fn expect_places(map: &str, places: &str) {
        let document = Document::read(map).unwrap();
        let number = |text: &str| text.parse::<u32>().unwrap();
        let pair = |text: &str| {
            let (one, two) = text.split_once(':').unwrap();
            (number(one), number(two))
        };
        let rows: Vec<Vec<&str>> = places.lines().map(|row| row.split(' ').collect()).collect();
        let questions = Questions {
            points: rows.iter().map(|row| pair(row[0])).collect(),
            lines: Vec::new(),
        };
        let answered = document.ask(&questions, false);
        assert_eq!(answered.damaged_at, None);
        for (row, place) in rows.iter().zip(answered.points) {
            let place = place.unwrap_or_else(|| panic!("{row:?}"));
            let source = &answered.sources[place.source];
            let file = file_of_source(&source.root, &source.name, Path::new("/app/dist"));
            assert_eq!(file, row[1].replace("..", "/app"), "{row:?}");
            assert_eq!((place.line, place.column), pair(row[2]), "{row:?}");
            assert_eq!(place.name.as_deref().unwrap_or("-"), row[3], "{row:?}");
        }
    }

    macro_rules! fixture {
        ($name:literal) => {
            include_str!(concat!("../../../../fixtures/source_map/", $name))
        };
    }

    #[test]
    fn places_are_where_another_reader_of_source_maps_has_them() {
        expect_places(fixture!("esbuild.map"), fixture!("esbuild.places"));
        expect_places(fixture!("tsc.map"), fixture!("tsc.places"));
        expect_places(fixture!("terser.map"), fixture!("terser.places"));
        expect_places(fixture!("sections.map"), fixture!("sections.places"));
    }

    fn ask(map: &str) -> Result<Answered, String> {
        let questions = Questions {
            points: vec![(0, 0), (0, 4), (0, 8)],
            lines: vec![0],
        };
        let document = Document::read(map).map_err(|error| error.to_string())?;
        Ok(document.ask(&questions, true))
    }

    #[test]
    fn what_is_missing_from_a_map_is_nowhere() {
        // Sources 0, 1 and 9; the second is null, the last is not there; name 7 is not there.
        let map = r#"{"version":3,"sources":["a.ts",null],"sourcesContent":["text",5],
            "names":[0],"mappings":"AAAAA,ICAA,IQAAO","sections2":[[]]}"#;
        let answered = ask(map).unwrap();
        let found: Vec<bool> = answered.points.iter().map(Option::is_some).collect();
        assert_eq!(found, [true, false, false]);
        assert_eq!(answered.points[0].as_ref().unwrap().name, None);
        assert_eq!(answered.sources.len(), 1);
        assert_eq!(answered.sources[0].text.as_deref(), Some("text"));
        assert_eq!(answered.lines, [None]);
    }

    #[test]
    fn what_is_no_map_is_refused_with_the_reason() {
        for (map, why) in [
            ("", "it is not JSON"),
            ("[]", "it has no mappings"),
            ("{}", "it has no mappings"),
            (r#"{"version":3,"mappings":7}"#, "it has no mappings"),
            (r#"{"version":2,"mappings":""}"#, "it is of version 2"),
            (r#"{"version":3,"sections":[]}"#, "it has no mappings"),
            (r#"{"version":3,"sections":[{"map":{}}]}"#, "it is not JSON"),
            (
                r#"{"sections":[{"offset":{"line":-1,"column":0},"map":{"mappings":""}}]}"#,
                "it is not JSON",
            ),
        ] {
            let Err(said) = ask(map) else { panic!("{map}") };
            assert!(said.starts_with(why), "{map}: {said}");
        }
        let deep = format!(r#"{{"version":3,"x":{}"#, "[".repeat(1 << 20));
        assert!(ask(&deep).is_err());
    }

    #[test]
    fn the_line_that_guards_against_scripts_is_skipped() {
        let answered =
            ask(")]}'\n{\"version\":3,\"sources\":[\"a\"],\"mappings\":\"AAAA\"}").unwrap();
        assert_eq!(answered.sources[0].name, "a");
        assert_eq!(answered.lines, [Some((0, 0))]);
    }
}
