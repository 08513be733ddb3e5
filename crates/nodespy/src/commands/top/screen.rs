//! The screen of `top`, drawn from what is to be shown. Made for 80 columns and 24 lines; on a
//! smaller one the threads go first.

use nodespy_model::{Category, ThreadRole, printable};
use nodespy_view::columns::{keep_start, width_of};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::Subject;
use super::state::State;
use super::table::{self, NUMBERS_COLUMNS, cells};
use super::totals::{Sort, Sums};
use crate::cli::TopBy;

const MAX_THREADS: usize = 4;
/// Threads that use less are only counted.
const LEAST_CPU_PERCENT: f64 = 0.05;
/// Where the title would get less, the engine is left out.
const TITLE_COLUMNS: usize = 40;
/// With fewer lines than this there is no room for threads.
const LINES_WITH_THREADS: usize = 16;
const KEYS: &str =
    "q quit  s self  t total  n name  w window  / find  r record  space pause  ? help";

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, subject: &Subject, state: &mut State, has_color: bool) {
    let area = frame.area();
    let mut screen = Screen {
        width: usize::from(area.width),
        height: usize::from(area.height),
        has_color,
        lines: Vec::new(),
    };
    let sums = state.totals().sums(state.window);
    screen.head(subject, state, &sums);
    if state.shows_help {
        screen.help(subject);
    } else {
        if screen.height >= LINES_WITH_THREADS {
            screen.threads(&sums);
        }
        screen.functions(subject, state, &sums);
    }
    let height = area.height.saturating_sub(1);
    frame.render_widget(Paragraph::new(screen.lines), Rect { height, ..area });
    let foot = Rect {
        y: area.y + height,
        height: area.height.min(1),
        ..area
    };
    frame.render_widget(Paragraph::new(foot_of(state)), foot);
}

struct Screen {
    width: usize,
    height: usize,
    has_color: bool,
    lines: Vec<Line<'static>>,
}

impl Screen {
    fn head(&mut self, subject: &Subject, state: &State, sums: &Sums) {
        let status = match (state.is_paused(), state.has_ended) {
            (true, _) => "paused",
            (false, true) => "ended",
            (false, false) => "",
        };
        self.title(subject, status);
        self.lines
            .push(Line::raw(keep_start(&table::load(sums), self.width)));
        let quality = table::quality(sums, subject.rate_hz, state.totals().lost, state.window);
        self.lines.push(Line::raw(keep_start(&quality, self.width)));
        if let Some(pool) = &state.totals().pool {
            self.lines.push(Line::raw(keep_start(pool, self.width)));
        }
    }

    /// The title with the engine and the status at its right.
    fn title(&mut self, subject: &Subject, status: &'static str) {
        let room = self.width.saturating_sub(width_of(status) + 1);
        let engine = match width_of(subject.engine) + TITLE_COLUMNS < room {
            true => format!("{}  ", subject.engine),
            false => String::new(),
        };
        let room = room.saturating_sub(width_of(&engine));
        let title = keep_start(&format!("nodespy top  {}", subject.title), room);
        // Without a status the engine is the last.
        let engine = match status {
            "" => engine.trim_end().to_owned(),
            _ => engine,
        };
        let right = width_of(&engine) + width_of(status);
        let gap = self.width.saturating_sub(width_of(&title) + right);
        self.lines.push(Line::from(vec![
            Span::styled(title, bold()),
            Span::raw(" ".repeat(gap)),
            Span::styled(engine, dim()),
            Span::styled(status, bold().add_modifier(Modifier::REVERSED)),
        ]));
    }

    fn threads(&mut self, sums: &Sums) {
        self.lines.push(Line::default());
        let threads = sums.threads();
        let busy = threads
            .iter()
            .filter(|thread| thread.cpu_percent >= LEAST_CPU_PERCENT)
            .count();
        let shown = busy.clamp(1, MAX_THREADS).min(threads.len());
        let names: Vec<String> = threads[..shown]
            .iter()
            .map(|thread| match thread.name.as_str() {
                "" => "(unnamed)".to_owned(),
                name => keep_start(&printable(name), 30),
            })
            .collect();
        let name_width = names.iter().map(|name| width_of(name)).max().unwrap_or(0);
        for (thread, name) in threads.iter().zip(&names) {
            let filling = " ".repeat(name_width - width_of(name));
            let role = match thread.role {
                ThreadRole::Other => String::new(),
                role => format!("{}, ", role.label()),
            };
            self.lines.push(Line::raw(format!(
                "{:>6.1}%  {name}{filling}  {role}tid {}",
                thread.cpu_percent, thread.tid
            )));
        }
        if let Some(rest) = threads.get(shown..).filter(|rest| !rest.is_empty()) {
            let cpu: f64 = rest.iter().map(|thread| thread.cpu_percent).sum();
            let noun = if rest.len() == 1 { "thread" } else { "threads" };
            let line = format!("{cpu:>6.1}%  {} more {noun}", rest.len());
            self.lines.push(Line::raw(line));
        }
    }

