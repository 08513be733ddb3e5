//! Where the names of a growing file of JIT code are. The file is never read twice, and while a
//! recording runs never much of it at once.

use std::io;

use nodespy_model::{JitFile, JitFileKind, Nanoseconds};

use super::code_map::{CodeMap, Known};
use super::name::JitName;
use super::texts::{Description, Texts};
use super::{Code, GrowthMarks, JitFormat, JitNames, JitReader, Reach, Span};

/// The functions of a file of JIT names, as far as it has been read.
#[derive(Debug)]
pub(crate) struct Index {
    code: CodeMap,
    reader: Box<dyn JitReader>,
}

impl Index {
    /// An index of a file of which nothing has been read.
    pub(crate) fn new(kind: JitFileKind) -> Self {
        Self {
            code: CodeMap::default(),
            reader: (JitFormat::of(kind).reader)(),
        }
    }

    /// Reads on, as far as one step goes.
    pub(crate) fn advance(&mut self, file: &JitFile) {
        let reach = Reach {
            max_bytes: self.reader.step_bytes(),
            is_complete: false,
        };
        if self.follow_truncation(file).is_err() {
            return;
        }
        let Self { code, reader } = self;
        // What can't be read has no name for now.
        let _ = reader.read_on(&*file.bytes, reach, &mut |found| add(code, found));
    }

    /// Reads on to the end, for the names of sorted addresses. What was read before holds from the
    /// start of the slice; what is new is dated by how the file grew. Before the last slice
    /// everything that is read is remembered for the next.
    pub(crate) fn read(
        &mut self,
        file: &JitFile,
        wanted: &[u64],
        marks: &GrowthMarks,
        is_last: bool,
    ) -> io::Result<JitNames> {
        self.follow_truncation(file)?;
        let bytes = &*file.bytes;
        let mut names = JitNames::new(JitFormat::of(file.kind).source, wanted);
        let mut texts = Texts::new(bytes, wanted.len());
        self.add_known(wanted, &mut names, &mut texts);
        let limit = self.reader.limit_bytes();
        let rest = bytes.size()?.saturating_sub(self.reader.position());
        let mut clock = Clock::new(marks);
        let Self { code, reader } = self;
        let reach = Reach {
            max_bytes: limit,
            is_complete: is_last,
        };
        reader.read_on(bytes, reach, &mut |found| {
            let since = found.time.unwrap_or_else(|| clock.at(found.offset));
            let description = Description {
                name: found.name,
                text: found.text,
                lines: found.lines,
            };
            let place = (found.start, found.end);
            names.add(wanted, place, since, &description, &mut texts);
            if !is_last {
                add(code, found);
            }
        })?;
        if file.kind == JitFileKind::PerfMap && !marks.is_empty() {
            // It was watched: what was written before the recording is in order, and what was
            // written since is dated.
            names.undated.clear();
        }
        if rest > limit {
            names.remarks.push(format!(
                "{} has {} GiB that were not read yet; only the first {} were",
                file.path,
                rest >> 30,
                limit >> 30
            ));
        }
        names.settle(&file.path, texts.over_budget);
        Ok(names)
    }

    /// Adds what is known from before.
    fn add_known(&self, wanted: &[u64], names: &mut JitNames, texts: &mut Texts<'_>) {
        let mut rest = wanted;
        while let Some(&address) = rest.first() {
            let Some((start, known)) = self.code.at(address) else {
                rest = &rest[1..];
                continue;
            };
            let after = rest.partition_point(|&address| address < known.end);
            let description = Description {
                name: known.name,
                text: None,
                lines: known.lines,
            };
            let place = (start, known.end);
            names.add(&rest[..after], place, 0, &description, texts);
            rest = &rest[after..];
        }
    }

    /// Starts anew where the file was truncated: another program writes it.
    fn follow_truncation(&mut self, file: &JitFile) -> io::Result<()> {
        if file.bytes.size()? < self.reader.position() && file.kind == JitFileKind::PerfMap {
            *self = Self::new(file.kind);
        }
        Ok(())
    }

    /// The function at an address, by where its name is.
    pub(crate) fn function_at(&self, address: u64) -> Option<Span> {
        Some(self.code.at(address)?.1.name)
    }

    /// The name of a function.
    pub(crate) fn name(&self, name: Span, file: &JitFile) -> Option<String> {
        let text = name.read(&*file.bytes)?;
        Some(JitName::parse(&String::from_utf8_lossy(&text)).name)
    }
}

fn add(code: &mut CodeMap, found: &Code<'_>) {
    let known = Known {
        end: found.end,
        name: found.name,
        lines: found.lines,
    };
    code.add(found.start, known);
}

