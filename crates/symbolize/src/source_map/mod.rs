//! Source maps: where the code that ran was written, and what it was called there.
//!
//! The last step of naming. In comes a profile whose functions are in scripts as V8 has them; out
//! goes one whose functions are in the original sources. The place in the script is kept beside
//! (`generated_places`). What a map does not show for certain stays as it was: a name is taken only
//! if the map has it for the very word the function is declared with. Nothing is fetched.
//! <https://tc39.es/ecma426/> describes the format.

mod document;
mod find;
mod given;
mod mappings;
mod names;
mod urls;

use std::collections::BTreeMap;
use std::path::PathBuf;

use nodespy_model::classify::category_of_file;
use nodespy_model::{
    Category, FastMap, FastSet, FrameIndex, FunctionIndex, FunctionSpec, LoadedScript, Origin,
    Profile, StringIndex, rewritten,
};

use document::{Document, Place, SourceText};
use find::{Finder, FoundMap};
use given::GivenMaps;
use mappings::Questions;
use urls::file_of_source;

/// The largest source that is taken along, and all together: what our own format reads back.
const TEXT_LIMIT_BYTES: usize = 16 << 20;
const ALL_TEXT_BYTES: usize = 64 << 20;
/// How many scripts are named whose maps can't be used.
const REMARK_LIMIT: usize = 3;

/// Which source maps are used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceMapOptions {
    /// Maps, and folders that hold some.
    pub given: Vec<PathBuf>,
    /// Whether the texts of sources that maps hold are taken along.
    pub embeds_sources: bool,
}

/// The profile with its functions where they were written, as far as source maps show. `scripts` is
/// what is known of the texts V8 has; `origin` opens what the processes could, and without one only
/// the maps that were given count.
pub fn map_sources(
    mut profile: Profile,
    scripts: &[LoadedScript],
    origin: Option<&dyn Origin>,
    options: &SourceMapOptions,
) -> Profile {
    let mut remarks = Vec::new();
    let mut moves = Moves::default();
    let by_file = functions_by_file(&profile);
    let frames = frames_by_function(&profile);
    let mut finder = Finder {
        profile: &profile,
        scripts,
        origin,
        given: GivenMaps::look_at(&options.given),
        read_bytes: 0,
    };
    remarks.append(&mut finder.given.remarks);
    let mut refused = Vec::new();
    for (file, functions) in &by_file {
        let script = Script {
            profile: &profile,
            functions,
            frames: &frames,
        };
        let moved = finder.find(file).and_then(|found| match found {
            Some(found) => moves
                .take(&script, &found, options.embeds_sources)
                .map(|()| true),
            None => Ok(false),
        });
        if let Err(why) = moved {
            refused.push((file.as_str(), why));
        }
    }
    remarks.extend(moves.remark());
    remarks.extend(remarks_of(refused));
    if !moves.functions.is_empty() {
        profile = moves.apply(&profile);
    }
    for remark in remarks {
        profile.notes.remark(remark);
    }
    profile
}

/// What is said of scripts whose maps can't be used: those of the application one by one, those of
/// dependencies in one sentence, since packages are often published without the maps they name.
fn remarks_of(refused: Vec<(&str, String)>) -> Vec<String> {
    let is_dependency = |(file, _): &(&str, String)| category_of_file(file) == Category::Dependency;
    let (dependencies, own): (Vec<_>, Vec<_>) = refused.into_iter().partition(is_dependency);
    let more = own.len().saturating_sub(REMARK_LIMIT);
    let said = own.iter().take(REMARK_LIMIT);
    let one_by_one =
        |(file, why): &(&str, String)| format!("source maps: {file} is shown as it runs: {why}");
    let mut remarks: Vec<String> = said.map(one_by_one).collect();
    if more > 0 {
        remarks.push(format!("source maps: so are {more} more scripts"));
    }
    match dependencies.as_slice() {
        [] => {}
        [only] => remarks.push(one_by_one(only)),
        [(file, why), ..] => remarks.push(format!(
            "source maps: {} scripts of dependencies are shown as they run, such as {file}: {why}",
            dependencies.len()
        )),
    }
    remarks
}

/// The functions of the application and its dependencies by file, in order.
fn functions_by_file(profile: &Profile) -> BTreeMap<String, Vec<FunctionIndex>> {
    let mut by_file: BTreeMap<String, Vec<FunctionIndex>> = BTreeMap::new();
    for (position, function) in profile.functions.iter().enumerate() {
        let index = FunctionIndex(position as u32);
        let is_script = matches!(function.category, Category::App | Category::Dependency);
        if is_script && function.line > 0 {
            let file = profile.file_of(index).to_owned();
            by_file.entry(file).or_default().push(index);
        }
    }
    by_file.remove("");
    by_file
}

