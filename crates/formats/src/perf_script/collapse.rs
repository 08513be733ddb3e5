//! `perf script` text to folded stacks, as `stackcollapse-perf.pl` writes them.
//!
//! The output is the original's byte for byte, in its order. Where inferno's collapser reads more,
//! so does this: events with their only frame on the same line, kernels and modules by file name,
//! and the code of `perf inject --jit`. A last sample without an empty line after it is where the
//! two differ on what both can read: the original drops it, inferno counts it. Here it counts if
//! the text has offsets (`main+0x1f`, perf since 4.8), which the original's own examples lack.

use nodespy_model::FastMap;

use super::collapsed::{Collapsed, OddLine};
use super::frame::{FrameLine, file_name};
use super::header::{Details, Header, is_space, original_event, parse_number};
use super::sequences::Sequences;
use super::tidy::{tidy_generic, tidy_java};
use super::walk::{Reader, Start, Walk};

/// How stacks are folded.
#[derive(Debug, Clone)]
pub struct CollapseOptions {
    /// Put the process after the thread's name.
    pub with_pid: bool,
    /// Put the process and the thread after the thread's name.
    pub with_tid: bool,
    /// Mark the kernel's functions with `_[k]`.
    pub mark_kernel: bool,
    /// Mark functions that a compiler made at run time with `_[j]`.
    pub mark_jit: bool,
    /// Tell the address of a function that has no name.
    pub with_addresses: bool,
    /// Each line of a stack is followed by one with the source line.
    pub has_source_lines: bool,
    /// Only this event counts; the first one when there is none.
    pub event: Option<String>,
    /// Callers of these functions are left out.
    pub skip_after: Vec<String>,
    /// Take arguments off names.
    pub tidy_generic: bool,
    /// Take `L` off the classes of threads called `java`.
    pub tidy_java: bool,
}

impl Default for CollapseOptions {
    fn default() -> Self {
        Self {
            with_pid: false,
            with_tid: false,
            mark_kernel: false,
            mark_jit: false,
            with_addresses: false,
            has_source_lines: false,
            event: None,
            skip_after: Vec::new(),
            tidy_generic: true,
            tidy_java: true,
        }
    }
}

/// What is known of the functions inlined at an address: names from the outermost to the
/// innermost, separated by semicolons.
pub type Inlined<'a> = &'a mut dyn FnMut(&[u8], &[u8], &[u8]) -> Option<Vec<u8>>;

/// Folds the stacks of several texts, one after the other.
pub fn collapse<'a, 'o>(
    texts: impl IntoIterator<Item = &'a [u8]>,
    options: &'o CollapseOptions,
    inlined: Option<Inlined<'o>>,
) -> Collapsed {
    let mut folding = Folding::new(options, inlined);
    let mut walk = Walk::new();
    for text in texts {
        folding.text = text;
        walk.text(text, &mut folding);
        folding.texts += 1;
    }
    Collapsed {
        names: folding.names,
        stacks: folding.stacks,
        counts: folding.counts,
        event: folding
            .event
            .map(|event| String::from_utf8_lossy(&event).into_owned()),
        left_out: folding.left_out,
        odd_lines: folding.odd_lines,
        first_odd: folding.first_odd,
    }
}

/// Stands for the callers that `skip_after` leaves out.
const CUT: u32 = u32::MAX;

/// The sample that is being read.
#[derive(Default, Clone, Copy)]
struct Current {
    /// The number of the thread's text.
    thread: u32,
    period: u64,
    is_java: bool,
}

struct Folding<'a, 'o> {
    options: &'o CollapseOptions,
    inlined: Option<Inlined<'o>>,
    text: &'a [u8],
    texts: usize,
    event: Option<Vec<u8>>,
    current: Current,
    next: Current,
    /// The frames that each thread's text is.
    threads: FastMap<Vec<u8>, u32>,
    thread_frames: Vec<Vec<u32>>,
    names: Sequences<u8>,
    stacks: Sequences<u32>,
    counts: Vec<u64>,
    has_offsets: bool,
    left_out: u64,
    odd_lines: u64,
    first_odd: Option<OddLine>,
    scratch: Vec<u8>,
    stack: Vec<u32>,
}

