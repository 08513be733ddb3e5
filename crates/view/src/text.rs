//! The summary for a terminal: what was recorded, where the time went, how sure that is.

use std::io::Write;

use nodespy_analysis::{
    BusyThread, FunctionWeights, Shares, busy_main_threads, function_weights, shares,
    thread_weights,
};
use nodespy_model::{Category, Profile, ThreadIndex, label_key, printable};

use crate::columns::{keep_end, keep_last_parts, keep_start, short_name, width_of};
use crate::wording::{self, SHARE_PARTS, percent, percent_of, place};
use crate::{DrawError, DrawOptions, View};

const MAX_BY_SELF: usize = 10;
const MAX_BY_TOTAL: usize = 5;
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
        let mut summary = Summary {
            profile,
            total: profile.total_weight(),
            width: options.terminal.width_columns.max(NARROWEST_COLUMNS),
            paint: Paint {
                is_on: options.terminal.has_color,
            },
            lines: Vec::new(),
        };
        summary.headline(options);
        if summary.total > 0 {
            summary.where_time_went();
            summary.functions();
            summary.threads();
            summary.odd_process();
        } else {
            summary.lines.push("no samples were recorded".to_owned());
        }
        summary.confidence();
        for line in &summary.lines {
            writeln!(output, "{}", line.trim_end())?;
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
    profile: &'a Profile,
    total: u64,
    width: usize,
    paint: Paint,
    lines: Vec<String>,
}

impl Summary<'_> {
    fn headline(&mut self, options: &DrawOptions<'_>) {
        let profile = self.profile;
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

    fn where_time_went(&mut self) {
        let all = shares(self.profile, |_| true);
        let mut parts = self.share_parts(&all);
        if let Some(busy) = self.main_threads_busy() {
            parts.push(busy);
        }
        let line = parts.join("   ");
        if width_of(&line) <= self.width {
            self.lines.push(line);
            return;
        }
        let last = parts.pop().expect("shares are never without parts");
        self.lines.push(parts.join("   "));
        self.lines.push(last);
    }

    fn share_parts(&self, all: &Shares) -> Vec<String> {
        let whole = all.total();
        SHARE_PARTS
            .iter()
            .map(|part| (part, (part.weight)(all)))
            .filter(|(_, weight)| *weight > 0)
            .map(|(part, weight)| {
                let share = percent(percent_of(weight, whole));
                let label = self.paint.category(part.category, part.label);
                format!("{label} {share}")
            })
            .collect()
    }

    /// How much of the time the main threads ran, when samples can tell.
    fn main_threads_busy(&self) -> Option<String> {
        let percent = |thread: &BusyThread| thread.share * 100.0;
        match busy_main_threads(self.profile).as_slice() {
            [] => None,
            [only] => Some(format!(
                "main thread busy {:.0} % of the time",
                percent(only)
            )),
            [most, .., least] => Some(format!(
                "main threads busy {:.0} to {:.0} % of the time (most: pid {})",
                percent(least),
                percent(most),
                most.pid
            )),
        }
    }

    fn functions(&mut self) {
        let weights = function_weights(self.profile, |_| true);
        let by_self: Vec<FunctionWeights> = weights
            .iter()
            .filter(|entry| entry.self_weight > 0)
            .take(MAX_BY_SELF)
            .copied()
            .collect();
        let mut by_total: Vec<FunctionWeights> = weights
            .iter()
            .filter(|entry| {
                let category = self.profile.function(entry.function).category;
                matches!(category, Category::App | Category::Dependency)
            })
            .copied()
            .collect();
        by_total.sort_by_key(|entry| {
            std::cmp::Reverse((entry.total_weight, entry.self_weight, entry.function))
        });
        by_total.truncate(MAX_BY_TOTAL);
        let is_news = by_total
            .iter()
            .any(|entry| !by_self.iter().any(|shown| shown.function == entry.function));
        if !is_news {
            by_total.clear();
        }
        let name_width = self.name_width(by_self.iter().chain(&by_total));
        for (heading, entries) in [
            ("heaviest by themselves", by_self),
            ("heaviest with what they call (JS)", by_total),
        ] {
            if !entries.is_empty() {
                self.lines.push(String::new());
                self.function_table(heading, &entries, name_width);
            }
        }
    }

    /// How wide the column of names is. Names and places share a line after two numbers of eight
    /// columns: each gets what it needs when there is room for both, else at least half.
    fn name_width<'a>(&self, entries: impl Iterator<Item = &'a FunctionWeights>) -> usize {
        let room = self.table_room();
        let (mut longest_name, mut longest_place) = (0, 0);
        for entry in entries {
            let name = short_name(self.profile.name_of(entry.function));
            longest_name = longest_name.max(width_of(&name));
            longest_place = longest_place.max(width_of(&place(self.profile, entry.function)));
        }
        longest_name.min(room - longest_place.min(room / 2))
    }

    fn table_room(&self) -> usize {
        self.width - 16 - 2
    }

    fn function_table(&mut self, heading: &str, entries: &[FunctionWeights], name_width: usize) {
        self.lines.push(
            self.paint
                .dim(&format!("{:>6}{:>8}  {heading}", "self", "total")),
        );
        for entry in entries {
            let name = short_name(self.profile.name_of(entry.function));
            let name = keep_last_parts(&name, "::", name_width);
            let place = place(self.profile, entry.function);
            let place = keep_last_parts(&place, "/", self.table_room() - name_width);
            let filling = " ".repeat(name_width - width_of(&name));
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

    fn threads(&mut self) {
        let profile = self.profile;
        let threads = thread_weights(profile);
        if threads.len() < 2 {
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
                if let Some(inner) = process.labels.get(label_key::INNER_PID) {
                    line.push_str(&format!(" ({inner} inside)"));
                }
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

    /// Which of several processes of an application does something else than the others.
    fn odd_process(&mut self) {
        if let Some(sentence) = wording::odd_process(self.profile) {
            self.lines.push(String::new());
            self.wrapped(&sentence, "");
        }
    }

    fn confidence(&mut self) {
        let remarks: Vec<&str> = self.profile.notes.other_remarks().collect();
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
        assert!(text.contains("no samples were recorded"));
    }
}
