//! Lines inside loops of Maglev's code, which its own position table does not know.
//!
//! Maglev compiles the first turn of a loop apart from the others. For all instructions of the
//! others V8 13.6 to 14.6 write the position of the jump back to the loop's start. But each point
//! where the code can be left for the interpreter knows its bytecode: a call by the table of
//! safepoints, a check by the exit it jumps to. The instructions before such a point work towards
//! it, so inside a loop the next point tells the place.

use super::layout::PositionEncoding;
use super::positions::{SourcePosition, all_positions, position_at};
use crate::x86_64::jump_bytes;

/// How many points and loops are looked at.
const POINT_LIMIT: usize = 1 << 16;
/// Words per exit in the deoptimization data: bytecode offset, translation, offset of the exit.
const EXIT_WORDS: usize = 3;
const SAFEPOINT_HEADER: usize = 16;

/// Where one code object of Maglev's code can be left, and the loops of the functions in it.
#[derive(Debug, Default)]
pub(super) struct Maglev {
    points: Vec<Point>,
    /// By inlining id; 0 is the function that was compiled.
    functions: Vec<Function>,
}

/// A point where code can be left for the interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    /// The offset of the instruction after it.
    at: u32,
    bytecode: u32,
    /// Whether the bytecode is the one at the point. That of a check may be an earlier one, from
    /// which all can be done again.
    is_call: bool,
}

/// The bytecodes of a function.
#[derive(Debug, Default)]
pub(super) struct Function {
    positions: Vec<u8>,
    /// Where its bytecodes start.
    starts: Vec<u32>,
    loops: Vec<Loop>,
}

#[derive(Debug, PartialEq, Eq)]
struct Loop {
    /// The position of the jump back, and so of the loop.
    position: u32,
    start: u32,
    /// The jump back.
    end: u32,
}

impl Function {
    /// Finds the loops in a function's bytecodes. `size_of` tells how long the first bytecode of
    /// some bytes is, `jump_back` is the number of the bytecode that ends a loop.
    pub(super) fn new(
        bytecodes: &[u8],
        positions: Vec<u8>,
        encoding: PositionEncoding,
        jump_back: u8,
        size_of: impl Fn(&[u8]) -> Option<usize>,
    ) -> Self {
        let mut starts = Vec::new();
        let mut jumps = Vec::new();
        let mut at = 0;
        while let Some(rest) = bytecodes.get(at..)
            && starts.len() < POINT_LIMIT
            && let Some(size) = size_of(rest)
        {
            starts.push(at as u32);
            if let Some(start) = loop_start(rest, at, jump_back) {
                jumps.push((start, at as u32));
            }
            at += size;
        }
        let loops = jumps
            .into_iter()
            .filter_map(|(start, end)| {
                let position = position_at(&positions, end.into(), encoding)?.offset;
                Some(Loop {
                    position,
                    start,
                    end,
                })
            })
            .collect();
        Self {
            positions,
            starts,
            loops,
        }
    }
}

/// Where the bytecode at the start of `bytes` jumps back to, if it ends a loop.
fn loop_start(bytes: &[u8], at: usize, jump_back: u8) -> Option<u32> {
    // The first four bytecodes are prefixes that widen the operands of the next one.
    let (prefix, width) = match bytes.first()? {
        0 | 2 => (1, 2),
        1 | 3 => (1, 4),
        _ => (0, 1),
    };
    if *bytes.get(prefix)? != jump_back {
        return None;
    }
    let distance = little_endian(bytes.get(prefix + 1..prefix + 1 + width)?);
    let start = (at + prefix).checked_sub(distance as usize)?;
    u32::try_from(start).ok()
}

fn little_endian(bytes: &[u8]) -> u32 {
    let value = |all: u32, &byte: &u8| all << 8 | u32::from(byte);
    bytes.iter().rev().fold(0, value)
}

impl Maglev {
    /// Reads the points of some code. `exits` are the words of the deoptimization data from the
    /// offset of the first exit on: that, two counts, then the exits, those of checks first.
    pub(super) fn new(
        exits: &[i64],
        code: &[u8],
        safepoints: &[u8],
        functions: Vec<Function>,
    ) -> Self {
        let mut points = read_points(exits, code, safepoints).unwrap_or_default();
        points.sort_unstable();
        Self { points, functions }
    }

    /// The place at `offset` of the code, for which the table says `position`.
    pub(super) fn place(
        &self,
        position: SourcePosition,
        offset: u64,
        table: &[u8],
        encoding: PositionEncoding,
    ) -> SourcePosition {
        self.bytecode(position, offset, table, encoding)
            .and_then(|(function, bytecode)| {
                let place = position_at(&function.positions, bytecode.into(), encoding)?;
                Some(SourcePosition {
                    offset: place.offset,
                    ..position
                })
            })
            .unwrap_or(position)
    }

