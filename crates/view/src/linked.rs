//! A line of a summary whose figures lead to places in the picture.

/// Pieces of text, some of which lead somewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// Each with where it leads, in the page's words; empty for nowhere.
    pub(crate) pieces: Vec<(String, String)>,
}

impl Line {
    /// Adds text.
    pub(crate) fn text(mut self, text: impl Into<String>) -> Self {
        self.pieces.push((text.into(), String::new()));
        self
    }

    /// Adds text that leads somewhere.
    pub(crate) fn lead(mut self, text: impl Into<String>, lead: String) -> Self {
        self.pieces.push((text.into(), lead));
        self
    }

    /// The text alone.
    pub(crate) fn plain(&self) -> String {
        self.pieces.iter().map(|(text, _)| text.as_str()).collect()
    }
}
