//! What naming addresses needs to know of a process that runs now.
//!
//! Every file is opened through the process's own view of the world and proven to be the one that
//! was mapped, or it is refused: `[node+0x1234]` beats a wrong name. Descriptors are taken when a
//! process first appears, so a container that is removed in the middle still gets its names.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::time::UNIX_EPOCH;

use nodespy_model::{
    FileIdentity, ImageBytes, ImageRefused, JitFile, JitFileKind, Mapping, Nanoseconds, Origin,
    Process, RuntimeAddress, SourceFile, build_id,
};

use crate::sys::clock::{TICK, ticks_after_boot, unix_now};
use crate::sys::files::{
    FolderIdentity, Links, identity_of, open_below, open_folder, open_folder_below, open_regular,
};
use crate::sys::memory::read_process_memory;
use crate::target::{describe, proc};

/// The largest vdso that is read (Linux 6.18 has 16 KiB).
const VDSO_LIMIT_BYTES: u64 = 1 << 20;
/// How many descriptors of a process are looked at for an open perf map.
const DESCRIPTOR_LIMIT: usize = 100_000;

/// Answers from `/proc`.
#[derive(Debug, Default)]
pub struct LiveOrigin {
    roots: RefCell<HashMap<u32, Root>>,
    folders: RefCell<HashMap<FolderIdentity, Weak<RootFolders>>>,
}

/// What was taken of a process when it first appeared.
#[derive(Debug)]
struct Root {
    folders: Option<Rc<RootFolders>>,
    /// Whether a path leads the process and nodespy to the same file.
    is_ours: bool,
    inner_pid: u32,
    uid: u32,
    /// When the process started, in nanoseconds since 1970.
    started_unix: Option<Nanoseconds>,
}

/// The file system as some processes see it. Shared by all with the same root: thousands of short
/// children of one container hold two descriptors together.
#[derive(Debug)]
struct RootFolders {
    root: OwnedFd,
    /// Apart from the root, because a tmpfs on /tmp goes away with its container.
    tmp: Option<OwnedFd>,
}

impl LiveOrigin {
    /// An origin that knows no process yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn with_root<T>(&self, pid: u32, ask: impl FnOnce(&Root) -> T) -> T {
        let mut roots = self.roots.borrow_mut();
        ask(roots.entry(pid).or_insert_with(|| self.root_of(pid)))
    }

    fn root_of(&self, pid: u32) -> Root {
        let status = proc::read_status(pid);
        Root {
            folders: self.folders_of(pid),
            is_ours: has_our_root(pid),
            started_unix: started_unix(pid),
            inner_pid: status.as_ref().map_or(pid, |status| status.inner_pid),
            uid: status.map_or(u32::MAX, |status| status.uid),
        }
    }

    fn folders_of(&self, pid: u32) -> Option<Rc<RootFolders>> {
        let root = open_folder(&proc::path_of(pid, "root")).ok()?;
        let identity = FolderIdentity::of(&root).ok();
        let mut known = self.folders.borrow_mut();
        if let Some(shared) = identity.and_then(|identity| known.get(&identity)?.upgrade()) {
            return Some(shared);
        }
        // A /tmp that is a link leads to a place in the same root, never to the host's.
        let tmp = open_folder_below(&root, Path::new("tmp")).ok();
        let folders = Rc::new(RootFolders { root, tmp });
        if let Some(identity) = identity {
            known.retain(|_, folders| folders.strong_count() > 0);
            known.insert(identity, Rc::downgrade(&folders));
        }
        Some(folders)
    }

    fn open_mapped(&self, mapping: &Mapping) -> Result<File, ImageRefused> {
        let pid = mapping.pid;
        // The kernel's own link to the mapped file: nothing to prove.
        let link = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
        match open_regular(&proc::path_of(pid, &link)) {
            Ok(file) => return Ok(file),
            // It is the file, and its path leads to the same one.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let why = format!("it can't be opened ({error})");
                return Err(ImageRefused { why });
            }
            Err(_) => {}
        }
        let path = Path::new(mapping.path.trim_end_matches(" (deleted)"));
        let candidates = [
            open_regular(&proc::path_of(pid, "exe")),
            self.with_root(pid, |root| root.open(path, Links::InRoot)),
            self.with_root(pid, |root| root.open_on_host(path)),
        ];
        let mut why = "it can't be opened".to_owned();
        for candidate in candidates {
            match candidate {
                Ok(file) if is_the_mapped_file(&file, mapping) => return Ok(file),
                Ok(_) => {
                    why = "the file at its path is not the one that was mapped".to_owned();
                }
                Err(error) if why == "it can't be opened" => {
                    why = format!("it can't be opened ({error})");
                }
                Err(_) => {}
            }
        }
        Err(ImageRefused { why })
    }

    fn open_perf_map(&self, pid: u32) -> Option<JitFile> {
        self.with_root(pid, |root| {
            let name = format!("perf-{}.map", root.inner_pid);
            let jit_file = |file: File, path: PathBuf| JitFile {
                kind: JitFileKind::PerfMap,
                bytes: Box::new(file),
                path: path.display().to_string(),
            };
            if let Some((file, path)) = open_descriptor_named(pid, &name) {
                return Some(jit_file(file, path));
            }
            let tmp = root.folders.as_ref()?.tmp.as_ref()?;
            let file = open_below(tmp, Path::new(&name), Links::None).ok()?;
            // Anybody may write into /tmp: only the process itself, or root, names its code.
            let owner = file.metadata().ok()?.uid();
            (owner == root.uid || owner == 0).then(|| jit_file(file, Path::new("/tmp").join(name)))
        })
    }
}

