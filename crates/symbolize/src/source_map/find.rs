//! Where the map of a script is, and whether it is that of the code that ran.
//!
//! V8 knows the text it compiled, so a script on disk is believed if it is that text. Where nothing
//! is known of V8's, neither script nor map may be younger than the process. Maps given by hand go
//! first: the user chose them.

use std::path::{Path, PathBuf};

use nodespy_model::{LoadedScript, Origin, Profile, SourceFile, TextMark, percent_decoded};

use super::given::GivenMaps;
use super::urls::{MapPlace, map_url_in, place_of_map};
use crate::disk::read_text;

/// The largest map that is read; what a bundler makes of ten thousand modules has some 30 MB.
pub(super) const MAP_LIMIT_BYTES: u64 = 256 << 20;
/// The largest script that is read.
pub(super) const SCRIPT_LIMIT_BYTES: u64 = 64 << 20;
/// All maps of a recording together.
const ALL_LIMIT_BYTES: u64 = 1 << 30;

/// A map that was found.
#[derive(Debug)]
pub(super) struct FoundMap {
    /// Its text.
    pub(super) map: String,
    /// The folder that its sources are counted from.
    pub(super) folder: PathBuf,
    /// The script it is for, where that can be read and is the one that ran.
    pub(super) script: Option<String>,
    /// What it is called in remarks.
    pub(super) label: String,
}

/// Looks for maps.
pub(super) struct Finder<'a> {
    pub(super) profile: &'a Profile,
    pub(super) scripts: &'a [LoadedScript],
    /// Where scripts are opened; none when only what was given counts.
    pub(super) origin: Option<&'a dyn Origin>,
    pub(super) given: GivenMaps,
    pub(super) read_bytes: u64,
}

impl Finder<'_> {
    /// The map of a script; none when it has none, an error when it has one that must not be used.
    pub(super) fn find(&mut self, file: &str) -> Result<Option<FoundMap>, String> {
        let found = match self.given_map(file)? {
            Some(found) => Some(found),
            None => self.map_in_target(file)?,
        };
        if let Some(found) = &found {
            self.read_bytes += found.map.len() as u64;
            if self.read_bytes > ALL_LIMIT_BYTES {
                return Err("the maps before it have 1 GiB already".to_owned());
            }
        }
        Ok(found)
    }

    fn loaded(&self, file: &str) -> impl Iterator<Item = &LoadedScript> {
        let scripts = self.scripts.iter();
        scripts.filter(move |script| script.file == file)
    }

    fn given_map(&self, file: &str) -> Result<Option<FoundMap>, String> {
        let path = path_of(file);
        let found = self.given.find(path.as_deref().unwrap_or(file))?;
        if let Some(text) = found.as_ref().and_then(|found| found.script.as_ref())
            && let Some(loaded) = self.loaded(file).next()
            && !loaded.text.agrees_with(&mark_of(text))
        {
            return Err("the script beside the given map is not the one that runs".to_owned());
        }
        Ok(found)
    }

    fn map_in_target(&self, file: &str) -> Result<Option<FoundMap>, String> {
        let loaded = self.only_loaded(file)?;
        let path = path_of(file);
        let script = match (self.origin, &path) {
            (Some(origin), Some(path)) => self.script_on_disk(origin, Path::new(path), loaded),
            _ => Err("it is not a file".to_owned()),
        };
        let by_v8 = loaded
            .map(|loaded| loaded.map_url.as_str())
            .filter(|url| !url.is_empty());
        let on_disk = script
            .as_ref()
            .ok()
            .and_then(|script| map_url_in(&script.text));
        let Some(url) = by_v8.or(on_disk) else {
            return Ok(None);
        };
        let path = PathBuf::from(path.unwrap_or_default());
        let (map, map_path) = match place_of_map(url, &path) {
            MapPlace::Elsewhere(why) => return Err(why.to_owned()),
            MapPlace::Inline(bytes) => {
                if by_v8.is_none() {
                    script.as_ref().map_err(String::clone)?.believe()?;
                }
                (String::from_utf8_lossy(&bytes).into_owned(), path)
            }
            MapPlace::File(map_path) => match self.origin {
                Some(origin) => (map_in_file(origin, &script, &map_path)?, map_path),
                None => return Ok(None),
            },
        };
        let believed = script.ok().filter(|script| script.believe().is_ok());
        Ok(Some(FoundMap {
            map,
            folder: map_path.parent().unwrap_or(Path::new("/")).to_owned(),
            script: believed.map(|script| script.text),
            label: map_path.display().to_string(),
        }))
    }

    /// What V8 has under a file's name; an error when that is not one text.
    fn only_loaded(&self, file: &str) -> Result<Option<&LoadedScript>, String> {
        let mut all = self.loaded(file);
        let Some(first) = all.next() else {
            return Ok(None);
        };
        let is_same = |other: &LoadedScript| {
            other.text.agrees_with(&first.text) && other.map_url == first.map_url
        };
        match all.all(is_same) {
            true => Ok(Some(first)),
            false => Err("different texts run under its name".to_owned()),
        }
    }

    /// The script as the processes see it on disk.
    fn script_on_disk(
        &self,
        origin: &dyn Origin,
        path: &Path,
        loaded: Option<&LoadedScript>,
    ) -> Result<ScriptOnDisk, String> {
        let open = |pid: u32| ScriptOnDisk::open(origin, pid, path);
        if let Some(loaded) = loaded {
            let mut script = open(loaded.pid)?;
            let mark = mark_of(&script.text);
            script.is_the_one = loaded
                .text
                .agrees_with(&mark)
                .then_some(loaded.text.hash.is_some());
            return Ok(script);
        }
        // Nobody knows which processes have it: all that can open it must see the same.
        let mut found: Result<ScriptOnDisk, String> = Err("it is in no process".to_owned());
        for process in &self.profile.processes {
            match (open(process.pid), &found) {
                (Ok(script), Ok(known)) if script.text != known.text => {
                    return Err("the processes have different files of this name".to_owned());
                }
                (Ok(script), Err(_)) => found = Ok(script),
                (Err(why), Err(_)) => found = Err(why),
                _ => {}
            }
        }
        found
    }
}

