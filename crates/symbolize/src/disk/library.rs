//! Files and folders of binaries that were given, found by build-id.

use std::fs::File;
use std::path::{Path, PathBuf};

use nodespy_model::FastMap;

use super::build_id::{build_id_of, hex, is_same};
use super::open::open_regular;

/// No folder is searched deeper, and no more files are looked at.
const DEPTH_LIMIT: usize = 12;
const FILE_LIMIT: usize = 200_000;

/// What was given.
#[derive(Debug, Default)]
pub(super) struct Library {
    by_build_id: FastMap<Vec<u8>, Vec<PathBuf>>,
    /// Files that were given one by one.
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Library {
    /// Looks through files and folders.
    pub(super) fn of(paths: &[PathBuf]) -> Self {
        let mut library = Self::default();
        let mut seen = 0;
        for path in paths {
            match path.is_dir() {
                true => library.folders.push(path.clone()),
                false => {
                    library.files.push(path.clone());
                    library.add(path.clone());
                }
            }
        }
        for folder in library.folders.clone() {
            library.search(&folder, &mut seen);
        }
        library
    }

    fn search(&mut self, folder: &Path, seen: &mut usize) {
        let mut open = vec![(folder.to_owned(), 0)];
        while let Some((folder, depth)) = open.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.filter_map(Result::ok) {
                *seen += 1;
                if *seen > FILE_LIMIT {
                    log::warn!(
                        "only {FILE_LIMIT} files of {} are looked at",
                        folder.display()
                    );
                    return;
                }
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                if kind.is_dir() && depth < DEPTH_LIMIT {
                    open.push((entry.path(), depth + 1));
                } else if kind.is_file() {
                    self.add(entry.path());
                }
            }
        }
    }

    fn add(&mut self, path: PathBuf) {
        let build_id = open_regular(&path).ok().and_then(|file| build_id_of(&file));
        if let Some(build_id) = build_id {
            self.by_build_id.entry(build_id).or_default().push(path);
        }
    }

    fn paths_of(&self, build_id: &[u8]) -> impl Iterator<Item = &PathBuf> {
        // A recorded id may be padded or cut, so this is no plain look-up.
        self.by_build_id
            .iter()
            .filter(|(known, _)| is_same(build_id, known))
            .flat_map(|(_, paths)| paths)
    }

    /// The binary with a build-id.
    pub(super) fn find(&self, build_id: &[u8]) -> Option<File> {
        self.paths_of(build_id)
            .find(|path| !is_debug_file(path))
            .and_then(|path| open_regular(path).ok())
    }

    /// The separate debug file with a build-id.
    pub(super) fn find_debug(&self, build_id: &[u8]) -> Option<File> {
        let hex = hex(build_id);
        let name = Path::new(".build-id")
            .join(hex.get(..2)?)
            .join(format!("{}.debug", hex.get(2..)?));
        self.folders
            .iter()
            .find_map(|folder| open_regular(&folder.join(&name)).ok())
            .or_else(|| {
                self.paths_of(build_id)
                    .find(|path| is_debug_file(path))
                    .and_then(|path| open_regular(path).ok())
            })
    }

    /// The file that was given by itself and has the name of `path`.
    pub(super) fn given(&self, path: &Path) -> Option<File> {
        self.files
            .iter()
            .find(|file| file.file_name() == path.file_name())
            .and_then(|file| open_regular(file).ok())
    }
}

fn is_debug_file(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "debug")
}
