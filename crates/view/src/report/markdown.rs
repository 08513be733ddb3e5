//! The report as Markdown, for issues, chats and pull requests.
//!
//! Names come from outside: in tables and lists they stand in code spans that no backtick of theirs
//! can end, in sentences every character that means something is escaped.

use std::io::Write;

use nodespy_analysis::{
    ChargedWeights, FunctionWeights, Package, SubsystemWeights, functions_by_route,
    thread_times as times_of, without_idle_states,
};
use nodespy_model::{Profile, printable};

use super::{Finding, HotStack, Report};
use crate::columns::{short_name, width_of};
use crate::comparison::comparison_markdown;
use crate::event_words::EventWords;
use crate::linked::Line;
use crate::routes::{self, RouteName, RouteRow};
use crate::thread_times;
use crate::wording::{self, percent_of, place};
use crate::{DrawError, DrawOptions, View};

/// Stacks are long: the first few are enough for reading.
const SHOWN_STACKS: usize = 5;
/// How many packages or modules of a subsystem are shown.
const SHOWN_MEMBERS: usize = 3;
/// Of more processes than this the labels are not shown.
const SHOWN_PROCESSES: usize = 16;

/// The Markdown report.
pub(crate) struct Markdown;

impl View for Markdown {
    fn name(&self) -> &'static str {
        "md"
    }

    fn extension(&self) -> &'static str {
        "md"
    }

    fn draw(
        &self,
        profile: &Profile,
        options: &DrawOptions<'_>,
        output: &mut dyn Write,
    ) -> Result<(), DrawError> {
        let busy = without_idle_states(profile);
        let report = Report::of(&busy, times_of(profile));
        let title = options.title.map_or_else(
            || wording::title(profile),
            |title| printable(title).into_owned(),
        );
        let kind = wording::kind(profile);
        let mut text = format!("# {kind} of {}\n\n", escaped(&title));
        let parts = [wording::who(profile), wording::how(profile)];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        text.push_str(&format!("{}\n", escaped(&parts.join(", "))));
        if options.by_route {
            section(&mut text, &routes::heading(&busy), &routes_in_full(&report));
            section(&mut text, "How sure this is", &list(&quality(profile)));
            output.write_all(text.as_bytes())?;
            return Ok(());
        }
        section(&mut text, "What stands out", &findings(&report.findings));
        let words = EventWords::of(profile);
        section(&mut text, &words.where_it_went(), &subsystems(&report));
        section(&mut text, "What threads did", &times(&report));
        let mut loops = crate::event_loops::lines(profile);
        loops.extend(crate::pools::lines(profile));
        loops.extend(crate::gc_pauses::lines(profile));
        loops.extend(crate::exact_waits::lines(profile));
        let loops: Vec<String> = loops.iter().map(Line::plain).collect();
        section(&mut text, "Event loops and pools", &list(&loops));
        section(&mut text, "Your JavaScript", &charged(&report, &words));
        section(
            &mut text,
            "Heaviest functions by themselves",
            &functions(&report, &report.by_self),
        );
        section(
            &mut text,
            "Heaviest functions with what they call",
            &functions(&report, &report.by_total),
        );
        section(&mut text, "Packages", &packages(&report));
        section(&mut text, "Processes", &processes(&report));
        section(&mut text, "Threads", &threads(&report));
        let by_route = routes::rows(&report.routes, routes::MAX_ROUTES);
        section(&mut text, &routes::heading(&busy), &route_table(&by_route));
        section(&mut text, "Hottest stacks", &stacks(&report));
        section(&mut text, "Where it ran", &labels(profile));
        section(&mut text, "How sure this is", &list(&quality(profile)));
        if let Some(comparison) = options.comparison {
            let compared = comparison_markdown(comparison);
            section(&mut text, "Compared with the base", &compared);
        }
        output.write_all(text.as_bytes())?;
        Ok(())
    }
}

/// Adds a section unless there is nothing in it.
fn section(text: &mut String, heading: &str, body: &str) {
    if !body.is_empty() {
        text.push_str(&format!("\n## {heading}\n\n{body}"));
    }
}

fn list(sentences: &[String]) -> String {
    let line = |sentence: &String| format!("- {}\n", escaped(sentence));
    sentences.iter().map(line).collect()
}

/// Findings, in which names stand between backticks and hold none.
fn findings(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let pieces = finding.sentence.split('`').enumerate();
        let pieces = pieces.map(|(position, piece)| match position % 2 {
            1 => code(piece),
            _ => escaped(piece),
        });
        format!("- {}\n", pieces.collect::<String>())
    };
    findings.iter().map(line).collect()
}