/// A script as a process sees it on disk.
struct ScriptOnDisk {
    pid: u32,
    text: String,
    is_older: bool,
    /// Whether it is what runs: none when not, true when that is proven by its text.
    is_the_one: Option<bool>,
}

impl ScriptOnDisk {
    fn open(origin: &dyn Origin, pid: u32, path: &Path) -> Result<Self, String> {
        let SourceFile { file, is_older } = origin
            .open_source(pid, path)
            .map_err(|refused| refused.why)?;
        let text = read_text(file, SCRIPT_LIMIT_BYTES).map_err(|error| error.to_string())?;
        Ok(Self {
            pid,
            text,
            is_older,
            is_the_one: Some(false),
        })
    }

    fn is_proven(&self) -> bool {
        self.is_the_one == Some(true)
    }

    /// Says why this is not the script that runs, or may not be.
    fn believe(&self) -> Result<(), String> {
        match self.is_the_one {
            None => Err("the file on disk is not the text that runs".to_owned()),
            Some(false) if !self.is_older => {
                Err("the file on disk was written after the process started".to_owned())
            }
            Some(_) => Ok(()),
        }
    }
}

/// The map in a file beside a script that is the one that runs.
fn map_in_file(
    origin: &dyn Origin,
    script: &Result<ScriptOnDisk, String>,
    path: &Path,
) -> Result<String, String> {
    let script = script
        .as_ref()
        .map_err(|why| format!("the script can't be read: {why}"))?;
    script.believe()?;
    let SourceFile { file, is_older } = origin
        .open_source(script.pid, path)
        .map_err(|refused| format!("{} can't be opened: {}", path.display(), refused.why))?;
    if !is_older && !script.is_proven() {
        let path = path.display();
        return Err(format!("{path} was written after the process started"));
    }
    read_text(file, MAP_LIMIT_BYTES)
        .map_err(|error| format!("{} can't be read: {error}", path.display()))
}

/// The mark of a text as Node hands it to V8: without a byte order mark.
fn mark_of(text: &str) -> TextMark {
    TextMark::of(text.strip_prefix('\u{feff}').unwrap_or(text).encode_utf16())
}

/// The path of a file as functions name it, if it is one.
fn path_of(file: &str) -> Option<String> {
    match file.strip_prefix("file://") {
        Some(path) => Some(percent_decoded(path).into_owned()),
        None => file.starts_with('/').then(|| file.to_owned()),
    }
}
