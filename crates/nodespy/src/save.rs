//! Profiles in and out of files: by extension, by name, to standard output.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use nodespy_analysis::{Comparison, Filters, Holding, filtered, other_events, shown_event};
use nodespy_formats::{ImportOptions, Input, Limits};
use nodespy_model::Profile;
use nodespy_outputs::{Output, output_names};
use nodespy_symbolize::{DiskOptions, DiskOrigin, ResolveOptions, SourceMapOptions};
use nodespy_view::{DrawOptions, Terminal};

use crate::cli::ReadArgs;
use crate::comparing::Base;
use crate::output::{self, Stream};
use crate::output_file::{OutputFile, is_closed_pipe};

/// Which format the user asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormatChoice<'a> {
    /// The option that chooses it.
    pub(crate) flag: &'static str,
    /// Its name; none when the extension decides.
    pub(crate) name: Option<&'a str>,
}

impl FormatChoice<'_> {
    /// The format of a file.
    pub(crate) fn format_of(&self, path: &Path) -> anyhow::Result<Output> {
        match self.name {
            Some(name) => known_format(name),
            None if is_standard(path) => Ok(Output::folded()),
            None => format_for_path(path, self.flag),
        }
    }
}

/// A place to write a profile to, known to be writable.
#[derive(Debug)]
pub(crate) struct Destination {
    /// None for standard output.
    file: Option<OutputFile>,
    format: Output,
    /// What is shown.
    show: Filters,
    /// What the profile is compared with.
    base: Base,
}

impl Destination {
    /// Finds out the format and whether the file can be written, before anything is recorded.
    pub(crate) fn check(
        path: &Path,
        choice: FormatChoice<'_>,
        show: &Filters,
    ) -> anyhow::Result<Self> {
        Self::named(path, choice.format_of(path)?, show)
    }

    /// The same where the format is known.
    pub(crate) fn named(path: &Path, format: Output, show: &Filters) -> anyhow::Result<Self> {
        let file = match is_standard(path) {
            true => None,
            false => Some(OutputFile::named(path)?),
        };
        Ok(Self::to(file, format, show))
    }

    /// A new file in `folder` whose name starts with `stem`.
    pub(crate) fn new_in(
        folder: &Path,
        stem: &str,
        format: Output,
        show: &Filters,
    ) -> anyhow::Result<Self> {
        let file = OutputFile::new_in(folder, stem, format.name())?;
        Ok(Self::to(Some(file), format, show))
    }

    /// A new file called as a path says, with a number where that is taken.
    pub(crate) fn numbered(path: &Path, format: Output, show: &Filters) -> anyhow::Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let known = format.extensions().into_iter();
        let known = known.filter_map(|extension| {
            let stem = name.strip_suffix(extension)?.strip_suffix('.')?;
            Some((stem, extension))
        });
        let longest = known.max_by_key(|(_, extension)| extension.len());
        let (stem, extension) = longest
            .or_else(|| name.rsplit_once('.'))
            .unwrap_or((&name, format.name()));
        let folder = path.parent().unwrap_or(Path::new(""));
        let file = OutputFile::new_in(folder, stem, extension)?;
        Ok(Self::to(Some(file), format, show))
    }

    /// A file that is open already; none is standard output.
    pub(crate) fn to(file: Option<OutputFile>, format: Output, show: &Filters) -> Self {
        Self {
            file,
            format,
            show: show.clone(),
            base: Base::default(),
        }
    }

    /// Puts a recording to compare with beside the profile, if there is one.
    pub(crate) fn add_base(&mut self, base: Base) -> anyhow::Result<()> {
        if !base.nspy.is_empty() && !self.format.holds_base() {
            bail!(crate::failure::Failure::Usage(format!(
                "--base needs an HTML page to be in; {} has room for one profile",
                self.format.name()
            )));
        }
        self.base = base;
        Ok(())
    }

    /// A recording cannot be taken again: what can be opened later holds all of it, whatever the
    /// filters are.
    pub(crate) fn keeping_all(mut self) -> Self {
        if self.format.holding() == Holding::Everything {
            self.show = Filters::default();
        }
        self
    }

    pub(crate) fn is_standard_output(&self) -> bool {
        self.file.is_none()
    }

    /// The file, unless it is standard output.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(OutputFile::path)
    }

    /// The folder that is written to; none where no file is made.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.file.as_ref().and_then(OutputFile::folder)
    }

    /// Whether a recording that was written here can be opened again, whole.
    pub(crate) fn keeps_recording(&self) -> bool {
        let is_lasting = |path: &Path| path.metadata().is_ok_and(|found| found.is_file());
        self.format.keeps_profile() && self.path().is_some_and(is_lasting)
    }

    /// The profile as it will be written: filtered, and without the plumbing unless it is asked
    /// for or the format can be opened again.
    pub(crate) fn shown<'a>(&self, profile: Cow<'a, Profile>) -> anyhow::Result<Cow<'a, Profile>> {
        let profile = match self.format.holds_events() {
            true => profile,
            false => shown_event(profile),
        };
        Ok(filtered(profile, &self.show, self.format.holding())?)
    }

    /// What a profile holds and the format has no room for.
    pub(crate) fn losses(&self, profile: &Profile) -> Vec<&'static str> {
        self.format.losses(profile)
    }

    /// The events that the format has no room for, in words.
    pub(crate) fn events_left_out(&self, profile: &Profile) -> Option<String> {
        let is_short = profile.events.len() > 1 && !self.format.holds_events();
        is_short.then(|| format!("further events: {}", other_events(profile)))
    }

    /// Whether its reader can switch between the events it holds.
    pub(crate) fn switches_events(&self) -> bool {
        self.format.switches_events()
    }

    /// The name of the format.
    pub(crate) fn format(&self) -> &str {
        self.format.name()
    }

    /// Whether what is written makes no difference between the frames of a function.
    pub(crate) fn shows_functions_only(&self) -> bool {
        !self.show.no_merge_tiers && self.format.shows_functions_only()
    }

    /// Writes the profile as it is to be shown.
    pub(crate) fn write(&self, profile: &Profile) -> anyhow::Result<()> {
        self.write_shown(&*self.shown(Cow::Borrowed(profile))?)
    }

    /// Writes a profile that is what is to be shown already.
    pub(crate) fn write_shown(&self, profile: &Profile) -> anyhow::Result<()> {
        let Base { nspy, comparison } = &self.base;
        let write = |output: &mut dyn Write| {
            let written = self
                .format
                .write_compared(profile, nspy, comparison.as_ref(), output);
            Ok(written?)
        };
        if let Some(file) = &self.file {
            return file.write(write);
        }
        let mut output = std::io::stdout().lock();
        match write(&mut output).and_then(|()| Ok(output.flush()?)) {
            Err(error) if is_closed_pipe(&error) => Ok(()),
            done => done.context("writing to standard output"),
        }
    }
}

