//! What `top` saw lately, for a file when the user asks for one.

use std::path::Path;
use std::time::Duration;

use nodespy_analysis::Filters;
use nodespy_model::{Nanoseconds, Profile, printable};
use nodespy_outputs::Output;
use nodespy_recorder::{Ring, Slice};
use nodespy_symbolize::SourceMapOptions;

use crate::save::Destination;

/// How much of it is kept.
const KEPT: Duration = Duration::from_secs(30);

/// The last slices.
pub(super) struct Recent {
    ring: Ring,
    /// When the last of them ended, from the start.
    now: Nanoseconds,
    maps_sources: bool,
    file_stem: String,
}

impl Recent {
    pub(super) fn new(maps_sources: bool, file_stem: String) -> Self {
        Self {
            ring: Ring::new(KEPT),
            now: 0,
            maps_sources,
            file_stem,
        }
    }

    /// From when on something is kept.
    pub(super) fn since(&self) -> Nanoseconds {
        self.now.saturating_sub(KEPT.as_nanos() as Nanoseconds)
    }

    pub(super) fn add(&mut self, slice: Profile) {
        self.now = slice.about.duration;
        self.ring.add(slice);
        self.ring.forget_old(self.now, None);
    }

    /// Writes a recording into the current folder, and says so, or why not.
    pub(super) fn write(&self, slice: &Slice<'_>) -> String {
        let (profile, start) = self.ring.profile_from(self.since());
        if profile.samples.is_empty() {
            return "Nothing is written: there are no samples yet".to_owned();
        }
        let profile = match self.maps_sources {
            true => slice.map_sources(profile, &SourceMapOptions::default()),
            false => profile,
        };
        let seconds = self.now.saturating_sub(start) as f64 / 1e9;
        match self.save(&profile) {
            Ok(path) => format!("Wrote {}: the last {seconds:.0} s", printable(&path)),
            Err(error) => format!("Nothing is written: {}", printable(&format!("{error:#}"))),
        }
    }

    fn save(&self, profile: &Profile) -> anyhow::Result<String> {
        let show = Filters::default();
        let folder = Path::new("");
        let destination = Destination::new_in(folder, &self.file_stem, Output::native(), &show)?;
        let destination = destination.keeping_all();
        destination.write(profile)?;
        let path = destination.path().map(|path| path.display().to_string());
        Ok(path.unwrap_or_default())
    }
}
