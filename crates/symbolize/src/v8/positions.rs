//! Source position tables: which place in the source machine code came from.

use super::layout::PositionEncoding;
use super::varint::{MAX_BYTES, take_varint};

/// A place in a source: an offset, and which inlining it belongs to (0: none).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourcePosition {
    /// Offset into the script's text, in characters.
    pub(crate) offset: u32,
    /// Position in the code's inlining table plus 1; 0 for the function itself.
    pub(crate) inlining: u32,
}

impl SourcePosition {
    /// V8's packed form: bit 0 external, bits 1 to 30 offset + 1, bits 31 to 46 inlining id.
    pub(crate) fn unpack(packed: u64) -> Option<Self> {
        let offset = (packed >> 1 & 0x3fff_ffff).checked_sub(1)?;
        (packed & 1 == 0).then_some(Self {
            offset: offset as u32,
            inlining: (packed >> 31 & 0xffff) as u32,
        })
    }
}

/// The place of the code at `code_offset`: the last entry at or before it.
pub(crate) fn position_at(
    table: &[u8],
    code_offset: u64,
    encoding: PositionEncoding,
) -> Option<SourcePosition> {
    let code_offset = i64::try_from(code_offset).ok()?;
    all_positions(table, encoding)
        .take_while(|(at, _)| *at <= code_offset)
        .filter_map(|(_, position)| position)
        .last()
}

/// The entries of a table: offsets into the code, and the places there.
pub(crate) fn all_positions(
    table: &[u8],
    encoding: PositionEncoding,
) -> impl Iterator<Item = (i64, Option<SourcePosition>)> + '_ {
    let mut varints = varints(table);
    // The first entry's offset is counted from -1.
    let mut at: i64 = -1;
    let mut packed: i64 = 0;
    std::iter::from_fn(move || {
        let (first, second) = (varints.next()?, varints.next()?);
        let delta = match encoding {
            PositionEncoding::Signed => {
                let delta = unzigzag(first);
                if delta >= 0 { delta } else { -(delta + 1) }
            }
            PositionEncoding::Flagged => (first >> 2) as i64,
        };
        at = at.saturating_add(delta);
        packed = packed.wrapping_add(unzigzag(second));
        Some((at, SourcePosition::unpack(packed as u64)))
    })
}

/// The bytecode offset of the baseline code at `code_offset`: `table` holds how much machine code
/// each bytecode became, `sizes` how long each bytecode is.
pub(crate) fn bytecode_offset_at(
    table: &[u8],
    code_offset: u64,
    bytecodes: &[u8],
    size_of: impl Fn(&[u8]) -> Option<usize>,
) -> Option<u64> {
    let mut varints = varints(table);
    let mut at = 0u64;
    let mut bytecode = 0usize;
    // The first entry is the prologue.
    at = at.checked_add(varints.next()?)?;
    while at < code_offset {
        let Some(length) = varints.next() else { break };
        at = at.checked_add(length)?;
        if at >= code_offset {
            break;
        }
        bytecode = bytecode.checked_add(size_of(bytecodes.get(bytecode..)?)?)?;
    }
    Some(bytecode as u64)
}

/// The numbers of a table up to its end, or its first damage.
fn varints(mut table: &[u8]) -> impl Iterator<Item = u64> + '_ {
    std::iter::from_fn(move || take_varint(&mut table, MAX_BYTES))
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::super::varint::put_varint;
    use super::*;

    fn zigzag(value: i64) -> u64 {
        ((value << 1) ^ (value >> 63)) as u64
    }

    #[test]
    fn the_last_entry_before_the_code_counts() {
        let packed = |offset: u64, inlining: u64| (offset + 1) << 1 | inlining << 31;
        let places = [
            (4i64, packed(10, 0)),
            (9, packed(25, 1)),
            (30, packed(7, 0)),
        ];
        for encoding in [PositionEncoding::Signed, PositionEncoding::Flagged] {
            let mut table = Vec::new();
            let (mut at, mut before) = (-1i64, 0i64);
            for (code_offset, place) in places {
                let delta = code_offset - at;
                let delta = match encoding {
                    PositionEncoding::Signed => zigzag(delta),
                    PositionEncoding::Flagged => (delta as u64) << 2 | 3,
                };
                put_varint(&mut table, delta);
                put_varint(&mut table, zigzag(place as i64 - before));
                (at, before) = (code_offset, place as i64);
            }
            let at = |offset| position_at(&table, offset, encoding);
            assert_eq!(at(3), None);
            assert_eq!(at(4).unwrap().offset, 10);
            assert_eq!(
                at(29).unwrap(),
                SourcePosition {
                    offset: 25,
                    inlining: 1
                }
            );
            assert_eq!(at(1000).unwrap().offset, 7);
        }
    }

    #[test]
    fn any_bytes_can_be_read() {
        for length in 0..40 {
            let bytes = vec![0xff; length];
            position_at(&bytes, 5, PositionEncoding::Signed);
            bytecode_offset_at(&bytes, 5, &[0; 4], |_| Some(1));
        }
    }
}
