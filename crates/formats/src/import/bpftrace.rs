//! The maps that bpftrace prints at its end: `@[`, a line per frame, leaf first, `]: 3`.
//!
//! Frames are kept as they are written, with their offsets, as FlameGraph's
//! `stackcollapse-bpftrace.pl` does. A word after the stack (`, node]: 3`) is its outermost frame.

use nodespy_model::Recording;

use super::stack_text::from_folded;
use super::{ImportError, ImportOptions, Importer};
use crate::detect::{Confidence, text_head};
use crate::input::Input;

/// The importer of bpftrace's maps.
pub(crate) struct Bpftrace;

impl Importer for Bpftrace {
    fn name(&self) -> &'static str {
        "bpftrace"
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        let head = text_head(bytes).unwrap_or_default();
        let mut lines = head.split(|byte| *byte == b'\n');
        match lines.any(|line| opening(line.trim_ascii_end()) == Some(b"")) {
            true => Confidence::Likely,
            false => Confidence::No,
        }
    }

    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        let mut folded = Vec::with_capacity(input.len());
        let mut stack: Option<Vec<&[u8]>> = None;
        for line in input.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii();
            if let Some(rest) = opening(line) {
                stack = Some(Vec::new());
                if let Some((key, count)) = closing(rest) {
                    let key = key.strip_prefix(b",").unwrap_or(key).trim_ascii();
                    write_line(&mut folded, &[key], count);
                    stack = None;
                }
            } else if let Some(frames) = &mut stack {
                match closing(line) {
                    Some((key, count)) => {
                        let key = key.strip_prefix(b",").unwrap_or(key).trim_ascii();
                        frames.extend((!key.is_empty()).then_some(key));
                        write_line(&mut folded, frames, count);
                        stack = None;
                    }
                    None if line == b"," => {}
                    None => frames.push(line.strip_suffix(b",").unwrap_or(line)),
                }
            }
        }
        match folded.is_empty() {
            true => Err(ImportError::NoStacks),
            false => from_folded(
                input.made_part(folded, &options.limits)?,
                "bpftrace",
                options,
            ),
        }
    }
}

/// What follows `@[` or `@name[`.
fn opening(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"@")?;
    let open = rest.iter().position(|byte| *byte == b'[')?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    rest[..open]
        .iter()
        .all(is_name)
        .then_some(&rest[open + 1..])
}

/// What stands before `]: 3`, and the number.
fn closing(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let digits = line
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (before, count) = line.split_at(line.len() - digits);
    let key = before.strip_suffix(b"]: ")?;
    (!count.is_empty()).then_some((key, count))
}

/// Writes frames that come leaf first.
fn write_line(folded: &mut Vec<u8>, frames: &[&[u8]], count: &[u8]) {
    for (position, frame) in frames.iter().rev().enumerate() {
        if position > 0 {
            folded.push(b';');
        }
        folded.extend(frame.iter().map(|byte| match byte {
            b';' => b':',
            byte => *byte,
        }));
    }
    folded.push(b' ');
    folded.extend_from_slice(count);
    folded.push(b'\n');
}
