//! The answer to a query, as a table and as JSON.

use nodespy_analysis::{Answer, AnswerRow, Field, RowKey};
use nodespy_model::{EventType, FunctionIndex, Profile, WeightUnit, printable};
use serde_json::{Map, Value, json};

use crate::Terminal;
use crate::columns::{keep_end, keep_start, short_name, width_of};
use crate::text::Paint;
use crate::wording::{self, percent, percent_of};

/// Goes up when a field changes its meaning or goes; new fields may come without.
const VERSION: u64 = 1;

/// The columns of a row that names and places share on a terminal that is narrow.
const LEAST_NAME_COLUMNS: usize = 20;
/// How much of a source line is shown, and the least that is worth showing.
const SOURCE_COLUMNS: std::ops::RangeInclusive<usize> = 16..=100;

/// An answer as a table.
pub fn query_text(profile: &Profile, answer: &Answer, terminal: Terminal) -> String {
    let paint = Paint {
        is_on: terminal.has_color,
    };
    let rows: Vec<[String; 3]> = answer
        .rows
        .iter()
        .map(|row| cells(profile, answer, row))
        .collect();
    let sources = answer.rows.iter().map(|row| source_line(profile, &row.key));
    let head = [
        "share".to_owned(),
        answer.aggregate.name().to_owned(),
        answer.by.name(),
    ];
    let widest = |column: usize| {
        let cells = rows.iter().chain([&head]);
        cells.map(|row| width_of(&row[column])).max().unwrap_or(0)
    };
    let widths = [widest(0), widest(1)];
    let left: usize = widths.iter().map(|width| width + 2).sum();
    let name_columns = terminal
        .width_columns
        .saturating_sub(left)
        .max(LEAST_NAME_COLUMNS);
    let line = |row: &[String; 3]| {
        let pad = |column: usize| " ".repeat(widths[column] - width_of(&row[column]));
        let name = keep_end(&row[2], name_columns);
        format!("{}{}  {}{}  {name}", pad(0), row[0], pad(1), row[1])
    };
    let mut text = format!("{}\n", paint.dim(&line(&head)));
    for (row, source) in rows.iter().zip(sources) {
        text.push_str(&line(row));
        let room = name_columns.saturating_sub(width_of(&row[2]) + 2);
        if let Some(source) = source.filter(|_| room >= *SOURCE_COLUMNS.start()) {
            let source = keep_start(&printable(source), room.min(*SOURCE_COLUMNS.end()));
            text.push_str(&format!("  {}", paint.dim(&source)));
        }
        text.push('\n');
    }
    text.push_str(&closing(profile, answer));
    text
}

/// One line about what is below the table, and of what it is a part.
fn closing(profile: &Profile, answer: &Answer) -> String {
    let event = counted_event(profile, answer);
    let matched = wording::weight(answer.matched, &event);
    let share = percent(percent_of(answer.matched, answer.whole));
    let whole = wording::weight(answer.whole, &event);
    let more = match answer.rows_left_out {
        0 => String::new(),
        1 => "; 1 more row".to_owned(),
        rows => format!("; {} more rows", wording::count(rows as u64)),
    };
    format!("\n{matched} of {whole} match, {share}{more}\n")
}

fn cells(profile: &Profile, answer: &Answer, row: &AnswerRow) -> [String; 3] {
    let (name, place) = words(profile, &answer.by, &row.key);
    [
        percent(percent_of(row.weight, answer.whole)),
        amount(row.weight, profile, answer),
        format!("{}  {place}", short_name(&name))
            .trim_end()
            .to_owned(),
    ]
}

/// The text of a row's line, where the recording holds the source.
fn source_line<'a>(profile: &'a Profile, key: &RowKey) -> Option<&'a str> {
    let RowKey::Line(function, line @ 1..) = key else {
        return None;
    };
    let file = profile.function(*function).file?;
    let source = profile.sources.iter().find(|source| source.file == file)?;
    let text = source.text.lines().nth(*line as usize - 1)?.trim();
    (!text.is_empty()).then_some(text)
}

/// A weight, without the noun that the heading has already.
fn amount(weight: u64, profile: &Profile, answer: &Answer) -> String {
    match answer.unit {
        WeightUnit::Samples | WeightUnit::Events => wording::count(weight),
        _ => wording::weight(weight, &counted_event(profile, answer)),
    }
}

/// The event in the unit of an answer: samples where those were counted.
fn counted_event(profile: &Profile, answer: &Answer) -> EventType {
    EventType {
        unit: answer.unit,
        ..profile.event().clone()
    }
}

