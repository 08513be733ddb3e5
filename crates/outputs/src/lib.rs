//! Everything nodespy writes, formats and views, in one list: what each is called, which file names
//! mean it, what it holds and how it is written.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::fmt;
use std::io::Write;
use std::path::Path;

use nodespy_analysis::{Comparison, Holding};
use nodespy_formats::{EXPORTERS, ExportError, Exporter};
use nodespy_model::Profile;
use nodespy_view::{DrawError, DrawOptions, Payload, VIEWS, View};

/// What a profile can be written as.
#[derive(Clone, Copy)]
pub struct Output {
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Format(&'static dyn Exporter),
    View(&'static dyn View),
}

/// Why a profile could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// As a format.
    #[error(transparent)]
    Format(#[from] ExportError),
    /// As a view.
    #[error(transparent)]
    View(#[from] DrawError),
}

/// Every output: the formats, then the views.
pub fn outputs() -> impl Iterator<Item = Output> {
    let formats = EXPORTERS.iter().map(|format| Kind::Format(*format));
    let views = VIEWS.iter().map(|view| Kind::View(*view));
    formats.chain(views).map(|kind| Output { kind })
}

/// The names of all outputs, for messages.
pub fn output_names() -> String {
    outputs().map(Output::name).collect::<Vec<_>>().join(", ")
}

impl Output {
    /// nodespy's own format, which holds everything.
    pub fn native() -> Self {
        Self::format(nodespy_formats::native_exporter())
    }

    /// Folded stacks.
    pub fn folded() -> Self {
        Self::format(nodespy_formats::folded_exporter())
    }

    /// The page for a browser.
    pub fn page() -> Self {
        Self::view(nodespy_view::page_view())
    }

    /// The summary for the terminal.
    pub fn text() -> Self {
        Self::view(nodespy_view::text_view())
    }

    /// The report as Markdown.
    pub fn markdown() -> Self {
        Self::view(nodespy_view::markdown_view())
    }

    /// The report as JSON.
    pub fn json() -> Self {
        Self::view(nodespy_view::json_view())
    }

    /// The sections of `node --prof-process`.
    pub fn prof() -> Self {
        Self::view(nodespy_view::prof_view())
    }

    fn format(format: &'static dyn Exporter) -> Self {
        let kind = Kind::Format(format);
        Self { kind }
    }

    fn view(view: &'static dyn View) -> Self {
        let kind = Kind::View(view);
        Self { kind }
    }

    /// The output called `name`.
    pub fn called(name: &str) -> Option<Self> {
        outputs().find(|output| output.name() == name)
    }

    /// The output that a file name means: the longest extension that fits, because
    /// `.speedscope.json` says more than `.json`; of two that are as long a format.
    pub fn for_path(path: &Path) -> Option<Self> {
        let format = nodespy_formats::exporter_for_path(path).map(Kind::Format);
        let kind = format.or_else(|| nodespy_view::view_for_path(path).map(Kind::View));
        kind.map(|kind| Self { kind })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self.kind {
            Kind::Format(format) => format.name(),
            Kind::View(view) => view.name(),
        }
    }

    /// The extensions that mean it, the usual one first.
    pub fn extensions(self) -> Vec<&'static str> {
        match self.kind {
            Kind::Format(format) => format.extensions().to_vec(),
            Kind::View(view) => vec![view.extension()],
        }
    }

    /// Whether it holds what no view shows.
    pub fn holding(self) -> Holding {
        match self.kind {
            Kind::Format(format) => format.holding(),
            Kind::View(view) => view.holding(),
        }
    }

    /// Whether the profile can be opened again, whole.
    pub fn keeps_profile(self) -> bool {
        match self.kind {
            Kind::Format(format) => format.holding() == Holding::Everything,
            Kind::View(view) => view.carries_profiles(),
        }
    }

    /// Whether there is room for the samples of several events.
    pub fn holds_events(self) -> bool {
        match self.kind {
            Kind::Format(format) => format.holds_events(),
            Kind::View(view) => view.holds_events(),
        }
    }

    /// Whether its reader can switch between the events it holds.
    pub fn switches_events(self) -> bool {
        matches!(self.kind, Kind::View(view) if view.holds_events())
    }

    /// Whether there is room for a profile to compare with.
    pub fn holds_base(self) -> bool {
        match self.kind {
            Kind::Format(_) => false,
            Kind::View(view) => view.carries_profiles(),
        }
    }

    /// Whether it makes no difference between the frames of a function.
    pub fn shows_functions_only(self) -> bool {
        match self.kind {
            Kind::Format(_) => false,
            Kind::View(view) => view.shows_functions_only(),
        }
    }

    /// What a profile may hold and this has no room for, in words; none when it is a view, which is
    /// to be looked at.
    pub fn leaves_out(self) -> Option<Vec<&'static str>> {
        match self.kind {
            Kind::Format(format) => {
                let details = format.leaves_out().iter();
                Some(details.map(|detail| detail.label()).collect())
            }
            Kind::View(_) => None,
        }
    }

    /// What `profile` holds and this has no room for, in words.
    pub fn losses(self, profile: &Profile) -> Vec<&'static str> {
        match self.kind {
            Kind::Format(format) => {
                let details = format.leaves_out().iter();
                let lost = details.filter(|detail| detail.is_in(profile));
                lost.map(|detail| detail.label()).collect()
            }
            Kind::View(_) => Vec::new(),
        }
    }

