//! The place a recording came from, as far as naming its addresses needs it.
//!
//! A live capture answers from `/proc`; an imported file answers from the disk it was opened on.
//! `nodespy-symbolize` asks, and never opens a file of a process by itself.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::about::Process;
use crate::raw::{Mapping, RuntimeAddress};

/// The bytes of a mapped executable file.
#[derive(Debug)]
pub enum ImageBytes {
    /// An open descriptor, proven to be the file that was mapped.
    File(File),
    /// A copy of its memory (the vdso has no file).
    Memory(Vec<u8>),
}

/// Why a mapped file is not used for names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRefused {
    /// A clause that completes "PATH is not used for names: …".
    pub why: String,
}

/// Which kind of file names JIT code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JitFileKind {
    /// `perf-PID.map`: text, no times.
    PerfMap,
    /// `jit-PID.dump`: binary, with times.
    Jitdump,
}

/// Bytes that are read by their offset, and that may grow.
pub trait ReadAt: std::fmt::Debug {
    /// How many there are now.
    fn size(&self) -> io::Result<u64>;

    /// Reads from an offset on; fewer bytes than asked for only where they end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match FileExt::read_at(
                self,
                &mut buffer[read..],
                offset.saturating_add(read as u64),
            ) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.get(start..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

/// A file in which a runtime writes the names of its JIT code.
#[derive(Debug)]
pub struct JitFile {
    /// Its format.
    pub kind: JitFileKind,
    /// Its bytes: an open descriptor.
    pub bytes: Box<dyn ReadAt>,
    /// Where it was found, for messages.
    pub path: String,
}

/// A file that a process can read: a script it has loaded, or the source map of one.
#[derive(Debug)]
pub struct SourceFile {
    /// An open descriptor of a regular file.
    pub file: File,
    /// Whether it was last written before the process started.
    pub is_older: bool,
}

/// What a resolver may ask of the place a recording came from.
pub trait Origin {
    /// Opens the file behind a mapping, or says why it must not be used for names.
    fn open_image(&self, mapping: &Mapping) -> Result<ImageBytes, ImageRefused>;

    /// Opens the file that may be behind a mapping of which nothing but its path and size is
    /// known. Whoever asks has to find out whether it is the one.
    fn open_candidate(&self, _mapping: &Mapping) -> Result<ImageBytes, ImageRefused> {
        Err(ImageRefused {
            why: "there is no disk to look at".to_owned(),
        })
    }

    /// Opens separate debug symbols for a build-id.
    fn open_debug_file(&self, pid: u32, build_id: &[u8]) -> Option<File>;

    /// Opens the file in which process `pid` writes the names of its JIT code. `dump` is the
    /// path of a mapped jitdump when one was seen.
    fn open_jit_file(&self, pid: u32, dump: Option<&Mapping>) -> Option<JitFile>;

    /// Opens a file as process `pid` would: a script, or the source map of one.
    fn open_source(&self, _pid: u32, _path: &Path) -> Result<SourceFile, ImageRefused> {
        Err(ImageRefused {
            why: "the process is not on this machine".to_owned(),
        })
    }

    /// Reads memory of process `pid` as it is now; returns how many bytes were read.
    fn read_memory(&self, pid: u32, address: RuntimeAddress, buffer: &mut [u8]) -> usize;

    /// The code mappings of process `pid` as they are now, asked when samples of a process come
    /// that was not reported before.
    fn mappings(&self, _pid: u32) -> Vec<Mapping> {
        Vec::new()
    }

    /// The writable memory of process `pid` that no file is behind, as it is mapped now.
    fn data_ranges(&self, _pid: u32) -> Vec<Range<RuntimeAddress>> {
        Vec::new()
    }

    /// What is known of process `pid`, asked when it first appears and after each exec.
    fn describe(&self, pid: u32) -> Option<Process>;

    /// Whether process `pid` has ended, as far as that can be found out; asked when nothing was
    /// seen of it for a while.
    fn has_ended(&self, _pid: u32) -> bool {
        false
    }

    /// Closes what is open of process `pid`: it has ended, and all that was wanted of it is known.
    fn forget(&self, _pid: u32) {}

    /// Opens the file that names the JIT code of the only process that has any, where it does not
    /// say whose it is.
    fn open_only_jit_file(&self) -> Option<JitFile> {
        None
    }

    /// A copy of the symbol table of this kernel, made at some time, in the same format as
    /// [`Self::kernel_symbols`] has it, which may be slow to read.
    fn copied_kernel_symbols(&self, _kernel: &Mapping) -> Option<Box<dyn std::io::Read>> {
        None
    }

    /// The kernel's symbol table in the format of `/proc/kallsyms`, or why there is none that can
    /// be trusted. `_kernel` is the mapping of the kernel where the recording holds one.
    fn kernel_symbols(
        &self,
        _kernel: Option<&Mapping>,
    ) -> Result<Box<dyn std::io::Read>, ImageRefused> {
        Err(ImageRefused {
            why: "there is no kernel to ask".to_owned(),
        })
    }
}