/// When a part of the file was written at the earliest.
struct Clock<'a> {
    marks: &'a GrowthMarks,
    next: usize,
}

impl<'a> Clock<'a> {
    fn new(marks: &'a GrowthMarks) -> Self {
        Self { marks, next: 0 }
    }

    /// Offsets must not fall from call to call.
    fn at(&mut self, offset: u64) -> Nanoseconds {
        while self.next < self.marks.len() && self.marks[self.next].1 <= offset {
            self.next += 1;
        }
        match self.next {
            0 => 0,
            next => self.marks[next - 1].0,
        }
    }
}

/// Runs a reader on any bytes.
pub(crate) fn read_any(kind: JitFileKind, bytes: &[u8]) {
    let wanted = [0x1000, 0x2000, 0x7fff_0000_0000];
    let file = JitFile {
        kind,
        bytes: Box::new(bytes.to_vec()),
        path: String::new(),
    };
    let mut index = Index::new(kind);
    index.advance(&file);
    for is_last in [false, true] {
        let _ = index.read(&file, &wanted, &[(5, 100)], is_last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jit::stand_in::{CountedFile, map_file};

    fn name(index: &Index, file: &JitFile, address: u64) -> Option<String> {
        index.name(index.function_at(address)?, file)
    }

    #[test]
    fn a_perf_map_is_read_on_from_where_it_ended() {
        let counted = CountedFile::new(b"1000 100 JS:*f /a.js:1:2\n2000 80 JS:~g /a");
        let file = map_file(&counted);
        let mut index = Index::new(file.kind);
        index.advance(&file);
        assert_eq!(name(&index, &file, 0x10ff).as_deref(), Some("f"));
        assert_eq!(name(&index, &file, 0x2000), None);
        assert_eq!(index.reader.position(), 25, "half a line is left");
        counted.append(b".js:5:1\n1080 100 JS:*h /a.js:9:1\n");
        index.advance(&file);
        assert_eq!(name(&index, &file, 0x2000).as_deref(), Some("g"));
        assert_eq!(name(&index, &file, 0x10ff).as_deref(), Some("h"));
        assert_eq!(name(&index, &file, 0x1000).as_deref(), Some("f"));
        let before = counted.bytes_read();
        index.advance(&file);
        assert_eq!(counted.bytes_read(), before);
    }

    #[test]
    fn a_step_reads_only_so_much_of_a_large_map() {
        let counted = CountedFile::new(&b"1000 100 JS:*f /a.js:1:2\n".repeat(100_000));
        let file = map_file(&counted);
        let mut index = Index::new(file.kind);
        index.advance(&file);
        let step = index.reader.step_bytes();
        assert!((1..=step + step / 2).contains(&counted.bytes_read()));
    }

    #[test]
    fn a_map_that_is_truncated_is_read_from_its_start() {
        let counted = CountedFile::new(b"1000 100 JS:*old /a.js:1:2\n");
        let file = map_file(&counted);
        let mut index = Index::new(file.kind);
        index.advance(&file);
        counted.replace(b"1000 100 JS:*b /b.js\n");
        let names = index.read(&file, &[0x1010], &[], false).unwrap();
        assert_eq!(names.at(0x1010, 0).unwrap().0.name, "b");
    }

    #[test]
    fn what_was_read_before_holds_until_something_is_written_over_it() {
        let counted = CountedFile::new(
            b"1000 100 JS:*old /a.js:1:1\n2000 100 RegExp:a\nb\n3000 10 JS:*part /a.js:1:1\n",
        );
        let file = map_file(&counted);
        let mut index = Index::new(file.kind);
        let size = || file.bytes.size().unwrap();
        let first = index.read(&file, &[0x1010], &[(10, size())], false);
        assert_eq!(first.unwrap().at(0x1010, 20).unwrap().0.name, "old");
        let marks = [(30, size()), (40, size())];
        counted.append(b"1000 80 JS:*new /a.js:2:1\n");
        let wanted = [0x1010, 0x1090, 0x2000, 0x3000, 0x3010];
        let second = index.read(&file, &wanted, &marks, false).unwrap();
        let at = |address, time| second.at(address, time).map(|(name, _)| name.name.as_str());
        assert_eq!(at(0x1010, 20), Some("old"));
        assert_eq!(at(0x1010, 45), Some("new"));
        assert_eq!(at(0x1090, 45), Some("old"));
        assert_eq!(at(0x2000, 45), Some("a\nb"));
        assert_eq!((at(0x3000, 45), at(0x3010, 45)), (Some("part"), None));
        let (reused, dated) = (second.is_reused(0x1010), !second.is_undated(0x1010));
        assert!(reused && dated && !second.is_reused(0x1090));
    }
}