    /// The bytecode of the next point, if the position is that of a loop.
    fn bytecode(
        &self,
        position: SourcePosition,
        offset: u64,
        table: &[u8],
        encoding: PositionEncoding,
    ) -> Option<(&Function, u32)> {
        let function = self.functions.get(position.inlining as usize)?;
        let around = function
            .loops
            .iter()
            .find(|around| around.position == position.offset)?;
        // As far as the table says the same.
        let end = all_positions(table, encoding)
            .filter(|(at, _)| u64::try_from(*at).is_ok_and(|at| at > offset))
            .find(|(_, other)| other.is_some_and(|other| other != position))
            .map_or(u64::MAX, |(at, _)| at as u64);
        let next = self
            .points
            .partition_point(|point| u64::from(point.at) <= offset);
        self.points[next..]
            .iter()
            .take_while(|point| u64::from(point.at) <= end)
            // A check in an inlined function may lead back to a bytecode of its caller.
            .filter(|point| point.is_call || position.inlining == 0)
            .find(|point| {
                (around.start..around.end).contains(&point.bytecode)
                    && function.starts.binary_search(&point.bytecode).is_ok()
            })
            .map(|point| (function, point.bytecode))
    }
}

/// Finds the points; none when the data does not look as it should.
fn read_points(exits: &[i64], code: &[u8], safepoints: &[u8]) -> Option<Vec<Point>> {
    let number = |at: usize| u32::try_from(*exits.get(at)?).ok();
    let (start, checks, calls) = (number(0)?, number(1)? as usize, number(2)? as usize);
    let exits: Vec<(u32, u32)> = exits
        .get(3..)?
        .chunks_exact(EXIT_WORDS)
        .take(POINT_LIMIT)
        // Before the first bytecode it is -1, which is none that can be looked up.
        .map(|exit| Some((u32::try_from(exit[2]).ok()?, exit[0] as u32)))
        .collect::<Option<_>>()?;
    // The exits lie one after the other behind the code.
    let is_ordered = exits.is_sorted_by(|one, other| one.0 < other.0);
    if exits.len() != checks.checked_add(calls)? || !is_ordered || exits.first()?.0 != start {
        return None;
    }
    let mut points = checks_of(code.get(..start as usize)?, exits.get(..checks)?);
    points.extend(calls_of(safepoints, &exits));
    Some(points)
}

/// The jumps to exits.
fn checks_of(code: &[u8], exits: &[(u32, u32)]) -> Vec<Point> {
    let target = |end: usize| -> Option<u32> {
        let distance = little_endian(code.get(end.checked_sub(4)?..end)?) as i32;
        u32::try_from(i64::try_from(end).ok()? + i64::from(distance)).ok()
    };
    let mut points = Vec::new();
    for (at, pair) in code.windows(2).enumerate() {
        let Some(length) = jump_bytes([pair[0], pair[1]]) else {
            continue;
        };
        let end = at + length;
        let found =
            target(end).and_then(|target| exits.binary_search_by_key(&target, |exit| exit.0).ok());
        if let Some(found) = found {
            points.push(Point {
                at: end as u32,
                bytecode: exits[found].1,
                is_call: false,
            });
        }
    }
    points
}

/// The calls after which the code may be left: the entries of the safepoint table with an exit.
fn calls_of(safepoints: &[u8], exits: &[(u32, u32)]) -> Vec<Point> {
    let entries = || {
        let half = |at: usize| safepoints.get(at..at + 4).map(little_endian);
        let (count, shape) = (half(4)? as usize, half(8)?);
        let size = |shift: u32| (shape >> shift & 7) as usize;
        let (registers, at, index) = (size(1), size(4), size(7));
        if shape & 1 == 0 || !(1..=4).contains(&at) || !(1..=4).contains(&index) {
            return None;
        }
        let length = at + index + at + 1 + registers;
        let entries = safepoints.get(SAFEPOINT_HEADER..)?.chunks_exact(length);
        let points = entries.take(count.min(POINT_LIMIT)).filter_map(|entry| {
            let exit = little_endian(&entry[at..at + index]).checked_sub(1)?;
            let trampoline = little_endian(&entry[at + index..][..at]).checked_sub(1)?;
            let &(exit_at, bytecode) = exits.get(exit as usize)?;
            // Said twice: where it leads to.
            (exit_at == trampoline).then(|| Point {
                at: little_endian(&entry[..at]),
                bytecode,
                is_call: true,
            })
        });
        Some(points.collect())
    };
    entries().unwrap_or_default()
}

