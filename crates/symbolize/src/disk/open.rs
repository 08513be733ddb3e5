//! Files opened so that a folder given as a root can't lead outside itself, and nothing but a regular
//! file is ever opened: opening a FIFO wakes its writer, opening a device may do anything, and where a process has a
//! lease on the file, opening it would wait for that process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};

/// Takes hold of what is at a path without opening it.
const HOLD: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens a folder only as a place to start from.
pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, HOLD | OFlags::DIRECTORY, Mode::empty())?)
}

/// Opens a regular file below `root`; links are followed as a process with that root would.
pub(super) fn open_below(root: &OwnedFd, path: &Path) -> io::Result<File> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    open_if_regular(&openat2(root, path, HOLD, Mode::empty(), resolve)?)
}

/// Opens a regular file.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    open_if_regular(&openat(CWD, path, HOLD, Mode::empty())?)
}

fn open_if_regular(found: &OwnedFd) -> io::Result<File> {
    if FileType::from_raw_mode(fstat(found)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is not a regular file"));
    }
    // Not by its path, which may lead to something else by now. Without O_NONBLOCK the open waits up to 45 s
    // (/proc/sys/fs/lease-break-time) for a process that has a lease on the file (F_SETLEASE).
    OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn a_fifo_is_refused_without_being_opened() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("app.js");
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
        let root = open_folder(folder.path()).unwrap();
        let refused = [open_below(&root, Path::new("app.js")), open_regular(&fifo)];
        std::thread::sleep(Duration::from_millis(200));
        let ended = writer.try_wait().unwrap();
        let _ = writer.kill();
        let _ = writer.wait();
        assert_eq!(ended, None);
        assert!(refused.iter().all(Result::is_err), "{refused:?}");
    }

    #[test]
    fn a_file_with_a_lease_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.js");
        File::create_new(&path).unwrap();
        // F_SETLEASE is 1024. The signal that tells of an opening would end the program.
        let program = "$SIG{IO} = 'IGNORE'; $| = 1; open my $file, '+<', $ARGV[0] or die;
            fcntl($file, 1024, 1) or die $!; print 'x'; sleep 1000";
        let mut owner = Command::new("perl")
            .args(["-e", program, path.to_str().unwrap()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0];
        let said = owner.stdout.take().unwrap().read_exact(&mut ready);
        let root = open_folder(folder.path()).unwrap();
        let opened = [open_below(&root, Path::new("app.js")), open_regular(&path)];
        let _ = owner.kill();
        let _ = owner.wait();
        said.unwrap();
        for refused in opened {
            let why = refused.unwrap_err().to_string();
            assert_eq!(why, "a process has a lease on it and may be writing");
        }
        assert!(open_regular(&path).is_ok());
    }
}
