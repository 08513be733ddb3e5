//! Folded stacks as FlameGraph's tools write them: `root;…;leaf weight`, a line per stack.
//!
//! Names are taken apart as far as perf, V8 and our own exporter mark them: `_[k]` and `_[j]` at
//! the end, `LazyCompile:*` at the start, a place in a source file in between. The first frame
//! stays a frame: whether it is a thread's name cannot be told from the line.

use std::io::Read;

use nodespy_model::{
    About, Contents, Notes, Process, ProfileBuilder, Recording, Thread, WeightUnit,
};

use super::{ImportError, ImportOptions, Importer};
use crate::bounded::{Bounded, Limits};
use crate::detect::{Confidence, head};
use crate::frame_name::parse_frame;
use crate::input::Input;

/// The importer of folded stacks.
pub(crate) struct Folded;

impl Importer for Folded {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        let head = head(bytes);
        let utf8;
        let head = match from_utf16(head) {
            Some(text) => {
                utf8 = text;
                utf8.as_bytes()
            }
            None => head,
        };
        if head.contains(&0) {
            return Confidence::No;
        }
        let mut good = 0;
        let mut bad = 0;
        let mut has_path = false;
        // The head may end in the middle of a line, which then proves nothing.
        let mut lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').collect();
        if lines.len() > 1 {
            lines.pop();
        }
        for line in lines {
            let line = String::from_utf8_lossy(line);
            match parse_line(&line) {
                Line::Stack(path, _) => {
                    good += 1;
                    has_path |= path.contains(';');
                }
                Line::Nothing => {}
                Line::Bad => bad += 1,
            }
        }
        match good > 0 && good >= bad {
            true if has_path && bad == 0 => Confidence::Likely,
            true => Confidence::Maybe,
            false => Confidence::No,
        }
    }

    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        match from_utf16(&input) {
            Some(text) => import_lines(&mut text.as_bytes(), &options.limits),
            None => import_lines(&mut &*input, &options.limits),
        }
    }
}

fn import_lines(input: &mut dyn Read, limits: &Limits) -> Result<Recording, ImportError> {
    let mut input = Bounded::new(input, limits.input_bytes);
    let mut builder = ProfileBuilder::new(WeightUnit::Samples);
    let process = builder.process(Process::default());
    let thread = builder.thread(Thread {
        process,
        ..Thread::default()
    });
    let mut line = Vec::new();
    let mut number = 0u64;
    let mut total = 0u64;
    let mut rounded = 0u64;
    let mut bad = 0u64;
    let mut first_bad = None;
    while input.line(&mut line, limits)? {
        number += 1;
        let text = String::from_utf8_lossy(&line);
        match parse_line(&text) {
            Line::Nothing => {}
            Line::Stack(path, weight) => {
                let room = u64::MAX - total;
                let (weight, is_whole) = weight.rounded();
                let weight = weight.min(room);
                rounded += u64::from(!is_whole);
                total += weight;
                let mut stack = None;
                for name in path.split(';') {
                    let frame = builder.frame(parse_frame(name));
                    stack = Some(builder.stack(stack, frame));
                }
                builder.sample(0, thread, stack, weight);
            }
            Line::Bad => {
                bad += 1;
                first_bad.get_or_insert_with(|| (number, text.chars().take(60).collect()));
            }
        }
    }
    let mut notes = Notes::default();
    if builder.so_far().samples.is_empty() {
        return Err(match first_bad {
            Some((line, found)) => ImportError::BadLine { line, found },
            None => ImportError::NoStacks,
        });
    }
    if let Some((line, _)) = first_bad {
        notes.remark(format!(
            "{bad} of {number} lines are no folded stacks and were left out, the first is line {line}"
        ));
    }
    if rounded > 0 {
        notes.remark(format!("the weights of {rounded} lines were rounded"));
    }
    let about = About {
        engine: "folded stacks".to_owned(),
        ..About::default()
    };
    Ok(Recording {
        about: about.clone(),
        notes: notes.clone(),
        contents: Contents::Named(Box::new(builder.finish(about, notes))),
    })
}

/// The text of UTF-16 bytes with a byte order mark, which some shells write.
fn from_utf16(bytes: &[u8]) -> Option<String> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return None,
    };
    let units = bytes[2..]
        .chunks_exact(2)
        .map(|pair| unit([pair[0], pair[1]]));
    let text = char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER));
    Some(text.collect())
}

/// What a line of the file is.
enum Line<'a> {
    /// A path of names and its weight.
    Stack(&'a str, Weight),
    /// Empty, a comment, or a weight of zero.
    Nothing,
    /// Something else.
    Bad,
}

/// A weight as it is written.
enum Weight {
    Whole(u64),
    Fraction(f64),
}

impl Weight {
    /// The nearest whole weight, and whether it is exact.
    fn rounded(self) -> (u64, bool) {
        match self {
            Self::Whole(weight) => (weight, true),
            Self::Fraction(weight) => (weight.round() as u64, weight.fract() == 0.0),
        }
    }
}

fn parse_line(line: &str) -> Line<'_> {
    let line = line.trim();
    if line.is_empty() || line.starts_with("# ") || line.starts_with("//") || line == "#" {
        return Line::Nothing;
    }
    let Some((path, weight)) = line.rsplit_once([' ', '\t']) else {
        return Line::Bad;
    };
    let path = path.trim_end();
    let has_digits_only = weight
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let weight = match (weight.parse(), weight.parse()) {
        (Ok(0), _) => return Line::Nothing,
        (Ok(weight), _) => Weight::Whole(weight),
        (Err(_), Ok(weight)) if has_digits_only => Weight::Fraction(weight),
        _ => return Line::Bad,
    };
    match path.is_empty() {
        true => Line::Bad,
        false => Line::Stack(path, weight),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::Profile;

    fn import(text: &[u8]) -> Result<Box<Profile>, ImportError> {
        let recording = Folded.import(text.to_vec().into(), &ImportOptions::default())?;
        match recording.contents {
            Contents::Named(profile) => Ok(profile),
            Contents::Events(_) => unreachable!("folded stacks come with names"),
        }
    }

    #[test]
    fn a_missing_weight_names_the_line() {
        assert!(matches!(
            import(b"# only\n\na;b;c\n"),
            Err(ImportError::BadLine { line: 3, .. })
        ));
        assert!(matches!(import(b"# only\n"), Err(ImportError::NoStacks)));
    }

    #[test]
    fn bad_lines_are_left_out_and_said() {
        let profile = import(b"// x\na;b 2\ninvalid line\na;c 1.6\na;b 0\n").unwrap();
        assert_eq!(profile.total_weight(), 4);
        assert_eq!(profile.notes.remarks.len(), 2);
        assert!(profile.notes.remarks[0].contains("line 3"));
    }

    #[test]
    fn utf16_is_read() {
        let mut bytes = vec![0xff, 0xfe];
        bytes.extend("a;é 5\r\n".encode_utf16().flat_map(u16::to_le_bytes));
        assert_eq!(Folded.recognize(&bytes), Confidence::Likely);
        assert_eq!(import(&bytes).unwrap().total_weight(), 5);
    }

    #[test]
    fn weights_cannot_overflow() {
        let text = format!("a {0}\nb {0}\nc 99999999999999999999999\n", u64::MAX);
        assert_eq!(import(text.as_bytes()).unwrap().total_weight(), u64::MAX);
    }
}