impl<'o> Folding<'_, 'o> {
    fn new(options: &'o CollapseOptions, inlined: Option<Inlined<'o>>) -> Self {
        Self {
            options,
            inlined,
            text: &[],
            texts: 0,
            event: options.event.clone().map(String::into_bytes),
            current: Current::default(),
            next: Current::default(),
            threads: FastMap::default(),
            thread_frames: Vec::new(),
            names: Sequences::default(),
            stacks: Sequences::default(),
            counts: Vec::new(),
            has_offsets: false,
            left_out: 0,
            odd_lines: 0,
            first_odd: None,
            scratch: Vec::new(),
            stack: Vec::new(),
        }
    }

    /// Whether an event counts. The first one decides if none was chosen.
    fn is_wanted(&mut self, event: &[u8]) -> bool {
        let wanted = self.event.get_or_insert_with(|| event.to_vec()) == event;
        self.left_out += u64::from(!wanted);
        wanted
    }

    fn prepare(&mut self, header: Header<'_>, period: u64) {
        let text = &mut self.scratch;
        text.clear();
        text.extend_from_slice(header.comm);
        if self.options.with_pid || self.options.with_tid {
            text.push(b'-');
            text.extend_from_slice(header.pid.unwrap_or(b"?"));
        }
        if self.options.with_tid {
            text.push(b'/');
            text.extend_from_slice(header.tid);
        }
        for byte in text.iter_mut().filter(|byte| **byte == b' ') {
            *byte = b'_';
        }
        let is_java = self.options.tidy_java && text == b"java";
        let thread = match self.threads.get(text) {
            Some(thread) => *thread,
            None => {
                let frames = text.split(|byte| *byte == b';');
                let frames = frames.map(|name| self.names.intern(name)).collect();
                let thread = self.thread_frames.len() as u32;
                self.thread_frames.push(frames);
                self.threads.insert(text.clone(), thread);
                thread
            }
        };
        self.next = Current {
            thread,
            period,
            is_java,
        };
    }

    /// Adds a name, which may hold several frames.
    fn push_name(&mut self, name: &[u8], frames: &mut Vec<u32>) {
        frames.extend(
            name.split(|byte| *byte == b';')
                .map(|name| self.names.intern(name)),
        );
    }

    /// Writes the text of one function of a line.
    fn write_name(
        &self,
        frame: &FrameLine<'_>,
        function: &[u8],
        is_inlined: bool,
        to: &mut Vec<u8>,
    ) {
        to.clear();
        if function == b"[unknown]" {
            let module = match frame.module {
                b"[unknown]" => b"unknown",
                module => file_name(module),
            };
            to.push(b'[');
            to.extend_from_slice(module);
            if self.options.with_addresses {
                to.extend_from_slice(b" <");
                to.extend_from_slice(frame.address);
                to.push(b'>');
            }
            to.push(b']');
        } else {
            to.extend_from_slice(function);
        }
        if self.options.tidy_generic {
            tidy_generic(to);
        }
        if self.current.is_java {
            tidy_java(to);
        }
        if is_inlined {
            mark(to, b"_[i]");
        } else if self.options.mark_kernel && frame.is_kernel() {
            to.extend_from_slice(b"_[k]");
        } else if self.options.mark_jit && frame.is_jit() {
            mark(to, b"_[j]");
        }
    }

    /// What `addr2line` or the like knows of a frame.
    fn push_inlined(&mut self, frame: &FrameLine<'_>, frames: &mut Vec<u32>) -> bool {
        let Some(inlined) = &mut self.inlined else {
            return false;
        };
        let is_file = !frame.is_jit()
            && memchr::memmem::find(frame.module, b"kernel.").is_none()
            && !has_brackets(frame.module);
        if !is_file {
            return false;
        }
        match inlined(frame.address, frame.name, frame.module) {
            Some(names) => {
                self.push_name(&names, frames);
                true
            }
            None => false,
        }
    }
}

