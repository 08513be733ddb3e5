//! The formats nodespy writes, one file each.

mod by_thread;
mod chrome_trace;
mod cpuprofile;
mod detail;
mod firefox;
mod folded;
mod heapprofile;
mod perf_script;
mod pprof;
mod speedscope;
mod v8_preprocessed;

use std::io::{self, Write};
use std::path::Path;

use nodespy_analysis::Holding;
use nodespy_model::Profile;

use crate::native::Native;

pub(crate) use chrome_trace::ROOT_EVENT as TRACE_ROOT;
pub use detail::Detail;
pub(crate) use firefox::name_with_event;
pub(crate) use perf_script::event_word;

/// One file format that nodespy writes.
pub trait Exporter: Sync {
    /// The name used by `--to` and in messages.
    fn name(&self) -> &'static str;

    /// The file name extensions that mean this format, the usual one first.
    fn extensions(&self) -> &'static [&'static str];

    /// What a profile may hold and this format does not: said in the help, and once on standard
    /// error when something is really left out.
    fn leaves_out(&self) -> &'static [Detail];

    /// Whether it holds what no view shows, so that the profile can be opened again, whole.
    fn holding(&self) -> Holding {
        Holding::WhatIsShown
    }

    /// Whether it has room for the samples of several events. What has not gets those of the first.
    fn holds_events(&self) -> bool {
        false
    }

    /// Writes a profile.
    fn export(&self, profile: &Profile, output: &mut dyn Write) -> Result<(), ExportError>;
}

/// Every exporter, once.
pub static EXPORTERS: &[&dyn Exporter] = &[
    &Native,
    &folded::Folded,
    &cpuprofile::CpuProfile,
    &heapprofile::HeapProfile,
    &chrome_trace::ChromeTrace,
    &pprof::Pprof,
    &speedscope::Speedscope,
    &perf_script::PerfScript,
    &firefox::Firefox,
    &v8_preprocessed::V8Preprocessed,
];

/// Why a profile could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// No exporter has this name.
    #[error(
        "there is no format called {name:?}; nodespy writes {}",
        known_formats()
    )]
    UnknownFormat {
        /// The name that was asked for.
        name: String,
    },
    /// The format has no room for what the profile counts.
    #[error("{format} can't hold a profile that counts {unit}; use {instead}")]
    WrongUnit {
        /// The format that was asked for.
        format: &'static str,
        /// What the profile counts.
        unit: &'static str,
        /// A format that can.
        instead: &'static str,
    },
    /// The system could not write.
    #[error("cannot write the output")]
    Write(#[from] io::Error),
}

/// The names of all formats, for messages.
fn known_formats() -> String {
    let names: Vec<&str> = EXPORTERS.iter().map(|exporter| exporter.name()).collect();
    names.join(", ")
}

/// Writes a profile in the format called `to`: all of its events, or the first.
pub fn export(profile: &Profile, to: &str, output: &mut dyn Write) -> Result<(), ExportError> {
    let exporter = exporter(to).ok_or_else(|| ExportError::UnknownFormat {
        name: to.to_owned(),
    })?;
    match exporter.holds_events() {
        true => exporter.export(profile, output),
        false => exporter.export(&profile.first_event(), output),
    }
}

/// The exporter of nodespy's own format.
pub fn native_exporter() -> &'static dyn Exporter {
    &Native
}

/// The exporter of folded stacks.
pub fn folded_exporter() -> &'static dyn Exporter {
    &folded::Folded
}

/// The exporter called `name`.
pub fn exporter(name: &str) -> Option<&'static dyn Exporter> {
    EXPORTERS
        .iter()
        .copied()
        .find(|exporter| exporter.name() == name)
}

/// The exporter that a file's extension asks for: the longest one that fits, because
/// `.speedscope.json` says more than `.json`.
pub fn exporter_for_path(path: &Path) -> Option<&'static dyn Exporter> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let ends_with = |extension: &str| {
        name.strip_suffix(extension)
            .is_some_and(|stem| stem.ends_with('.'))
    };
    EXPORTERS
        .iter()
        .flat_map(|exporter| {
            let extensions = exporter.extensions().iter();
            extensions.map(move |extension| (*extension, *exporter))
        })
        .filter(|(extension, _)| ends_with(extension))
        .max_by_key(|(extension, _)| extension.len())
        .map(|(_, exporter)| exporter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_extension_decides() {
        let name = |path: &str| exporter_for_path(Path::new(path)).map(Exporter::name);
        assert_eq!(name("x/shop.nspy"), Some("nspy"));
        assert_eq!(name("Shop.PB.GZ"), Some("pprof"));
        assert_eq!(name("shop.gz"), None);
        assert_eq!(name("nspy"), None);
    }
}