/// What threads did with their time, where samples say it.
fn times(report: &Report<'_>) -> String {
    let rows = thread_times::rows(report.profile, &report.times);
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let shares = row.percents.iter().map(|percent| format!("{percent:.1} %"));
            let words = [escaped(&row.name), escaped(&row.waits)];
            shares.chain(words).collect()
        })
        .collect();
    let headings = [
        "on CPU",
        "runnable",
        "waiting",
        "idle",
        "thread",
        "waits for",
    ];
    table(&headings, 4, &rows)
}

fn subsystems(report: &Report<'_>) -> String {
    let row = |entry: &SubsystemWeights| {
        let heaviest = entry.members.iter().take(SHOWN_MEMBERS);
        let members: Vec<String> = heaviest
            .map(|(name, weight)| format!("{} {}", code(name), share(*weight, report.total)))
            .collect();
        vec![
            share(entry.weight, report.total),
            entry.subsystem.label().to_owned(),
            members.join(", "),
        ]
    };
    let rows: Vec<Vec<String>> = report.subsystems.iter().map(row).collect();
    table(&["share", "subsystem", "of which"], 1, &rows)
}

/// Functions with a source, and what they run.
fn charged(report: &Report<'_>, words: &EventWords) -> String {
    let profile = report.profile;
    let row = |entry: &ChargedWeights| {
        vec![
            share(entry.charged_weight, report.total),
            share(entry.self_weight, report.total),
            share(entry.total_weight, report.total),
            code(&short_name(profile.name_of(entry.function))),
            code(&place(profile, entry.function)),
            code(&Package::of(profile, entry.function).name),
        ]
    };
    let rows: Vec<Vec<String>> = report.charged.iter().map(row).collect();
    let headings = [
        words.column_beside(),
        "self",
        "total",
        "function",
        "where",
        "package",
    ];
    table(&headings, 3, &rows)
}

fn processes(report: &Report<'_>) -> String {
    let profile = report.profile;
    if profile.processes.len() < 2 {
        return String::new();
    }
    let rows: Vec<Vec<String>> = wording::processes(profile)
        .iter()
        .map(|row| {
            vec![
                share(row.weight, report.total),
                row.process.pid.to_string(),
                code(&row.process.name),
                escaped(&row.details),
            ]
        })
        .collect();
    table(&["share", "pid", "process", ""], 2, &rows)
}

