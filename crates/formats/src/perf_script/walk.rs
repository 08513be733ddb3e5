//! The walk over the text: which lines belong to which sample.
//!
//! This is where the time goes for long texts, so no line is parsed twice. The lines at a stack's
//! root that are the same as in the sample before are found by comparing both texts from their
//! ends. Of the others, most are followed by the line that followed them before; the rest is found
//! by its bytes.

use memchr::memchr;
use memchr::memmem::Finder;

use super::header::is_space;
use super::sequences::Sequences;

/// What a line that may start an event turned out to be.
pub(crate) enum Start<'a> {
    /// The lines that follow are its stack.
    Sample,
    /// It is complete: its only frame is on the same line.
    Whole(&'a [u8]),
    /// It is left out, with its stack.
    LeftOut,
    /// It starts no event.
    No,
}

/// Who makes something of the text. Frames are numbers of the reader's own choice.
pub(crate) trait Reader<'a> {
    /// Judges a line that may start an event. Perf indents only events without a call chain.
    fn start(&mut self, line: &'a [u8], is_indented: bool) -> Start<'a>;

    /// Begins the sample that was judged last: the one before it has been handed over.
    fn begin(&mut self);

    /// Adds the frames of a line, outermost first; false when it is not a line of a stack. A line
    /// is asked about once for each [`Self::dialect`].
    fn frames(&mut self, line: &'a [u8], frames: &mut Vec<u32>) -> bool;

    /// How the frames of the current sample are read: equal lines give equal frames in the same
    /// one.
    fn dialect(&self) -> usize {
        0
    }

    /// How many bytes of the following text belong to a line of a stack.
    fn continuation(&self, _line: &'a [u8], _following: &'a [u8]) -> usize {
        0
    }

    /// Takes a sample: its frames from the root to the leaf, of which the first `same` are those
    /// of the sample before.
    fn sample(&mut self, path: &[u32], same: usize);

    /// Takes note of a line that makes no sense.
    fn odd_line(&mut self, line: &'a [u8], at: usize);

    /// Whether a sample ends where the next one starts, or only at an empty line.
    fn ends_at_next_start(&self) -> bool;

    /// Whether a last sample counts although no empty line ends it.
    fn keeps_unfinished(&self) -> bool;
}

/// How many dialects a reader may have.
const DIALECTS: usize = 2;

/// No line came after this one yet.
const NOTHING: u32 = u32::MAX;
/// Where a sample ends that no empty line ends.
const NO_PLACE: usize = usize::MAX;

/// A line of the stack of the sample before.
struct Line {
    /// How many bytes there are from its start to the end of the stack.
    distance: usize,
    /// How many frames there are from the root up to it.
    depth: usize,
}

/// Lines that are known from the sample before.
#[derive(Clone, Copy)]
struct Known {
    /// Where they start.
    at: usize,
    lines: usize,
    depth: usize,
}

/// Every different line of a stack, and what the reader makes of it.
///
/// The lines are copied: close together they stay in the processor's cache, which they would not
/// where they are in the text.
#[derive(Default)]
struct Seen {
    lines: Sequences<u8>,
    /// For each line where its frames are, leaf first, and which line came after it last.
    frames: Vec<(usize, usize)>,
    next: Vec<u32>,
}

/// What is remembered from line to line, and from text to text.
pub(crate) struct Walk<'a> {
    seen: [Seen; DIALECTS],
    seen_frames: Vec<u32>,
    gaps: Finder<'static>,
    scratch: Vec<u32>,
    /// The sample before, from root to leaf; and its text from the line end before it.
    path: Vec<u32>,
    lines: Vec<Line>,
    block: &'a [u8],
    block_dialect: usize,
}

impl<'a> Walk<'a> {
    pub(crate) fn new() -> Self {
        Self {
            seen: Default::default(),
            seen_frames: Vec::new(),
            gaps: Finder::new(b"\n\n"),
            scratch: Vec::new(),
            path: Vec::new(),
            lines: Vec::new(),
            block: &[],
            block_dialect: 0,
        }
    }

    /// Walks over a whole text.
    pub(crate) fn text<R: Reader<'a>>(&mut self, text: &'a [u8], reader: &mut R) {
        Pass {
            walk: self,
            reader,
            text,
            at: 0,
            gap: None,
            state: State::Between,
            fresh: Vec::new(),
            fresh_lines: Vec::new(),
            stack: None,
            known: None,
            shared: None,
            last: None,
        }
        .run();
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Between,
    InSample,
    LeftOut,
}

/// One walk over one text.
struct Pass<'w, 'a, R> {
    walk: &'w mut Walk<'a>,
    reader: &'w mut R,
    text: &'a [u8],
    at: usize,
    /// Where the next empty line is; known once it was looked for.
    gap: Option<usize>,
    state: State,
    /// The frames of the current sample that are not known from the one before, leaf first, and
    /// for each line where it starts and how many of the frames come before it.
    fresh: Vec<u32>,
    fresh_lines: Vec<(usize, usize)>,
    /// Where the stack of the current sample starts and ends, while that is plain.
    stack: Option<(usize, usize)>,
    /// What the sample before has in common with this one, and whether that was reached.
    known: Option<Known>,
    shared: Option<Known>,
    /// The number of the line before, if it is part of the same stack.
    last: Option<u32>,
}

impl<'a, R: Reader<'a>> Pass<'_, 'a, R> {
    fn run(mut self) {
        while self.at < self.text.len() {
            if let Some(known) = self.known.take_if(|known| known.at == self.at) {
                self.shared = Some(known);
                self.at = self.stack.map_or(self.at, |(_, end)| end);
                continue;
            }
            if self.is_as_before() {
                continue;
            }
            let start = self.at;
            let end = memchr(b'\n', &self.text[start..]).map_or(self.text.len(), |at| start + at);
            self.at = end + 1;
            let line = &self.text[start..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            match line.first() {
                None => self.end_sample(start),
                Some(b'#') => {}
                Some(first) if is_space(*first) => self.indented(line, start),
                Some(_) => self.flush_left(line, start),
            }
        }
        let has_frames = !self.fresh.is_empty() || self.shared.is_some();
        let counts = self.reader.ends_at_next_start() || has_frames;
        if self.state == State::InSample && counts && self.reader.keeps_unfinished() {
            self.end_sample(self.text.len());
        }
        self.walk.block = &[];
        self.walk.lines.clear();
    }

    /// Takes the line that came after the last one when that was seen before, if it comes again.
    fn is_as_before(&mut self) -> bool {
        let Some(last) = self.last.filter(|_| self.state == State::InSample) else {
            return false;
        };
        let dialect = self.reader.dialect().min(DIALECTS - 1);
        let seen = &mut self.walk.seen[dialect];
        let Some(number) = seen.next.get(last as usize).copied() else {
            return false;
        };
        if number == NOTHING {
            return false;
        }
        let lines = seen.lines.get(number);
        let rest = &self.text[self.at..];
        if rest.get(lines.len()) != Some(&b'\n') || &rest[..lines.len()] != lines {
            return false;
        }
        self.fresh_lines.push((self.at, self.fresh.len()));
        let (first, count) = seen.frames[number as usize];
        self.fresh
            .extend_from_slice(&self.walk.seen_frames[first..first + count]);
        self.at += lines.len() + 1;
        self.last = Some(number);
        true
    }

    fn indented(&mut self, line: &'a [u8], start: usize) {
        let is_understood = match self.state {
            State::LeftOut => true,
            State::InSample => self.stack_line(line, start) || self.event(line, true),
            State::Between => self.event(line, true) || self.is_frame(line),
        };
        if !is_understood {
            self.reader.odd_line(line, start);
        }
    }

    fn flush_left(&mut self, line: &'a [u8], start: usize) {
        let is_understood = self.event(line, false)
            || match self.state {
                State::InSample => self.stack_line(line, start),
                _ => self.is_frame(line),
            };
        if !is_understood {
            self.reader.odd_line(line, start);
        }
    }

    fn is_frame(&mut self, line: &'a [u8]) -> bool {
        self.walk.scratch.clear();
        self.reader.frames(line, &mut self.walk.scratch)
    }

    /// Starts an event, if the line does.
    fn event(&mut self, line: &'a [u8], is_indented: bool) -> bool {
        let start = self.reader.start(line, is_indented);
        if matches!(start, Start::No) {
            return false;
        }
        if self.state == State::InSample && self.reader.ends_at_next_start() {
            self.end_sample(NO_PLACE);
        }
        let was_in_sample = self.state == State::InSample;
        match start {
            Start::No => {}
            Start::LeftOut if was_in_sample => {}
            Start::LeftOut => self.state = State::LeftOut,
            Start::Sample => {
                self.begin();
                if !was_in_sample {
                    self.look_ahead();
                }
            }
            Start::Whole(frame) => {
                self.begin();
                self.add_frames(frame);
                self.end_sample(NO_PLACE);
            }
        }
        true
    }

    fn begin(&mut self) {
        self.reader.begin();
        self.state = State::InSample;
        self.stack = None;
        self.known = None;
        self.last = None;
    }

    /// Finds out where the stack of a sample that just started ends, and how much of it is the
    /// same as in the sample before.
    fn look_ahead(&mut self) {
        let start = self.at;
        if start > self.text.len() {
            return;
        }
        let gap = match self.gap {
            Some(gap) if gap + 1 >= start => gap,
            _ => self
                .walk
                .gaps
                .find(&self.text[start - 1..])
                .map_or(self.text.len(), |found| start - 1 + found),
        };
        self.gap = Some(gap);
        let end = gap + 1;
        if gap == self.text.len() || end <= start {
            return;
        }
        self.stack = Some((start, end));
        let walk = &*self.walk;
        if walk.lines.is_empty() || walk.block_dialect != self.reader.dialect() {
            return;
        }
        let common = common_end(walk.block, &self.text[start - 1..end]);
        // The line end before a line must be common as well, or it is only the end of a line.
        let lines = walk.lines.partition_point(|line| line.distance < common);
        self.known = lines.checked_sub(1).map(|last| Known {
            at: end - walk.lines[last].distance,
            lines,
            depth: walk.lines[last].depth,
        });
    }

    /// Takes a line of the current sample's stack; false when it is none.
    fn stack_line(&mut self, line: &'a [u8], start: usize) -> bool {
        let following = self.text.get(self.at..).unwrap_or_default();
        let more = self.reader.continuation(line, following);
        let lines = match more {
            0 => line,
            more => {
                self.at += more;
                let lines = &self.text[start..self.at.min(self.text.len())];
                lines.strip_suffix(b"\n").unwrap_or(lines)
            }
        };
        let before = self.fresh.len();
        let is_frame = self.add_frames(lines);
        if is_frame {
            self.fresh_lines.push((start, before));
        }
        is_frame
    }

    fn add_frames(&mut self, lines: &'a [u8]) -> bool {
        let dialect = self.reader.dialect().min(DIALECTS - 1);
        let walk = &mut *self.walk;
        let seen = &mut walk.seen[dialect];
        let number = match seen.lines.find(lines) {
            Some(number) => number,
            None => {
                walk.scratch.clear();
                if !self.reader.frames(lines, &mut walk.scratch) {
                    return false;
                }
                seen.frames
                    .push((walk.seen_frames.len(), walk.scratch.len()));
                seen.next.push(NOTHING);
                walk.seen_frames.extend(walk.scratch.iter().rev());
                seen.lines.intern(lines)
            }
        };
        if let Some(next) = self
            .last
            .replace(number)
            .and_then(|last| seen.next.get_mut(last as usize))
        {
            *next = number;
        }
        let (first, count) = seen.frames[number as usize];
        self.fresh
            .extend_from_slice(&walk.seen_frames[first..first + count]);
        true
    }

    /// Hands the sample over. `at` is where the line that ends it starts.
    fn end_sample(&mut self, at: usize) {
        if self.state != State::InSample {
            self.state = State::Between;
            return;
        }
        self.state = State::Between;
        let (same, same_lines) = self
            .shared
            .map_or((0, 0), |known| (known.depth, known.lines));
        let walk = &mut *self.walk;
        walk.path.truncate(same);
        walk.path.extend(self.fresh.iter().rev());
        self.reader.sample(&walk.path, same);
        walk.lines.truncate(same_lines);
        match self.stack.take().filter(|(_, end)| *end == at) {
            Some((start, end)) => {
                let total = walk.path.len();
                let lines = self.fresh_lines.iter().rev().map(|(start, before)| Line {
                    distance: end - start,
                    depth: total - before,
                });
                walk.lines.extend(lines);
                walk.block = &self.text[start - 1..end];
                walk.block_dialect = self.reader.dialect();
            }
            None => walk.lines.clear(),
        }
        self.fresh.clear();
        self.fresh_lines.clear();
        self.known = None;
        self.shared = None;
    }
}

/// How many bytes two texts have in common at their ends.
fn common_end(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 32;
    let mut common = 0;
    let steps = one.rchunks_exact(STEP).zip(other.rchunks_exact(STEP));
    for (one, other) in steps {
        if one != other {
            break;
        }
        common += STEP;
    }
    let rest = one[..one.len() - common]
        .iter()
        .rev()
        .zip(other[..other.len() - common].iter().rev());
    common + rest.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes every word of a line for a frame, named by its length.
    #[derive(Default)]
    struct Words {
        samples: Vec<(Vec<u32>, usize)>,
        asked: usize,
        odd: usize,
    }

    impl<'a> Reader<'a> for Words {
        fn start(&mut self, line: &'a [u8], is_indented: bool) -> Start<'a> {
            match line {
                b"skip" => Start::LeftOut,
                _ if is_indented => Start::No,
                _ => Start::Sample,
            }
        }

        fn begin(&mut self) {}

        fn frames(&mut self, line: &'a [u8], frames: &mut Vec<u32>) -> bool {
            self.asked += 1;
            let words = line.trim_ascii().split(|byte| *byte == b' ');
            frames.extend(words.map(|word| word.len() as u32));
            !line.ends_with(b"!")
        }

        fn sample(&mut self, path: &[u32], same: usize) {
            self.samples.push((path.to_vec(), same));
        }

        fn odd_line(&mut self, _: &'a [u8], _: usize) {
            self.odd += 1;
        }

        fn ends_at_next_start(&self) -> bool {
            false
        }

        fn keeps_unfinished(&self) -> bool {
            true
        }
    }

    fn walked(text: &str) -> Words {
        let mut words = Words::default();
        Walk::new().text(text.as_bytes(), &mut words);
        words
    }

    #[test]
    fn lines_that_were_seen_are_not_read_again() {
        let words = walked("x\n a\n bb cc\n ddd\n\nx\n eeee\n bb cc\n ddd\n\nx\n bb cc\n a\n\n");
        assert_eq!(
            words.samples,
            [
                (vec![3, 2, 2, 1], 0),
                (vec![3, 2, 2, 4], 3),
                (vec![1, 2, 2], 0)
            ]
        );
        assert_eq!(words.asked, 4);
    }

    #[test]
    fn only_whole_lines_are_in_common() {
        let words = walked("x\n aab\n cc\n\nx\n b\n cc\n\nx\n b\n cc");
        assert_eq!(
            words.samples,
            [(vec![2, 3], 0), (vec![2, 1], 1), (vec![2, 1], 0)]
        );
    }

    #[test]
    fn what_is_left_out_or_odd_is_no_sample() {
        let words = walked("skip\n a\n\nx\n a\n b!\n\n\n# y\n dd\n b!\n");
        assert_eq!(words.samples, [(vec![1], 0)]);
        assert_eq!(words.odd, 2);
    }

    #[test]
    fn carriage_returns_do_not_matter() {
        let words = walked("x\r\n a\r\n bb\r\n\r\nx\r\n bb\r\n\r\n");
        assert_eq!(words.samples, [(vec![2, 1], 0), (vec![2], 0)]);
    }
}
