//! What inferno makes of a text, counted without making it: a stack of a thousand frames is a thousand names, each as
//! long as the text likes, so that two megabytes can ask for all the memory there is.
//!
//! Each function reads as its collapser in inferno 0.12 does and may count too much, never too little.

use std::borrow::Cow;

use nodespy_model::FastMap;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

/// A byte that is no UTF-8 becomes three.
const BYTES_PER_BAD_BYTE: u64 = 3;
/// `->` becomes `_[i];`.
const BYTES_PER_DTRACE_BYTE: u64 = 3;

/// Every line is a frame of one stack.
pub(super) fn dtrace(text: &[u8]) -> u64 {
    (text.len() as u64).saturating_mul(BYTES_PER_BAD_BYTE * BYTES_PER_DTRACE_BYTE)
}

/// A line that none is below is a stack: itself and what it is indented under.
pub(super) fn sample(text: &[u8]) -> u64 {
    let is_indent = |symbol: char| matches!(symbol, ' ' | '+' | '|' | ':' | '!');
    let mut stack = Stack::default();
    let mut bytes = 0u64;
    for line in lines(text).skip_while(|line| !line.starts_with("Call graph:")) {
        let Some(rest) = line.strip_prefix("    ") else {
            continue;
        };
        let frame = rest.trim_start_matches(is_indent);
        let depth = (rest.len() - frame.len()) / 2 + 1;
        if depth <= stack.lengths.len() {
            bytes = bytes.saturating_add(stack.bytes);
        }
        // Without a module all of it can be both module and function.
        let copies = if frame.contains("(in ") { 1 } else { 2 };
        stack.push_at(depth, frame.len() as u64 * copies);
    }
    bytes.saturating_add(stack.bytes)
}

/// A row with a time of its own is a stack: itself and what it is indented under.
pub(super) fn vtune(text: &[u8]) -> u64 {
    let mut stack = Stack::default();
    let mut bytes = 0u64;
    for line in lines(text).skip_while(|line| !line.starts_with("Function Stack,")) {
        let row = line.trim_start_matches(' ');
        stack.push_at(line.len() - row.len() + 1, row.len() as u64);
        if !is_without_time(row) {
            bytes = bytes.saturating_add(stack.bytes);
        }
    }
    bytes
}

/// Whether the second field of a row is none or rounds to no millisecond.
fn is_without_time(row: &str) -> bool {
    let fields = match row.strip_prefix('"') {
        Some(quoted) => quoted.split_once("\","),
        None => row.split_once(','),
    };
    let time = fields.and_then(|(_, rest)| rest.split(',').next());
    time.and_then(|time| time.parse().ok())
        .is_some_and(|seconds: f64| (seconds * 1000.0).round() as u64 == 0)
}

/// Every frame is in one backtrace, and named there or elsewhere.
pub(super) fn xctrace(text: &[u8]) -> u64 {
    let mut reader = Reader::from_reader(text);
    let mut lengths: FastMap<u64, u64> = FastMap::default();
    let mut bytes = 0u64;
    // Inferno ends with an error where this ends with one.
    while let Ok(event) = reader.read_event() {
        match event {
            Event::Start(tag) | Event::Empty(tag) if tag.name().into_inner() == b"frame" => {
                bytes = bytes.saturating_add(xctrace_frame(&tag, &mut lengths));
            }
            Event::Eof => break,
            _ => {}
        }
    }
    bytes
}

/// How long the name of a frame is, or that of the one it refers to.
fn xctrace_frame(tag: &BytesStart<'_>, lengths: &mut FastMap<u64, u64>) -> u64 {
    let value = |key: &[u8]| {
        let mut attributes = tag.attributes().filter_map(Result::ok);
        let found = attributes.find(|attribute| attribute.key.into_inner() == key);
        found.map(|attribute| attribute.value)
    };
    let number = |key| value(key).and_then(|text| String::from_utf8_lossy(&text).parse().ok());
    let referred = number(b"ref").and_then(|id: u64| lengths.get(&id).copied());
    let own = value(b"name").map(|name| String::from_utf8_lossy(&name).len() as u64 + 1);
    if let (Some(id), Some(own)) = (number(b"id"), own) {
        // One that is given twice is an error, but not in a comment or outside of a backtrace.
        let length = lengths.entry(id).or_default();
        *length = own.max(*length);
    }
    own.max(referred).unwrap_or(1)
}