    fn functions(&mut self, subject: &Subject, state: &mut State, sums: &Sums) {
        self.lines.push(Line::default());
        self.lines.push(heading(&subject.by, state.sort));
        let room = self.height.saturating_sub(self.lines.len() + 1);
        let rows = state.totals().rows(state.window, state.sort, &state.filter);
        let count = rows.len();
        let scroll = state.scroll.min(count.saturating_sub(room));
        let end = count.min(scroll + room);
        let shown = &rows[scroll..end];
        let cells = cells(shown, &subject.by, sums.shares.total(), self.width);
        for cells in cells {
            let name = Span::styled(cells.name, self.style_of(cells.category));
            let place = Span::styled(format!("  {}", cells.place), dim());
            self.lines
                .push(Line::from(vec![Span::raw(cells.numbers), name, place]));
        }
        if count == 0 {
            let why = match (sums.shares.total(), state.filter.as_str()) {
                (0, _) => "no samples yet: the process is idle".to_owned(),
                (_, filter) => {
                    let [_, _, what] = table::headings(&subject.by);
                    format!("no {what} has {filter:?} in its name or file")
                }
            };
            let indent = " ".repeat(NUMBERS_COLUMNS);
            self.lines
                .push(Line::styled(format!("{indent}{why}"), dim()));
        }
        state.scroll = scroll;
    }

    fn help(&mut self, subject: &Subject) {
        let keys = [
            ("s, t, n", "sort by self, total or name"),
            ("w", "the last 10 seconds, or everything since the start"),
            (
                "/",
                "show functions with a text in their name or file; Esc: all",
            ),
            ("space", "hold the picture; sampling goes on"),
            (
                "r",
                "write the last 30 seconds to a .nspy file in this folder",
            ),
            ("↑ ↓ PgUp PgDn", "scroll"),
            ("q, Ctrl-C", "quit"),
        ];
        self.lines.push(Line::default());
        for (key, meaning) in keys {
            self.lines.push(Line::from(vec![
                Span::styled(format!("  {key:<15}"), bold()),
                Span::raw(meaning),
            ]));
        }
        self.lines.push(Line::default());
        let columns = match &subject.by {
            TopBy::Function => [
                "  self    share of the samples in the function itself",
                "  total   share of the samples in it or in what it calls",
            ],
            TopBy::Route => [
                "  share   share of the samples in requests of the route",
                "  samples how many they are",
            ],
            TopBy::Label(_) => [
                "  share   share of the samples with this value",
                "  samples how many they are",
            ],
        };
        self.lines.extend(columns.map(Line::raw));
        let cpu = "  CPU     by the kernel's account: 100 % is one core";
        self.lines.push(Line::raw(cpu));
        for remark in &subject.remarks {
            self.lines.push(Line::raw(format!("  note: {remark}")));
        }
    }

    fn style_of(&self, category: Category) -> Style {
        if !self.has_color {
            return Style::default();
        }
        let color = match category {
            Category::App | Category::Wasm | Category::RegExp => Color::Green,
            Category::Dependency => Color::Magenta,
            Category::NodeCore | Category::Builtin => Color::Cyan,
            Category::Gc => Color::Red,
            Category::Native | Category::Kernel => Color::Yellow,
            _ => return dim(),
        };
        Style::default().fg(color)
    }
}

/// The heading of the functions, the column they are sorted by marked.
fn heading(by: &TopBy, sort: Sort) -> Line<'static> {
    let [own, total, name] = table::headings(by);
    let marked = |text: &str, is_sorted: bool| match is_sorted {
        true => Span::styled(text.to_owned(), bold().add_modifier(Modifier::UNDERLINED)),
        false => Span::styled(text.to_owned(), dim()),
    };
    Line::from(vec![
        Span::raw(" ".repeat(7 - own.len())),
        marked(own, sort == Sort::Own),
        Span::raw(" ".repeat(8 - total.len())),
        marked(total, sort == Sort::Total),
        Span::raw("  "),
        marked(name, sort == Sort::Name),
    ])
}

fn foot_of(state: &State) -> Line<'static> {
    if let Some(told) = &state.told {
        return Line::styled(printable(told).into_owned(), bold());
    }
    match (state.is_typing, state.filter.as_str()) {
        (true, filter) => Line::raw(format!("/{}█", printable(filter))),
        (false, "") => Line::styled(KEYS, dim()),
        (false, filter) => Line::from(vec![
            Span::styled(format!("/{}", printable(filter)), bold()),
            Span::styled("  (Esc: all)", dim()),
        ]),
    }
}

fn bold() -> Style {
    Style::default().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::default().add_modifier(Modifier::DIM)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    /// The first line of a screen of this width.
    fn head(engine: &'static str, width: u16, state: &mut State) -> String {
        let subject = Subject {
            title: "server.js, node v20.20.2, pid 1234567".to_owned(),
            rate_hz: 99,
            duration: None,
            by: TopBy::Function,
            engine,
            remarks: Vec::new(),
        };
        let mut terminal = Terminal::new(TestBackend::new(width, 24)).unwrap();
        terminal
            .draw(|frame| draw(frame, &subject, state, false))
            .unwrap();
        let screen = terminal.backend().to_string();
        let line = screen.lines().next().unwrap();
        line.trim_matches('"').to_owned()
    }

    #[test]
    fn the_engine_is_at_the_right_of_the_title_where_there_is_room() {
        let title = "nodespy top  server.js, node v20.20.2, pid 1234567";
        for engine in ["eBPF", "eBPF, CPU-wide", "perf events, reader threads"] {
            for width in [80, 160] {
                let line = head(engine, width, &mut State::default());
                assert!(line.starts_with(title) && line.ends_with(engine), "{line}");
            }
        }
        let mut ended = State::default();
        ended.has_ended = true;
        let line = head("perf events, no eBPF", 80, &mut ended);
        assert!(line.starts_with(title), "{line}");
        assert!(line.ends_with("perf events, no eBPF  ended"), "{line}");
        let line = head("eBPF, CPU-wide", 44, &mut ended);
        assert!(line.ends_with("… ended"), "{line}");
    }
}
