//! A file of JIT names in memory that can grow and counts what is read of it.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use nodespy_model::{JitFile, JitFileKind, ReadAt};

#[derive(Debug, Clone, Default)]
pub(crate) struct CountedFile {
    bytes: Rc<RefCell<Vec<u8>>>,
    read: Rc<Cell<u64>>,
}

impl CountedFile {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let file = Self::default();
        file.append(bytes);
        file
    }

    pub(crate) fn append(&self, bytes: &[u8]) {
        self.bytes.borrow_mut().extend_from_slice(bytes);
    }

    pub(crate) fn replace(&self, bytes: &[u8]) {
        *self.bytes.borrow_mut() = bytes.to_vec();
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.get()
    }
}

impl ReadAt for CountedFile {
    fn size(&self) -> io::Result<u64> {
        self.bytes.borrow().size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.bytes.borrow().read_at(buffer, offset)?;
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}

/// The file as a perf map.
pub(crate) fn map_file(file: &CountedFile) -> JitFile {
    JitFile {
        kind: JitFileKind::PerfMap,
        bytes: Box::new(file.clone()),
        path: "/tmp/perf-1.map".to_owned(),
    }
}
