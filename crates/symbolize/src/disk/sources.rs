//! The text of source files, read below a root that can't lead outside itself.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use super::open::{open_below, open_folder};

/// The root of a file system that JavaScript was loaded from: this machine's, or a process's own.
/// It stays open after the process has ended.
#[derive(Debug)]
pub struct SourceRoot {
    folder: OwnedFd,
}

impl SourceRoot {
    /// Takes hold of a root, such as `/` or `/proc/PID/root`.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            folder: open_folder(folder)?,
        })
    }

    /// The text of a regular file of at most `limit_bytes`; what is not UTF-8 in it is replaced.
    pub fn read(&self, path: &Path, limit_bytes: u64) -> io::Result<String> {
        read_text(open_below(&self.folder, path)?, limit_bytes)
    }
}

/// The text of a file of at most `limit_bytes`; what is not UTF-8 in it is replaced.
pub(crate) fn read_text(file: File, limit_bytes: u64) -> io::Result<String> {
    let too_large = || io::Error::other(format!("it has more than {} MiB", limit_bytes >> 20));
    if file.metadata()?.len() > limit_bytes {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(limit_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit_bytes {
        return Err(too_large());
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}
