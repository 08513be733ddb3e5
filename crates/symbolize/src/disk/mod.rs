//! What naming addresses of a recording needs, found on the disk it is opened on.
//!
//! A recording comes from elsewhere or from another day: the file at a mapped path may be another
//! one now. It is used only when its build-id is the recorded one, or, where none was recorded,
//! when it still is the very file by device and inode; anything else is refused, and the remark
//! says how to give the right one. `[node+0x1234]` beats a wrong name.

mod build_id;
mod jit_files;
mod library;
mod open;
mod sources;

use std::cell::OnceCell;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nodespy_model::{
    About, ImageBytes, ImageRefused, JitFile, Mapping, Origin, Process, RuntimeAddress,
};

use build_id::{build_id_of, hex, is_same, kernel_build_id, own_vdso};
use jit_files::JitFiles;
use library::Library;
use open::{open_below, open_folder};

pub(crate) use open::open_regular;
pub use sources::SourceRoot;
pub(crate) use sources::read_text;

/// Where files may be found, besides the places they were at when they were recorded.
#[derive(Debug, Clone, Default)]
pub struct DiskOptions {
    /// The recording itself: files beside it are looked at.
    pub recording: Option<PathBuf>,
    /// The root of the file system that the recorded processes saw.
    pub root: Option<PathBuf>,
    /// Files and folders with the binaries that were recorded, and their debug files.
    pub symbols: Vec<PathBuf>,
    /// Perf maps and jitdumps.
    pub maps: Vec<PathBuf>,
    /// The symbol table of the recorded kernel.
    pub kallsyms: Option<PathBuf>,
    /// Where perf keeps copies of what it recorded; [`perf_cache`] is the usual place.
    pub cache: Option<PathBuf>,
}

/// Answers from the disk.
#[derive(Debug)]
pub struct DiskOrigin {
    root: Option<OwnedFd>,
    /// Why the root can't be used.
    root_error: Option<String>,
    library: OnceCell<Library>,
    symbols: Vec<PathBuf>,
    cache: Option<PathBuf>,
    jit_files: JitFiles,
    kallsyms: Option<PathBuf>,
}

impl DiskOrigin {
    /// An origin for a recording that says this about itself.
    pub fn new(options: DiskOptions, about: &About) -> Self {
        let (root, root_error) = match options.root.as_deref().map(open_folder) {
            None => (None, None),
            Some(Ok(root)) => (Some(root), None),
            Some(Err(error)) => (None, Some(format!("the root can't be opened ({error})"))),
        };
        let jit_files = JitFiles::new(&options, about);
        Self {
            root,
            root_error,
            library: OnceCell::new(),
            symbols: options.symbols,
            cache: options.cache,
            jit_files,
            kallsyms: options.kallsyms,
        }
    }

    fn library(&self) -> &Library {
        self.library.get_or_init(|| Library::of(&self.symbols))
    }

    /// The file at a path as the recorded process saw it.
    fn open_recorded(&self, path: &Path) -> std::io::Result<File> {
        match (&self.root, &self.root_error) {
            (Some(root), _) => open_below(root, path),
            (None, None) => open_regular(path),
            (None, Some(why)) => Err(std::io::Error::other(why.clone())),
        }
    }

    /// The file with a build-id, wherever it is.
    fn find_by_build_id(&self, path: &Path, build_id: &[u8]) -> Result<File, String> {
        let has_id = |file: &File| build_id_of(file).is_some_and(|found| is_same(build_id, &found));
        let at_path = self.open_recorded(path);
        let why = match at_path {
            Ok(file) if has_id(&file) => return Ok(file),
            Ok(_) => "the file at its path is another one".to_owned(),
            Err(error) => format!("it can't be opened ({error})"),
        };
        if let Some(file) = self.library().find(build_id).filter(has_id) {
            return Ok(file);
        }
        if let Some(file) = self.open_cached(build_id, "elf").filter(has_id) {
            return Ok(file);
        }
        Err(format!(
            "{why}, and no other has its build-id {} (--symbols FILE or FOLDER gives it)",
            hex(build_id)
        ))
    }

    /// What perf kept of a file with a build-id.
    fn open_cached(&self, build_id: &[u8], name: &str) -> Option<File> {
        let folder = self.cache.as_ref()?.join(".build-id");
        let hex = hex(build_id);
        let entry = folder.join(hex.get(..2)?).join(hex.get(2..)?);
        // Older versions link to the file itself.
        open_regular(&entry.join(name))
            .or_else(|_| open_regular(&entry))
            .ok()
    }

    /// A file without a recorded build-id.
    fn find_unproven(&self, path: &Path, mapping: &Mapping) -> Result<File, String> {
        use std::os::unix::fs::MetadataExt;
        if let Ok(file) = self.open_recorded(path)
            && let Ok(metadata) = file.metadata()
        {
            let (device, inode) = (metadata.dev(), metadata.ino());
            let device = (rustix::fs::major(device), rustix::fs::minor(device));
            if mapping.file.inode != 0
                && (device, inode) == (mapping.file.device, mapping.file.inode)
            {
                return Ok(file);
            }
        }
        // Whoever gives the very file says that it is the right one.
        if let Some(file) = self.library().given(path) {
            return Ok(file);
        }
        Err(
            "the recording holds no build-id for it, and the file at its path is not the one that \
             was mapped (--symbols FILE gives it)"
                .to_owned(),
        )
    }

