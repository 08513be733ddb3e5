//! Files that results are written to: the one place that creates them.
//!
//! A name that the user chose is given to the new file when that is complete, so that a full disk costs the new file
//! and never the old one. Until then the file has no name, so that nothing is left of it where nodespy is killed; where
//! the file system has no such files, it is written beside. Devices, FIFOs and descriptors (`/dev/stdout`) are
//! written where they are. A file that can't be renamed over, or in a folder that takes no new files, or whose owner
//! can't be kept, is written over once all of its new content is elsewhere and there is room for it, which file systems
//! that copy on write don't promise. A name that nodespy chose is new, never a link of another user's, and readable by
//! its owner only.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use tempfile::SpooledTempFile;

mod beside;

use beside::Beside;

/// How many names are tried where one is taken.
const MAX_NAMES: u32 = 1000;
/// How many links are followed, as in the kernel.
const MAX_LINKS: usize = 40;

/// How much of what is to be written over a file is held in memory; more goes into a file without a name.
const IN_MEMORY_BYTES: usize = 16 << 20;

/// A file to write, known to be writable.
#[derive(Debug)]
pub(crate) struct OutputFile {
    /// As the user knows it.
    path: PathBuf,
    way: Way,
}

/// How the content gets into the file.
#[derive(Debug)]
enum Way {
    /// Written beside this path, then renamed over it.
    Replace(PathBuf),
    /// Written into what is there.
    InPlace(File),
    /// Written into a new file of a name that nodespy chose.
    New,
}

impl OutputFile {
    /// A file that the user named. Nothing of it changes before [`Self::write`].
    pub(crate) fn named(path: &Path) -> anyhow::Result<Self> {
        let way = way_to(path).with_context(|| cannot_write(path))?;
        Ok(Self {
            path: path.to_owned(),
            way,
        })
    }

    /// The same, or none for standard output: `-`, or no path.
    pub(crate) fn unless_standard(path: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let path = path.filter(|path| *path != Path::new("-"));
        path.map(Self::named).transpose()
    }

    /// A file in `folder` that nodespy names: `STEM.EXTENSION`, or `STEM-2.EXTENSION` when that is
    /// taken. It is there once it is written.
    pub(crate) fn new_in(folder: &Path, stem: &str, extension: &str) -> anyhow::Result<Self> {
        let is_free = |path: &PathBuf| {
            let found = fs::symlink_metadata(path);
            matches!(found, Err(error) if error.kind() == ErrorKind::NotFound)
        };
        let named = |number| match number {
            1 => folder.join(format!("{stem}.{extension}")),
            number => folder.join(format!("{stem}-{number}.{extension}")),
        };
        let path = (1..=MAX_NAMES).map(named).find(is_free);
        let path = path.with_context(|| cannot_write(&named(1)))?;
        probe(&path, None).with_context(|| cannot_write(&path))?;
        let way = Way::New;
        Ok(Self { path, way })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that new files are made in; none where what is there is written into as it comes.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        match &self.way {
            Way::Replace(real) => Some(folder_of(real).to_owned()),
            Way::InPlace(file) if is_regular(file) => {
                Some(std::env::temp_dir()).filter(|folder| folder.is_dir())
            }
            Way::InPlace(_) => None,
            Way::New => Some(folder_of(&self.path).to_owned()),
        }
    }

    /// Writes the whole content.
    pub(crate) fn write(
        &self,
        fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let written = match &self.way {
            Way::Replace(real) => replace(real, fill),
            Way::InPlace(file) if is_regular(file) => write_over(file, fill),
            Way::InPlace(file) => fill_in_place(file, fill),
            Way::New => fill_new(&self.path, fill),
        };
        written.with_context(|| format!("writing {}", self.path.display()))
    }
}

/// A new file beside an output, `OUTPUT.SUFFIX`, that nodespy writes and reads.
pub(crate) fn new_beside(output: &Path, suffix: &str) -> io::Result<(PathBuf, File)> {
    let named = |text: String| {
        let mut name = output.as_os_str().to_owned();
        name.push(text);
        PathBuf::from(name)
    };
    create_private((1..=MAX_NAMES).map(|number| match number {
        1 => named(format!(".{suffix}")),
        number => named(format!(".{number}.{suffix}")),
    }))
}

/// Finds out whether a new file can be made beside an output.
pub(crate) fn probe_beside(output: &Path) -> io::Result<()> {
    probe(output, None)
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.is_file())
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// How the file at a path can be written.
fn way_to(path: &Path) -> io::Result<Way> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        found => Some(found?),
    };
    // Opened in any case: a file that may not be written must not be replaced either. A FIFO waits
    // for its reader here and is kept open, because its reader takes a close for the end.
    let file = found
        .as_ref()
        .map(|_| OpenOptions::new().write(true).open(path))
        .transpose()?;
    let real = match &found {
        Some(found) if !found.is_file() => None,
        _ => real_path(path)?,
    };
    match (file, real) {
        (Some(file), None) => Ok(Way::InPlace(file)),
        (None, None) => Err(ErrorKind::NotFound.into()),
        (file, Some(real)) => match (probe(&real, found.as_ref()), file) {
            (Ok(()), _) => Ok(Way::Replace(real)),
            // The folder does not take new files, or not for this owner.
            (Err(_), Some(file)) => Ok(Way::InPlace(file)),
            (Err(error), None) => Err(error),
        },
    }
}