    /// Writes a profile; `base` is what it is compared with, as `.nspy` bytes, or empty.
    pub fn write(
        self,
        profile: &Profile,
        base: &[u8],
        output: &mut dyn Write,
    ) -> Result<(), WriteError> {
        self.write_compared(profile, base, None, output)
    }

    /// The same with what a comparison of both says, for views that have room for it.
    pub fn write_compared(
        self,
        profile: &Profile,
        base: &[u8],
        comparison: Option<&Comparison>,
        output: &mut dyn Write,
    ) -> Result<(), WriteError> {
        let options = DrawOptions {
            comparison,
            ..DrawOptions::default()
        };
        if !self.holds_base() {
            return self.draw(profile, &options, output);
        }
        let held = nodespy_view::for_page(profile);
        let mut bytes = Vec::new();
        Self::native().write(&held, &[], &mut bytes)?;
        let options = DrawOptions {
            payload: Payload {
                profile: &bytes,
                base,
            },
            ..options
        };
        self.draw(&held, &options, output)
    }

    /// Writes a profile the way `options` ask for: a view may have a title and a width; a format has
    /// neither.
    pub fn draw(
        self,
        profile: &Profile,
        options: &DrawOptions<'_>,
        output: &mut dyn Write,
    ) -> Result<(), WriteError> {
        match self.kind {
            Kind::Format(format) => Ok(nodespy_formats::export(profile, format.name(), output)?),
            Kind::View(view) => Ok(nodespy_view::draw(profile, view.name(), options, output)?),
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_go_by_a_name_of_their_own_and_the_longest_extension() {
        for output in outputs() {
            let found = Output::called(output.name()).unwrap();
            assert_eq!(found.name(), output.name());
        }
        let found = |path: &str| Output::for_path(Path::new(path)).map(Output::name);
        assert_eq!(found("a.speedscope.json"), Some("speedscope"));
        assert_eq!(found("a.json"), Some("json"));
        assert_eq!(found("a.html"), Some("html"));
        assert_eq!(found("a"), None);
    }

    #[test]
    fn outputs_that_commands_ask_for_are_in_the_list() {
        let asked = [
            Output::native(),
            Output::folded(),
            Output::page(),
            Output::text(),
            Output::markdown(),
            Output::json(),
            Output::prof(),
        ];
        let names = asked.map(Output::name);
        assert_eq!(
            names,
            ["nspy", "folded", "html", "text", "md", "json", "prof"]
        );
        assert!(names.iter().all(|name| Output::called(name).is_some()));
    }

    #[test]
    fn what_can_be_opened_again_is_nodespy_s_own() {
        let names = |is_so: fn(Output) -> bool| {
            let found = outputs().filter(|output| is_so(*output));
            found.map(Output::name).collect::<Vec<_>>()
        };
        assert_eq!(names(Output::keeps_profile), ["nspy", "html"]);
        assert_eq!(names(Output::holds_base), ["html"]);
        let is_whole = |output: Output| output.holding() == Holding::Everything;
        assert_eq!(names(is_whole), ["nspy", "html", "prof"]);
    }

    #[test]
    fn a_page_carries_the_profile_and_its_base() {
        let mut page = Vec::new();
        let base = b"BASE".as_slice();
        Output::page()
            .write(&Profile::default(), base, &mut page)
            .unwrap();
        assert!(page.starts_with(b"<!"));
        let mut without = Vec::new();
        Output::page()
            .write(&Profile::default(), &[], &mut without)
            .unwrap();
        assert!(page.len() > without.len());
    }
}