/// What a row is called, and where it is or what else is known of it.
fn words(profile: &Profile, by: &Field, key: &RowKey) -> (String, String) {
    let plain = |text: &str| (text.to_owned(), String::new());
    match key {
        RowKey::Function(function) => (
            profile.name_of(*function).to_owned(),
            wording::place(profile, *function),
        ),
        RowKey::Line(function, 0) => (
            profile.name_of(*function).to_owned(),
            wording::place(profile, *function),
        ),
        RowKey::Line(function, line) => (
            profile.name_of(*function).to_owned(),
            format!("{}:{line}", profile.file_of(*function)),
        ),
        RowKey::File(file) => plain(profile.strings.get(*file)),
        RowKey::Package(package) => (
            package.name.clone(),
            match package.kind.label() {
                kind if kind == package.name => String::new(),
                kind => kind.to_owned(),
            },
        ),
        RowKey::Subsystem(subsystem) => plain(subsystem.label()),
        RowKey::Category(category) => plain(category.label()),
        RowKey::Tier(tier) => plain(tier.label()),
        RowKey::Thread(thread) => {
            let thread = &profile.threads[thread.at()];
            let process = &profile.processes[thread.process.at()];
            let name = match thread.name.as_str() {
                "" => "(unnamed)",
                name => name,
            };
            let more = match profile.processes.len() {
                0 | 1 => format!("{}, tid {}", thread.role.label(), thread.tid),
                _ => format!(
                    "{}, tid {} of {}",
                    thread.role.label(),
                    thread.tid,
                    process.pid
                ),
            };
            (name.to_owned(), more)
        }
        RowKey::Process(process) => {
            let process = &profile.processes[process.at()];
            (process.name.clone(), format!("pid {}", process.pid))
        }
        RowKey::Label(value) => plain(value),
        RowKey::None => plain(match by {
            Field::Caller => "(called by nothing)",
            Field::File => "(no file)",
            Field::Label(_) => "(no such label)",
            Field::Context => "(no label)",
            Field::Tier => "(no tier)",
            _ => "(no stack)",
        }),
    }
}

/// An answer as JSON, described in `docs/json.md`.
pub fn query_json(profile: &Profile, query: &str, answer: &Answer) -> String {
    let rows: Vec<Value> = answer
        .rows
        .iter()
        .map(|row| object(profile, answer, row))
        .collect();
    let whole = json!({
        "schema": "nodespy.query",
        "version": VERSION,
        "query": query,
        "event": profile.event().label(),
        "aggregate": answer.aggregate.name(),
        "by": answer.by.name(),
        "unit": answer.unit.label(),
        "total": answer.whole,
        "matched": answer.matched,
        "matched_percent": rounded(percent_of(answer.matched, answer.whole)),
        "filters": profile.notes.filters,
        "rows_left_out": answer.rows_left_out,
        "rows": rows,
    });
    let mut text = serde_json::to_string_pretty(&whole).unwrap_or_default();
    text.push('\n');
    text
}

fn rounded(percent: f64) -> f64 {
    (percent * 100.0).round() / 100.0
}

fn object(profile: &Profile, answer: &Answer, row: &AnswerRow) -> Value {
    let mut fields = Map::new();
    let mut set = |key: &str, value: Value| {
        fields.insert(key.to_owned(), value);
    };
    set("weight", row.weight.into());
    set(
        "percent",
        rounded(percent_of(row.weight, answer.whole)).into(),
    );
    match &row.key {
        RowKey::Function(function) => of_function(profile, *function, &mut set),
        RowKey::Line(function, line) => {
            of_function(profile, *function, &mut set);
            set("line", or_null(*line));
            if let Some(source) = source_line(profile, &row.key) {
                set("source", source.into());
            }
        }
        RowKey::Package(package) => {
            set("name", package.name.as_str().into());
            set("kind", package.kind.label().into());
        }
        RowKey::Subsystem(subsystem) => set("name", subsystem.key().into()),
        RowKey::Thread(thread) => {
            let thread = &profile.threads[thread.at()];
            set("name", thread.name.as_str().into());
            set("role", thread.role.label().into());
            set("tid", thread.tid.into());
            set("pid", profile.processes[thread.process.at()].pid.into());
        }
        RowKey::Process(process) => {
            let process = &profile.processes[process.at()];
            set("name", process.name.as_str().into());
            set("pid", process.pid.into());
        }
        RowKey::None => set("name", Value::Null),
        key => set("name", words(profile, &answer.by, key).0.into()),
    }
    Value::Object(fields)
}

fn of_function(profile: &Profile, function: FunctionIndex, set: &mut impl FnMut(&str, Value)) {
    let found = profile.function(function);
    let file = profile.file_of(function);
    set("name", profile.name_of(function).into());
    set(
        "file",
        match file {
            "" => Value::Null,
            file => file.into(),
        },
    );
    set("function_line", or_null(found.line));
    set("function_column", or_null(found.column));
    set("category", found.category.label().into());
}

/// Numbers from 1; 0 stands for what is not known.
fn or_null(number: u32) -> Value {
    match number {
        0 => Value::Null,
        number => number.into(),
    }
}