fn functions(report: &Report<'_>, entries: &[FunctionWeights]) -> String {
    let profile = report.profile;
    let row = |entry: &FunctionWeights| {
        vec![
            share(entry.self_weight, report.total),
            share(entry.total_weight, report.total),
            code(&short_name(profile.name_of(entry.function))),
            code(&place(profile, entry.function)),
            profile.function(entry.function).category.label().to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    table(&["self", "total", "function", "where", "kind"], 2, &rows)
}

fn packages(report: &Report<'_>) -> String {
    let rows: Vec<Vec<String>> = report
        .packages
        .iter()
        .map(|entry| {
            vec![
                share(entry.self_weight, report.total),
                share(entry.total_weight, report.total),
                code(&entry.package.name),
                entry.package.kind.label().to_owned(),
            ]
        })
        .collect();
    table(&["self", "total", "package", "kind"], 2, &rows)
}

fn threads(report: &Report<'_>) -> String {
    if report.threads.len() < 2 {
        return String::new();
    }
    let rows: Vec<Vec<String>> = report
        .threads
        .iter()
        .map(|(index, weight)| {
            let thread = &report.profile.threads[index.at()];
            let process = &report.profile.processes[thread.process.at()];
            vec![
                share(*weight, report.total),
                thread.tid.to_string(),
                process.pid.to_string(),
                code(&thread.name),
                thread.role.label().to_owned(),
            ]
        })
        .collect();
    table(&["share", "tid", "pid", "thread", "role"], 3, &rows)
}

/// What is known of each process beyond its name.
fn labels(profile: &Profile) -> String {
    let processes = profile.processes.iter().take(SHOWN_PROCESSES);
    let rows: Vec<Vec<String>> = processes
        .flat_map(|process| {
            let row = |(key, value)| vec![process.pid.to_string(), escaped(key), code(value)];
            process.labels.iter().map(row)
        })
        .collect();
    table(&["pid", "label", "value"], 1, &rows)
}

/// Every route, below each its heaviest functions.
fn routes_in_full(report: &Report<'_>) -> String {
    let functions = functions_by_route(report.profile, &report.routes);
    let rows = routes::rows_with_functions(report.profile, &report.routes, &functions);
    route_table(&rows)
}

fn route_table(rows: &[RouteRow]) -> String {
    let has_functions = rows
        .iter()
        .any(|row| matches!(row.name, RouteName::Function(..)));
    let cells = |row: &RouteRow| {
        let mut cells = vec![format!("{:.1} %", row.percent), row.samples.clone()];
        let (route, function, place) = match &row.name {
            RouteName::Route(route) => (code(route), String::new(), String::new()),
            RouteName::Other(words) => (escaped(words), String::new(), String::new()),
            RouteName::Function(name, place) => (String::new(), code(name), code(place)),
        };
        cells.push(route);
        if has_functions {
            cells.extend([function, place]);
        }
        cells
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let headings = ["share", "samples", "route", "function", "where"];
    let shown = if has_functions { 5 } else { 3 };
    table(&headings[..shown], 2, &rows)
}

/// Each stack as a block, the root first, with its share above.
fn stacks(report: &Report<'_>) -> String {
    let block = |stack: &HotStack| {
        let mut lines = Vec::new();
        if stack.left_out > 0 {
            lines.push(format!("({} more frames)", stack.left_out));
        }
        for function in &stack.functions {
            let name = short_name(report.profile.name_of(*function));
            lines.push(format!("{name}  {}", place(report.profile, *function)));
        }
        let body = lines.join("\n");
        let fence = "`".repeat(longest_run(&body).max(2) + 1);
        let share = share(stack.weight, report.total);
        format!("{share} of the weight:\n\n{fence}text\n{body}\n{fence}\n")
    };
    let blocks: Vec<String> = report.stacks.iter().take(SHOWN_STACKS).map(block).collect();
    blocks.join("\n")
}

fn quality(profile: &Profile) -> Vec<String> {
    let mut sentences = wording::confidence(profile);
    sentences.extend(profile.notes.remarks.iter().cloned());
    sentences
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", percent_of(part, whole))
}

/// A table whose columns line up in plain text too; the first `numbers` columns are set right.
fn table(headings: &[&str], numbers: usize, rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let cells = |column: usize| rows.iter().map(move |row| width_of(&row[column]));
    let widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(column, heading)| cells(column).max().unwrap_or(0).max(heading.len()).max(3))
        .collect();
    let line = |cells: &[&str]| {
        let mut line = String::from("|");
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let filling = " ".repeat(width - width_of(cell));
            line.push_str(&match column < numbers {
                true => format!(" {filling}{cell} |"),
                false => format!(" {cell}{filling} |"),
            });
        }
        line.push('\n');
        line
    };
    let mut text = line(headings);
    let rule = |(column, width): (usize, &usize)| match column < numbers {
        true => format!("{}:", "-".repeat(width - 1)),
        false => "-".repeat(*width),
    };
    let rules: Vec<String> = widths.iter().enumerate().map(rule).collect();
    text.push_str(&line(&rules.iter().map(String::as_str).collect::<Vec<_>>()));
    for row in rows {
        text.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    text
}

/// A name as a code span in a table.
pub(crate) fn code(name: &str) -> String {
    if name.trim().is_empty() {
        return String::new();
    }
    // Tables are cut at bars before code spans are seen.
    let name = printable(name).replace('|', "\\|");
    match longest_run(&name) {
        0 => format!("`{name}`"),
        run => {
            let fence = "`".repeat(run + 1);
            format!("{fence} {name} {fence}")
        }
    }
}

/// How many backticks follow one another at most.
fn longest_run(text: &str) -> usize {
    let runs = text.split(|character| character != '`');
    runs.map(str::len).max().unwrap_or(0)
}

/// Text in which nothing is markup, a link or a mention.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in printable(text).chars() {
        if "\\`*_[]<>#|~&@$!".contains(character) {
            safe.push('\\');
        }
        safe.push(character);
    }
    safe.replace("://", "\\://").replace("www.", "www\\.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code("a`b``c"), "``` a`b``c ```");
        assert_eq!(code(" "), "");
        assert_eq!(escaped("<b> *x* @me"), "\\<b\\> \\*x\\* \\@me");
        assert_eq!(escaped("see https://x.y"), "see https\\://x.y");
    }

    #[test]
    fn tables_line_up() {
        let rows = [
            vec!["1.0 %".to_owned(), "`a`".to_owned()],
            vec!["100.0 %".to_owned(), "`long`".to_owned()],
        ];
        assert_eq!(
            table(&["share", "name"], 1, &rows),
            "|   share | name   |\n| ------: | ------ |\n|   1.0 % | `a`    |\n| 100.0 % | `long` |\n"
        );
    }
}