fn frames_by_function(profile: &Profile) -> Vec<Vec<FrameIndex>> {
    let mut frames = vec![Vec::new(); profile.functions.len()];
    for (position, frame) in profile.frames.iter().enumerate() {
        if frame.line > 0 {
            frames[frame.function.at()].push(FrameIndex(position as u32));
        }
    }
    frames
}

/// A script of the profile.
struct Script<'a> {
    profile: &'a Profile,
    functions: &'a [FunctionIndex],
    frames: &'a [Vec<FrameIndex>],
}

/// Where a function was written.
#[derive(Debug)]
struct MovedFunction {
    /// Its name there, where it has another.
    name: Option<String>,
    file: String,
    line: u32,
    column: u32,
}

/// Everything that maps show of a profile.
#[derive(Debug, Default)]
struct Moves {
    functions: FastMap<FunctionIndex, MovedFunction>,
    /// Line and column that frames run at.
    frames: FastMap<FrameIndex, (u32, u32)>,
    texts: BTreeMap<String, String>,
    text_bytes: usize,
    labels: Vec<String>,
}

/// Where the question about something stands.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Point(usize),
    Line(usize),
}

impl Moves {
    /// Takes in what a map has of a script.
    fn take(&mut self, script: &Script<'_>, found: &FoundMap, embeds: bool) -> Result<(), String> {
        let document = Document::read(&found.map)
            .map_err(|error| format!("{} can't be used: {error}", found.label))?;
        let mut questions = Questions::default();
        let rows = script.questions(&document, &mut questions);
        let words = script.words(&rows, found.script.as_deref(), &mut questions);
        let answered = document.ask(&questions, embeds);
        let files: Vec<String> = answered
            .sources
            .iter()
            .map(|source| file_of_source(&source.root, &source.name, &found.folder))
            .collect();
        let place_of = |asked: Asked| match asked {
            Asked::Point(at) => answered.points[at].as_ref().map(place_from_1),
            Asked::Line(at) => {
                answered.lines[at].map(|(source, line)| (source, line.saturating_add(1), 0))
            }
        };
        let before = self.functions.len();
        for (row, word) in rows.iter().zip(words) {
            let Some((source, line, column)) = place_of(row.start) else {
                continue;
            };
            for &(frame, asked) in &row.frames {
                // What a bundler took over from another file has no line in this one.
                let place = place_of(asked).filter(|place| place.0 == source);
                let (_, line, column) = place.unwrap_or_default();
                self.frames.insert(frame, (line, column));
            }
            let word = word.and_then(|word| answered.points[word].as_ref());
            let name = word
                .filter(|word| word.is_exact && word.source == source)
                .and_then(|word| word.name.clone());
            self.functions.insert(
                row.function,
                MovedFunction {
                    name,
                    file: files[source].clone(),
                    line,
                    column,
                },
            );
        }
        if self.functions.len() > before {
            self.labels.push(found.label.clone());
        }
        for (file, source) in files.into_iter().zip(answered.sources) {
            self.add_text(file, source);
        }
        match answered.damaged_at {
            Some(at) => Err(format!(
                "the mappings of {} are damaged at byte {at}",
                found.label
            )),
            None => Ok(()),
        }
    }

    fn add_text(&mut self, file: String, source: SourceText) {
        let Some(text) = source.text else { return };
        let left = ALL_TEXT_BYTES - self.text_bytes;
        if text.len() <= TEXT_LIMIT_BYTES.min(left) && !self.texts.contains_key(&file) {
            self.text_bytes += text.len();
            self.texts.insert(file, text);
        }
    }

    /// Says what was done.
    fn remark(&self) -> Option<String> {
        let first = self.labels.first()?;
        let functions = match self.functions.len() {
            1 => "1 function is".to_owned(),
            count => format!("{count} functions are"),
        };
        let maps = match self.labels.len() {
            1 => first.clone(),
            2 => format!("{first} and 1 more"),
            count => format!("{first} and {} more", count - 1),
        };
        Some(format!(
            "source maps: {functions} shown where they were written, by {maps}"
        ))
    }

