//! Folded stacks of `perf script` text, written as lines in the order of their bytes.

use std::cmp::Ordering;
use std::io::{self, Write};

use super::sequences::Sequences;

/// Folded stacks, and what of the text is not in them.
pub struct Collapsed {
    pub(super) names: Sequences<u8>,
    pub(super) stacks: Sequences<u32>,
    pub(super) counts: Vec<u64>,
    /// The event that was counted, if the text names it.
    pub event: Option<String>,
    /// Samples of other events.
    pub left_out: u64,
    /// Lines that are no part of `perf script` text.
    pub odd_lines: u64,
    /// The first of them: its place and how it starts.
    pub first_odd: Option<OddLine>,
}

/// A line that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OddLine {
    /// Which text it is in.
    pub text: usize,
    /// Its number from 1.
    pub line: u64,
    /// How it starts.
    pub start: String,
}

impl Collapsed {
    /// Whether there is not a single stack.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Writes a line per stack, sorted by its bytes.
    pub fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        let mut output = io::BufWriter::with_capacity(1 << 18, output);
        let mut line: Vec<u8> = Vec::new();
        // Sorted lines start alike: what a line has in common with the one before is not
        // written again.
        let mut ends: Vec<usize> = Vec::new();
        let mut before: &[u32] = &[];
        for number in self.sorted() {
            let stack = self.stacks.get(number);
            let same = first_difference(stack, before).min(ends.len());
            ends.truncate(same);
            line.truncate(ends.last().copied().unwrap_or(0));
            for name in &stack[same..] {
                if !ends.is_empty() {
                    line.push(b';');
                }
                line.extend_from_slice(self.names.get(*name));
                ends.push(line.len());
            }
            output.write_all(&line)?;
            writeln!(output, " {}", self.counts[number as usize])?;
            before = stack;
        }
        output.flush()
    }

    /// The numbers of the stacks in the order of their lines.
    fn sorted(&self) -> Vec<u32> {
        let places = self.places();
        let place = |stack: &[u32], at: usize| {
            let [last, inner] = places[stack[at] as usize];
            if at + 1 == stack.len() { last } else { inner }
        };
        let mut numbers: Vec<u32> = (0..self.stacks.len() as u32).collect();
        numbers.sort_unstable_by(|one, other| {
            let one = self.stacks.get(*one);
            let other = self.stacks.get(*other);
            let at = first_difference(one, other);
            if at == one.len().min(other.len()) {
                return one.len().cmp(&other.len());
            }
            place(one, at).cmp(&place(other, at))
        });
        numbers
    }

    /// For each name its place among all names, once as the end of a line and once with a
    /// semicolon after it: `a b` comes between `a` and `a;`.
    fn places(&self) -> Vec<[u32; 2]> {
        let mut texts: Vec<(u32, bool)> = (0..self.names.len() as u32)
            .flat_map(|name| [(name, false), (name, true)])
            .collect();
        texts.sort_unstable_by(|one, other| {
            compare_texts(
                (self.names.get(one.0), one.1),
                (self.names.get(other.0), other.1),
            )
        });
        let mut places = vec![[0; 2]; self.names.len()];
        for (place, (name, is_inner)) in texts.into_iter().enumerate() {
            places[name as usize][usize::from(is_inner)] = place as u32;
        }
        places
    }
}

fn compare_texts(one: (&[u8], bool), other: (&[u8], bool)) -> Ordering {
    let length = one.0.len().min(other.0.len());
    let after = |(name, is_inner): (&[u8], bool)| match name.get(length) {
        Some(byte) => Some(*byte),
        None => is_inner.then_some(b';'),
    };
    one.0[..length]
        .cmp(&other.0[..length])
        .then_with(|| after(one).cmp(&after(other)))
}

fn first_difference(one: &[u32], other: &[u32]) -> usize {
    const STEP: usize = 8;
    let steps = one.chunks_exact(STEP).zip(other.chunks_exact(STEP));
    let same = steps.take_while(|(one, other)| one == other).count() * STEP;
    let rest = one[same..].iter().zip(&other[same..]);
    same + rest.take_while(|(one, other)| one == other).count()
}
