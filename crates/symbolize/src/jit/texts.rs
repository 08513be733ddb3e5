//! Names and lines as they stand in a file of JIT code, read within a budget: a sparse file of gigabytes costs
//! the program that makes it nothing.

use std::borrow::Cow;

use nodespy_model::{FastMap, ReadAt};

use super::{Span, jitdump};

/// How many bytes of names and lines are read: this many for every file, which is the lines of the largest
/// function twice, and some for each address that was seen.
const BYTES_PER_FILE: u64 = 32 << 20;
const BYTES_PER_ADDRESS: u64 = 16 << 10;

/// Where a file has the name and the lines of some code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Description<'a> {
    pub(super) name: Span,
    /// The bytes of the name, where they are at hand.
    pub(super) text: Option<&'a [u8]>,
    pub(super) lines: Span,
}

/// Reads names and lines of a file.
#[derive(Debug)]
pub(super) struct Texts<'a> {
    bytes: &'a dyn ReadAt,
    bytes_left: u64,
    /// Entries whose name or lines were not read because of that.
    pub(super) over_budget: u64,
    /// Numbers of names by where they stand: code that moves keeps its name.
    numbers: FastMap<Span, u32>,
    /// The lines that were read last. What is left of code that was partly written over has them too.
    lines: (Span, Vec<(u64, u32)>),
}

impl<'a> Texts<'a> {
    /// To read from a file what is said of so many addresses.
    pub(super) fn new(bytes: &'a dyn ReadAt, addresses: usize) -> Self {
        Self {
            bytes,
            bytes_left: BYTES_PER_FILE + BYTES_PER_ADDRESS * addresses as u64,
            over_budget: 0,
            numbers: FastMap::default(),
            lines: (Span::default(), Vec::new()),
        }
    }

    /// The number of a name; one that has none yet goes to `number_it`. None where it can't be read.
    pub(super) fn name(
        &mut self,
        description: &Description<'_>,
        number_it: impl FnOnce(&str) -> u32,
    ) -> Option<u32> {
        if let Some(&known) = self.numbers.get(&description.name) {
            return Some(known);
        }
        self.draw(description.name)?;
        let text = match description.text {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(description.name.read(self.bytes)?),
        };
        let number = number_it(&String::from_utf8_lossy(&text));
        self.numbers.insert(description.name, number);
        Some(number)
    }

    /// Address and line of each position of a function, sorted by address.
    pub(super) fn lines(&mut self, at: Span) -> &[(u64, u32)] {
        if at.length == 0 {
            return &[];
        }
        if self.lines.0 != at {
            let read = self.draw(at).and_then(|()| at.read(self.bytes));
            let lines = read.map_or_else(Vec::new, |body| jitdump::parse_lines(&body));
            self.lines = (at, lines);
        }
        &self.lines.1
    }

    /// Takes what is to be read from the budget.
    fn draw(&mut self, span: Span) -> Option<()> {
        match self.bytes_left.checked_sub(span.length.into()) {
            Some(left) => self.bytes_left = left,
            None => {
                self.over_budget += 1;
                return None;
            }
        }
        Some(())
    }
}
