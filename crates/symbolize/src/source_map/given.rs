//! Source maps that were given by hand: files, and folders that hold some.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nodespy_model::SmallSort;

use super::document::Document;
use super::find::{FoundMap, MAP_LIMIT_BYTES, SCRIPT_LIMIT_BYTES};
use crate::disk::{open_regular, read_text};

/// How deep folders are searched, and how many of their entries are looked at.
const DEPTH_LIMIT: usize = 32;
const ENTRY_LIMIT: usize = 1 << 20;

/// A map, and the script it is for by its name.
#[derive(Debug)]
struct GivenMap {
    path: PathBuf,
    script: String,
}

/// The maps that were given.
#[derive(Debug, Default)]
pub(super) struct GivenMaps {
    maps: Vec<GivenMap>,
    /// What could not be used.
    pub(super) remarks: Vec<String>,
}

impl GivenMaps {
    /// Finds the maps among files and below folders.
    pub(super) fn look_at(paths: &[PathBuf]) -> Self {
        let mut given = Self::default();
        for path in paths {
            let before = given.maps.len();
            let looked = match path.is_dir() {
                true => given.look_below(path),
                false => given.add_file(path),
            };
            let why = match looked {
                Err(error) => error.to_string(),
                Ok(()) if given.maps.len() == before => "there is no .map file in it".to_owned(),
                Ok(()) => continue,
            };
            let remark = format!("source maps: {} is not used: {why}", path.display());
            given.remarks.push(remark);
        }
        given
    }

    /// A file is for the script it says, or the one it is called after.
    fn add_file(&mut self, path: &Path) -> io::Result<()> {
        let text = read_text(open_regular(path)?, MAP_LIMIT_BYTES)?;
        let document = Document::read(&text).map_err(io::Error::other)?;
        let called = called_after(path).or_else(|| name_of(path).map(str::to_owned));
        let script = match document.file.rsplit(['/', '\\']).next() {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => called.unwrap_or_default(),
        };
        self.maps.push(GivenMap {
            path: path.to_owned(),
            script,
        });
        Ok(())
    }

    fn look_below(&mut self, folder: &Path) -> io::Result<()> {
        let mut folders = vec![(folder.to_owned(), 0)];
        let mut left = ENTRY_LIMIT;
        while let Some((folder, depth)) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.filter_map(Result::ok) {
                left = left.checked_sub(1).ok_or_else(|| {
                    io::Error::other(format!("there are more than {ENTRY_LIMIT} files below it"))
                })?;
                // A link may lead anywhere, in circles too.
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                let path = entry.path();
                if kind.is_dir() && depth < DEPTH_LIMIT {
                    folders.push((path, depth + 1));
                } else if kind.is_file()
                    && let Some(script) = called_after(&path)
                {
                    self.maps.push(GivenMap { path, script });
                }
            }
        }
        Ok(())
    }

    /// The map for a script: of those with its name the one whose folders are most like the script's.
    pub(super) fn find(&self, script: &str) -> Result<Option<FoundMap>, String> {
        let script_path = Path::new(script);
        let name = name_of(script_path).unwrap_or_default();
        let fitting = self.maps.iter().filter(|map| map.script == name);
        let mut ranked: Vec<(usize, &GivenMap)> = fitting
            .map(|map| (folders_alike(&map.path, script_path), map))
            .collect();
        ranked.small_sort_by(|one, two| two.0.cmp(&one.0).then(one.1.path.cmp(&two.1.path)));
        let map = match ranked[..] {
            [] => return Ok(None),
            [(one, first), (two, second), ..] if one == two => {
                return Err(format!(
                    "{} and {} fit alike; give one of them",
                    first.path.display(),
                    second.path.display()
                ));
            }
            [(_, map), ..] => map,
        };
        let read =
            |path: &Path, limit| open_regular(path).and_then(|file: File| read_text(file, limit));
        let map_text = read(&map.path, MAP_LIMIT_BYTES)
            .map_err(|error| format!("{} can't be read ({error})", map.path.display()))?;
        let beside = map.path.with_file_name(name);
        // Sources are where they are beside the script, not beside a copy of its map.
        let folder = match script_path.is_absolute() {
            true => script_path.parent(),
            false => map.path.parent(),
        };
        Ok(Some(FoundMap {
            map: map_text,
            folder: folder.unwrap_or(Path::new("/")).to_owned(),
            script: read(&beside, SCRIPT_LIMIT_BYTES).ok(),
            label: map.path.display().to_string(),
        }))
    }
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// `bundle.js` for `bundle.js.map`.
fn called_after(map: &Path) -> Option<String> {
    name_of(map)?.strip_suffix(".map").map(str::to_owned)
}

/// How many of the innermost folders have the same names.
fn folders_alike(one: &Path, two: &Path) -> usize {
    let folders = |path: &Path| -> Vec<String> {
        let parts = path.parent().into_iter().flat_map(Path::components);
        let mut names: Vec<String> = parts
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        names.reverse();
        names
    };
    let (one, two) = (folders(one), folders(two));
    one.iter()
        .zip(&two)
        .take_while(|(one, two)| one == two)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_in_the_folders_most_like_the_scripts_is_taken() {
        let root = tempfile::tempdir().unwrap();
        for (path, file) in [
            ("one/dist/main.js.map", "one"),
            ("two/dist/main.js.map", "two"),
            ("two/lib/other.js.map", "other"),
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let map = format!(r#"{{"version":3,"sources":["{file}"],"mappings":"AAAA"}}"#);
            std::fs::write(path, map).unwrap();
        }
        std::fs::write(root.path().join("two/lib/other.js"), "text").unwrap();
        let given = GivenMaps::look_at(&[root.path().to_owned()]);
        let found = given.find("/app/two/dist/main.js").unwrap().unwrap();
        assert!(
            found.label.ends_with("two/dist/main.js.map"),
            "{}",
            found.label
        );
        assert_eq!(found.folder, Path::new("/app/two/dist"));
        assert_eq!(found.script, None);
        let other = given.find("/srv/other.js").unwrap().unwrap();
        assert_eq!(other.script.as_deref(), Some("text"));
        let Err(why) = given.find("/app/dist/main.js") else {
            panic!()
        };
        assert!(why.contains("fit alike"), "{why}");
        assert!(given.find("/app/none.js").unwrap().is_none());
        let nothing = GivenMaps::look_at(&[root.path().join("gone.map")]);
        assert!(
            nothing.remarks[0].contains("gone.map is not used"),
            "{nothing:?}"
        );
    }

    #[test]
    fn a_file_is_for_the_script_it_names() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("upload-17.json");
        let map = r#"{"version":3,"file":"dist/main.js","sources":["a"],"mappings":"AAAA"}"#;
        std::fs::write(&path, map).unwrap();
        let given = GivenMaps::look_at(&[path]);
        assert!(given.find("/app/main.js").unwrap().is_some());
        assert!(given.find("/app/upload-17.json").unwrap().is_none());
    }
}
