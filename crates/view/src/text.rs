//! The summary for a terminal: what was recorded, what stands out, where the time went, how sure
//! that is.

use std::io::Write;

use nodespy_analysis::{
    BusyThread, FunctionWeights, SubsystemWeights, busy_main_threads, functions_by_route,
    package_in, thread_times, thread_weights, without_idle_states,
};
use nodespy_model::{Category, FunctionIndex, Profile, ThreadIndex, printable};

use crate::columns::{keep_end, keep_last_parts, keep_start, short_name, width_of};
use crate::comparison::comparison_text;
use crate::event_words::EventWords;
use crate::report::Report;
use crate::routes::{self, RouteRow};
use crate::wording::{self, percent, percent_of, place};
use crate::{DrawError, DrawOptions, View, scheduling};

/// Names that are wider do not move the places of the others.
const MAX_NAME_COLUMNS: usize = 100;

const MAX_FINDINGS: usize = 6;
const MAX_CHARGED: usize = 10;
const MAX_BY_SELF: usize = 6;
const MAX_BY_TOTAL: usize = 5;
const MAX_PROCESSES: usize = 8;
const MAX_THREADS: usize = 5;
const MAX_REMARKS: usize = 6;
/// Narrower than this, tables are cut at the right instead of squeezed.
const NARROWEST_COLUMNS: usize = 50;

/// The summary.
pub(crate) struct Text;

impl View for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn extension(&self) -> &'static str {
        "txt"
    }

    fn draw(
        &self,
        profile: &Profile,
        options: &DrawOptions<'_>,
        output: &mut dyn Write,
    ) -> Result<(), DrawError> {
        let busy = without_idle_states(profile);
        let report = Report::for_summary(&busy, thread_times(profile));
        let mut summary = Summary {
            report: &report,
            profile: &busy,
            words: EventWords::of(profile),
            total: busy.total_weight(),
            width: options.terminal.width_columns.max(NARROWEST_COLUMNS),
            paint: Paint {
                is_on: options.terminal.has_color,
            },
            lines: Vec::new(),
        };
        summary.headline(profile, options);
        if options.by_route {
            summary.routes_with_functions();
            summary.confidence();
        } else {
            summary.all_but_routes();
            summary.routes();
        }
        for line in &summary.lines {
            writeln!(output, "{}", line.trim_end())?;
        }
        if let Some(comparison) = options.comparison {
            let text = comparison_text(comparison, options.terminal);
            write!(output, "\nCompared with the base\n{text}")?;
        }
        Ok(())
    }
}

/// ANSI colours, or none.
#[derive(Clone, Copy)]
pub(crate) struct Paint {
    pub(crate) is_on: bool,
}

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        match self.is_on && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn category(self, category: Category, text: &str) -> String {
        match category {
            Category::App | Category::Wasm | Category::RegExp => self.with("32", text),
            Category::Dependency => self.with("35", text),
            Category::NodeCore | Category::Builtin => self.with("36", text),
            Category::Gc => self.with("31", text),
            Category::Native | Category::Kernel => self.with("33", text),
            Category::Idle | Category::Unknown | Category::Internal => self.dim(text),
        }
    }
}

struct Summary<'a> {
    report: &'a Report<'a>,
    profile: &'a Profile,
    words: EventWords,
    total: u64,
    width: usize,
    paint: Paint,
    lines: Vec<String>,
}

