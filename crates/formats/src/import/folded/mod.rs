//! Folded stacks as FlameGraph's tools write them: `root;…;leaf weight`, a line per stack.
//!
//! Names are taken apart as far as perf, V8 and our own exporter mark them. The first frame stays
//! a frame: whether it is a thread's name is not known from the line. [`read_folded`] keeps
//! names as they are written, and both columns of a difference.

mod line;
mod stacks;

use std::borrow::Cow;

use memchr::memchr;
use nodespy_analysis::ProfilePair;
use nodespy_model::{
    About, Contents, FrameIndex, FrameSpec, FunctionSpec, Notes, Process, Profile, ProfileBuilder,
    Recording, Sample, StackIndex, Thread, ThreadIndex, WeightUnit,
};

use super::{ImportError, ImportOptions, Importer, TextFormat};
use crate::budget::{Budget, Excess, Limits, Meter, left_out};
use crate::detect::{Confidence, head};
use crate::frame_name::parse_frame;
use crate::input::Input;
use line::{Line, Weight};
use stacks::Stacks;

/// So many bytes of a line count as a row.
const LINE_BYTES_PER_ROW: usize = 256;

/// The importer of folded stacks.
pub(crate) struct Folded;

impl Importer for Folded {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn text_format(&self) -> Option<TextFormat> {
        Some(TextFormat::Folded)
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        let head = as_utf8(head(bytes));
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
            match Line::parse(line) {
                Line::Stack { path, .. } => {
                    good += 1;
                    has_path |= path.contains(&b';');
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
        let text = as_utf8(&input);
        let mut lines = Lines::new();
        let meter = input.budget(&options.limits).meter();
        lines.read(&text, &options.limits, &meter, |builder, name| {
            builder.frame(parse_frame(&String::from_utf8_lossy(name)))
        })?;
        let mut notes = Notes::default();
        if let Some((line, excess)) = lines.stopped {
            notes.remark(left_out(format_args!("line {line}"), excess));
        }
        if let Some((line, _)) = lines.first_bad {
            let (bad, all) = (lines.bad, lines.count);
            notes.remark(format!(
                "{bad} of {all} lines are no folded stacks and were left out, the first is line {line}"
            ));
        }
        if lines.fractions > 0 {
            let fractions = lines.fractions;
            notes.remark(format!("the weights of {fractions} lines were rounded"));
        }
        if lines.has_before {
            notes.remark(
                "lines have two weights, of which the second is shown; `nodespy flamegraph` shows the difference",
            );
        }
        let after = lines.samples(|row| row.after.rounded());
        let profile = lines.finish(after, notes);
        Ok(Recording {
            about: profile.about.clone(),
            notes: profile.notes.clone(),
            contents: Contents::Named(Box::new(profile)),
            ..Recording::default()
        })
    }
}

/// Folded stacks with the names as they are written.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedStacks {
    /// The stacks. The earlier side is empty unless lines have two weights.
    pub pair: ProfilePair,
    /// Whether lines have two weights.
    pub has_before: bool,
    /// By how much the weights were multiplied to be whole numbers.
    pub weight_factor: u64,
    /// How many lines are no folded stacks.
    pub bad_lines: u64,
}

/// Reads folded stacks without taking names apart. Each name goes through `rename`.
pub fn read_folded(
    text: &[u8],
    limits: &Limits,
    rename: &dyn Fn(&str) -> String,
) -> Result<FoldedStacks, ImportError> {
    let meter = Budget::of(text.len() as u64).within(limits).meter();
    let text = as_utf8(text);
    let mut lines = Lines::new();
    lines.read(&text, limits, &meter, |builder, name| {
        let name = String::from_utf8_lossy(name);
        builder.frame(FrameSpec {
            function: FunctionSpec {
                name: &rename(&name),
                category: parse_frame(&name).function.category,
                ..FunctionSpec::default()
            },
            ..FrameSpec::default()
        })
    })?;
    if let Some((_, excess)) = lines.stopped {
        return Err(excess.into());
    }
    let has_fractions = lines.fractions > 0;
    let whole = |weight: Weight| match has_fractions {
        true => weight.in_thousandths(),
        false => weight.rounded(),
    };
    let before = lines.samples(|row| row.before.map_or(0, whole));
    let after = lines.samples(|row| whole(row.after));
    Ok(FoldedStacks {
        has_before: lines.has_before,
        weight_factor: if has_fractions { 1000 } else { 1 },
        bad_lines: lines.bad,
        pair: ProfilePair {
            before,
            after: lines.finish(after, Notes::default()),
        },
    })
}

/// A line that holds a stack.
struct Row {
    stack: Option<StackIndex>,
    before: Option<Weight>,
    after: Weight,
}

/// The lines of a file, as they were read.
struct Lines {
    builder: ProfileBuilder,
    thread: ThreadIndex,
    rows: Vec<Row>,
    has_before: bool,
    /// How many weights are no whole numbers.
    fractions: u64,
    count: u64,
    bad: u64,
    first_bad: Option<(u64, String)>,
    /// The last line that was read where there are more, and why these are not.
    stopped: Option<(u64, Excess)>,
}

impl Lines {
    fn new() -> Self {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let process = builder.process(Process::default());
        let thread = builder.thread(Thread {
            process,
            ..Thread::default()
        });
        Self {
            builder,
            thread,
            rows: Vec::new(),
            has_before: false,
            fractions: 0,
            count: 0,
            bad: 0,
            first_bad: None,
            stopped: None,
        }
    }

