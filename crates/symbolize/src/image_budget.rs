//! What the files of a recording may keep in memory together.
//!
//! A target chooses its own files, as many as it likes, and a sparse one has tables of any size for nothing. So what is kept of
//! all of them draws from one budget, and goes back to it when an image is dropped.

use std::cell::Cell;
use std::rc::Rc;

use rustix::process::{Resource, getrlimit};

/// No more files of images are open at once: a hundred containers have fewer.
const MAX_OPEN_FILES: usize = 1024;
/// As many as one of so many descriptors that may be open: perf events, threads and processes take the others.
const SHARE_OF_DESCRIPTORS: u64 = 4;

/// For unwind tables and symbols: Node 26 has 20 MB of them, everything that Chromium maps 200.
const TABLES_LIMIT_BYTES: u64 = 512 << 20;
/// For debug information, which is read for inlined functions: that of a debug build of Node has 900 MB in one section.
const DEBUG_LIMIT_BYTES: u64 = 2 << 30;

/// The budget of all images; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ImageBudget {
    pub(crate) tables: Pool,
    pub(crate) debug: Pool,
    pub(crate) files: OpenFiles,
}

impl Default for ImageBudget {
    fn default() -> Self {
        Self {
            tables: Pool::of(TABLES_LIMIT_BYTES),
            debug: Pool::of(DEBUG_LIMIT_BYTES),
            files: OpenFiles::default(),
        }
    }
}

/// How many files of images are open.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenFiles(Rc<Cell<usize>>);

impl OpenFiles {
    pub(crate) fn count(&self) -> usize {
        self.0.get()
    }

    /// How many may be open, by the limit as it is now: an engine raises it when it is attached.
    pub(crate) fn max() -> usize {
        max_open_files(getrlimit(Resource::Nofile).current)
    }

    /// Counts a file for as long as the result is kept.
    pub(crate) fn open(&self) -> OpenFile {
        self.0.set(self.count() + 1);
        OpenFile(self.clone())
    }
}

/// How many files may be open with this limit of descriptors, none if there is no limit.
fn max_open_files(limit: Option<u64>) -> usize {
    let share = limit.map_or(u64::MAX, |limit| limit / SHARE_OF_DESCRIPTORS);
    usize::try_from(share).map_or(MAX_OPEN_FILES, |share| share.min(MAX_OPEN_FILES))
}

/// A file that is counted as open.
#[derive(Debug)]
pub(crate) struct OpenFile(OpenFiles);

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.0.0.set(self.0.count() - 1);
    }
}

/// Bytes that are left.
#[derive(Debug, Clone)]
pub(crate) struct Pool(Rc<Counts>);

#[derive(Debug)]
struct Counts {
    limit: u64,
    left: Cell<u64>,
    refused: Cell<Option<u64>>,
}

impl Pool {
    fn of(limit: u64) -> Self {
        Self(Rc::new(Counts {
            limit,
            left: Cell::new(limit),
            refused: Cell::new(None),
        }))
    }

    /// Pays for bytes that are about to be read; none where they are more than half of what is left, so that no file takes
    /// what others need.
    pub(crate) fn draw(&self, bytes: u64) -> Option<Paid> {
        let left = self.0.left.get();
        if bytes > left / 2 {
            self.0.refused.set(Some(bytes));
            return None;
        }
        self.0.left.set(left - bytes);
        Some(Paid {
            pool: self.clone(),
            bytes,
        })
    }

    /// What is to be said of the last draw that was refused, once.
    pub(crate) fn take_refusal(&self) -> Option<String> {
        let bytes = self.0.refused.take()?;
        let (left, limit) = (self.0.left.get(), self.0.limit);
        Some(format!(
            "it has a table of {bytes} bytes, and half of {left} are left of the {limit} that all files may take"
        ))
    }

    /// How much is paid for.
    #[cfg(test)]
    pub(crate) fn drawn(&self) -> u64 {
        self.0.limit - self.0.left.get()
    }
}

/// Bytes that are paid for as long as this is kept.
#[derive(Debug)]
pub(crate) struct Paid {
    pool: Pool,
    bytes: u64,
}

impl Drop for Paid {
    fn drop(&mut self) {
        let left = &self.pool.0.left;
        left.set(left.get() + self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use nodespy_model::ImageBytes;

    use super::*;
    use crate::elf::Elf;

    const TABLE_BYTES: u64 = 1 << 20;

    #[test]
    fn files_leave_three_quarters_of_the_descriptors_to_others() {
        let max = [Some(1024), Some(4096), Some(1 << 20), None].map(max_open_files);
        assert_eq!(max, [256, 1024, 1024, 1024]);
    }

    /// An ELF file with nothing but `.eh_frame`, of zeros that are nowhere on the disk.
    fn sparse_file() -> File {
        let names = b"\0.eh_frame\0.shstrtab\0";
        let (names_at, headers_at) = (0x1000, 0x2000);
        let file = tempfile::tempfile().unwrap();
        let mut head = b"\x7fELF\x02\x01\x01".to_vec();
        head.resize(16, 0);
        // A library for x86_64, with three headers of sections, the last of which names them.
        head.extend([3u16, 62].map(u16::to_le_bytes).concat());
        head.extend(1u32.to_le_bytes());
        head.extend([0u64, 0, headers_at].map(u64::to_le_bytes).concat());
        head.extend(0u32.to_le_bytes());
        head.extend([64u16, 56, 0, 64, 3, 2].map(u16::to_le_bytes).concat());
        file.write_all_at(&head, 0).unwrap();
        file.write_all_at(names, names_at).unwrap();
        let section = |name: u32, kind: u32, offset: u64, size: u64| {
            let mut bytes = [name, kind].map(u32::to_le_bytes).concat();
            let wide = [0, 0x1000, offset, size, 0, 1, 0];
            bytes.extend(wide.map(u64::to_le_bytes).concat());
            bytes
        };
        let headers = [
            section(0, 0, 0, 0),
            section(1, 1, 0x10_0000, TABLE_BYTES),
            section(11, 3, names_at, names.len() as u64),
        ];
        file.write_all_at(&headers.concat(), headers_at).unwrap();
        file.set_len(0x10_0000 + TABLE_BYTES).unwrap();
        file
    }

    #[test]
    fn the_tables_of_all_files_together_are_limited_and_are_given_back() {
        let pool = Pool::of(8 * TABLE_BYTES);
        let mut kept = Vec::new();
        let refusal = loop {
            assert!(kept.len() < 100, "nothing is refused");
            let mut bytes = ImageBytes::File(sparse_file());
            match Elf::read_unwind(&mut bytes, &pool) {
                Some(sections) => kept.push(sections),
                None => break pool.take_refusal().unwrap(),
            }
        };
        // The last one would have taken more than half of what is left.
        assert_eq!((kept.len(), pool.drawn()), (7, 7 * TABLE_BYTES));
        assert_eq!(
            refusal,
            "it has a table of 1048576 bytes, and half of 1048576 are left of the 8388608 that all files may take"
        );
        assert_eq!(pool.take_refusal(), None);
        kept.pop();
        assert_eq!(pool.drawn(), 6 * TABLE_BYTES);
        kept.clear();
        assert_eq!(pool.drawn(), 0);
        assert!(Elf::read_unwind(&mut ImageBytes::File(sparse_file()), &pool).is_some());
    }
}