impl Origin for LiveOrigin {
    fn open_image(&self, mapping: &Mapping) -> Result<ImageBytes, ImageRefused> {
        if mapping.path == "[vdso]" {
            return read_vdso(mapping);
        }
        if !mapping.path.starts_with('/') {
            let why = "it is not a file".to_owned();
            return Err(ImageRefused { why });
        }
        self.open_mapped(mapping).map(ImageBytes::File)
    }

    fn open_debug_file(&self, pid: u32, build_id: &[u8]) -> Option<File> {
        if build_id.len() < 4 {
            return None;
        }
        let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = PathBuf::from(format!(
            "/usr/lib/debug/.build-id/{}/{}.debug",
            &hex[..2],
            &hex[2..]
        ));
        self.with_root(pid, |root| root.open(&path, Links::InRoot))
            .or_else(|_| open_regular(&path))
            .ok()
    }

    fn open_jit_file(&self, pid: u32, dump: Option<&Mapping>) -> Option<JitFile> {
        if let Some(mapping) = dump {
            let file = self.open_mapped(mapping).ok()?;
            return Some(JitFile {
                kind: JitFileKind::Jitdump,
                bytes: Box::new(file),
                path: mapping.path.clone(),
            });
        }
        self.open_perf_map(pid)
    }

    fn open_source(&self, pid: u32, path: &Path) -> Result<SourceFile, ImageRefused> {
        self.with_root(pid, |root| {
            let file = root.open(path, Links::InRoot)?;
            let is_older = root.is_older_than_process(&file)?;
            Ok(SourceFile { file, is_older })
        })
        .map_err(|error: std::io::Error| ImageRefused {
            why: error.to_string(),
        })
    }

    fn read_memory(&self, pid: u32, address: RuntimeAddress, buffer: &mut [u8]) -> usize {
        read_process_memory(pid, address, buffer)
    }

    fn mappings(&self, pid: u32) -> Vec<Mapping> {
        proc::code_mappings(pid).unwrap_or_default()
    }

    fn data_ranges(&self, pid: u32) -> Vec<Range<RuntimeAddress>> {
        // Not malloc's heap and the main stack, which have names, as V8's memory may too.
        let is_data = |mapping: &Mapping, permissions: &str| {
            let is_anonymous = mapping.path.is_empty() || mapping.path.starts_with("[anon:");
            permissions == "rw-p" && mapping.file.inode == 0 && is_anonymous
        };
        let mappings = proc::mappings_where(pid, is_data).unwrap_or_default();
        let ranges = mappings.iter().map(|mapping| mapping.start..mapping.end);
        ranges.collect()
    }

