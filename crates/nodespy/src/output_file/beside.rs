//! A file that is written in the folder of another and takes its name when it is whole.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, linkat};
use rustix::io::Errno;

use super::{MAX_NAMES, create_new, folder_of};

/// A new file in the folder of another, which it will replace.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) file: File,
    /// Its name, if it has one of its own: removed when dropped.
    path: Option<PathBuf>,
}

impl Beside {
    /// Creates a file in the folder of `real`, with owner and mode of the one it will replace.
    pub(super) fn create(real: &Path, found: Option<&Metadata>) -> io::Result<Self> {
        // Not every file system has files without names.
        Self::unnamed(real, found).or_else(|_| Self::named(real, found))
    }

    /// One without a name, which is gone with nodespy however that ends.
    pub(super) fn unnamed(real: &Path, found: Option<&Metadata>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(Self::mode(found));
        options.custom_flags(libc::O_TMPFILE);
        let file = options.open(folder_of(real))?;
        Self { file, path: None }.taking_after(found)
    }

    fn named(real: &Path, found: Option<&Metadata>) -> io::Result<Self> {
        let (path, file) = create_new(names_beside(real), Self::mode(found))?;
        let path = Some(path);
        Self { file, path }.taking_after(found)
    }

    fn mode(found: Option<&Metadata>) -> u32 {
        if found.is_some() { 0o600 } else { 0o666 }
    }

    fn taking_after(self, found: Option<&Metadata>) -> io::Result<Self> {
        found.map_or(Ok(()), |found| take_after(&self.file, found))?;
        Ok(self)
    }

    /// Gives it the name `real`, which it takes from the file that was found there.
    pub(super) fn take_name(&mut self, real: &Path, found: Option<&Metadata>) -> io::Result<()> {
        if self.path.is_none() {
            if found.is_none() && self.link_to(real).is_ok() {
                return Ok(());
            }
            // What has the name loses it to another name only.
            match self.link_to_free(real) {
                Ok(path) => self.path = Some(path),
                // A file that was given to another user may not be linked to.
                Err(_) => *self = self.copied(real, found)?,
            }
        }
        if let Some(path) = &self.path {
            fs::rename(path, real)?;
        }
        self.path = None;
        Ok(())
    }

    fn link_to(&self, path: &Path) -> rustix::io::Result<()> {
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)
    }

    fn link_to_free(&self, real: &Path) -> rustix::io::Result<PathBuf> {
        for path in names_beside(real) {
            match self.link_to(&path) {
                Err(Errno::EXIST) => {}
                linked => return linked.map(|()| path),
            }
        }
        Err(Errno::EXIST)
    }

    /// The same content under a name.
    fn copied(&mut self, real: &Path, found: Option<&Metadata>) -> io::Result<Self> {
        let mut named = Self::named(real, found)?;
        self.file.rewind()?;
        io::copy(&mut self.file, &mut named.file)?;
        named.file.sync_data()?;
        Ok(named)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// The names that a file in the folder of `real` may have for a while.
fn names_beside(real: &Path) -> impl Iterator<Item = PathBuf> {
    let folder = folder_of(real).to_owned();
    let process = std::process::id();
    (1..=MAX_NAMES).map(move |each| folder.join(format!(".nodespy-{process}-{each}.tmp")))
}

fn take_after(file: &File, found: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (found.uid(), found.gid()) {
        fchown(file, Some(found.uid()), Some(found.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(found.mode() & 0o777))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::tests::names;
    use super::*;

    #[test]
    fn where_no_file_is_without_a_name_it_has_one_that_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let named = Beside::named(&path, None).unwrap();
        assert_eq!(names(folder.path()).len(), 1);
        drop(named);
        assert!(names(folder.path()).is_empty());
        for text in ["new", "newer"] {
            let found = fs::metadata(&path).ok();
            let mut unlinked = Beside::create(&path, found.as_ref()).unwrap();
            unlinked.file.write_all(text.as_bytes()).unwrap();
            let mut named = unlinked.copied(&path, found.as_ref()).unwrap();
            named.take_name(&path, found.as_ref()).unwrap();
            drop(named);
            drop(unlinked);
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(names(folder.path()), ["out"]);
        }
    }
}
