//! The only place that writes to the terminal.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(crate) use nodespy_analysis::grouped;

/// Where a result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Standard,
    Error,
}

/// Prints a result. A reader that went away is not an error.
pub(crate) fn result(text: &str, stream: Stream) {
    match stream {
        Stream::Standard => {
            let mut output = std::io::stdout().lock();
            let _ = output.write_all(text.as_bytes());
            let _ = output.flush();
        }
        Stream::Error => {
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
        }
    }
}

/// Prints one more part of a result that has no end; false when its reader is gone.
pub(crate) fn stream(text: &str) -> bool {
    let mut output = std::io::stdout().lock();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .is_ok()
}

/// Prints a line about what is going on.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints an error and its causes on one line.
pub(crate) fn error(error: &anyhow::Error) {
    note(&format!("nodespy: {}", in_one_line(error)));
}

/// An error and its causes.
pub(crate) fn in_one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for (position, cause) in error.chain().enumerate() {
        if position > 0 {
            line.push_str(": ");
        }
        line.push_str(&nodespy_model::printable(&cause.to_string()));
    }
    line
}

fn is_terminal(stream: Stream) -> bool {
    match stream {
        Stream::Standard => std::io::stdout().is_terminal(),
        Stream::Error => std::io::stderr().is_terminal(),
    }
}

/// Whether colour is wanted on a stream.
pub(crate) fn has_color(stream: Stream) -> bool {
    is_terminal(stream) && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// How wide the terminal is; 80 when there is none.
pub(crate) fn width_columns() -> usize {
    let of_terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    asked_columns().or_else(of_terminal).unwrap_or(80).max(40)
}

/// The width that the user asks for with COLUMNS.
fn asked_columns() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok()?.parse().ok()?;
    (columns > 0).then_some(columns)
}

/// How wide text may be that is printed once: as the terminal, and without an end in a pipe or a
/// file, unless the user asks for a width.
pub(crate) fn width_of_result(stream: Stream) -> usize {
    match is_terminal(stream) {
        true => width_columns().min(WIDEST_TABLE),
        false => asked_columns().unwrap_or(usize::MAX),
    }
}

/// Lines that are longer than this are hard to follow.
const WIDEST_TABLE: usize = 160;

/// How wide standard output is, when it is a terminal.
pub(crate) fn width_if_terminal() -> Option<usize> {
    std::io::stdout().is_terminal().then(width_columns)
}

/// When the reading that is under way began.
static READING_SINCE: OnceLock<Instant> = OnceLock::new();

/// Shows how far a reading has come, if it takes long and standard error is a terminal.
pub(crate) fn progress(done: u64, total: u64) {
    let since = READING_SINCE.get_or_init(Instant::now);
    if total > 0 && since.elapsed() > Duration::from_secs(1) && std::io::stderr().is_terminal() {
        let percent = done.saturating_mul(100) / total;
        on_this_line(&format!("reading {} %", percent.min(100)));
    }
}

/// Takes the line of [`progress`] away again.
pub(crate) fn end_progress() {
    let was_long = READING_SINCE
        .get()
        .is_some_and(|since| since.elapsed() > Duration::from_secs(1));
    if was_long && std::io::stderr().is_terminal() {
        on_this_line("");
    }
}

/// Replaces the line that the terminal's cursor is on. A terminal that went away is not an error:
/// `eprint!` would panic.
fn on_this_line(text: &str) {
    let mut terminal = std::io::stderr().lock();
    let _ = write!(terminal, "\r\x1b[2K{text}").and_then(|()| terminal.flush());
}

/// The line that shows how a recording goes; silent when standard error is no terminal.
#[derive(Debug)]
pub(crate) struct LiveLine {
    is_shown: bool,
}

impl LiveLine {
    pub(crate) fn new(is_quiet: bool) -> Self {
        Self {
            is_shown: !is_quiet && std::io::stderr().is_terminal(),
        }
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.is_shown
    }

    pub(crate) fn show(
        &self,
        elapsed: Duration,
        samples: usize,
        lost: u64,
        hottest: Option<&(String, f64)>,
    ) {
        if !self.is_shown {
            return;
        }
        let mut line = format!(
            "recording {:.1} s, {} samples",
            elapsed.as_secs_f64(),
            grouped(samples as u64)
        );
        if lost > 0 {
            line.push_str(&format!(", {} lost", grouped(lost)));
        }
        if let Some((name, share)) = hottest {
            let name = nodespy_model::printable(name);
            line.push_str(&format!(", hottest now: {name} {:.0} %", share * 100.0));
        }
        let most = width_columns().saturating_sub(1);
        let line: String = line.chars().take(most).collect();
        on_this_line(&line);
    }

    pub(crate) fn clear(&self) {
        if self.is_shown {
            on_this_line("");
        }
    }
}