    /// Reads every line; at least one must hold a stack.
    fn read(
        &mut self,
        text: &[u8],
        limits: &Limits,
        meter: &Meter,
        mut make: impl FnMut(&mut ProfileBuilder, &[u8]) -> FrameIndex,
    ) -> Result<(), ImportError> {
        let mut stacks = Stacks::new();
        let mut start = 0;
        while start < text.len() {
            let length = memchr(b'\n', &text[start..]);
            let end = length.map_or(text.len(), |length| start + length);
            if (end - start) as u64 > limits.line_bytes {
                return Err(ImportError::LongLine {
                    at: start as u64,
                    limit_bytes: limits.line_bytes,
                });
            }
            // A long line has many frames.
            let rows = 1 + (end - start) / LINE_BYTES_PER_ROW;
            if let Err(excess) = meter.rows_into(rows, &self.builder) {
                self.stopped = Some((self.count, excess));
                break;
            }
            self.count += 1;
            let line = &text[start..end];
            match Line::parse(line) {
                Line::Nothing => {}
                Line::Bad => self.add_bad(line),
                Line::Stack {
                    path,
                    before,
                    weight,
                } => {
                    let stack = stacks.of(path, &mut self.builder, &mut make);
                    self.has_before |= before.is_some();
                    let is_whole = weight.is_whole() && before.is_none_or(Weight::is_whole);
                    self.fractions += u64::from(!is_whole);
                    self.rows.push(Row {
                        stack,
                        before,
                        after: weight,
                    });
                }
            }
            start = end + 1;
        }
        match (self.rows.is_empty(), self.first_bad.take()) {
            (true, Some((line, found))) => Err(ImportError::BadLine { line, found }),
            (true, None) => Err(ImportError::NoStacks),
            (false, first_bad) => {
                self.first_bad = first_bad;
                Ok(())
            }
        }
    }

    fn add_bad(&mut self, line: &[u8]) {
        self.bad += 1;
        if self.first_bad.is_none() {
            let start = String::from_utf8_lossy(&line[..line.len().min(240)]);
            self.first_bad = Some((self.count, start.chars().take(60).collect()));
        }
    }

    /// The lines that weigh something as samples. Their sum never goes over what a weight holds.
    fn samples(&self, weight_of: impl Fn(&Row) -> u64) -> Vec<Sample> {
        let mut total = 0u64;
        let sample = |row: &Row| {
            let weight = weight_of(row).min(u64::MAX - total);
            total += weight;
            Sample {
                weight,
                thread: self.thread,
                stack: row.stack,
                ..Sample::default()
            }
        };
        let samples = self.rows.iter().map(sample);
        samples.filter(|sample| sample.weight > 0).collect()
    }

    fn finish(mut self, samples: Vec<Sample>, notes: Notes) -> Profile {
        for sample in samples {
            self.builder.add_sample(sample);
        }
        let about = About {
            engine: "folded stacks".to_owned(),
            ..About::default()
        };
        self.builder.finish(about, notes)
    }
}

/// The bytes as they are, or the text of UTF-16 with a byte order mark, which some shells write.
fn as_utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        [0xef, 0xbb, 0xbf, rest @ ..] => return Cow::Borrowed(rest),
        _ => return Cow::Borrowed(bytes),
    };
    let units = bytes[2..]
        .chunks_exact(2)
        .map(|pair| unit([pair[0], pair[1]]));
    let text = char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER));
    Cow::Owned(text.collect::<String>().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(text: &[u8]) -> Result<Box<Profile>, ImportError> {
        let recording = Folded.import(text.to_vec().into(), &ImportOptions::default())?;
        match recording.contents {
            Contents::Named(profile) => Ok(profile),
            _ => unreachable!("folded stacks come with names"),
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
    fn a_long_line_names_where_it_starts() {
        let options = ImportOptions {
            limits: Limits {
                line_bytes: 5,
                ..Limits::default()
            },
            ..ImportOptions::default()
        };
        let input = |text: &[u8]| Input::from(text.to_vec());
        assert!(Folded.import(input(b"a;b 1\na;c 2\n"), &options).is_ok());
        assert!(matches!(
            Folded.import(input(b"a;b 1\na;bc 2\n"), &options),
            Err(ImportError::LongLine { at: 6, .. })
        ));
    }

    #[test]
    fn weights_cannot_overflow() {
        let text = format!("a {0}\nb {0}\nc 99999999999999999999999\n", u64::MAX);
        assert_eq!(import(text.as_bytes()).unwrap().total_weight(), u64::MAX);
    }

    #[test]
    fn the_second_of_two_weights_is_shown_and_the_first_kept_for_a_difference() {
        let text = b"a;b 3 5\na;c 2 0\na 1.5\n";
        let profile = import(text).unwrap();
        assert_eq!(profile.total_weight(), 7);
        assert!(
            profile
                .notes
                .remarks
                .iter()
                .any(|remark| remark.contains("two weights"))
        );
        let folded = read_folded(text, &Limits::default(), &str::to_owned).unwrap();
        assert!(folded.has_before);
        assert_eq!(folded.weight_factor, 1000);
        assert_eq!(folded.pair.after.total_weight(), 6500);
        assert_eq!(folded.pair.before.len(), 2);
    }

    #[test]
    fn names_can_be_kept_as_they_are_written() {
        let text = b"node;LazyCompile:*turn /app/mix.js:19:15_[j] 1\n";
        let folded = read_folded(text, &Limits::default(), &str::to_owned).unwrap();
        let profile = folded.pair.after;
        let names: Vec<&str> = profile.strings.iter().collect();
        assert_eq!(names, ["node", "LazyCompile:*turn /app/mix.js:19:15_[j]"]);
    }
}
