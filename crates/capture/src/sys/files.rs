//! Files of other processes, opened so that nothing in a container can lead outside it and nothing
//! but a regular file is ever opened: opening a FIFO wakes its writer, opening a device may do
//! anything, and where a process has a lease on the file, opening it would wait for that process.

use std::ffi::CString;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::checked;

/// How links on the way are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// Followed, but never outside the root.
    InRoot,
    /// Refused.
    None,
}

/// Opens a folder only as a place to start from.
pub(crate) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    open_path(path, libc::O_DIRECTORY)
}

/// Takes hold of what is at a path without opening it.
fn open_path(path: &Path, flags: i32) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let flags = libc::O_PATH | libc::O_CLOEXEC | flags;
    // SAFETY: `path` is a C string that lives through the call.
    let raw = checked(unsafe { libc::open(path.as_ptr(), flags) }.into())?;
    // SAFETY: the kernel gave us this descriptor just now; we are its only owner.
    Ok(unsafe { OwnedFd::from_raw_fd(raw as i32) })
}

/// Opens a folder below `root`, whatever its path says, only as a place to start from.
pub(crate) fn open_folder_below(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    open_in_root(root, path, flags, Links::InRoot)
}

/// Opens a regular file below `root`, whatever its path says.
pub(crate) fn open_below(root: &OwnedFd, path: &Path, links: Links) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    open_if_regular(&open_in_root(root, path, flags, links)?)
}

fn open_in_root(root: &OwnedFd, path: &Path, flags: i32, links: Links) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all-zero is a valid `open_how`.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = flags as u64;
    how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS;
    if links == Links::None {
        how.resolve |= libc::RESOLVE_NO_SYMLINKS;
    }
    // SAFETY: `path` is a C string and `how` a structure of the size given; both live through
    // the call.
    let raw = checked(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            root.as_raw_fd(),
            path.as_ptr(),
            &how as *const libc::open_how,
            std::mem::size_of::<libc::open_how>(),
        )
    })?;
    // SAFETY: the kernel gave us this descriptor just now; we are its only owner.
    Ok(unsafe { OwnedFd::from_raw_fd(raw as i32) })
}

/// Opens a regular file by its path; magic links of `/proc` (`exe`, `fd/3`, `map_files`) are
/// followed.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    open_if_regular(&open_path(path, 0)?)
}

/// Opens what an O_PATH descriptor stands for, once it is known to be a regular file.
fn open_if_regular(found: &OwnedFd) -> io::Result<File> {
    let metadata = File::from(found.try_clone()?).metadata()?;
    expect_regular(&metadata)?;
    // Not by its path, which may lead to something else by now. Without O_NONBLOCK the open waits up to 45 s
    // (/proc/sys/fs/lease-break-time) for a process that has a lease on the file (F_SETLEASE).
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(format!("/proc/self/fd/{}", found.as_raw_fd()))
        .map_err(explain_lease)
}

/// Only a lease makes the opening of a regular file wait.
fn explain_lease(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(
            error.kind(),
            "a process has a lease on it and may be writing",
        ),
        _ => error,
    }
}

fn expect_regular(metadata: &Metadata) -> io::Result<()> {
    let what = match metadata.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_dir() => "a folder",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::other(format!(
        "it is {what}, not a regular file"
    )))
}

/// Device (major, minor) and inode of an open file.
pub(crate) fn identity_of(file: &File) -> io::Result<((u32, u32), u64)> {
    let metadata = file.metadata()?;
    let device = metadata.dev();
    Ok(((libc::major(device), libc::minor(device)), metadata.ino()))
}

/// Which folder an open descriptor stands for: two with the same identity see the same files. The
/// kernel gives the id of a mount to another only when no descriptor keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FolderIdentity {
    mount: u64,
    device: u64,
    inode: u64,
}