impl Summary<'_> {
    fn all_but_routes(&mut self) {
        self.findings();
        self.thread_times();
        if self.total > 0 {
            self.where_time_went();
            self.event_loops();
            self.functions();
            self.processes();
            self.threads();
        }
        self.confidence();
    }

    fn headline(&mut self, profile: &Profile, options: &DrawOptions<'_>) {
        let title = options.title.map_or_else(
            || wording::title(profile),
            |title| printable(title).into_owned(),
        );
        let rest = match wording::who(profile) {
            who if who.is_empty() => who,
            who => format!(", {who}"),
        };
        let room = self.width.saturating_sub(width_of(&rest)).max(20);
        let title = self.paint.bold(&keep_end(&title, room));
        self.lines.push(format!("{title}{rest}"));
        self.wrapped(&wording::how(profile), "");
    }

    /// What stands out, names in bold.
    fn findings(&mut self) {
        if self.report.findings.is_empty() {
            return;
        }
        self.lines.push(String::new());
        for finding in self.report.findings.iter().take(MAX_FINDINGS) {
            let sentence = printable(&finding.sentence).into_owned();
            let pieces = sentence.split('`').enumerate();
            let pieces = pieces.map(|(position, piece)| match position % 2 {
                1 => self.paint.bold(piece),
                _ => piece.to_owned(),
            });
            let sentence: String = pieces.collect();
            self.wrapped(&format!("• {sentence}"), "  ");
        }
        self.lines.push(String::new());
    }

    /// What each thread did with its time, where samples say it; the rest is about what is not idle.
    fn thread_times(&mut self) {
        let rows = crate::thread_times::rows(self.profile, &self.report.times);
        if rows.is_empty() {
            return;
        }
        self.lines.push(self.words.where_it_went());
        let heading = format!(
            "{:>7}{:>10}{:>9}{:>8}  thread",
            "on CPU", "runnable", "waiting", "idle"
        );
        self.lines.push(self.paint.dim(&heading));
        for row in rows {
            let [on_cpu, runnable, waiting, idle] = row.percents;
            let waits = match &*row.waits {
                "" => String::new(),
                waits => format!(": {waits}"),
            };
            let line = format!(
                "{on_cpu:>6.1}%{runnable:>9.1}%{waiting:>8.1}%{idle:>7.1}%  {}{waits}",
                row.name
            );
            self.lines.push(keep_start(&line, self.width));
        }
        self.lines.push(String::new());
        self.lines
            .push(self.paint.dim("Of the time that was not idle"));
    }

    /// The subsystems, heaviest first, and how busy the main threads were.
    fn where_time_went(&mut self) {
        let heaviest = self.report.heaviest_subsystems();
        let mut parts: Vec<String> = heaviest.iter().map(|each| self.share_part(each)).collect();
        parts.extend(self.main_threads_busy());
        let mut line = String::new();
        for part in parts {
            if !line.is_empty() && width_of(&line) + 3 + width_of(&part) > self.width {
                self.lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push_str("   ");
            }
            line.push_str(&part);
        }
        self.lines.push(line);
    }

    /// What event loops and pools did, as libuv says, and how long collections paused threads.
    fn event_loops(&mut self) {
        let loops = crate::event_loops::lines(self.profile).into_iter();
        let pauses = crate::gc_pauses::lines(self.profile);
        let waits = crate::exact_waits::lines(self.profile);
        let pauses = pauses.into_iter().chain(waits);
        for line in loops.chain(crate::pools::lines(self.profile)).chain(pauses) {
            self.wrapped(&line.plain(), "  ");
        }
    }

    /// A subsystem with its share, and the packages or modules that are most of it.
    fn share_part(&self, entry: &SubsystemWeights) -> String {
        let share = |weight: u64| percent(percent_of(weight, self.total));
        let members: Vec<String> = wording::named_members(entry, self.total)
            .map(|(name, weight)| format!("{} {}", printable(name), share(*weight)))
            .collect();
        let members = match members.as_slice() {
            [] => String::new(),
            members => format!(" ({})", members.join(", ")),
        };
        let subsystem = entry.subsystem;
        let label = self.paint.category(subsystem.category(), subsystem.label());
        format!("{label} {}{members}", share(entry.weight))
    }

    /// How much of the time the main threads ran, when samples can show it.
    fn main_threads_busy(&self) -> Option<String> {
        let percent = |thread: &BusyThread| thread.share * 100.0;
        match busy_main_threads(self.profile).as_slice() {
            [] => None,
            [only] => {
                let thread = &self.profile.threads[only.thread.at()];
                let waiting = scheduling::of_waiting_main_thread(thread);
                Some(waiting.unwrap_or_else(|| {
                    format!("main thread busy {:.0} % of the time", percent(only))
                }))
            }
            [most, .., least] => {
                let [least, highest] =
                    [least, most].map(|thread| format!("{:.0}", percent(thread)));
                let range = match least == highest {
                    true => least,
                    false => format!("{least} to {highest}"),
                };
                Some(format!(
                    "main threads busy {range} % of the time (most: pid {})",
                    most.pid
                ))
            }
        }
    }

    fn functions(&mut self) {
        let charged = self.report.heaviest_charged(MAX_CHARGED).into_iter();
        let charged: Vec<FunctionWeights> = charged
            .map(|entry| FunctionWeights {
                function: entry.function,
                self_weight: entry.charged_weight,
                total_weight: entry.total_weight,
            })
            .collect();
        let by_self = self.report.by_self.iter().take(MAX_BY_SELF);
        let by_self: Vec<FunctionWeights> = by_self.copied().collect();
        let mut by_total = self.report.heaviest_branching(MAX_BY_TOTAL);
        let is_shown = |entry: &FunctionWeights| {
            let mut shown = charged.iter();
            shown.any(|shown| shown.function == entry.function)
        };
        by_total.retain(|entry| !is_shown(entry));
        let name_width = self.name_width(charged.iter().chain(&by_self).chain(&by_total));
        for (heading, entries) in [
            (
                format!("your JavaScript, with {}", self.words.run_beside()),
                charged,
            ),
            ("and with all that they call".to_owned(), by_total),
            ("heaviest by themselves".to_owned(), by_self),
        ] {
            if !entries.is_empty() {
                self.lines.push(String::new());
                self.function_table(&heading, &entries, name_width);
            }
        }
    }

    /// A function's name, that of a dependency after its package.
    fn name(&self, function: FunctionIndex) -> String {
        let name = short_name(self.profile.name_of(function));
        match self.profile.function(function).category {
            Category::Dependency => match package_in(self.profile.file_of(function)) {
                Some(package) => format!("{package} · {name}"),
                None => name,
            },
            _ => name,
        }
    }

    /// Where a function is; inside of its package, where that is named already.
    fn place(&self, function: FunctionIndex) -> String {
        let place = place(self.profile, function);
        if self.profile.function(function).category != Category::Dependency {
            return place;
        }
        let package = package_in(self.profile.file_of(function)).unwrap_or_default();
        let inside = place.rsplit_once(&format!("node_modules/{package}/"));
        inside.map_or(place.clone(), |(_, inside)| inside.to_owned())
    }

    /// How wide the column of names is. Names and places share a line after two numbers of eight
    /// columns: each gets what it needs when there is room for both, else at least half. In a file there is
    /// always room, but one long name of C++ is no reason to move all places out of sight.
    fn name_width<'b>(&self, entries: impl Iterator<Item = &'b FunctionWeights>) -> usize {
        let room = self.table_room();
        let (mut longest_name, mut longest_place) = (0, 0);
        for entry in entries {
            longest_name = longest_name.max(width_of(&self.name(entry.function)));
            longest_place = longest_place.max(width_of(&self.place(entry.function)));
        }
        let width = longest_name.min(room - longest_place.min(room / 2));
        width.min(MAX_NAME_COLUMNS)
    }

    fn table_room(&self) -> usize {
        self.width - 16 - 2
    }

    fn function_table(&mut self, heading: &str, entries: &[FunctionWeights], name_width: usize) {
        let heading = format!("{:>6}{:>8}  {heading}", "self", "total");
        let heading = keep_start(&heading, self.width);
        self.lines.push(self.paint.dim(&heading));
        for entry in entries {
            let place = self.place(entry.function);
            // A name that is wider than the widest column has what its place leaves of the line.
            let room = match name_width {
                MAX_NAME_COLUMNS.. => self.table_room().saturating_sub(width_of(&place)),
                _ => 0,
            };
            let name = self.name(entry.function);
            let name = keep_last_parts(&name, "::", name_width.max(room));
            let taken = name_width.max(width_of(&name));
            let place = keep_last_parts(&place, "/", self.table_room() - taken);
            let filling = " ".repeat(taken - width_of(&name));
            let category = self.profile.function(entry.function).category;
            self.lines.push(format!(
                "{:>5.1}%{:>7.1}%  {}{filling}  {}",
                percent_of(entry.self_weight, self.total),
                percent_of(entry.total_weight, self.total),
                self.paint.category(category, &name),
                self.paint.dim(&place),
            ));
        }
    }

    /// The processes side by side, if there are several.
    fn processes(&mut self) {
        let rows = wording::processes(self.profile);
        if rows.len() < 2 {
            return;
        }
        self.lines.push(String::new());
        self.lines
            .push(self.paint.dim(&format!("{:>6}  process", "share")));
        let name_of = |name: &str| match name {
            "" => "(unnamed)".to_owned(),
            name => keep_end(&printable(name), 30),
        };
        let shown = &rows[..rows.len().min(MAX_PROCESSES)];
        let names = shown
            .iter()
            .map(|row| width_of(&name_of(&row.process.name)));
        let name_width = names.max().unwrap_or(0);
        for row in shown {
            let name = name_of(&row.process.name);
            let line = format!(
                "{:>5.1}%  {name}{}  {}",
                percent_of(row.weight, self.total),
                " ".repeat(name_width - width_of(&name)),
                row.details
            );
            self.lines.push(keep_start(&line, self.width));
        }
        let rest = &rows[shown.len()..];
        if !rest.is_empty() {
            let weights = rest.iter().map(|row| row.weight);
            let weight = weights.fold(0u64, u64::saturating_add);
            self.lines.push(format!(
                "{:>5.1}%  {} more",
                percent_of(weight, self.total),
                wording::count(rest.len() as u64)
            ));
        }
    }

    fn threads(&mut self) {
        let profile = self.profile;
        let threads = thread_weights(profile);
        if threads.len() < 2 || !self.report.times.is_empty() {
            return;
        }
        self.lines.push(String::new());
        self.lines
            .push(self.paint.dim(&format!("{:>6}  thread", "share")));
        let has_processes = profile.processes.len() > 1;
        let name_of = |index: ThreadIndex| match profile.threads[index.at()].name.as_str() {
            "" => "(unnamed)".to_owned(),
            name => keep_end(name, 30),
        };
        let shown = &threads[..threads.len().min(MAX_THREADS)];
        let longest = shown.iter().map(|(index, _)| width_of(&name_of(*index)));
        let name_width = longest.max().unwrap_or(0);
        for (index, weight) in shown {
            let thread = &profile.threads[index.at()];
            let name = name_of(*index);
            let mut line = format!(
                "{:>5.1}%  {name}{}  {}, tid {}",
                percent_of(*weight, self.total),
                " ".repeat(name_width - width_of(&name)),
                thread.role.label(),
                thread.tid
            );
            if has_processes {
                let process = &profile.processes[thread.process.at()];
                line.push_str(&format!(", {} {}", process.name, process.pid));
            }
            let scheduling = scheduling::of_thread(thread).filter(|_| self.words.is_time());
            if let Some(scheduling) = scheduling {
                line.push_str(&format!(", {scheduling}"));
            }
            self.lines.push(keep_start(&line, self.width));
        }
        if let Some(rest) = threads.get(MAX_THREADS..).filter(|rest| !rest.is_empty()) {
            let weight: u64 = rest
                .iter()
                .fold(0, |sum, (_, weight)| sum.saturating_add(*weight));
            self.lines.push(format!(
                "{:>5.1}%  {}",
                percent_of(weight, self.total),
                wording::counted(rest.len() as u64, "more thread")
            ));
        }
    }

    /// What requests the CPU time was for, where samples say it.
    fn routes(&mut self) {
        self.route_table(&routes::rows(&self.report.routes, routes::MAX_ROUTES));
    }

    fn routes_with_functions(&mut self) {
        let routes = &self.report.routes;
        let functions = functions_by_route(self.profile, routes);
        self.route_table(&routes::rows_with_functions(
            self.profile,
            routes,
            &functions,
        ));
    }

    fn route_table(&mut self, rows: &[RouteRow]) {
        if rows.is_empty() {
            return;
        }
        self.lines.push(String::new());
        self.lines.push(routes::heading(self.profile));
        self.lines.push(self.paint.dim(&routes::columns()));
        for row in rows {
            self.lines.push(routes::line(row, self.width));
        }
    }

    fn confidence(&mut self) {
        let remarks = &self.profile.notes.remarks;
        let clauses = wording::confidence(self.profile);
        if !clauses.is_empty() || !remarks.is_empty() {
            self.lines.push(String::new());
        }
        if !clauses.is_empty() {
            self.wrapped(&clauses.join("; "), "");
        }
        for remark in remarks.iter().take(MAX_REMARKS) {
            self.wrapped(&format!("note: {}", printable(remark)), "      ");
        }
        if remarks.len() > MAX_REMARKS {
            let rest = remarks.len() - MAX_REMARKS;
            self.lines.push(format!(
                "note: {}",
                wording::counted(rest as u64, "more note")
            ));
        }
    }

    /// Adds `text` in as many lines as it needs, later ones after `indent`.
    fn wrapped(&mut self, text: &str, indent: &str) {
        let mut line = String::new();
        let mut is_empty = true;
        // A number stays with its percent sign.
        let text = text.replace(" %", "\u{1}%");
        for word in text.split(' ') {
            let word = &word.replace('\u{1}', " ");
            if !is_empty && width_of(&line) + 1 + width_of(word) > self.width {
                self.lines.push(std::mem::take(&mut line));
                line.push_str(indent);
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        self.lines.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_profiles_are_summed_up_too() {
        let mut output = Vec::new();
        Text.draw(&Profile::default(), &DrawOptions::default(), &mut output)
            .unwrap();
        let text = String::from_utf8(output).unwrap();
        assert!(text.contains("No samples were recorded"));
    }
}
