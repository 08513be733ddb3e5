//! The open file of an image: closed where others need the room, and opened again when more of it is wanted.

use std::os::unix::fs::MetadataExt;

use nodespy_model::{ImageBytes, Mapping, Origin};

use super::Image;
use crate::elf::Elf;
use crate::image_budget::{ImageBudget, OpenFile};

/// Device and inode.
type FileOnDisk = (u64, u64);

/// So often at most has a file to be wanted until it is tried again.
const MAX_WAITS: u32 = 1024;

/// A file that was closed to make room for others.
#[derive(Debug)]
pub(super) struct Closed {
    file: FileOnDisk,
    /// How often it was tried in vain.
    failures: u32,
    /// How often it has to be wanted until it is tried again: every frame wants it, and what failed mostly fails again.
    waits: u32,
    /// Whether the image says why it could not be opened.
    is_said: bool,
}

impl Closed {
    fn new(file: FileOnDisk) -> Self {
        Self {
            file,
            failures: 0,
            waits: 0,
            is_said: false,
        }
    }

    fn is_due(&mut self) -> bool {
        let is_due = self.waits == 0;
        self.waits = self.waits.saturating_sub(1);
        is_due
    }

    fn fail(&mut self) {
        self.waits = MAX_WAITS.min(1 << self.failures.min(31));
        self.failures = self.failures.saturating_add(1);
    }
}

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
            let file = self.bytes.take().as_ref().and_then(file_on_disk);
            self.closed = file.map(Closed::new);
        }
    }

    /// Takes note of a mapping of a file that may have to be opened again: the process it was seen in may have ended.
    pub(crate) fn seen_again(&mut self, mapping: &Mapping) {
        if let Some(closed) = &mut self.closed {
            self.mapping = mapping.clone();
            // It may be there for this process.
            closed.waits = 0;
        }
    }

    /// Opens the file again if it was closed, as one of a process where that is known. Without one a slice ends, and what
    /// is not opened now has no names in it.
    pub(crate) fn reopen(&mut self, origin: &dyn Origin, pid: Option<u32>) {
        let is_due = |closed: &mut Closed| pid.is_none() || closed.is_due();
        if self.closed.as_mut().is_some_and(is_due) {
            self.open_again(origin, pid);
        }
    }

    /// The same where the unwind tables are still to be read: nothing else is, for most stacks.
    #[inline]
    pub(crate) fn reopen_for_tables(&mut self, origin: &dyn Origin, pid: Option<u32>) {
        if self.cfi.is_none() && self.closed.as_mut().is_some_and(Closed::is_due) {
            self.open_again(origin, pid);
        }
    }

    #[cold]
    fn open_again(&mut self, origin: &dyn Origin, pid: Option<u32>) {
        let Some(mut closed) = self.closed.take() else {
            return;
        };
        if let Some(pid) = pid.filter(|pid| *pid != self.mapping.pid) {
            // It is mapped elsewhere in another process.
            (self.mapping.pid, self.mapping.start, self.mapping.end) = (pid, 0, 0);
        }
        let refused = match origin.open_image(&self.mapping) {
            Ok(mut bytes) => {
                if closed.is_said {
                    self.refused = None;
                }
                // Another file may be mapped there by now.
                let is_same =
                    file_on_disk(&bytes) == Some(closed.file) || self.is_same_build(&mut bytes);
                if is_same {
                    self.open = counted(Some(&bytes), &self.budget);
                    self.bytes = Some(bytes);
                    return;
                }
                "another file is at its place now".to_owned()
            }
            Err(refused) => {
                // There may be no descriptor left, or the file is gone for this process alone.
                closed.fail();
                closed.is_said |= self.refused.is_none();
                self.closed = Some(closed);
                refused.why
            }
        };
        self.refused.get_or_insert(refused);
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs::File;

    use nodespy_model::{ImageRefused, JitFile, Process};

    use super::*;

    /// Opens this program, unless there are no descriptors.
    #[derive(Default)]
    struct Machine {
        is_short: Cell<bool>,
        tries: Cell<u32>,
    }

    impl Origin for Machine {
        fn open_image(&self, _: &Mapping) -> Result<ImageBytes, ImageRefused> {
            self.tries.set(self.tries.get() + 1);
            match self.is_short.get() {
                true => Err(ImageRefused {
                    why: "too many open files".to_owned(),
                }),
                false => Ok(ImageBytes::File(File::open("/proc/self/exe").unwrap())),
            }
        }

        fn open_debug_file(&self, _: u32, _: &[u8]) -> Option<File> {
            None
        }

        fn open_jit_file(&self, _: u32, _: Option<&Mapping>) -> Option<JitFile> {
            None
        }

        fn read_memory(&self, _: u32, _: u64, _: &mut [u8]) -> usize {
            0
        }

        fn describe(&self, _: u32) -> Option<Process> {
            None
        }
    }

    fn closed() -> (Machine, Image) {
        let machine = Machine::default();
        let mut image = Image::open(&super::super::nowhere(), &machine);
        image = image.within(&ImageBudget::default());
        image.close();
        machine.is_short.set(true);
        (machine, image)
    }

    #[test]
    fn a_file_that_could_not_be_opened_again_is_tried_once_more() {
        let (machine, mut image) = closed();
        image.reopen_for_tables(&machine, Some(1));
        assert!(image.cfi().is_none());
        image.load_symbols(&machine);
        assert!(image.symbols.as_ref().unwrap().is_empty());
        assert_eq!(image.refused.as_deref(), Some("too many open files"));
        machine.is_short.set(false);
        image.load_symbols(&machine);
        assert!(!image.symbols.as_ref().unwrap().is_empty());
        assert!(image.cfi().is_some());
        assert_eq!((image.is_open(), image.refused), (true, None));
    }

    #[test]
    fn another_process_may_still_have_the_file() {
        let (machine, mut image) = closed();
        image.reopen_for_tables(&machine, Some(1));
        machine.is_short.set(false);
        image.seen_again(&super::super::nowhere());
        image.reopen_for_tables(&machine, Some(2));
        assert!(image.cfi().is_some());
    }

    #[test]
    fn what_fails_again_and_again_is_tried_less_and_less() {
        let (machine, mut image) = closed();
        for _ in 0..100_000 {
            image.reopen_for_tables(&machine, Some(1));
        }
        assert!(machine.tries.get() < 120, "{}", machine.tries.get());
    }
}
