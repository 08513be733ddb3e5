//! Texts of V8's heap that are too long to be names: sources, and the addresses of source maps.

use nodespy_model::TextMark;

use super::heap::Heap;

/// No source larger than this is read for its lines, nor one with more lines.
const SOURCE_LIMIT_BYTES: usize = 64 << 20;
const LINE_LIMIT: usize = 4 << 20;

/// A text of V8's, a byte or two for each unit.
pub(super) enum SourceText {
    Narrow(Vec<u8>),
    Wide(Vec<u16>),
}

impl SourceText {
    pub(super) fn mark(&self) -> TextMark {
        match self {
            Self::Narrow(text) => TextMark::of(text.iter().map(|&unit| u16::from(unit))),
            Self::Wide(text) => TextMark::of(text.iter().copied()),
        }
    }

    pub(super) fn into_ascii(self) -> Option<String> {
        let bytes = match self {
            Self::Narrow(text) => text,
            Self::Wide(text) => {
                let narrow = text.into_iter().map(|unit| u8::try_from(unit).ok());
                narrow.collect::<Option<Vec<u8>>>()?
            }
        };
        String::from_utf8(bytes).ok().filter(|text| text.is_ascii())
    }
}

/// The text of a source, if it is in one piece.
pub(super) fn read_source(heap: &mut Heap<'_>, source: u64) -> Option<SourceText> {
    let (data, length, is_wide) = heap.flat_string(source)?;
    let bytes = length.checked_mul(if is_wide { 2 } else { 1 })?;
    if bytes > SOURCE_LIMIT_BYTES {
        return None;
    }
    let text = heap.read_bulk(data, bytes)?;
    Some(match is_wide {
        false => SourceText::Narrow(text),
        true => {
            let units = text.chunks_exact(2);
            SourceText::Wide(
                units
                    .map(|pair| u16::from_ne_bytes([pair[0], pair[1]]))
                    .collect(),
            )
        }
    })
}

/// Where the lines of a source end, by JavaScript's line terminators.
pub(super) fn line_ends_of(text: &SourceText) -> Vec<u32> {
    match text {
        SourceText::Wide(text) => line_ends((0..text.len()).filter(|&at| match text[at] {
            0x0a | 0x2028 | 0x2029 => true,
            0x0d => text.get(at + 1) != Some(&0x0a),
            _ => false,
        })),
        SourceText::Narrow(text) => line_ends(
            memchr::memchr2_iter(b'\n', b'\r', text)
                .filter(|&at| text[at] == b'\n' || text.get(at + 1) != Some(&b'\n')),
        ),
    }
}

fn line_ends(ends: impl Iterator<Item = usize>) -> Vec<u32> {
    ends.take(LINE_LIMIT).map(|at| at as u32).collect()
}
