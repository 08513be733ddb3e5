//! The open file of an image: closed where others need the room, and opened again when more of it is wanted.

use std::os::unix::fs::MetadataExt;

use nodespy_model::{ImageBytes, Mapping, Origin};

use super::Image;
use crate::elf::Elf;
use crate::image_budget::{ImageBudget, OpenFile};

/// Device and inode.
pub(super) type FileOnDisk = (u64, u64);

impl Image {
    /// Whether it is the file of a mapping.
    pub(crate) fn is_of(&self, mapping: &Mapping) -> bool {
        match mapping.file.inode {
            0 => self.mapping.path == mapping.path,
            inode => {
                let own = &self.mapping.file;
                (own.device, own.inode) == (mapping.file.device, inode)
            }
        }
    }

    /// Whether it holds a file open.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Closes its file. What was read of it is kept, and it is opened again where more is wanted.
    pub(crate) fn close(&mut self) {
        if self.open.take().is_some() {
            self.closed = self.bytes.take().as_ref().and_then(file_on_disk);
        }
    }

    /// Takes note of a mapping of a file that may have to be opened again: the process it was seen in may have ended.
    pub(crate) fn seen_again(&mut self, mapping: &Mapping) {
        if self.closed.is_some() {
            self.mapping = mapping.clone();
        }
    }

    /// Opens the file again if it was closed, as one of a process where that is known.
    pub(crate) fn reopen(&mut self, origin: &dyn Origin, pid: Option<u32>) {
        if self.closed.is_some() {
            self.open_again(origin, pid);
        }
    }

    /// The same where the unwind tables are still to be read: nothing else is, for most stacks.
    #[inline]
    pub(crate) fn reopen_for_tables(&mut self, origin: &dyn Origin, pid: Option<u32>) {
        if self.closed.is_some() && self.cfi.is_none() {
            self.open_again(origin, pid);
        }
    }

    #[cold]
    fn open_again(&mut self, origin: &dyn Origin, pid: Option<u32>) {
        let closed = self.closed.take();
        if let Some(pid) = pid.filter(|pid| *pid != self.mapping.pid) {
            // It is mapped elsewhere in another process.
            (self.mapping.pid, self.mapping.start, self.mapping.end) = (pid, 0, 0);
        }
        let opened = origin
            .open_image(&self.mapping)
            .map_err(|refused| refused.why);
        // Another file may be mapped there by now.
        let opened = opened.and_then(|mut bytes| {
            let is_same = file_on_disk(&bytes) == closed || self.is_same_build(&mut bytes);
            let why = "another file is at its place now";
            is_same.then_some(bytes).ok_or_else(|| why.to_owned())
        });
        match opened {
            Ok(bytes) => {
                self.open = counted(Some(&bytes), &self.budget);
                self.bytes = Some(bytes);
            }
            Err(why) => self.refused = self.refused.take().or(Some(why)),
        }
    }

    fn is_same_build(&self, bytes: &mut ImageBytes) -> bool {
        let build_id = |elf: &Elf| Some(elf.build_id.clone()).filter(|id| !id.is_empty());
        let own = self.elf.as_ref().and_then(build_id);
        own.is_some() && own == Elf::read(bytes).as_ref().and_then(build_id)
    }
}

fn file_on_disk(bytes: &ImageBytes) -> Option<FileOnDisk> {
    let ImageBytes::File(file) = bytes else {
        return None;
    };
    let metadata = file.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Counts the bytes of an image where they are an open file.
pub(super) fn counted(bytes: Option<&ImageBytes>, budget: &ImageBudget) -> Option<OpenFile> {
    matches!(bytes, Some(ImageBytes::File(_))).then(|| budget.files.open())
}
