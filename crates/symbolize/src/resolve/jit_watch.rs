//! The file in which a process writes the names of its JIT code, watched while it grows: how it
//! grew tells which of two entries for one address was in force when a sample was taken.

use nodespy_model::{JitFile, Mapping, Nanoseconds, Origin};

/// A file of JIT names, held open, and how it grew.
#[derive(Debug)]
pub(super) struct JitWatch {
    pub(super) file: JitFile,
    /// How large it was from when on.
    pub(super) marks: Vec<(Nanoseconds, u64)>,
}

impl JitWatch {
    pub(super) fn new(file: JitFile) -> Self {
        Self {
            file,
            marks: Vec::new(),
        }
    }

    /// Takes note of how large the file is now.
    pub(super) fn mark(&mut self, now: Nanoseconds) {
        let Ok(metadata) = self.file.file.metadata() else {
            return;
        };
        let size = metadata.len();
        if self.marks.last().is_none_or(|(_, known)| *known != size) {
            self.marks.push((now, size));
        }
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