impl<'a> Reader<'a> for Folding<'a, '_> {
    fn start(&mut self, line: &'a [u8], is_indented: bool) -> Start<'a> {
        if let Some((header, details)) = whole_sample(line) {
            // Perf writes modifiers that it applied by itself for some events only.
            let event = details.event.unwrap_or_default();
            let event = event.split(|byte| *byte == b':').next().unwrap_or(event);
            if !self.is_wanted(event) {
                return Start::LeftOut;
            }
            self.prepare(
                header,
                details.period.filter(|period| *period > 0).unwrap_or(1),
            );
            return details.frame.map_or(Start::No, Start::Whole);
        }
        let Some(header) = Header::as_original(line).filter(|_| !is_indented) else {
            return Start::No;
        };
        let mut period = None;
        if let Some((event_period, event)) = original_event(line) {
            if !self.is_wanted(event) {
                return Start::LeftOut;
            }
            period = event_period.filter(|digits| *digits != b"0");
        }
        self.prepare(header, period.and_then(parse_number).unwrap_or(1));
        Start::Sample
    }

    fn begin(&mut self) {
        self.current = self.next;
    }

    fn frames(&mut self, lines: &'a [u8], frames: &mut Vec<u32>) -> bool {
        let mut lines = lines.split(|byte| *byte == b'\n');
        let line = lines.next().unwrap_or_default();
        let Some(frame) = FrameLine::as_original(line) else {
            return false;
        };
        let (function, has_offset) = frame.name_without_offset();
        self.has_offsets |= has_offset;
        if self.push_inlined(&frame, frames) || function.starts_with(b"(") {
            return true;
        }
        let mut name = std::mem::take(&mut self.scratch);
        let mut is_unknown = false;
        for (position, part) in inlined_parts(function).enumerate() {
            self.write_name(&frame, part, position > 0, &mut name);
            is_unknown |= part == b"[unknown]" && frame.module == b"[unknown]";
            if self.options.has_source_lines && !is_unknown {
                add_source_line(lines.next().unwrap_or_default(), &mut name);
            }
            self.push_name(&name, frames);
        }
        self.scratch = name;
        let is_cut = |cut: &String| cut.as_bytes() == function;
        if self.options.skip_after.iter().any(is_cut) {
            frames.insert(0, CUT);
        }
        true
    }

    fn dialect(&self) -> usize {
        usize::from(self.current.is_java)
    }

    fn continuation(&self, line: &'a [u8], following: &'a [u8]) -> usize {
        if !self.options.has_source_lines {
            return 0;
        }
        let Some(frame) = FrameLine::as_original(line) else {
            return 0;
        };
        let (function, _) = frame.name_without_offset();
        if function.starts_with(b"(") {
            return 0;
        }
        let has_source = |part: &&[u8]| *part != b"[unknown]" || frame.module != b"[unknown]";
        let lines = inlined_parts(function).take_while(has_source).count();
        memchr::memchr_iter(b'\n', following)
            .map(|end| end + 1)
            .chain([following.len()])
            .take(lines)
            .last()
            .unwrap_or(0)
    }

    fn sample(&mut self, path: &[u32], _same: usize) {
        let cut = match self.options.skip_after.is_empty() {
            true => None,
            false => path.iter().rposition(|frame| *frame == CUT),
        };
        self.stack.clear();
        match cut {
            Some(cut) => self.stack.extend_from_slice(&path[cut + 1..]),
            None => {
                let thread = &self.thread_frames[self.current.thread as usize];
                self.stack.extend_from_slice(thread);
                self.stack.extend_from_slice(path);
            }
        }
        let number = self.stacks.intern(&self.stack) as usize;
        if number == self.counts.len() {
            self.counts.push(0);
        }
        let count = &mut self.counts[number];
        *count = count.saturating_add(self.current.period);
    }

    fn odd_line(&mut self, line: &'a [u8], at: usize) {
        self.odd_lines += 1;
        let (text, texts) = (self.text, self.texts);
        self.first_odd.get_or_insert_with(|| OddLine {
            text: texts,
            line: 1 + memchr::memchr_iter(b'\n', &text[..at.min(text.len())]).count() as u64,
            start: String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned(),
        });
    }

    fn ends_at_next_start(&self) -> bool {
        false
    }

    fn keeps_unfinished(&self) -> bool {
        self.has_offsets
    }
}

/// An event with its only frame on the same line.
fn whole_sample(line: &[u8]) -> Option<(Header<'_>, Details<'_>)> {
    if !line.ends_with(b")") {
        return None;
    }
    let header = Header::parse(line)?;
    let details = Details::of(header.rest);
    details.frame.is_some().then_some((header, details))
}

/// The functions in a name that shows what was inlined as `outer->inner`. As in Perl, nothing
/// comes after the last that is not empty.
fn inlined_parts(function: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = function;
    while let Some(shorter) = rest.strip_suffix(b"->") {
        rest = shorter;
    }
    let mut next = (!rest.is_empty()).then_some(rest);
    std::iter::from_fn(move || {
        let text = next?;
        match memchr::memmem::find(text, b"->") {
            Some(at) => {
                next = Some(&text[at + 2..]);
                Some(&text[..at])
            }
            None => next.take(),
        }
    })
}

/// Adds a mark unless the name has it already.
fn mark(name: &mut Vec<u8>, mark: &[u8]) {
    if memchr::memmem::find(name, mark).is_none() {
        name.extend_from_slice(mark);
    }
}

/// Whether something stands in brackets.
fn has_brackets(module: &[u8]) -> bool {
    memchr::memchr_iter(b'[', module)
        .any(|open| memchr::memchr(b']', &module[open + 1..]).is_some_and(|length| length > 0))
}

/// Adds `:file.c:12`, without addresses in brackets.
fn add_source_line(line: &[u8], name: &mut Vec<u8>) {
    let start = name.len();
    name.push(b':');
    let mut rest = line;
    while let Some(open) = memchr::memchr(b'[', rest) {
        let Some(length) = memchr::memchr(b']', &rest[open..]) else {
            break;
        };
        name.extend_from_slice(&rest[..open]);
        rest = &rest[open + length + 1..];
    }
    name.extend_from_slice(rest);
    let leading = name[start + 1..]
        .iter()
        .take_while(|byte| is_space(**byte))
        .count();
    name.drain(start + 1..start + 1 + leading);
    while name.len() > start + 1 && name.last().is_some_and(|byte| is_space(*byte)) {
        name.pop();
    }
    if name.len() == start + 1 {
        name.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str, options: &CollapseOptions) -> String {
        let collapsed = collapse([text.as_bytes()], options, None);
        let mut bytes = Vec::new();
        collapsed.write(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn lines_are_sorted_by_their_bytes() {
        let mut text = String::new();
        for stack in ["a", "a b", "a;b", "a:b", "a;b;c", "a#;b", "a<"] {
            text.push_str("xy 1 1.5: cycles:\n");
            for name in stack.split(';').rev() {
                text.push_str(&format!(" 1 {name} (m)\n"));
            }
            text.push('\n');
        }
        let folded = folded(&text, &CollapseOptions::default());
        let lines: Vec<&str> = folded.lines().collect();
        let mut keys: Vec<&str> = lines.iter().map(|line| &line[..line.len() - 2]).collect();
        keys.sort_unstable();
        assert_eq!(lines.len(), 7);
        assert!(
            lines
                .iter()
                .zip(&keys)
                .all(|(line, key)| line.starts_with(key))
        );
    }

    #[test]
    fn the_first_event_counts_unless_another_is_asked_for() {
        let text = "xy 1 1.5: 7 cycles:\n 1 a (m)\n\nxy 1 1.6: 5 faults:\n 1 b (m)\n\n";
        let options = CollapseOptions::default();
        assert_eq!(folded(text, &options), "xy;a 7\n");
        assert_eq!(collapse([text.as_bytes()], &options, None).left_out, 1);
        let options = CollapseOptions {
            event: Some("faults".to_owned()),
            ..options
        };
        assert_eq!(folded(text, &options), "xy;b 5\n");
    }

    #[test]
    fn source_lines_are_added() {
        let text = "xy 1 1.5: cycles:\n 1 a+0x1 (m)\n  a.c:12\n 2 [unknown] ([unknown])\n 3 b (l)\n  l.so[16351b]\n\n";
        let options = CollapseOptions {
            has_source_lines: true,
            ..CollapseOptions::default()
        };
        assert_eq!(folded(text, &options), "xy;b:l.so;[unknown];a:a.c:12 1\n");
    }

    #[test]
    fn inlined_functions_are_marked() {
        let text = "java 1 1.5: cycles:\n 1 La/b;::f->La/b;::g (/tmp/perf-1.map)\n\n";
        let options = CollapseOptions {
            mark_jit: true,
            ..CollapseOptions::default()
        };
        assert_eq!(folded(text, &options), "java;a/b:::f_[j];a/b:::g_[i] 1\n");
    }

    #[test]
    fn callers_can_be_left_out() {
        let text = "xy 1 1.5: cycles:\n 1 a (m)\n 2 b+0x1 (m)\n 3 c (m)\n\n";
        let options = CollapseOptions {
            skip_after: vec!["b".to_owned()],
            ..CollapseOptions::default()
        };
        assert_eq!(folded(text, &options), "b;a 1\n");
    }

    #[test]
    fn a_last_sample_without_an_end_counts_where_perf_tells_offsets() {
        let options = CollapseOptions::default();
        assert_eq!(
            folded("xy 1 1.5: cycles:\n 1 a+0x1 (m)\n", &options),
            "xy;a 1\n"
        );
        assert_eq!(folded("xy 1 1.5: cycles:\n 1 a (m)\n", &options), "");
    }

    #[test]
    fn odd_lines_are_counted_and_the_first_is_named() {
        let text = "xy 1 1.5: cycles:\n 1 a (m)\n weird\n weird\n\n";
        let collapsed = collapse([text.as_bytes()], &CollapseOptions::default(), None);
        assert_eq!(collapsed.odd_lines, 2);
        assert_eq!(collapsed.first_odd.unwrap().line, 3);
    }

    #[test]
    fn inlined_frames_come_from_whoever_knows_them() {
        let text = "xy 1 1.5: cycles:\n 1f a+0x1 (/bin/m)\n 2 k ([kernel.kallsyms])\n\n";
        let mut ask = |address: &[u8], name: &[u8], module: &[u8]| {
            assert_eq!(
                (address, name, module),
                (&b"1f"[..], &b"a+0x1"[..], &b"/bin/m"[..])
            );
            Some(b"outer;inner".to_vec())
        };
        let options = CollapseOptions::default();
        let collapsed = collapse([text.as_bytes()], &options, Some(&mut ask));
        let mut bytes = Vec::new();
        collapsed.write(&mut bytes).unwrap();
        assert_eq!(bytes, b"xy;k;outer;inner 1\n");
    }
}
