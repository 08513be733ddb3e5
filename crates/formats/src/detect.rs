//! Picks the importer by asking each how sure it is; the file's name is not asked.

use crate::import::{IMPORTERS, Importer};

/// How likely it is that a file is in a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// It is not.
    No,
    /// Nothing speaks against it.
    Maybe,
    /// It looks like it.
    Likely,
    /// It says so itself.
    Sure,
}

/// How many bytes from the start of an input most importers look at to judge it.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// The start of an input, as long as a judgement needs it.
pub(crate) fn head(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(HEAD_BYTES)]
}

/// The start of an input that is text; none where a byte in it is zero. To be asked before lines are
/// looked at: a small binary file is read in less time than it takes to look for lines in it.
pub(crate) fn text_head(bytes: &[u8]) -> Option<&[u8]> {
    let head = head(bytes);
    memchr::memchr(0, head).is_none().then_some(head)
}

/// Whether the first or the last chunk of an input contains `wanted`: the keys of a JSON object may
/// come in any order, with megabytes between them.
pub(crate) fn ends_contain(bytes: &[u8], wanted: &[u8]) -> bool {
    let tail = &bytes[bytes.len().saturating_sub(HEAD_BYTES)..];
    let contains = |chunk: &[u8]| memchr::memmem::find(chunk, wanted).is_some();
    contains(head(bytes)) || (bytes.len() > HEAD_BYTES && contains(tail))
}

/// The importer for an input, unless none takes it. One that is sure needs no second opinion: asking
/// all took a tenth of the time of a V8 log of 2 MB.
pub fn detect(bytes: &[u8]) -> Option<&'static dyn Importer> {
    let mut best: Option<(Confidence, &'static dyn Importer)> = None;
    for importer in IMPORTERS {
        let confidence = importer.recognize(bytes);
        let is_better = best.is_none_or(|(known, _)| confidence >= known);
        if confidence > Confidence::No && is_better {
            best = Some((confidence, *importer));
        }
        if confidence == Confidence::Sure {
            break;
        }
    }
    best.map(|(_, importer)| importer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_a_zero_byte_is_no_text() {
        let text = b"@[\n    node\n]: 3\n";
        assert_eq!(detect(text).map(Importer::name), Some("bpftrace"));
        let binary = [&b"\x7fELF\0\n"[..], text].concat();
        assert!(detect(&binary).is_none());
    }

    #[test]
    fn content_decides() {
        let name = |head: &[u8]| detect(head).map(Importer::name);
        assert_eq!(name(b"NSPY\r\n\x1a\n\x01\0\0\0"), Some("nspy"));
        assert_eq!(name(b"<!doctype html><p>nodespy"), Some("html"));
        assert_eq!(name(b"a;b;c 12\na;d 3\n"), Some("folded"));
        assert_eq!(name(b"\x7fELF\x02\x01\x01"), None);
        assert_eq!(name(b"Dear reader,\nthis is a letter.\n"), None);
    }
}