    fn open_vdso(&self, build_id: &[u8]) -> Result<ImageBytes, ImageRefused> {
        if let Some(bytes) = own_vdso(build_id) {
            return Ok(ImageBytes::Memory(bytes));
        }
        self.open_cached(build_id, "vdso")
            .filter(|file| build_id_of(file).is_some_and(|found| is_same(build_id, &found)))
            .map(ImageBytes::File)
            .ok_or_else(|| ImageRefused {
                why: "the running kernel has another one".to_owned(),
            })
    }
}

impl Origin for DiskOrigin {
    fn open_image(&self, mapping: &Mapping) -> Result<ImageBytes, ImageRefused> {
        let refused = |why: String| ImageRefused { why };
        if mapping.path == "[vdso]" {
            return self.open_vdso(&mapping.file.build_id);
        }
        if !mapping.path.starts_with('/') {
            return Err(refused("it is not a file".to_owned()));
        }
        let path = Path::new(mapping.path.trim_end_matches(" (deleted)"));
        let found = match mapping.file.build_id.as_slice() {
            [] => self.find_unproven(path, mapping),
            build_id => self.find_by_build_id(path, build_id),
        };
        found.map(ImageBytes::File).map_err(refused)
    }

    fn open_candidate(&self, mapping: &Mapping) -> Result<ImageBytes, ImageRefused> {
        let path = Path::new(mapping.path.trim_end_matches(" (deleted)"));
        if let Some(file) = self.library().given(path) {
            return Ok(ImageBytes::File(file));
        }
        let opened = self.open_recorded(path);
        opened.map(ImageBytes::File).map_err(|error| ImageRefused {
            why: format!("it can't be opened ({error}; --symbols FILE gives it)"),
        })
    }

    fn open_debug_file(&self, _: u32, build_id: &[u8]) -> Option<File> {
        if build_id.len() < 4 {
            return None;
        }
        let hex = hex(build_id);
        let name = format!("usr/lib/debug/.build-id/{}/{}.debug", &hex[..2], &hex[2..]);
        let path = Path::new("/").join(&name);
        let in_root = self
            .root
            .as_ref()
            .and_then(|root| open_below(root, &path).ok());
        in_root
            .or_else(|| open_regular(&path).ok())
            .or_else(|| self.library().find_debug(build_id))
            .or_else(|| self.open_cached(build_id, "debug"))
    }

    fn open_jit_file(&self, pid: u32, dump: Option<&Mapping>) -> Option<JitFile> {
        self.jit_files
            .open(pid, dump, |path| self.open_recorded(path).ok())
    }

    fn open_only_jit_file(&self) -> Option<JitFile> {
        self.jit_files.open_only(self.root.as_ref())
    }

    fn read_memory(&self, _: u32, _: RuntimeAddress, _: &mut [u8]) -> usize {
        // The process is long gone.
        0
    }

    fn describe(&self, _: u32) -> Option<Process> {
        None
    }

    fn copied_kernel_symbols(&self, kernel: &Mapping) -> Option<Box<dyn Read>> {
        let build_id = &kernel.file.build_id;
        if self.kallsyms.is_some() || build_id.is_empty() {
            return None;
        }
        Some(Box::new(self.open_cached(build_id, "kallsyms")?))
    }

    fn kernel_symbols(&self, kernel: Option<&Mapping>) -> Result<Box<dyn Read>, ImageRefused> {
        if let Some(path) = &self.kallsyms {
            return match open_regular(path) {
                Ok(file) => Ok(Box::new(file)),
                Err(error) => Err(ImageRefused {
                    why: format!("{} can't be opened ({error})", path.display()),
                }),
            };
        }
        let recorded = kernel.map_or(&[][..], |kernel| &kernel.file.build_id);
        if recorded.is_empty() {
            return Err(ImageRefused {
                why: "the recording does not say which kernel it was (--kallsyms FILE gives its \
                      /proc/kallsyms)"
                    .to_owned(),
            });
        }
        if kernel_build_id().is_some_and(|running| is_same(recorded, &running))
            && let Ok(file) = File::open("/proc/kallsyms")
        {
            return Ok(Box::new(file));
        }
        match self.open_cached(recorded, "kallsyms") {
            Some(file) => Ok(Box::new(file)),
            None => Err(ImageRefused {
                why: "the recorded kernel is not the running one (--kallsyms FILE gives its \
                      /proc/kallsyms)"
                    .to_owned(),
            }),
        }
    }
}

/// Where perf keeps copies of what it recorded, unless it is set otherwise.
pub fn perf_cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    set("PERF_BUILDID_DIR")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&set("HOME")?).join(".debug")))
}
