//! The open file of an image: closed where others need the room, and opened again when more of it is wanted.

use nodespy_model::{ImageBytes, Mapping, Origin};

use super::Image;
use crate::image_budget::{ImageBudget, OpenFile};

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
            self.bytes = None;
            self.is_closed = true;
        }
    }

    /// Takes note of a mapping of a file that may have to be opened again: the process it was seen in may have ended.
    pub(crate) fn seen_again(&mut self, mapping: &Mapping) {
        if self.is_closed {
            self.mapping = mapping.clone();
        }
    }

    /// Opens the file again if it was closed, as one of a process where that is known.
    pub(crate) fn reopen(&mut self, origin: &dyn Origin, pid: Option<u32>) {
        if self.is_closed {
            self.open_again(origin, pid);
        }
    }

    /// The same where the unwind tables are still to be read: nothing else is, for most stacks.
    #[inline]
    pub(crate) fn reopen_for_tables(&mut self, origin: &dyn Origin, pid: Option<u32>) {
        if self.is_closed && self.cfi.is_none() {
            self.open_again(origin, pid);
        }
    }

    #[cold]
    fn open_again(&mut self, origin: &dyn Origin, pid: Option<u32>) {
        self.is_closed = false;
        self.mapping.pid = pid.unwrap_or(self.mapping.pid);
        match origin.open_image(&self.mapping) {
            Ok(bytes) => {
                self.open = counted(Some(&bytes), &self.budget);
                self.bytes = Some(bytes);
            }
            Err(refused) => self.refused = self.refused.take().or(Some(refused.why)),
        }
    }
}

/// Counts the bytes of an image where they are an open file.
pub(super) fn counted(bytes: Option<&ImageBytes>, budget: &ImageBudget) -> Option<OpenFile> {
    matches!(bytes, Some(ImageBytes::File(_))).then(|| budget.files.open())
}
