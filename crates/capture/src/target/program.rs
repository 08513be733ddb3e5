//! What runs JavaScript in a process, in which version: read from the bytes of its program, which is
//! never run.

mod parts;

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::{LazyLock, Mutex, PoisonError};

use memchr::memmem;
use nodespy_model::{ImageBytes, JsRuntime, Origin};

use super::{find, proc};
use crate::LiveOrigin;
use crate::sys::files::open_regular;
use parts::parts_without_code;

/// How much of a binary is searched. What is looked for is in the middle of `.rodata`; node 26 has
/// 120 MB.
const SEARCH_LIMIT_BYTES: u64 = 512 << 20;
const CHUNK: usize = 1 << 20;
const OVERLAP: usize = 256;
/// A program that is smaller holds no engine for JavaScript.
const SMALLEST_BYTES: u64 = 16 << 20;
/// How many files are remembered.
const KNOWN_LIMIT: usize = 1024;

/// What only the runtimes that are like Node have in them. They say which Node they are like too, so
/// these come first.
const MARKS: [(&[u8], JsRuntime); 3] = [
    // The version of the symbols that Bun exports.
    (b"\0BUN_1.", JsRuntime::Bun),
    // Where Deno has its own modules.
    (b"ext:deno_", JsRuntime::Deno),
    (b"ELECTRON_RUN_AS_NODE", JsRuntime::Electron),
];

/// What runs JavaScript in a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Which runtime it is.
    pub runtime: JsRuntime,
    /// `v20.20.2` of Node, `1.4.4` of others, when it could be read.
    pub version: Option<String>,
}

impl Program {
    /// `v20.20.2`, when it is Node and says so.
    pub fn node_version(&self) -> Option<&str> {
        match self.runtime {
            JsRuntime::Node => self.version.as_deref(),
            _ => None,
        }
    }

    /// `Bun 1.4.4`.
    pub fn title(&self) -> String {
        let name = self.runtime.label();
        match &self.version {
            Some(version) => format!("{name} {version}"),
            None => name.to_owned(),
        }
    }
}

/// A file as it was when it was searched: device, inode, size and time of its last change.
type Identity = (u64, u64, u64, i64);

/// What runs JavaScript in a process, by its program or the `libnode` that it uses; none when
/// nothing in it says so. A file is searched once.
pub fn program(pid: u32) -> Option<Program> {
    static KNOWN: LazyLock<Mutex<HashMap<Identity, Option<Program>>>> =
        LazyLock::new(Mutex::default);
    let file = libnode(pid).or_else(|| open_regular(&proc::path_of(pid, "exe")).ok())?;
    let metadata = file.metadata().ok()?;
    if metadata.len() < SMALLEST_BYTES {
        return None;
    }
    let identity = (
        metadata.dev(),
        metadata.ino(),
        metadata.len(),
        metadata.mtime(),
    );
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known().get(&identity) {
        return found.clone();
    }
    let found = search(file);
    let mut known = known();
    if known.len() >= KNOWN_LIMIT {
        known.clear();
    }
    known.insert(identity, found.clone());
    found
}

/// `v20.20.2`, when the program of a process is Node and says so.
pub fn node_version(pid: u32) -> Option<String> {
    program(pid)?.node_version().map(str::to_owned)
}

/// The library that holds all of Node, in Debian's build and others.
fn libnode(pid: u32) -> Option<File> {
    if !find::looks_like_node(pid) {
        return None;
    }
    let mappings = proc::code_mappings(pid).ok()?;
    let library = mappings.iter().find(|mapping| {
        let name = mapping.path.rsplit('/').next().unwrap_or_default();
        name.starts_with("libnode.so")
    })?;
    match LiveOrigin::new().open_image(library).ok()? {
        ImageBytes::File(file) => Some(file),
        ImageBytes::Memory(_) => None,
    }
}

/// Searches a binary for what tells the runtimes apart.
fn search(file: impl Read + Seek) -> Option<Program> {
    let marks = MARKS.map(|(mark, runtime)| (memmem::Finder::new(mark), runtime));
    let node = memmem::Finder::new(b"/node-v");
    let mut other: Option<(JsRuntime, memmem::Finder<'_>)> = None;
    let mut version = None;
    let mut chunks = Chunks::new(file);
    while let Some(bytes) = chunks.next() {
        if other.is_none() {
            let found = marks.iter().find(|(mark, _)| mark.find(bytes).is_some());
            other = found.map(|(_, runtime)| (*runtime, agent_of(*runtime)));
        }
        match &other {
            // The highest: other versions are in what is written about changes.
            Some((_, agent)) => {
                let found = agent.find_iter(bytes).filter_map(|at| {
                    let after = &bytes[at + agent.needle().len()..];
                    numbers(after)
                });
                version = found.chain(version).max();
            }
            None => {
                let mut found = node.find_iter(bytes);
                let version = found.find_map(|at| headers_version(&bytes[at + b"/node-".len()..]));
                if version.is_some() {
                    let runtime = JsRuntime::Node;
                    return Some(Program { runtime, version });
                }
            }
        }
    }
    let (runtime, _) = other?;
    let text = |(major, minor, patch): (u32, u32, u32)| format!("{major}.{minor}.{patch}");
    Some(Program {
        runtime,
        version: version.map(text),
    })
}

/// What a runtime calls itself to servers: `Bun/1.4.4`.
fn agent_of(runtime: JsRuntime) -> memmem::Finder<'static> {
    memmem::Finder::new(match runtime {
        JsRuntime::Node => "Node.js/",
        JsRuntime::Bun => "Bun/",
        JsRuntime::Deno => "Deno/",
        JsRuntime::Electron => "Electron/",
    })
}