impl FolderIdentity {
    pub(crate) fn of(folder: &OwnedFd) -> io::Result<Self> {
        let raw = folder.as_raw_fd();
        let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{raw}"))?;
        let mount = about
            .lines()
            .find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
            .ok_or_else(|| io::Error::other("the kernel does not say on which mount it is"))?;
        let metadata = File::from(folder.try_clone()?).metadata()?;
        Ok(Self {
            mount,
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

/// Raises the limit of open descriptors as far as allowed, and returns it.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid structure for both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max
        {
            let raised = libc::rlimit {
                rlim_cur: limit.rlim_max,
                ..limit
            };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raised) == 0 {
                limit = raised;
            }
        }
    }
    limit.rlim_cur
}

/// The effective user id of nodespy itself.
pub(crate) fn effective_uid() -> u32 {
    // SAFETY: the call has no arguments and can't fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn nothing_in_a_root_leads_out_of_it() {
        let root = std::env::temp_dir().join(format!("nodespy-root-{}", std::process::id()));
        std::fs::create_dir_all(root.join("etc")).unwrap();
        std::fs::write(root.join("etc/inside"), "x").unwrap();
        symlink("/etc/inside", root.join("absolute")).unwrap();
        symlink("/etc/passwd", root.join("outside")).unwrap();
        symlink("../../../../../../etc/passwd", root.join("upwards")).unwrap();
        symlink("/proc/self/exe", root.join("magic")).unwrap();
        symlink("/etc", root.join("tmp")).unwrap();
        symlink("/usr", root.join("usr")).unwrap();
        let held = open_folder(&root).unwrap();
        let open = |name: &str| open_below(&held, Path::new(name), Links::InRoot);
        assert!(open("absolute").is_ok());
        for name in ["outside", "upwards", "magic", "/etc/passwd", "etc"] {
            assert!(open(name).is_err(), "{name}");
        }
        assert!(open_below(&held, Path::new("absolute"), Links::None).is_err());
        let tmp = open_folder_below(&held, Path::new("tmp")).unwrap();
        assert!(open_below(&tmp, Path::new("inside"), Links::None).is_ok());
        assert!(open_folder_below(&held, Path::new("usr")).is_err());
        let _ = std::fs::remove_dir_all(root);
    }

    #[test]
    fn a_fifo_is_refused_without_being_opened() {
        let folder = std::env::temp_dir().join(format!("nodespy-fifo-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let fifo = folder.join("package.json");
        assert!(
            Command::new("mkfifo")
                .arg(&fifo)
                .status()
                .unwrap()
                .success()
        );
        // The shell's open waits for a reader: it ends as soon as anything opens the FIFO.
        let mut writer = Command::new("sh")
            .args(["-c", "echo x > \"$1\"", "sh", fifo.to_str().unwrap()])
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let root = open_folder(&folder).unwrap();
        let below = open_below(&root, Path::new("package.json"), Links::InRoot);
        let by_path = open_regular(&fifo);
        std::thread::sleep(Duration::from_millis(200));
        let ended = writer.try_wait().unwrap();
        let _ = writer.kill();
        let _ = writer.wait();
        let _ = std::fs::remove_dir_all(folder);
        assert_eq!(ended, None);
        for refused in [below, by_path] {
            let why = refused.unwrap_err().to_string();
            assert_eq!(why, "it is a FIFO, not a regular file");
        }
    }

    #[test]
    fn a_file_with_a_lease_is_refused_at_once() {
        let folder = std::env::temp_dir().join(format!("nodespy-lease-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("package.json");
        let leased = File::create(&path).unwrap();
        let tell = |command: i32, value: i32| {
            // SAFETY: neither command takes a pointer.
            checked(unsafe { libc::fcntl(leased.as_raw_fd(), command, value) }.into()).unwrap();
        };
        // F_SETSIG: the signal that tells of an opening; the default, SIGIO, would end this process.
        tell(10, libc::SIGURG);
        tell(libc::F_SETLEASE, libc::F_WRLCK);
        let root = open_folder(&folder).unwrap();
        let open = || {
            let below = open_below(&root, Path::new("package.json"), Links::InRoot);
            [below, open_regular(&path)]
        };
        for refused in open() {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
            let why = "a process has a lease on it and may be writing";
            assert_eq!(refused.to_string(), why);
        }
        tell(libc::F_SETLEASE, libc::F_UNLCK);
        assert!(open().iter().all(Result::is_ok));
        let _ = std::fs::remove_dir_all(folder);
    }
}
