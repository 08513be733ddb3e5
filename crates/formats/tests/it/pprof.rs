//! pprof, in and out.

use std::collections::BTreeMap;

use nodespy_formats::ImportError;
use nodespy_model::{EventIndex, Profile, WeightUnit};
use proptest::prelude::*;

use crate::convert::read_event;
use crate::fixture::{fixture, fixture_text};
use crate::sample::{any_profile, read, small, written};

/// What pprof can hold of a profile: one line for each thread and stack, with its weight.
fn held(profile: &Profile) -> BTreeMap<String, u64> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for sample in profile.samples.iter().filter(|sample| sample.weight > 0) {
        let thread = &profile.threads[sample.thread.at()];
        let process = &profile.processes[thread.process.at()];
        let mut line = format!(
            "{} {} {} {}",
            process.pid, process.name, thread.tid, thread.name
        );
        let frames = sample
            .stack
            .into_iter()
            .flat_map(|it| profile.frames_of(it));
        let mut frames = frames.peekable();
        while let Some(frame) = frames.next() {
            let frame = profile.frame(frame);
            let function = profile.function(frame.function);
            let name = match profile.name_of(frame.function) {
                "" => "[unknown]",
                name => name,
            };
            // The outermost frame has nothing it could be inlined into.
            let is_inlined = frame.kind.is_inlined() && frames.peek().is_some();
            line += &format!(
                "|{name} {} {} @{}:{} {is_inlined}",
                profile.file_of(frame.function),
                function.line,
                frame.line,
                frame.column
            );
        }
        *lines.entry(line).or_default() += sample.weight;
    }
    lines
}

/// Functions and lines, leaf first.
type Stack = Vec<(String, u32)>;

/// What `go tool pprof -raw` prints of a file.
struct Raw {
    /// `cpu/nanoseconds`, one for each column.
    values: Vec<String>,
    /// Values and stack of each sample.
    samples: Vec<(Vec<u64>, Stack)>,
}

impl Raw {
    fn of(text: &str) -> Self {
        let (_, rest) = text.split_once("Samples:\n").unwrap();
        let (samples, rest) = rest.split_once("Locations\n").unwrap();
        let (locations, _) = rest.split_once("Mappings").unwrap();
        let mut lines: BTreeMap<&str, Stack> = BTreeMap::new();
        let mut current = "";
        for line in locations.lines() {
            // `  7: 0x4aadbd M=1 main.beta ./busy.go:28 s=0`; inlined callers follow without a number.
            let mut rest = line.trim();
            if let Some((id, place)) = rest.split_once(": 0x") {
                current = id;
                rest = place.split_once(' ').unwrap().1;
            }
            let rest = match rest.strip_prefix("M=") {
                Some(rest) => rest.split_once(' ').unwrap().1,
                None => rest,
            };
            let (place, _) = rest.rsplit_once(" s=").unwrap();
            let (place, line) = place.rsplit_once(':').unwrap();
            let (name, _) = place.rsplit_once(' ').unwrap();
            let frames = lines.entry(current).or_default();
            frames.push((name.to_owned(), line.parse().unwrap()));
        }
        let mut rows = samples.lines();
        let values = rows.next().unwrap().split_whitespace();
        let values = values
            .map(|value| value.trim_end_matches("[dflt]").to_owned())
            .collect();
        let samples = rows.filter_map(|row| {
            let (values, stack) = row.split_once(": ")?;
            let values = values.split_whitespace().map(|value| value.parse().ok());
            let stack = stack.split_whitespace().flat_map(|id| lines[id].clone());
            Some((values.collect::<Option<_>>()?, stack.collect()))
        });
        Self {
            samples: samples.collect(),
            values,
        }
    }

    /// The stacks with the values of a column.
    fn stacks(&self, column: usize) -> BTreeMap<Stack, u64> {
        let mut stacks = BTreeMap::new();
        for (values, stack) in self.samples.iter().filter(|(values, _)| values[column] > 0) {
            *stacks.entry(stack.clone()).or_default() += values[column];
        }
        stacks
    }
}

fn stacks(profile: &Profile) -> BTreeMap<Stack, u64> {
    let mut stacks = BTreeMap::new();
    for sample in &profile.samples {
        let frames = (sample.stack.into_iter()).flat_map(|stack| profile.frames_of(stack));
        let stack = frames.map(|frame| {
            let frame = profile.frame(frame);
            (profile.name_of(frame.function).to_owned(), frame.line)
        });
        *stacks.entry(stack.collect()).or_default() += sample.weight;
    }
    stacks
}

