//! Draws a profile: a flame graph, an HTML page, a summary for the terminal, reports.
//!
//! A view takes a [`Profile`] and writes text. It counts nothing for itself: the model does, and
//! [`layout`] turns the counts into boxes. Nothing here reads files or the clock.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod base64;
pub mod columns;
mod comparison;
pub mod dump;
mod event_loops;
mod event_words;
mod exact_waits;
mod gc_pauses;
mod held;
pub mod labels;
pub mod layout;
mod leads;
mod linked;
mod page;
mod pools;
mod preview;
mod prof;
mod query;
mod report;
mod routes;
mod scheduling;
pub mod svg;
mod text;
mod thread_times;
pub mod wording;

use std::io::{self, Write};
use std::path::Path;

use nodespy_analysis::{Comparison, Holding};
use nodespy_model::Profile;

pub use comparison::{comparison_json, comparison_markdown, comparison_text};
pub use held::for_page;
pub use pools::moment as pool_moment;
pub use query::{query_json, query_text};

/// What the caller wants of a drawing.
#[derive(Debug, Clone, Copy, Default)]
pub struct DrawOptions<'a> {
    /// The heading; the application's name when absent.
    pub title: Option<&'a str>,
    /// What a page carries along.
    pub payload: Payload<'a>,
    /// Where text is shown.
    pub terminal: Terminal,
    /// What a comparison with other runs says, for views that have room for it.
    pub comparison: Option<&'a Comparison>,
    /// Whether a report is about routes instead of functions.
    pub by_route: bool,
    /// Whether a flame graph hangs from the top instead of growing from the bottom.
    pub is_icicle: bool,
}

/// What an HTML page carries along and draws from, as `.nspy` bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Payload<'a> {
    /// The profile.
    pub profile: &'a [u8],
    /// The profile that it is compared with; empty when there is none.
    pub base: &'a [u8],
}

/// Where text is shown.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// Whether it may be coloured with ANSI sequences.
    pub has_color: bool,
    /// How wide it may be.
    pub width_columns: usize,
}

impl Default for Terminal {
    /// A file or a pipe, where nothing has to be cut.
    fn default() -> Self {
        Self {
            has_color: false,
            width_columns: usize::MAX,
        }
    }
}

/// One way to look at a profile.
pub trait View: Sync {
    /// The name used by `--to` and in messages.
    fn name(&self) -> &'static str;

    /// The file name extension that means this view.
    fn extension(&self) -> &'static str;

    /// Whether it holds what is not shown at first.
    fn holding(&self) -> Holding {
        Holding::WhatIsShown
    }

    /// Whether it carries the profile along, so that it can be opened again, and has room for one to
    /// compare with: [`DrawOptions::payload`] is needed then.
    fn carries_profiles(&self) -> bool {
        false
    }

    /// Whether it shows the samples of several events, one event at a time; others are given those
    /// of the first.
    fn holds_events(&self) -> bool {
        false
    }

    /// Whether it makes no difference between the frames of a function: their lines, their
    /// compilers, and whether they were inlined.
    fn shows_functions_only(&self) -> bool {
        false
    }

    /// Draws a profile.
    fn draw(
        &self,
        profile: &Profile,
        options: &DrawOptions<'_>,
        output: &mut dyn Write,
    ) -> Result<(), DrawError>;
}

/// Every view, once.
pub static VIEWS: &[&dyn View] = &[
    &page::Page,
    &svg::Svg,
    &text::Text,
    &report::Markdown,
    &report::Json,
    &prof::Prof,
];

/// Why a profile could not be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DrawError {
    /// No view has this name.
    #[error("there is no view called {name:?}; nodespy draws {}", known_views())]
    UnknownView {
        /// The name that was asked for.
        name: String,
    },
    /// A page was asked for without the bytes it should carry.
    #[error("an HTML page needs the profile as .nspy bytes in `DrawOptions::payload`")]
    NoPayload,
    /// The system could not write.
    #[error("cannot write the drawing")]
    Write(#[from] io::Error),
}

/// The names of all views, for messages.
fn known_views() -> String {
    let names: Vec<&str> = VIEWS.iter().map(|view| view.name()).collect();
    names.join(", ")
}

/// The page for a browser.
pub fn page_view() -> &'static dyn View {
    &page::Page
}

/// The summary for the terminal.
pub fn text_view() -> &'static dyn View {
    &text::Text
}

/// The report as Markdown.
pub fn markdown_view() -> &'static dyn View {
    &report::Markdown
}

/// The report as JSON.
pub fn json_view() -> &'static dyn View {
    &report::Json
}

/// The sections of `node --prof-process`.
pub fn prof_view() -> &'static dyn View {
    &prof::Prof
}

/// Draws a profile with the view called `name`.
pub fn draw(
    profile: &Profile,
    name: &str,
    options: &DrawOptions<'_>,
    output: &mut dyn Write,
) -> Result<(), DrawError> {
    let view = view(name).ok_or_else(|| DrawError::UnknownView {
        name: name.to_owned(),
    })?;
    match view.holds_events() {
        true => view.draw(profile, options, output),
        false => view.draw(&profile.first_event(), options, output),
    }
}

/// The view called `name`.
pub fn view(name: &str) -> Option<&'static dyn View> {
    VIEWS.iter().copied().find(|view| view.name() == name)
}

/// The view that a file's extension asks for.
pub fn view_for_path(path: &Path) -> Option<&'static dyn View> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    VIEWS
        .iter()
        .copied()
        .find(|view| view.extension() == extension)
}