/// Where links lead; none for the links of `/proc` to open files, such as `/dev/stdout`.
fn real_path(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut real = path.to_owned();
    for _ in 0..MAX_LINKS {
        let folder = folder_of(&real);
        if fs::canonicalize(folder)?.starts_with("/proc") {
            return Ok(None);
        }
        match fs::read_link(&real) {
            Ok(target) => real = folder.join(target),
            Err(_) => return Ok(Some(real)),
        }
    }
    Err(io::Error::other("too many links"))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Finds out whether a file can be replaced.
fn probe(real: &Path, found: Option<&Metadata>) -> io::Result<()> {
    Beside::create(real, found).map(drop)
}

/// Creates a file under the first name that is free; a link takes a name as anything else does.
fn create_new(names: impl Iterator<Item = PathBuf>, mode: u32) -> io::Result<(PathBuf, File)> {
    for path in names {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(mode);
        options.custom_flags(libc::O_NOFOLLOW);
        match options.open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            file => return Ok((path, file?)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Creates a file for its owner only. Belongs to the caller of sudo, who could not open it otherwise.
fn create_private(names: impl Iterator<Item = PathBuf>) -> io::Result<(PathBuf, File)> {
    create_for(names, sudo_caller())
}

/// The same for a user; one that can't be given to them is not left behind.
fn create_for(
    names: impl Iterator<Item = PathBuf>,
    user: Option<(u32, u32)>,
) -> io::Result<(PathBuf, File)> {
    let (path, file) = create_new(names, 0o600)?;
    give_to(&file, user).inspect_err(|_| drop(fs::remove_file(&path)))?;
    Ok((path, file))
}

/// Gives a file to the user who called sudo, if any.
pub(crate) fn give_to_sudo_caller(file: &File) -> io::Result<()> {
    give_to(file, sudo_caller())
}

fn give_to(file: &File, user: Option<(u32, u32)>) -> io::Result<()> {
    user.map_or(Ok(()), |(uid, gid)| fchown(file, Some(uid), Some(gid)))
}

fn sudo_caller() -> Option<(u32, u32)> {
    nodespy_capture::target::sudo_caller_ids().ok().flatten()
}

/// Writes a file whose name was free a while ago. One that can't be filled is not left behind.
fn fill_new(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (path, file) = create_private(std::iter::once(path.to_owned()))?;
    let written = fill_in_place(&file, fill).and_then(|()| Ok(file.sync_data()?));
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

/// Writes a file that takes the name of another, or one that is free, when it is whole.
fn replace(
    real: &Path,
    fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let found = fs::metadata(real).ok();
    let mut beside = Beside::create(real, found.as_ref())?;
    fill_in_place(&beside.file, fill)?;
    // Network file systems and quotas may refuse only now.
    beside.file.sync_data()?;
    beside
        .take_name(real, found.as_ref())
        .or_else(|error| match found {
            // A mount point, or a file of another user in a sticky folder.
            Some(_) => copy_over(&beside.file, real),
            None => Err(error),
        })?;
    Ok(())
}

fn copy_over(mut from: &File, to: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_NOFOLLOW);
    let to = options.open(to)?;
    let length = from.metadata()?.len();
    from.rewind()?;
    copy_into(&mut from, length, &to)
}

/// Writes over a file that can't be replaced, once all of its new content is there.
fn write_over(
    file: &File,
    fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut content = SpooledTempFile::new(IN_MEMORY_BYTES);
    let mut output = BufWriter::with_capacity(1 << 18, &mut content);
    fill(&mut output)?;
    output.flush()?;
    drop(output);
    let length = content.stream_position()?;
    content.rewind()?;
    Ok(copy_into(&mut content, length, file)?)
}

/// Makes `length` bytes the content of a file. Without room for them it keeps what it has.
fn copy_into(from: &mut dyn Read, length: u64, mut to: &File) -> io::Result<()> {
    reserve(to, length)?;
    to.rewind()?;
    io::copy(from, &mut to)?;
    to.set_len(length)?;
    // A journal that goes away now must not be all that a power cut would have left.
    to.sync_data()
}

/// Makes room for the new content of a file before the old is lost, where its file system can.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => {
            // Gives back what was reserved behind its end.
            let _ = file.set_len(file.metadata()?.len());
            Err(error.into())
        }
    }
}

/// Writes into a new file, or into what is none: a device, a FIFO.
fn fill_in_place(
    file: &File,
    fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let metadata = file.metadata()?;
    let mut output = BufWriter::with_capacity(1 << 18, file);
    match fill(&mut output).and_then(|()| Ok(output.flush()?)) {
        // The reader has seen enough.
        Err(error) if metadata.file_type().is_fifo() && is_closed_pipe(&error) => Ok(()),
        filled => filled,
    }
}

/// Whether an error means that the reader went away.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn fill(text: &'static str) -> impl FnOnce(&mut dyn Write) -> anyhow::Result<()> {
        move |output| Ok(output.write_all(text.as_bytes())?)
    }

    pub(super) fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_name_of_our_own_follows_no_link_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("secret"), "kept").unwrap();
        symlink(at("secret"), at("page.html")).unwrap();
        symlink(at("nowhere"), at("page-2.html")).unwrap();
        let file = OutputFile::new_in(folder.path(), "page", "html").unwrap();
        file.write(fill("new")).unwrap();
        assert_eq!(file.path(), at("page-3.html"));
        drop(file);
        assert_eq!(fs::read_to_string(at("secret")).unwrap(), "kept");
        assert!(!at("nowhere").exists());
        let written = at("page-3.html");
        assert_eq!(fs::read_to_string(&written).unwrap(), "new");
        assert_eq!(fs::metadata(written).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_name_of_our_own_that_is_not_filled_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let file = OutputFile::new_in(folder.path(), "page", "html").unwrap();
        assert!(names(folder.path()).is_empty());
        assert!(file.write(|_| anyhow::bail!("no")).is_err());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_journal_stands_beside_its_output_and_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.nspy");
        symlink(
            folder.path().join("elsewhere"),
            folder.path().join("out.nspy.journal"),
        )
        .unwrap();
        let (path, file) = new_beside(&output, "journal").unwrap();
        assert_eq!(path, folder.path().join("out.nspy.2.journal"));
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            names(folder.path()),
            ["out.nspy.2.journal", "out.nspy.journal"]
        );
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let file = OutputFile::named(&path).unwrap();
        let failed = file.write(|output| {
            output.write_all(b"half")?;
            anyhow::bail!("the disk is full")
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        file.write(fill("new")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn a_file_has_no_name_until_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        if Beside::unnamed(&path, None).is_err() {
            // The file system has no such files.
            return;
        }
        for (text, expected) in [("new", vec![]), ("newer", vec!["out".to_owned()])] {
            let file = OutputFile::named(&path).unwrap();
            file.write(|output| {
                output.write_all(text.as_bytes())?;
                output.flush()?;
                assert_eq!(names(folder.path()), expected);
                Ok(())
            })
            .unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(names(folder.path()), ["out"]);
        }
    }

    #[test]
    fn a_link_of_the_user_stays_and_its_target_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("data")).unwrap();
        fs::write(at("data/there"), "old").unwrap();
        symlink("data/there", at("link")).unwrap();
        symlink("link", at("far")).unwrap();
        symlink("data/missing", at("dangling")).unwrap();
        for (name, target) in [("far", "data/there"), ("dangling", "data/missing")] {
            OutputFile::named(&at(name))
                .unwrap()
                .write(fill("new"))
                .unwrap();
            assert_eq!(fs::read_to_string(at(target)).unwrap(), "new");
            assert!(fs::symlink_metadata(at(name)).unwrap().is_symlink());
        }
        assert_eq!(names(&at("data")), ["missing", "there"]);
    }

    #[test]
    fn a_descriptor_is_written_through_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let held = File::create(&path).unwrap();
        let before = held.metadata().unwrap().ino();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&held);
        let named = OutputFile::named(&PathBuf::from(format!("/dev/fd/{descriptor}"))).unwrap();
        named.write(fill("new")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().ino(), before);
    }

    #[test]
    fn what_is_written_over_keeps_its_content_until_the_new_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "what was there before").unwrap();
        let held = File::open(&path).unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&held);
        let named = OutputFile::named(&PathBuf::from(format!("/dev/fd/{descriptor}"))).unwrap();
        let failed = named.write(|output| {
            output.write_all(&[b'x'; 1 << 20])?;
            anyhow::bail!("the disk is full")
        });
        assert!(failed.is_err());
        let kept = fs::read_to_string(&path).unwrap();
        assert_eq!(kept, "what was there before");
        for text in ["new", "longer", ""] {
            named.write(fill(text)).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let large = vec![b'y'; IN_MEMORY_BYTES + 1];
        named.write(|output| Ok(output.write_all(&large)?)).unwrap();
        assert!(fs::read(&path).unwrap() == large);
    }

    #[test]
    fn a_file_that_cannot_be_given_to_its_user_is_not_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        // A thread has rights of its own.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                crate::privileges::keep_for_nothing();
                let names = std::iter::once(path.clone());
                assert!(create_for(names, Some((54321, 54321))).is_err());
            });
        });
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn what_is_missing_and_what_is_a_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), &folder.path().join("missing/out")] {
            let refused = OutputFile::named(path).unwrap_err();
            assert!(refused.to_string().contains("cannot write"), "{refused:?}");
        }
        assert!(names(folder.path()).is_empty());
    }
}
