//! A folder for one test, gone when the test is over.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A new folder inside the checkout's target folder.
    pub(crate) fn new() -> Self {
        Self::inside(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// A new folder that other users can enter and write to, which a checkout's may not be.
    pub(crate) fn for_other_users() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let scratch = Self::inside(&std::env::temp_dir());
        fs::set_permissions(&scratch.path, fs::Permissions::from_mode(0o777)).unwrap();
        scratch
    }

    fn inside(parent: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("nodespy-it-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it, as text for a command line.
    pub(crate) fn file(&self, name: &str) -> String {
        self.path.join(name).to_str().unwrap().to_owned()
    }

    /// A copy of a program in it. Another process writes it: the descriptor of one that this process
    /// writes can be inherited by a child that another test is just starting, and then the copy
    /// can't be run yet ("Text file busy").
    pub(crate) fn copy_program(&self, from: impl AsRef<Path>, name: &str) -> String {
        let copy = self.file(name);
        let status = std::process::Command::new("install")
            .args(["-m", "755"])
            .args([from.as_ref(), Path::new(&copy)])
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{copy}");
        copy
    }

    /// The names in it, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
