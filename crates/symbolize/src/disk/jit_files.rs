//! Perf maps and jitdumps of recorded processes.
//!
//! A perf map says nothing of the process but its number, and numbers are used again. One that was
//! given, or lies beside the recording, is believed; one in /tmp only if it can be of that time
//! and this machine.

use std::fs::{File, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nodespy_model::{About, JitFile, JitFileKind, Mapping};

use super::DiskOptions;
use super::open::{open_below, open_regular};

/// How many files beside the recording, or in a root's /tmp, are looked at.
const FOLDER_LIMIT: usize = 10_000;
/// File times are coarse, and the last samples are written late.
const SLACK: Duration = Duration::from_secs(2);

/// Where the names of JIT code may be.
#[derive(Debug)]
pub(super) struct JitFiles {
    given: Vec<PathBuf>,
    beside: Option<PathBuf>,
    /// When the recording was made, if it was made on this machine.
    made_here: Option<(SystemTime, SystemTime)>,
    has_root: bool,
}

impl JitFiles {
    pub(super) fn new(options: &DiskOptions, about: &About) -> Self {
        Self {
            given: options.maps.clone(),
            beside: options.recording.as_deref().map(folder_of),
            made_here: options
                .recording
                .as_deref()
                .and_then(|recording| made_here(recording, about)),
            has_root: options.root.is_some(),
        }
    }

    /// The file of process `pid`; `in_root` opens a path as the process saw it.
    pub(super) fn open(
        &self,
        pid: u32,
        dump: Option<&Mapping>,
        in_root: impl Fn(&Path) -> Option<File>,
    ) -> Option<JitFile> {
        let given = self
            .given
            .iter()
            .find(|path| pid_of_name(path) == Some(pid))
            .and_then(|path| jit_file(open_regular(path).ok()?, path));
        if given.is_some() {
            return given;
        }
        if let Some(dump) = dump {
            return self.open_dump(Path::new(&dump.path), &in_root);
        }
        if let Some(found) = self.open_beside(pid) {
            return Some(found);
        }
        let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        let file = in_root(&path)?;
        let is_its = self.has_root || self.can_be_of_the_recording(&file.metadata().ok()?);
        is_its.then(|| jit_file(file, &path)).flatten()
    }

    fn open_dump(&self, path: &Path, in_root: &impl Fn(&Path) -> Option<File>) -> Option<JitFile> {
        let moved = self
            .beside
            .as_ref()
            .zip(path.file_name())
            .map(|(folder, name)| folder.join(name));
        let beside = moved.and_then(|path| Some((open_regular(&path).ok()?, path)));
        let (file, path) = beside.or_else(|| Some((in_root(path)?, path.to_owned())))?;
        jit_file(file, &path)
    }

    /// `perf-PID.map` or `ANYTHING.perf-PID.map` in the recording's folder.
    fn open_beside(&self, pid: u32) -> Option<JitFile> {
        let folder = self.beside.as_ref()?;
        let plain = folder.join(format!("perf-{pid}.map"));
        if let Ok(file) = open_regular(&plain) {
            return jit_file(file, &plain);
        }
        let ending = format!(".perf-{pid}.map");
        let entries = std::fs::read_dir(folder).ok()?;
        entries
            .take(FOLDER_LIMIT)
            .filter_map(Result::ok)
            .filter(|entry| entry.file_name().to_string_lossy().ends_with(&ending))
            .find_map(|entry| {
                let path = entry.path();
                jit_file(open_regular(&path).ok()?, &path)
            })
    }

    /// Whether a map in /tmp can be of a process of the recording: written to until it started or
    /// later, begun before it ended, and owned by root or by who runs nodespy; root takes any.
    fn can_be_of_the_recording(&self, map: &Metadata) -> bool {
        let Some((started, ended)) = self.made_here else {
            return false;
        };
        let is_late_enough = map.modified().is_ok_and(|time| time + SLACK >= started);
        let is_early_enough = map.created().is_ok_and(|time| time <= ended + SLACK);
        let own = rustix::process::geteuid().as_raw();
        is_late_enough && is_early_enough && (map.uid() == 0 || map.uid() == own || own == 0)
    }

    /// The file that does not say whose it is: given, or the only one in the root's /tmp, where
    /// process numbers are those of the container.
    pub(super) fn open_only(&self, root: Option<&OwnedFd>) -> Option<JitFile> {
        let mut unnamed = self.given.iter().filter(|path| pid_of_name(path).is_none());
        if let (Some(path), None) = (unnamed.next(), unnamed.next()) {
            return jit_file(open_regular(path).ok()?, path);
        }
        let mut given = self.given.iter();
        if let (Some(path), None) = (given.next(), given.next()) {
            // Its number is that inside a container.
            return jit_file(open_regular(path).ok()?, path);
        }
        only_map_below(root?)
    }
}

/// The only perf map in the /tmp of a root.
fn only_map_below(root: &OwnedFd) -> Option<JitFile> {
    use rustix::fs::{Dir, Mode, OFlags, ResolveFlags, openat2};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let folder = openat2(root, "/tmp", flags, Mode::empty(), resolve).ok()?;
    let names = Dir::read_from(&folder).ok()?;
    let mut maps = names
        .take(FOLDER_LIMIT)
        .filter_map(Result::ok)
        .map(|entry| PathBuf::from(entry.file_name().to_string_lossy().into_owned()))
        .filter(|name| name.extension().is_some_and(|ending| ending == "map"))
        .filter(|name| pid_of_name(name).is_some());
    let (Some(name), None) = (maps.next(), maps.next()) else {
        return None;
    };
    let path = Path::new("/tmp").join(name);
    jit_file(open_below(root, &path).ok()?, &path)
}

/// When a recording was made, unless it was made elsewhere: it ends when its file was last
/// written.
fn made_here(recording: &Path, about: &About) -> Option<(SystemTime, SystemTime)> {
    let host = rustix::system::uname();
    if about.host.is_empty() || host.nodename().to_string_lossy() != about.host {
        return None;
    }
    let ended = recording.metadata().ok()?.modified().ok()?;
    let started = ended.checked_sub(Duration::from_nanos(about.duration))?;
    Some((started, ended))
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The process in `perf-123.map`, `app.perf-123.map` or `jit-123.dump`.
fn pid_of_name(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let digits = match name.strip_suffix(".map") {
        Some(rest) => rest.rsplit("perf-").next().filter(|digits| *digits != rest),
        None => name.strip_suffix(".dump")?.rsplit("jit-").next(),
    };
    digits?.parse().ok()
}

fn jit_file(file: File, path: &Path) -> Option<JitFile> {
    use std::os::unix::fs::FileExt;
    // The first four bytes of a jitdump say `JiTD`, in the order of the machine.
    let mut magic = [0; 4];
    let is_dump = file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"DTiJ";
    Some(JitFile {
        kind: match is_dump {
            true => JitFileKind::Jitdump,
            false => JitFileKind::PerfMap,
        },
        bytes: Box::new(file),
        path: path.display().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_process() {
        let pid = |name: &str| pid_of_name(Path::new(name));
        assert_eq!(pid("/tmp/perf-5891.map"), Some(5891));
        assert_eq!(pid("node20.perf-5891.map"), Some(5891));
        assert_eq!(pid("jit-7.dump"), Some(7));
        assert_eq!(pid("names.map"), None);
        assert_eq!(pid("perf-x.map"), None);
    }
}
