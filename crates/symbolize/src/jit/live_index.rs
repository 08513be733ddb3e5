//! Where the names of a growing file of JIT code are, kept up to date a bit at a time: the file is
//! never read twice, and never much of it at once.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use nodespy_model::{JitFile, JitFileKind};

use super::name::JitName;
use super::{jitdump, perf_map};

/// How many bytes of a perf map are read at a time.
const STEP_BYTES: usize = 1 << 20;
/// How many records of a jitdump are read at a time.
const STEP_RECORDS: usize = 4096;
/// With more functions than this the index starts afresh; what is compiled from then on is in it.
const MAX_FUNCTIONS: usize = 1 << 18;
/// Longer names are cut.
const MAX_NAME_BYTES: usize = 1024;

/// The functions of a file of JIT names, by where they start.
#[derive(Debug, Default)]
pub(crate) struct LiveIndex {
    functions: BTreeMap<u64, Function>,
    /// How far the file has been read.
    next: u64,
}

#[derive(Debug, Clone, Copy)]
struct Function {
    end: u64,
    /// Where in the file its name is.
    name: (u64, usize),
}

/// An entry of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) name: (u64, usize),
}

impl LiveIndex {
    /// Reads on, as far as one step goes.
    pub(crate) fn advance(&mut self, file: &JitFile) {
        match file.kind {
            JitFileKind::PerfMap => self.advance_map(&file.file),
            JitFileKind::Jitdump => {
                for _ in 0..STEP_RECORDS {
                    let Some((entry, next)) = jitdump::record_at(&file.file, self.next) else {
                        break;
                    };
                    entry.into_iter().for_each(|entry| self.add(entry));
                    self.next = next;
                }
            }
        }
    }

    fn advance_map(&mut self, file: &File) {
        let mut bytes = vec![0; STEP_BYTES];
        let read = file.read_at(&mut bytes, self.next).unwrap_or(0);
        // The last line may be half written; one that fills the step is no entry.
        let end = memchr::memrchr(b'\n', &bytes[..read]).map_or(0, |at| at + 1);
        let end = if end == 0 && read == STEP_BYTES {
            read
        } else {
            end
        };
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', &bytes[..end]) {
            let at = self.next + start as u64;
            if let Some(entry) = perf_map::entry_of(&bytes[start..newline], at) {
                self.add(entry);
            }
            start = newline + 1;
        }
        self.next += end as u64;
    }

    fn add(&mut self, entry: Entry) {
        if entry.start >= entry.end {
            return;
        }
        if self.functions.len() >= MAX_FUNCTIONS {
            self.functions.clear();
        }
        // Written later, so it took the place of what was there.
        let range = self.functions.range(..entry.end).rev();
        let old: Vec<u64> = range
            .take_while(|(_, function)| function.end > entry.start)
            .map(|(&start, _)| start)
            .collect();
        for start in old {
            self.functions.remove(&start);
        }
        let (end, name) = (entry.end, entry.name);
        self.functions.insert(entry.start, Function { end, name });
    }

    /// Where the function starts that an address is in.
    pub(crate) fn start_of(&self, address: u64) -> Option<u64> {
        let (&start, function) = self.functions.range(..=address).next_back()?;
        (address < function.end).then_some(start)
    }

    /// The name of the function that starts at an address.
    pub(crate) fn name(&self, start: u64, file: &File) -> Option<String> {
        let (at, length) = self.functions.get(&start)?.name;
        let mut bytes = vec![0; length.min(MAX_NAME_BYTES)];
        file.read_exact_at(&mut bytes, at).ok()?;
        let end = memchr::memchr(0, &bytes).unwrap_or(bytes.len());
        Some(JitName::parse(&String::from_utf8_lossy(&bytes[..end])).name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(kind: JitFileKind, bytes: &[u8]) -> JitFile {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        JitFile {
            kind,
            file,
            path: String::new(),
        }
    }

    #[test]
    fn a_perf_map_is_read_on_from_where_it_ended() {
        let mut file = file(
            JitFileKind::PerfMap,
            b"1000 100 JS:*f /a.js:1:2\n2000 80 JS:~g /a",
        );
        let mut index = LiveIndex::default();
        let name = |index: &LiveIndex, file: &JitFile, address| {
            index.name(index.start_of(address)?, &file.file)
        };
        index.advance(&file);
        assert_eq!(name(&index, &file, 0x10ff).as_deref(), Some("f"));
        assert_eq!(name(&index, &file, 0x2000), None);
        assert_eq!(index.next, 25, "half a line is left for the next time");
        file.file
            .write_all(b".js:5:1\n1080 100 JS:*h /a.js:9:1\n")
            .unwrap();
        index.advance(&file);
        assert_eq!(name(&index, &file, 0x2000).as_deref(), Some("g"));
        assert_eq!(name(&index, &file, 0x10ff).as_deref(), Some("h"));
        let next = index.next;
        index.advance(&file);
        assert_eq!(index.next, next);
    }

    #[test]
    fn a_step_reads_only_so_much_of_a_large_map() {
        let line = b"1000 100 JS:*f /a.js:1:2\n";
        let file = file(JitFileKind::PerfMap, &line.repeat(100_000));
        let mut index = LiveIndex::default();
        index.advance(&file);
        assert!(index.next > 0 && index.next <= STEP_BYTES as u64);
    }

    #[test]
    fn a_line_without_an_end_is_passed_over() {
        let file = file(JitFileKind::PerfMap, &vec![b'x'; 3 * STEP_BYTES]);
        let mut index = LiveIndex::default();
        for _ in 0..4 {
            index.advance(&file);
        }
        assert_eq!(index.next, 3 * STEP_BYTES as u64);
    }
}