    fn apply(self, profile: &Profile) -> Profile {
        let function = |index: FunctionIndex| {
            let spec = profile.spec_of(index);
            match self.functions.get(&index) {
                None => spec,
                Some(moved) => FunctionSpec {
                    name: moved.name.as_deref().unwrap_or(spec.name),
                    file: &moved.file,
                    line: moved.line,
                    column: moved.column,
                    category: category_of_file(&moved.file),
                },
            }
        };
        let place = |index: FrameIndex| {
            let frame = profile.frame(index);
            let moved = self.frames.get(&index).copied();
            moved.unwrap_or((frame.line, frame.column))
        };
        let (mut builder, functions) = rewritten(profile, function, place);
        let mut moved: Vec<FunctionIndex> = self.functions.keys().copied().collect();
        moved.sort_unstable();
        for index in moved {
            builder.generated_place(functions[index.at()], &profile.location_of(index));
        }
        for (file, text) in self.texts {
            builder.source(&file, text);
        }
        let mut mapped = builder.finish(profile.about.clone(), profile.notes.clone());
        let used: FastSet<StringIndex> =
            mapped.functions.iter().filter_map(|row| row.file).collect();
        mapped.sources.retain(|source| used.contains(&source.file));
        mapped
    }
}

/// A function, and where the questions about it and its frames stand.
struct Row {
    function: FunctionIndex,
    start: Asked,
    frames: Vec<(FrameIndex, Asked)>,
}

impl Script<'_> {
    /// Asks where the functions and their frames were written.
    fn questions(&self, document: &Document<'_>, questions: &mut Questions) -> Vec<Row> {
        let mut ask = |line: u32, column: u32| match column.checked_sub(1) {
            Some(column) => {
                questions.points.push((line - 1, column));
                Asked::Point(questions.points.len() - 1)
            }
            None => {
                questions.lines.push(line - 1);
                Asked::Line(questions.lines.len() - 1)
            }
        };
        let has_one_source = document.has_one_source();
        let mut rows = Vec::new();
        for &function in self.functions {
            let start = self.profile.function(function);
            // What a whole bundle does when it is loaded belongs to no one of its sources.
            if (start.line, start.column) == (1, 1) && !has_one_source {
                continue;
            }
            let frames = self.frames[function.at()].iter().map(|&index| {
                let frame = self.profile.frame(index);
                (index, ask(frame.line, frame.column))
            });
            let frames = frames.collect();
            rows.push(Row {
                function,
                start: ask(start.line, start.column),
                frames,
            });
        }
        rows
    }

    /// Asks what the words are called that functions are declared with, and returns where the
    /// questions stand.
    fn words(
        &self,
        rows: &[Row],
        script: Option<&str>,
        questions: &mut Questions,
    ) -> Vec<Option<usize>> {
        let mut words = vec![None; rows.len()];
        let Some(text) = script else { return words };
        let start_of = |row: &Row| match row.start {
            Asked::Point(at) => Some(questions.points[at]),
            Asked::Line(_) => None,
        };
        let mut starts: Vec<((u32, u32), usize)> = rows
            .iter()
            .enumerate()
            .filter_map(|(position, row)| Some((start_of(row)?, position)))
            .collect();
        starts.sort_unstable();
        let places: Vec<(u32, u32)> = starts.iter().map(|(place, _)| *place).collect();
        let offsets = names::offsets_of(text, &places);
        for (((line, column), position), offset) in starts.into_iter().zip(offsets) {
            let name = self.profile.name_of(rows[position].function);
            let units = offset.and_then(|offset| names::word_before(text, offset, name));
            if let Some(column) = units.and_then(|units| column.checked_sub(units)) {
                words[position] = Some(questions.points.len());
                questions.points.push((line, column));
            }
        }
        words
    }
}

/// Source, line and column, the last two from 1.
fn place_from_1(place: &Place) -> (usize, u32, u32) {
    let from_1 = |number: u32| number.saturating_add(1);
    (place.source, from_1(place.line), from_1(place.column))
}

/// Reads a source map and asks it about some places.
pub(crate) fn read_any(text: &str) {
    let Ok(document) = Document::read(text) else {
        return;
    };
    document.has_one_source();
    let points = (0..40).map(|at| (at / 8, at % 8 * 7));
    let questions = Questions {
        points: points.collect(),
        lines: (0..5).collect(),
    };
    let answered = document.ask(&questions, true);
    for source in &answered.sources {
        file_of_source(&source.root, &source.name, std::path::Path::new("/app"));
    }
}

#[cfg(test)]
mod tests;
