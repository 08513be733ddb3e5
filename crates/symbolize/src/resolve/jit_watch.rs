//! The file in which a process writes the names of its JIT code, watched while it grows: how it
//! grew tells which of two entries for one address was in force when a sample was taken.

use nodespy_model::{JitFile, Mapping, Nanoseconds, Origin};

use crate::jit::{self, JitNames, LiveIndex};

/// More marks than this are thinned out: then a line is dated less exactly.
const MAX_MARKS: usize = 1 << 14;

/// A file of JIT names, held open, and how it grew.
#[derive(Debug)]
pub(super) struct JitWatch {
    pub(super) file: JitFile,
    /// How large it was from when on, in this slice.
    marks: Vec<(Nanoseconds, u64)>,
    /// For names that are wanted before the slice ends.
    index: LiveIndex,
}

impl JitWatch {
    pub(super) fn new(file: JitFile) -> Self {
        Self {
            file,
            marks: Vec::new(),
            index: LiveIndex::default(),
        }
    }

    /// Reads the names of sorted addresses.
    pub(super) fn read(&mut self, addresses: &[u64]) -> std::io::Result<JitNames> {
        jit::read(&mut self.file, addresses, &self.marks)
    }

    /// Reads a bit of what the file has got since the last call.
    pub(super) fn advance_index(&mut self) {
        self.index.advance(&self.file);
    }

    /// Where the function starts that an address is in, as far as the file has been read.
    pub(super) fn start_of(&self, address: u64) -> Option<u64> {
        self.index.start_of(address)
    }

    /// The name of the function that starts at an address.
    pub(super) fn name_at(&self, start: u64) -> Option<String> {
        self.index.name(start, &self.file.file)
    }

    /// Takes note of how large the file is now.
    pub(super) fn mark(&mut self, now: Nanoseconds) {
        let Ok(metadata) = self.file.file.metadata() else {
            return;
        };
        self.mark_size(now, metadata.len());
    }

    fn mark_size(&mut self, now: Nanoseconds, size: u64) {
        if self.marks.last().is_some_and(|(_, known)| *known == size) {
            return;
        }
        if self.marks.len() >= MAX_MARKS {
            // The first stays: it says what was there before.
            let mut position = 0;
            self.marks.retain(|_| {
                position += 1;
                position % 2 == 1
            });
        }
        self.marks.push((now, size));
    }

    /// How large the file was when, in order of time.
    pub(super) fn marks(&self) -> &[(Nanoseconds, u64)] {
        &self.marks
    }

    /// To be called when the samples so far are named: what is in the file now was written before
    /// all samples to come.
    pub(super) fn end_slice(&mut self) {
        let before = self.marks.len().saturating_sub(1);
        self.marks.drain(..before);
    }
}

/// Opens the file of a process, if it has one.
pub(super) fn watch_jit_file(
    origin: &dyn Origin,
    pid: u32,
    dump: Option<&Mapping>,
) -> Option<JitWatch> {
    origin.open_jit_file(pid, dump).map(JitWatch::new)
}

/// Runtimes map the first page of their jitdump as code, so that profilers notice it.
pub(super) fn is_jitdump(mapping: &Mapping) -> bool {
    let name = mapping.path.rsplit('/').next().unwrap_or_default();
    name.starts_with("jit-") && name.ends_with(".dump")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::JitFileKind;

    fn watch() -> JitWatch {
        JitWatch::new(JitFile {
            kind: JitFileKind::PerfMap,
            file: tempfile::tempfile().unwrap(),
            path: String::new(),
        })
    }

    #[test]
    fn marks_of_a_file_that_grows_for_months_stay_few() {
        let mut watch = watch();
        for step in 0..200_000 {
            watch.mark_size(step, step);
        }
        assert!(watch.marks().len() <= MAX_MARKS);
        assert!(watch.marks().is_sorted());
        assert_eq!(watch.marks().first(), Some(&(0, 0)));
        assert_eq!(watch.marks().last(), Some(&(199_999, 199_999)));
    }

    #[test]
    fn a_slice_keeps_only_the_last_mark_of_the_one_before() {
        let mut watch = watch();
        for size in [10, 10, 20, 30] {
            watch.mark_size(size, size);
        }
        assert_eq!(watch.marks().len(), 3);
        watch.end_slice();
        assert_eq!(watch.marks(), [(30, 30)]);
        watch.end_slice();
        assert_eq!(watch.marks(), [(30, 30)]);
    }
}