#[test]
fn every_stack_has_the_weight_and_lines_that_pprof_prints() {
    for (name, unit) in [
        ("go", WeightUnit::Nanoseconds),
        ("node20-wall", WeightUnit::Nanoseconds),
        ("node20-heap", WeightUnit::Bytes),
    ] {
        let raw = Raw::of(&fixture_text(&format!("pprof/{name}.raw.txt")));
        // pprof files are packed by themselves.
        let bytes = fixture(&format!("pprof/{name}.pb.gz"));
        let profile = read(&bytes).unwrap();
        assert_eq!(profile.unit(), unit, "{name}");
        assert_eq!(profile.events.len(), raw.values.len(), "{name}");
        let profile = profile.select(EventIndex(0));
        assert_eq!(stacks(&profile), raw.stacks(raw.values.len() - 1), "{name}");
        assert!(profile.samples.len() > 5, "{name}");
        assert!(profile.notes.remarks.is_empty(), "{name}");
        for (column, value) in raw.values.iter().enumerate() {
            let profile = read_event(&bytes, value).unwrap();
            assert_eq!(stacks(&profile), raw.stacks(column), "{name} {value}");
        }
    }
}

#[test]
fn another_value_can_be_chosen() {
    let bytes = fixture("pprof/go.pb.gz");
    let profile = read_event(&bytes, "samples").unwrap();
    assert_eq!(profile.unit(), WeightUnit::Samples);
    let time = read(&bytes).unwrap().select(EventIndex(0));
    assert_eq!(time.total_weight(), profile.total_weight() * 10_000_000);
    assert_eq!((time.event().rate_hz(), &*time.event().name), (100, "cpu"));
    let error = read_event(&bytes, "alloc").unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no \"alloc\" in the file; it holds cpu, samples"
    );
}

#[test]
fn what_was_recorded_comes_back() {
    let profile = small();
    let bytes = written(&profile, "pprof");
    let again = read(&bytes).unwrap();
    assert_eq!(held(&again), held(&profile));
    assert_eq!(again.about, profile.about);
    assert_eq!(again.notes, profile.notes);
    assert_eq!(again.unit(), WeightUnit::Samples);
    // The time beside the samples is theirs: no event of its own.
    assert_eq!(again.events, profile.events);
    let kinds = |profile: &Profile| -> BTreeMap<_, _> {
        let functions = profile.functions.iter();
        let kinds = functions.map(|it| (profile.strings.get(it.name).to_owned(), it.category));
        kinds.collect()
    };
    assert_eq!(kinds(&again), kinds(&profile));
}

#[test]
fn a_file_that_is_cut_off_gives_the_samples_before_the_cut() {
    use std::io::Read;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&written(&small(), "pprof")[..])
        .read_to_end(&mut bytes)
        .unwrap();
    bytes.truncate(bytes.len() - 5);
    let profile = read(&bytes).unwrap();
    assert!((1..100).contains(&profile.total_weight()));
    assert!(
        profile
            .notes
            .remarks
            .iter()
            .any(|it| it.contains("is missing"))
    );
    bytes.truncate(40);
    assert!(matches!(read(&bytes), Err(ImportError::BadContent { .. })));
}

/// A location of a thousand inlined functions, a thousand times in one stack: a million frames.
#[test]
fn a_small_file_cannot_make_an_endless_stack() {
    let number = |value: usize| match value {
        0..0x80 => vec![value as u8],
        _ => vec![value as u8 | 0x80, (value >> 7) as u8],
    };
    let message = |tag: u8, content: &[u8]| [&[tag][..], &number(content.len()), content].concat();
    let lines = message(0x22, &[8, 1]).repeat(1000);
    let location = [&[8, 1][..], &lines].concat();
    let sample = [message(0x0a, &[1; 1000]), vec![16, 7]].concat();
    let mut bytes = message(0x0a, &[8, 1, 16, 2]);
    for text in ["", "samples", "count", "f"] {
        bytes.extend(message(0x32, text.as_bytes()));
    }
    bytes.extend(message(0x2a, &[8, 1, 16, 3]));
    bytes.extend(message(0x22, &location));
    bytes.extend(message(0x12, &sample));
    let profile = read(&bytes).unwrap();
    assert_eq!(profile.total_weight(), 7);
    assert!(profile.stacks.len() < 8 * bytes.len() + (1 << 16));
    assert!(
        profile
            .notes
            .remarks
            .iter()
            .any(|it| it.contains("were cut"))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_profile_comes_back_as_far_as_pprof_can_hold_it(mut profile in any_profile()) {
        // pprof counts up to i64::MAX and has times after 1970 and 2^63 nanoseconds.
        profile.about.started_unix >>= 1;
        profile.about.duration >>= 1;
        prop_assume!(profile.samples.iter().any(|sample| sample.weight > 0));
        let again = read(&written(&profile, "pprof")).unwrap();
        prop_assert_eq!(held(&again), held(&profile));
        prop_assert_eq!(again.unit(), profile.unit());
        prop_assert_eq!(&again.about, &profile.about);
    }
}
