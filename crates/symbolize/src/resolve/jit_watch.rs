//! The file in which a process writes the names of its JIT code, watched while it grows: how it
//! grew decides which of two entries for one address was in force when a sample was taken.

use nodespy_model::{JitFile, Mapping, Nanoseconds, Origin};

use crate::jit::{Index, JitNames, Span};

/// More marks than this are thinned out: then a line is dated less exactly.
const MAX_MARKS: usize = 1 << 14;

/// A file of JIT names, held open, and how it grew.
#[derive(Debug)]
pub(super) struct JitWatch {
    pub(super) file: JitFile,
    /// When it was last seen with which size, in this slice.
    marks: Vec<(Nanoseconds, u64)>,
    /// What was in it when the last slice ended.
    index: Index,
    /// What is in it now, as far as it has been read for names that are wanted before the slice
    /// ends.
    latest: Index,
}

impl JitWatch {
    pub(super) fn new(file: JitFile) -> Self {
        Self {
            marks: Vec::new(),
            index: Index::new(file.kind),
            latest: Index::new(file.kind),
            file,
        }
    }

    /// The names of sorted addresses, at the end of a slice.
    pub(super) fn read(&mut self, addresses: &[u64], is_last: bool) -> std::io::Result<JitNames> {
        self.index.read(&self.file, addresses, &self.marks, is_last)
    }

    /// Reads some of what the file has got since the last call.
    pub(super) fn advance(&mut self) {
        self.latest.advance(&self.file);
    }

    /// The function at an address, as far as the file has been read.
    pub(super) fn function_at(&self, address: u64) -> Option<Span> {
        self.latest.function_at(address)
    }

    /// The name of a function.
    pub(super) fn name(&self, function: Span) -> Option<String> {
        self.latest.name(function, &self.file)
    }

    /// Takes note of how large the file is now.
    pub(super) fn mark(&mut self, now: Nanoseconds) {
        if let Ok(size) = self.file.bytes.size() {
            self.mark_size(now, size);
        }
    }

    fn mark_size(&mut self, now: Nanoseconds, size: u64) {
        if let Some((time, known)) = self.marks.last_mut()
            && *known == size
        {
            *time = now;
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

    /// When the file was last seen with which size, in order of time.
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
    use crate::jit::stand_in::{CountedFile, map_file};

    fn watch() -> JitWatch {
        JitWatch::new(map_file(&CountedFile::default()))
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
    fn what_is_written_after_a_pause_is_dated_after_the_pause() {
        let mut watch = watch();
        for (now, size) in [(1, 10), (2, 10), (9, 10), (10, 20)] {
            watch.mark_size(now, size);
        }
        assert_eq!(watch.marks(), [(9, 10), (10, 20)]);
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