/// The lines of a text that say something, without what is behind them.
fn lines(text: &[u8]) -> impl Iterator<Item = Cow<'_, str>> {
    let trimmed = |line| match String::from_utf8_lossy(line) {
        Cow::Borrowed(line) => Cow::Borrowed(line.trim_end()),
        Cow::Owned(line) => Cow::Owned(line.trim_end().to_owned()),
    };
    let lines = text.split(|byte| *byte == b'\n').map(trimmed);
    lines.filter(|line| !line.is_empty())
}

/// The frames above a line and its own.
#[derive(Default)]
struct Stack {
    lengths: Vec<u64>,
    bytes: u64,
}

impl Stack {
    /// Puts a frame at a depth, which counts from one, in place of what is there and below.
    fn push_at(&mut self, depth: usize, length: u64) {
        while self.lengths.len() >= depth {
            self.bytes -= self.lengths.pop().unwrap_or(0);
        }
        // What joins it to its module and to the next frame.
        let length = length + 2;
        self.lengths.push(length);
        self.bytes += length;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DTRACE, SAMPLE, StackText, VTUNE, XCTRACE};

    fn assert_bounds(format: &StackText, text: &str) {
        let mut folded = Vec::new();
        (format.collapse)(text.as_bytes(), &mut folded).unwrap();
        // Each line has a weight and its end besides the stack.
        let stacks: usize = String::from_utf8_lossy(&folded)
            .lines()
            .map(|line| line.rsplit_once(' ').unwrap().0.len())
            .sum();
        let bound = (format.bound)(text.as_bytes());
        assert!(stacks > 0, "{}: no stacks", format.name);
        assert!(
            bound >= stacks as u64 && bound < 12 * stacks as u64 + 200,
            "{}: {bound} for {stacks} in {}",
            format.name,
            String::from_utf8_lossy(&folded)
        );
    }

    #[test]
    fn inferno_makes_no_more_than_was_counted() {
        assert_bounds(
            &DTRACE,
            "\n\n a->b->c->d;;e->->\n  +0x1\n g`h\n 3\n\n x\n 1\n",
        );
        assert_bounds(
            &SAMPLE,
            "Call graph:\n    9 Thread_1\n    + 4 a  (in node.dylib) + 5\n    + ! 3 b)\n    + ! 1 é\n    \
             + 5 c  (in (d) e\n\n    1 T)\nTotal number in stack\n",
        );
        assert_bounds(
            &VTUNE,
            "Function Stack,CPU Time:Self,Module\nall,0.0,m\n \"f, g\",0.5,m\n  h,1.0,\n i,2,long module\n",
        );
        assert_bounds(
            &XCTRACE,
            "<?xml version=\"1.0\"?><trace-query-result><node><!-- <frame id='1' name='x'/> -->\
             <row><backtrace id='7'><frame name='a&gt;b>c&lt;é' id='1'><binary/></frame><frame ref=\"1\"/>\
             <frame ref='1'/></backtrace></row><row><backtrace ref='7'/></row></node></trace-query-result>",
        );
    }

    #[test]
    fn rows_without_time_of_their_own_cost_nothing() {
        let head = "Function Stack,CPU Time:Self,Module\n";
        let deep = |time: &str| {
            let row = |depth| format!("{}f,{time},m\n", " ".repeat(depth));
            head.to_owned() + &(0..100).map(row).collect::<String>()
        };
        let with = super::vtune(deep("0.1").as_bytes());
        let without = super::vtune(deep("0.000").as_bytes());
        assert!(with > 20_000 && without < 100, "{with} {without}");
    }
}
