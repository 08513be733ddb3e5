//! Files opened so that a folder given as a root can't lead outside itself, and nothing blocks.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

/// Reading must not wait for the other end of a FIFO, nor take over a terminal.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

/// Opens a folder only as a place to start from.
pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

/// Opens a regular file below `root`; links are followed as a process with that root would.
pub(super) fn open_below(root: &OwnedFd, path: &Path) -> io::Result<File> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(root, path, READ, Mode::empty(), resolve)?;
    regular(file.into())
}

/// Opens a regular file.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    regular(openat(CWD, path, READ, Mode::empty())?.into())
}

fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}
