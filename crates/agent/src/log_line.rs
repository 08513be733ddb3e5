//! What an agent says of itself, as lines that people and log collectors read: `level=info msg="…" key=value` (logfmt).

use std::fmt;
use std::sync::Arc;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Something is lost.
    Error,
    /// Something is worse than it could be.
    Warn,
    /// Something happened.
    Info,
}

/// A line of the log.
#[derive(Debug, Clone)]
pub struct LogLine {
    /// How much it matters.
    pub level: Level,
    /// What happened: always the same words, so that lines can be searched for.
    pub message: &'static str,
    /// To whom or what.
    pub fields: Vec<(&'static str, String)>,
}

/// Where lines go.
pub type Log = Arc<dyn Fn(&LogLine) + Send + Sync>;

impl LogLine {
    pub(crate) fn new(level: Level, message: &'static str) -> Self {
        Self {
            level,
            message,
            fields: Vec::new(),
        }
    }

    pub(crate) fn info(message: &'static str) -> Self {
        Self::new(Level::Info, message)
    }

    /// The same with a field; an empty value is none.
    pub(crate) fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        let value = value.to_string();
        if !value.is_empty() {
            self.fields.push((key, value));
        }
        self
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
        };
        write!(formatter, "level={level} msg={}", Quoted(self.message))?;
        for (key, value) in &self.fields {
            write!(formatter, " {key}={}", Quoted(value))?;
        }
        Ok(())
    }
}

/// A value, in quotes where it is more than a word.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = nodespy_model::printable(self.0);
        let is_plain = |letter: char| !letter.is_whitespace() && !"\"=\\".contains(letter);
        match !text.is_empty() && text.chars().all(is_plain) {
            true => formatter.write_str(&text),
            false => write!(
                formatter,
                "\"{}\"",
                text.replace('\\', "\\\\").replace('"', "\\\"")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_taken_apart_again() {
        let line = LogLine::new(Level::Warn, "process not sampled")
            .with("pid", 7)
            .with("service", "web shop \"x\"")
            .with("version", "")
            .with("why", "a\nb");
        let text = line.to_string();
        assert!(
            text.starts_with(
                "level=warn msg=\"process not sampled\" pid=7 service=\"web shop \\\"x\\\"\""
            ),
            "{text}"
        );
        assert!(!text.contains("version") && !text.contains('\n'));
    }
}