    fn describe(&self, pid: u32) -> Option<Process> {
        // Taken anew: after an exec or a chroot the root may be another one.
        let root = self.root_of(pid);
        self.roots.borrow_mut().insert(pid, root);
        describe(pid)
    }

    fn has_ended(&self, pid: u32) -> bool {
        !proc::path_of(pid, "").exists()
    }

    fn forget(&self, pid: u32) {
        self.roots.borrow_mut().remove(&pid);
    }

    fn kernel_symbols(&self, _: Option<&Mapping>) -> Result<Box<dyn Read>, ImageRefused> {
        let file = File::open("/proc/kallsyms").map_err(|error| ImageRefused {
            why: format!("/proc/kallsyms can't be opened ({error})"),
        })?;
        Ok(Box::new(file))
    }
}

impl Root {
    fn open(&self, path: &Path, links: Links) -> std::io::Result<File> {
        match &self.folders {
            Some(folders) => open_below(&folders.root, path, links),
            None => Err(std::io::Error::from_raw_os_error(libc::ESRCH)),
        }
    }

    /// Opens a path of the process as nodespy's own: another root's path may lead to any file of
    /// the host.
    fn open_on_host(&self, path: &Path) -> std::io::Result<File> {
        match self.is_ours {
            true => open_regular(path),
            false => Err(std::io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    /// Whether a file was last written before the process started.
    fn is_older_than_process(&self, file: &File) -> std::io::Result<bool> {
        let written = file.metadata()?.modified()?;
        let since_1970 = written.duration_since(UNIX_EPOCH).unwrap_or_default();
        let written = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
        let started = self.started_unix;
        Ok(started.is_some_and(|started| written <= started.saturating_add(TICK)))
    }
}

/// Whether a process has nodespy's mount namespace and root; no where that can't be read.
fn has_our_root(pid: u32) -> bool {
    let identity = |path: PathBuf| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    let of = |pid: u32| {
        let root = proc::path_of(pid, "root");
        Some((
            identity(proc::path_of(pid, "ns/mnt"))?,
            // A bind mount of the same folder elsewhere has another path, and other mounts below.
            std::fs::read_link(&root).ok()?,
            identity(root)?,
        ))
    };
    of(pid).is_some_and(|found| Some(found) == of(std::process::id()))
}

/// When a process started, in nanoseconds since 1970: exact to a tick.
fn started_unix(pid: u32) -> Option<Nanoseconds> {
    proc::start_time(pid).map(|ticks| ticks_after_boot(ticks, unix_now()))
}

/// An open descriptor of the process whose file has this name: found in any folder, and also
/// after the file was deleted.
fn open_descriptor_named(pid: u32, name: &str) -> Option<(File, PathBuf)> {
    let folder = proc::path_of(pid, "fd");
    std::fs::read_dir(&folder)
        .ok()?
        .take(DESCRIPTOR_LIMIT)
        .filter_map(Result::ok)
        .find_map(|entry| {
            let target = std::fs::read_link(entry.path()).ok()?;
            let text = target.file_name()?.to_str()?;
            if text.trim_end_matches(" (deleted)") != name {
                return None;
            }
            open_regular(&entry.path()).ok().map(|file| (file, target))
        })
}

fn is_the_mapped_file(file: &File, mapping: &Mapping) -> bool {
    let Ok((device, inode)) = identity_of(file) else {
        return false;
    };
    if mapping.file.inode != 0 && (device, inode) == (mapping.file.device, mapping.file.inode) {
        return true;
    }
    // Some file systems (overlayfs before 5.x, btrfs) report another device in maps than in stat:
    // the build-id in the process's own memory decides.
    let mapped = mapped_build_id(mapping.pid, &mapping.file);
    mapped.is_some_and(|mapped| file_build_id(file).is_some_and(|found| found == mapped))
}

fn mapped_build_id(pid: u32, file: &FileIdentity) -> Option<Vec<u8>> {
    let start = proc::first_byte_of(pid, file)?;
    let mut head = vec![0; 4096];
    let read = read_process_memory(pid, start, &mut head);
    head.truncate(read);
    build_id::in_head(&head).map(<[u8]>::to_vec)
}

fn file_build_id(file: &File) -> Option<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let mut head = vec![0; 4096];
    let read = file.read_at(&mut head, 0).ok()?;
    head.truncate(read);
    build_id::in_head(&head).map(<[u8]>::to_vec)
}

fn read_vdso(mapping: &Mapping) -> Result<ImageBytes, ImageRefused> {
    let length = mapping
        .end
        .saturating_sub(mapping.start)
        .min(VDSO_LIMIT_BYTES);
    let mut bytes = vec![0; length as usize];
    let read = read_process_memory(mapping.pid, mapping.start, &mut bytes);
    if read < bytes.len() {
        let why = "its memory can't be read".to_owned();
        return Err(ImageRefused { why });
    }
    Ok(ImageBytes::Memory(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    fn open_descriptors() -> usize {
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    }

    #[test]
    fn processes_with_one_root_share_its_descriptors() {
        let origin = LiveOrigin::new();
        assert!(origin.describe(std::process::id()).is_some());
        let identities = || origin.folders.borrow().len();
        assert_eq!(identities(), 1);
        let mut children: Vec<_> = (0..50)
            .map(|_| Command::new("sleep").arg("60").spawn().unwrap())
            .collect();
        let before = open_descriptors();
        for child in &children {
            assert!(origin.describe(child.id()).is_some());
        }
        // Other tests of this process open files meanwhile.
        assert!(open_descriptors() < before + 40);
        assert_eq!(identities(), 1);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// A process that has printed a line and waits; killed when dropped.
    struct Waiting(Child);

    impl Waiting {
        fn start(program: &str, arguments: &[&str]) -> Option<Self> {
            let mut child = Command::new(program)
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .ok()?;
            let mut line = String::new();
            let stdout = child.stdout.take()?;
            let waiting = Self(child);
            BufReader::new(stdout).read_line(&mut line).ok()?;
            (line == "ready\n").then_some(waiting)
        }
    }

    impl Drop for Waiting {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn mapping_of(pid: u32, file: &File, path: &Path) -> Mapping {
        let (device, inode) = identity_of(file).unwrap();
        Mapping {
            pid,
            // No mapping of the process is there: nothing but the path leads to the file.
            start: 1,
            end: 2,
            file_offset: 0,
            path: path.to_str().unwrap().to_owned(),
            file: FileIdentity {
                device,
                inode,
                ..FileIdentity::default()
            },
            time: 0,
        }
    }

    #[test]
    fn the_path_of_a_process_with_another_root_is_not_opened_on_the_host() {
        let folder = std::env::temp_dir().join(format!("nodespy-jail-{}", std::process::id()));
        let jail = folder.join("jail");
        std::fs::create_dir_all(&jail).unwrap();
        let path = folder.join("library.so");
        std::fs::write(&path, "x").unwrap();
        let file = File::open(&path).unwrap();
        let opens = |waiting: &Waiting| {
            let mapping = mapping_of(waiting.0.id(), &file, &path);
            LiveOrigin::new().open_mapped(&mapping).is_ok()
        };
        let free = Waiting::start("sh", &["-c", "echo ready; read line"]).unwrap();
        let is_free_open = opens(&free);
        let is_free_ours = has_our_root(free.0.id());
        let program = "chroot($ARGV[0]) or die; $| = 1; print \"ready\\n\"; <STDIN>";
        // Only root can do that, and it takes perl to do it without a program inside.
        let jailed = Waiting::start("perl", &["-e", program, jail.to_str().unwrap()]);
        let is_jailed_open = jailed.as_ref().map(opens);
        let is_jailed_ours = jailed.as_ref().map(|jailed| has_our_root(jailed.0.id()));
        let _ = std::fs::remove_dir_all(folder);
        assert!(is_free_open && is_free_ours);
        if jailed.is_some() {
            assert_eq!((is_jailed_open, is_jailed_ours), (Some(false), Some(false)));
        }
    }
}