/// How many bytes a safepoint table has, by its first words.
pub(super) fn safepoints_length(header: &[u8]) -> Option<usize> {
    let count = little_endian(header.get(4..8)?) as usize;
    // Three numbers of up to seven bytes and two of one.
    (count <= POINT_LIMIT).then_some(SAFEPOINT_HEADER + count * 29)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v8::varint::put_varint;

    /// Number of the bytecode that ends a loop; every bytecode takes two bytes.
    const JUMP_BACK: u8 = 0x92;
    const ENCODING: PositionEncoding = PositionEncoding::Flagged;

    /// A position table with entries of offset and position.
    fn table(entries: &[(i64, i64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (mut at, mut before) = (-1, 0);
        for &(offset, position) in entries {
            let packed = (position + 1) << 1;
            let delta = packed - before;
            put_varint(&mut bytes, ((offset - at) as u64) << 2 | 3);
            put_varint(&mut bytes, ((delta << 1) ^ (delta >> 63)) as u64);
            (at, before) = (offset, packed);
        }
        bytes
    }

    /// A function with a loop from bytecode 2 to 8 at position 50; bytecodes 2, 4 and 6 are at
    /// 60, 70 and 80.
    fn function() -> Function {
        let bytecodes = [9, 0, 9, 0, 9, 0, 9, 0, JUMP_BACK, 6, 9, 0];
        let positions = table(&[(0, 10), (2, 60), (4, 70), (6, 80), (8, 50), (10, 90)]);
        let size_of = |bytes: &[u8]| (!bytes.is_empty()).then_some(2);
        Function::new(&bytecodes, positions, ENCODING, JUMP_BACK, size_of)
    }

    /// Code with a check at 20 and a call at 40, which leave at bytecodes 4 and 6.
    fn maglev() -> Maglev {
        let mut code = vec![0x90; 108];
        code[14..16].copy_from_slice(&[0x0f, 0x85]);
        code[16..20].copy_from_slice(&80i32.to_le_bytes());
        // The exits, then how a safepoint is written: an exit, a byte each for pc and exit.
        let exits = [100, 1, 1, 4, 0, 100, 6, 0, 104];
        let mut safepoints = vec![0; SAFEPOINT_HEADER];
        safepoints[4] = 2;
        safepoints[8..12].copy_from_slice(&(1u32 | 1 << 4 | 1 << 7).to_le_bytes());
        safepoints.extend([40, 2, 105, 0]);
        // A safepoint without an exit.
        safepoints.extend([45, 0, 0, 0]);
        Maglev::new(&exits, &code, &safepoints, vec![function()])
    }

    #[test]
    fn inside_a_loop_the_next_point_tells_the_place() {
        let maglev = maglev();
        let positions = table(&[(0, 10), (10, 50), (60, 90)]);
        let place = |offset| {
            let position = position_at(&positions, offset, ENCODING).unwrap();
            maglev.place(position, offset, &positions, ENCODING).offset
        };
        assert_eq!(place(5), 10);
        assert_eq!((place(10), place(19)), (70, 70));
        // A caller is looked up just before the address it will return to.
        assert_eq!((place(20), place(39)), (80, 80));
        // After the last point of the loop only the loop is known.
        assert_eq!((place(40), place(60)), (50, 90));
    }

    #[test]
    fn a_check_in_an_inlined_function_is_not_believed() {
        let mut maglev = maglev();
        maglev.functions.push(function());
        let position = SourcePosition {
            offset: 50,
            inlining: 1,
        };
        assert_eq!(maglev.place(position, 12, &[], ENCODING).offset, 80);
    }

    #[test]
    fn wide_jumps_back_are_read() {
        assert_eq!(loop_start(&[JUMP_BACK, 6, 0], 8, JUMP_BACK), Some(2));
        assert_eq!(loop_start(&[0, JUMP_BACK, 0, 1], 300, JUMP_BACK), Some(45));
        assert_eq!(loop_start(&[JUMP_BACK, 9], 8, JUMP_BACK), None);
        assert_eq!(loop_start(&[0x12, 6], 8, JUMP_BACK), None);
    }

    #[test]
    fn data_that_lies_gives_no_points() {
        let code = [0x90; 200];
        assert_eq!(read_points(&[], &code, &[]), None);
        // More exits are announced than there are; exits out of order; behind the code.
        assert_eq!(read_points(&[100, 2, 0, 4, 0, 100], &code, &[]), None);
        let unordered = [100, 2, 0, 4, 0, 100, 4, 0, 90];
        assert_eq!(read_points(&unordered, &code, &[]), None);
        assert_eq!(read_points(&[900, 1, 0, 4, 0, 900], &code, &[]), None);
        for shape in 0..1024u32 {
            let mut safepoints = vec![0xff; 64];
            safepoints[8..12].copy_from_slice(&shape.to_le_bytes());
            calls_of(&safepoints, &[(100, 4)]);
        }
    }
}