/// Writes a profile whose destination failed to somewhere else, so that it is not lost.
pub(crate) fn rescue(profile: &Profile) -> Option<PathBuf> {
    let stem = format!("nodespy-rescued-{}", std::process::id());
    let folders = [std::env::current_dir().ok(), Some(std::env::temp_dir())];
    folders.into_iter().flatten().find_map(|folder| {
        let show = Filters::default();
        let destination = Destination::new_in(&folder, &stem, Output::native(), &show).ok()?;
        destination.write(profile).ok()?;
        destination.path().map(Path::to_owned)
    })
}

/// Draws the summary for the terminal.
pub(crate) fn print_summary(
    profile: &Profile,
    show: &Filters,
    stream: Stream,
) -> anyhow::Result<()> {
    print_compared(profile, show, stream, None)
}

/// The same, and below it what a comparison says.
pub(crate) fn print_compared(
    profile: &Profile,
    show: &Filters,
    stream: Stream,
    comparison: Option<&Comparison>,
) -> anyhow::Result<()> {
    let options = DrawOptions {
        comparison,
        ..DrawOptions::default()
    };
    print_drawn(profile, Output::text(), show, options, stream)
}

/// Prints every route with its functions.
pub(crate) fn print_by_route(
    profile: &Profile,
    view: Output,
    show: &Filters,
) -> anyhow::Result<()> {
    let options = DrawOptions {
        by_route: true,
        ..DrawOptions::default()
    };
    print_drawn(profile, view, show, options, Stream::Standard)
}

fn print_drawn(
    profile: &Profile,
    view: Output,
    show: &Filters,
    mut options: DrawOptions<'_>,
    stream: Stream,
) -> anyhow::Result<()> {
    let shown = shown_event(Cow::Borrowed(profile));
    let shown = filtered(shown, show, Holding::WhatIsShown)?;
    options.terminal = Terminal {
        has_color: output::has_color(stream),
        width_columns: output::width_of_result(stream),
    };
    let mut text = Vec::new();
    view.draw(&shown, &options, &mut text)?;
    output::result(&String::from_utf8_lossy(&text), stream);
    Ok(())
}

/// Prints the sections of `node --prof-process`, and what else is to be known on standard error.
pub(crate) fn print_prof(profile: &Profile, show: &Filters, title: &str) -> anyhow::Result<()> {
    let shown = shown_event(Cow::Borrowed(profile));
    let shown = filtered(shown, show, Holding::Everything)?;
    let options = DrawOptions {
        title: Some(title),
        ..Default::default()
    };
    let mut text = Vec::new();
    Output::prof().draw(&shown, &options, &mut text)?;
    output::result(&String::from_utf8_lossy(&text), Stream::Standard);
    for sentence in shown.notes.sentences() {
        output::note(&sentence);
    }
    Ok(())
}

