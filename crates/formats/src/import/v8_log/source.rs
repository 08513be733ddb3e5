//! Where in a script an address of code is: V8's tables of positions, and the functions that were
//! inlined there.
//!
//! Positions are text such as `C0O80C44O91C128O104I1`: from byte 128 of the code on, position 104
//! of the script, in inlined call 1. Calls are `F0O116F1O55I0`: call 1 is of function 1, made at
//! position 55 of call 0. Nothing is decoded before a sample needs it.

use super::fields::Units;

/// Calls nest in calls; deeper nesting than this is a damaged log.
const DEEPEST_INLINING: usize = 64;
/// What stands for a function that is not known.
pub(super) const UNKNOWN_CODE: u32 = u32::MAX;

/// What a log says of the source of a code object.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) script: u32,
    positions: &'a [u8],
    calls: &'a [u8],
    /// Code of each function that was inlined, or [`UNKNOWN_CODE`].
    functions: Box<[u32]>,
    tables: Option<Tables>,
}

/// Both texts, decoded.
#[derive(Debug)]
struct Tables {
    /// From which byte of the code on each of the positions is the one.
    starts: Vec<u32>,
    /// Position in the script, and the inlined call it is in.
    positions: Vec<(u32, Option<u32>)>,
    /// Function, position in its caller, call it was made in.
    calls: Vec<(u32, u32, Option<u32>)>,
}

/// A place that code was compiled from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// The position in its script.
    pub(super) position: u32,
    /// Code of the function that was inlined; none for the function that was compiled.
    pub(super) inlined: Option<u32>,
}

impl<'a> Source<'a> {
    pub(super) fn new(
        script: u32,
        positions: &'a [u8],
        calls: &'a [u8],
        functions: Box<[u32]>,
    ) -> Self {
        Self {
            script,
            positions,
            calls,
            functions,
            tables: None,
        }
    }

    /// Whether functions were inlined, so that a place can be in several.
    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Which row of the table of positions an offset of the code is in.
    pub(super) fn row_at(&mut self, offset: u32) -> Option<u32> {
        let tables = self
            .tables
            .get_or_insert_with(|| Tables::decode(self.positions, self.calls));
        let after = tables.starts.partition_point(|start| *start <= offset);
        after.checked_sub(1).map(|row| row as u32)
    }

    /// The places a row stands for, innermost first.
    pub(super) fn spots_of(&self, row: u32, spots: &mut Vec<Spot>) {
        spots.clear();
        let Some(tables) = &self.tables else { return };
        let Some(&(mut position, mut call)) = tables.positions.get(row as usize) else {
            return;
        };
        while let Some(index) = call {
            let made = tables.calls.get(index as usize);
            let function = made.and_then(|made| self.functions.get(made.0 as usize));
            let (Some(&(_, at, parent)), Some(&function)) = (made, function) else {
                spots.clear();
                return;
            };
            if function == UNKNOWN_CODE || spots.len() >= DEEPEST_INLINING {
                spots.clear();
                return;
            }
            spots.push(Spot {
                position,
                inlined: Some(function),
            });
            (position, call) = (at, parent);
        }
        spots.push(Spot {
            position,
            inlined: None,
        });
    }
}

impl Tables {
    fn decode(positions: &[u8], calls: &[u8]) -> Self {
        let mut rows: Vec<(u32, u32, Option<u32>)> = Rows::new(positions, b'C').collect();
        rows.sort_by_key(|(start, _, _)| *start);
        Self {
            starts: rows.iter().map(|(start, _, _)| *start).collect(),
            positions: rows.iter().map(|(_, at, call)| (*at, *call)).collect(),
            calls: Rows::new(calls, b'F').collect(),
        }
    }
}

/// Rows of three numbers, each after its letter, the third of them left out at times.
struct Rows<'a> {
    rest: &'a [u8],
    first: u8,
}

impl<'a> Rows<'a> {
    fn new(rest: &'a [u8], first: u8) -> Self {
        Self { rest, first }
    }

    fn number_after(&mut self, letter: u8) -> Option<u32> {
        let rest = self.rest.strip_prefix(&[letter])?;
        let digits = rest
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(rest.len());
        let number = rest[..digits].iter().try_fold(0u32, |value, digit| {
            value.checked_mul(10)?.checked_add(u32::from(digit - b'0'))
        })?;
        self.rest = &rest[digits..];
        (digits > 0).then_some(number)
    }
}

impl Iterator for Rows<'_> {
    type Item = (u32, u32, Option<u32>);

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.number_after(self.first)?;
        let second = self.number_after(b'O')?;
        let third = self.number_after(b'I');
        Some((first, second, third))
    }
}

/// The source of a script, still escaped, and where its lines start.
#[derive(Debug)]
pub(super) struct Script<'a> {
    text: &'a [u8],
    /// Empty until asked for.
    line_starts: Vec<u32>,
}

impl<'a> Script<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            line_starts: Vec::new(),
        }
    }

    /// Line and column of a position, from 1.
    pub(super) fn line_and_column(&mut self, position: u32) -> (u32, u32) {
        if self.line_starts.is_empty() {
            self.line_starts.push(0);
            let mut units = Units::new(self.text);
            let mut at = 0u32;
            while let Some(plain) = units.skip_to_escape() {
                at = at.saturating_add(u32::try_from(plain).unwrap_or(u32::MAX));
                let unit = units.next();
                at = at.saturating_add(1);
                if unit == Some(u16::from(b'\n')) {
                    self.line_starts.push(at);
                }
            }
        }
        let line = self.line_starts.partition_point(|start| *start <= position);
        let start = self.line_starts[line - 1];
        (line as u32, (position - start).saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spots(source: &mut Source<'_>, offset: u32) -> Vec<(u32, Option<u32>)> {
        let mut spots = Vec::new();
        if let Some(row) = source.row_at(offset) {
            source.spots_of(row, &mut spots);
        }
        spots
            .iter()
            .map(|spot| (spot.position, spot.inlined))
            .collect()
    }

    #[test]
    fn an_offset_gives_the_calls_it_was_inlined_through() {
        let mut source = Source::new(
            81,
            b"C0O80C75O26I1C78O63I0C81O116",
            b"F0O116F1O55I0",
            Box::new([7, 8]),
        );
        assert_eq!(spots(&mut source, 0), [(80, None)]);
        assert_eq!(spots(&mut source, 79), [(63, Some(7)), (116, None)]);
        assert_eq!(
            spots(&mut source, 76),
            [(26, Some(8)), (55, Some(7)), (116, None)]
        );
        assert_eq!(spots(&mut source, 1000), [(116, None)]);
    }

    #[test]
    fn damaged_tables_give_no_spots() {
        let mut cyclic = Source::new(1, b"C0O1I0", b"F0O1I0", Box::new([7]));
        assert_eq!(spots(&mut cyclic, 0), []);
        let mut dangling = Source::new(1, b"C0O1I9C99999999999O1", b"F0O1", Box::new([7]));
        assert_eq!(spots(&mut dangling, 0), []);
        let mut late = Source::new(1, b"C5O1", b"", Box::new([]));
        assert_eq!(spots(&mut late, 0), []);
    }

    #[test]
    fn lines_are_counted_in_escaped_text() {
        let mut script = Script::new(br"ab\n\xe9\u20ac\\n\nz");
        assert_eq!(script.line_and_column(0), (1, 1));
        assert_eq!(script.line_and_column(3), (2, 1));
        assert_eq!(script.line_and_column(6), (2, 4));
        assert_eq!(script.line_and_column(8), (3, 1));
        assert_eq!(script.line_and_column(500), (3, 493));
    }
}