/// A file in chunks, without its code, each with the end of the one before it.
struct Chunks<R> {
    file: R,
    parts: std::vec::IntoIter<Range<u64>>,
    /// How much is left of the part that is being read.
    left: u64,
    buffer: Vec<u8>,
}

impl<R: Read + Seek> Chunks<R> {
    fn new(mut file: R) -> Self {
        let parts = parts_without_code(&mut file, SEARCH_LIMIT_BYTES);
        Self {
            file,
            parts: parts.into_iter(),
            left: 0,
            buffer: Vec::with_capacity(CHUNK + OVERLAP),
        }
    }

    fn next(&mut self) -> Option<&[u8]> {
        if self.left == 0 {
            let part = self.parts.next()?;
            self.file.seek(SeekFrom::Start(part.start)).ok()?;
            self.left = part.end - part.start;
            self.buffer.clear();
        }
        let kept = self.buffer.len().min(OVERLAP);
        self.buffer.drain(..self.buffer.len() - kept);
        let read = self
            .file
            .by_ref()
            .take(self.left.min(CHUNK as u64))
            .read_to_end(&mut self.buffer)
            .ok()?;
        self.left -= read as u64;
        (read > 0).then_some(&self.buffer)
    }
}

/// `1.4.4` at the start of some bytes.
fn numbers(bytes: &[u8]) -> Option<(u32, u32, u32)> {
    let end = bytes
        .iter()
        .take(20)
        .position(|byte| !byte.is_ascii_digit() && *byte != b'.')
        .unwrap_or(bytes.len().min(20));
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut parts = text.trim_end_matches('.').split('.').map(str::parse);
    let version = (
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    );
    parts.next().is_none().then_some(version)
}

/// `v20.20.2` from `v20.20.2-headers.tar.gz` or `v20.20.2.tar.gz`: release builds carry the address of
/// their own headers, `…/download/release/v20.20.2/node-v20.20.2-headers.tar.gz`.
fn headers_version(bytes: &[u8]) -> Option<String> {
    let end = bytes
        .iter()
        .take(40)
        .position(|byte| !byte.is_ascii_alphanumeric() && !b".-+".contains(byte))?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let version = text
        .strip_suffix("-headers.tar.gz")
        .or_else(|| text.strip_suffix(".tar.gz"))?;
    let numbers = version.strip_prefix('v')?.split(['-', '+']).next()?;
    let is_version = numbers.split('.').count() == 3
        && numbers
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    is_version.then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_taken_only_from_a_whole_address() {
        assert_eq!(
            headers_version(b"v20.20.2-headers.tar.gz\0").as_deref(),
            Some("v20.20.2")
        );
        assert_eq!(
            headers_version(b"v26.0.0-rc.1.tar.gz\0").as_deref(),
            Some("v26.0.0-rc.1")
        );
        assert_eq!(headers_version(b"v20.x.tar.gz\0"), None);
        assert_eq!(headers_version(b"v20.20.2"), None);
    }

    /// The title of a program with these texts in it, far apart.
    fn title(texts: &[&str]) -> Option<String> {
        let mut bytes = Vec::new();
        for text in texts {
            bytes.extend(vec![0; CHUNK - 7]);
            bytes.extend(text.as_bytes());
        }
        bytes.extend([0; 8]);
        search(std::io::Cursor::new(bytes)).map(|program| program.title())
    }

    #[test]
    fn runtimes_are_told_apart_by_what_is_in_them() {
        let headers = "/node-v26.3.0-headers.tar.gz\0";
        assert_eq!(title(&[headers]).as_deref(), Some("Node.js v26.3.0"));
        let bun = title(&["\0BUN_1.2\0", headers, "Bun/1.4.4"]);
        assert_eq!(bun.as_deref(), Some("Bun 1.4.4"));
        let deno = ["ext:deno_node/", headers, "Deno/2.9.6\0", "Deno/0.80.0"];
        assert_eq!(title(&deno).as_deref(), Some("Deno 2.9.6"));
        let electron = title(&["ELECTRON_RUN_AS_NODE", "Electron/%s", headers]);
        assert_eq!(electron.as_deref(), Some("Electron"));
        // In one chunk too.
        let together = format!("\0BUN_1.2\0{headers}Bun/1.2.3 ");
        assert_eq!(title(&[&together]).as_deref(), Some("Bun 1.2.3"));
        assert_eq!(title(&["nothing"]), None);
        assert_eq!(title(&[]), None);
    }

    #[test]
    fn a_small_program_is_none() {
        // Not this one: it has the words that are looked for in it.
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let found = program(child.id()).map(|found| found.runtime);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, None);
    }
}