/// Prints a profile as one of the views.
pub(crate) fn print_view(
    profile: Profile,
    view: Output,
    show: &Filters,
    base: Base,
) -> anyhow::Result<()> {
    let mut destination = Destination::named(Path::new("-"), view, show)?;
    destination.base = base;
    destination.write_shown(&*destination.shown(Cow::Owned(profile))?)
}

/// The page of a profile, for a browser; `base` is what it is compared with.
pub(crate) fn page(profile: Profile, show: &Filters, base: &Base) -> anyhow::Result<Vec<u8>> {
    let shown = filtered(Cow::Owned(profile), show, Holding::Everything)?;
    let mut page = Vec::new();
    Output::page().write_compared(&shown, &base.nspy, base.comparison.as_ref(), &mut page)?;
    Ok(page)
}

/// The recording that another is compared with, as `.nspy` bytes, from the bytes a browser sent.
pub(crate) fn dropped_base(bytes: &mut dyn Read, show: &Filters) -> anyhow::Result<Vec<u8>> {
    let input = Input::read(bytes, &Limits::default())?;
    let recording = nodespy_formats::import(input, &ImportOptions::default())?;
    let origin = DiskOrigin::new(DiskOptions::default(), &recording.about);
    let profile =
        nodespy_symbolize::resolve(recording, Box::new(origin), &ResolveOptions::default());
    as_base(profile, show)
}

/// A base is filtered as what it is compared with.
pub(crate) fn as_base(profile: Profile, show: &Filters) -> anyhow::Result<Vec<u8>> {
    let shown = filtered(Cow::Owned(profile), show, Holding::Everything)?;
    let mut bytes = Vec::new();
    Output::native().write(&shown, &[], &mut bytes)?;
    Ok(bytes)
}

/// Reads a profile from a file or standard input.
pub(crate) fn read(path: &Path, arguments: &ReadArgs) -> anyhow::Result<Profile> {
    read_input(open(path)?, path, arguments)
}

/// The bytes of a file or of standard input.
pub(crate) fn open(path: &Path) -> anyhow::Result<Input> {
    let limits = Limits::default();
    let input = if is_standard(path) {
        Input::standard(&limits)
    } else {
        Input::open(path, &limits)
    };
    input.with_context(|| reading(path))
}

/// Reads a profile from the bytes of a file.
pub(crate) fn read_input(
    input: Input,
    path: &Path,
    arguments: &ReadArgs,
) -> anyhow::Result<Profile> {
    let is_one_event = !arguments.keeps_events;
    let options = ImportOptions {
        event: arguments.event.clone().filter(|_| is_one_event),
        progress: Some(output::progress),
        // Source maps find the function of the source by the line.
        functions_only: arguments.functions_only && arguments.source_maps.is_empty(),
        ..ImportOptions::from(arguments.from.as_deref())
    };
    let recording = nodespy_formats::import(input, &options).with_context(|| reading(path))?;
    let origin = DiskOrigin::new(
        DiskOptions {
            recording: (!is_standard(path)).then(|| path.to_owned()),
            root: arguments.root.clone(),
            symbols: arguments.symbols.clone(),
            maps: arguments.map.clone(),
            kallsyms: arguments.kallsyms.clone(),
            cache: nodespy_symbolize::perf_cache(),
        },
        &recording.about,
    );
    let options = ResolveOptions {
        has_inlines: !arguments.no_inline,
        source_maps: SourceMapOptions {
            given: arguments.source_maps.clone(),
            embeds_sources: arguments.embed_source,
        },
    };
    let mut profile = nodespy_symbolize::resolve(recording, Box::new(origin), &options);
    output::end_progress();
    if let Some(name) = arguments.event.as_deref().filter(|_| !is_one_event) {
        let event = nodespy_formats::event_called(&profile.events, name);
        profile.put_first(event.with_context(|| reading(path))?);
    }
    Ok(profile)
}

/// What is being attempted, for errors.
pub(crate) fn reading(path: &Path) -> String {
    match is_standard(path) {
        true => "reading standard input".to_owned(),
        false => format!("reading {}", path.display()),
    }
}

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// The output called `name`.
pub(crate) fn known_format(name: &str) -> anyhow::Result<Output> {
    Output::called(name).ok_or_else(|| {
        anyhow!(crate::failure::Failure::Usage(format!(
            "there is no format called {name:?}; nodespy writes {}",
            output_names()
        )))
    })
}

fn format_for_path(path: &Path, flag: &str) -> anyhow::Result<Output> {
    Output::for_path(path).ok_or_else(|| {
        anyhow!(crate::failure::Failure::Usage(format!(
            "{} has no known extension; nodespy writes {} ({flag} NAME)",
            path.display(),
            output_names()
        )))
    })
}
