//! The text of the JavaScript files that a profile names, taken along in it.
//!
//! Off unless asked for, because code is private. Only absolute paths with an extension that
//! JavaScript or TypeScript has are read, so that no function can pretend to be in another file.

use std::path::{Path, PathBuf};

use nodespy_model::{Category, FastSet, Profile, Source, StringIndex};

use crate::SourceRoot;

/// The largest file that is taken along.
const FILE_BYTES: u64 = 16 << 20;
/// All of them together; what our own format reads back.
const ALL_BYTES: u64 = 64 << 20;

const EXTENSIONS: [&str; 8] = ["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"];

/// Where the files are looked for, in this order.
#[derive(Debug, Default)]
pub struct SourceRoots {
    roots: Vec<SourceRoot>,
}

impl SourceRoots {
    /// The roots that processes see. Held from the start: a process may end before its files are
    /// read.
    pub fn of_processes(pids: impl IntoIterator<Item = u32>) -> Self {
        let root_of = |pid: u32| PathBuf::from(format!("/proc/{pid}/root"));
        Self::of_folders(pids.into_iter().map(root_of))
    }

    /// The root that a recording from elsewhere is said to have, or this machine's.
    pub fn of_folder(folder: Option<&Path>) -> Self {
        Self::of_folders([folder.unwrap_or(Path::new("/")).to_owned()])
    }

    fn of_folders(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let folders = folders.into_iter();
        Self {
            roots: folders
                .filter_map(|folder| SourceRoot::open(&folder).ok())
                .collect(),
        }
    }

    fn read(&self, path: &Path, limit_bytes: u64) -> Option<String> {
        let mut texts = self.roots.iter();
        texts.find_map(|root| root.read(path, limit_bytes).ok())
    }

    /// Adds the text of every file of JavaScript that the profile names, and remarks how many
    /// could and could not be read.
    pub fn embed(&self, profile: &mut Profile) {
        let files = files_of(profile);
        let mut left_bytes = profile.sources.iter().fold(ALL_BYTES, |left, source| {
            left.saturating_sub(source.text.len() as u64)
        });
        let mut unread = 0;
        for file in files {
            let path = Path::new(profile.strings.get(file));
            match self.read(path, FILE_BYTES.min(left_bytes)) {
                Some(text) => {
                    left_bytes -= (text.len() as u64).min(left_bytes);
                    profile.sources.push(Source { file, text });
                }
                None => unread += 1,
            }
        }
        let counted = |count: usize| match count {
            1 => "1 file".to_owned(),
            count => format!("{count} files"),
        };
        let embedded = counted(profile.sources.len());
        let mut remark = format!("the source of {embedded} is embedded");
        if unread > 0 {
            remark.push_str(&format!("; {} could not be read", counted(unread)));
        }
        profile.notes.remark(remark);
    }
}

/// The files whose text is wanted: those of the application and its dependencies that the profile
/// does not hold yet.
fn files_of(profile: &Profile) -> Vec<StringIndex> {
    let mut seen: FastSet<StringIndex> = profile.sources.iter().map(|source| source.file).collect();
    let is_wanted = |file: &StringIndex| {
        let path = Path::new(profile.strings.get(*file));
        let extension = path.extension().and_then(|extension| extension.to_str());
        path.is_absolute() && extension.is_some_and(|each| EXTENSIONS.contains(&each))
    };
    profile
        .functions
        .iter()
        .filter(|row| matches!(row.category, Category::App | Category::Dependency))
        .filter_map(|row| row.file)
        .filter(|file| seen.insert(*file))
        .filter(is_wanted)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::{About, FunctionSpec, Notes, ProfileBuilder, WeightUnit};

    #[test]
    fn only_javascript_below_the_root_is_embedded() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| std::fs::write(root.path().join(name), text).unwrap();
        write("app.js", b"let x = 1;\n// \xff\n");
        write("secret.pem", b"secret");
        std::os::unix::fs::symlink("/etc/hostname", root.path().join("link.js")).unwrap();
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        for file in ["/app.js", "/secret.pem", "/gone.js", "/link.js", "app.js"] {
            builder.function(FunctionSpec {
                file,
                category: Category::App,
                ..FunctionSpec::default()
            });
        }
        let mut profile = builder.finish(About::default(), Notes::default());
        let roots = SourceRoots::of_folder(Some(root.path()));
        roots.embed(&mut profile);
        let [source] = &profile.sources[..] else {
            panic!("{:?}", profile.sources);
        };
        assert_eq!(profile.strings.get(source.file), "/app.js");
        assert_eq!(source.text, "let x = 1;\n// \u{fffd}\n");
        assert_eq!(
            profile.notes.remarks,
            ["the source of 1 file is embedded; 2 files could not be read"]
        );
    }
}
