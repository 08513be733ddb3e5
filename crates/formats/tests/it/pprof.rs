//! pprof, in and out.

use std::collections::BTreeMap;

use nodespy_analysis::function_weights;
use nodespy_formats::{ImportError, ImportOptions, import};
use nodespy_model::{Contents, Profile, Recording, WeightUnit};
use proptest::prelude::*;

use crate::sample::{any_profile, corpus, read, small, written};

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
            let is_inlined = frame.is_inlined && frames.peek().is_some();
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

fn read_event(bytes: &[u8], event: &str) -> Result<Profile, ImportError> {
    let options = ImportOptions {
        event: Some(event.to_owned()),
        ..ImportOptions::default()
    };
    let Recording { contents, .. } = import(bytes.to_vec().into(), &options)?;
    match contents {
        Contents::Named(profile) => Ok(*profile),
        _ => panic!("pprof comes with names"),
    }
}

fn self_weights(profile: &Profile) -> BTreeMap<&str, u64> {
    let weights = function_weights(profile, |_| true);
    let rows = weights
        .iter()
        .map(|row| (profile.name_of(row.function), row.self_weight));
    rows.filter(|(_, weight)| *weight > 0).collect()
}

/// The figures are those of `go tool pprof -top` and `-raw` of go 1.19.
#[test]
fn a_go_profile_has_the_figures_that_pprof_prints() {
    let profile = read(&corpus("pprof/simple.prof")).unwrap();
    assert_eq!(profile.unit, WeightUnit::Nanoseconds);
    assert_eq!(profile.total_weight(), 1_500_000_000);
    let expected = [
        ("main.alpha", 480_000_000),
        ("main.beta", 390_000_000),
        ("main.delta", 220_000_000),
        ("main.gamma", 270_000_000),
        ("runtime.duffcopy", 110_000_000),
        ("runtime.mach_semaphore_signal", 10_000_000),
        ("runtime.usleep", 20_000_000),
    ];
    assert_eq!(self_weights(&profile), BTreeMap::from(expected));
    assert_eq!(profile.samples.len(), 9);
    assert_eq!(profile.about.rate_hz, 100);
    assert_eq!(profile.about.event, "cpu");
    assert_eq!(profile.about.started_unix, 1_537_130_863_468_834_518);
    assert_eq!(profile.about.duration / 10_000_000, 191);
    assert!(profile.notes.remarks.is_empty());
    let top = profile.samples[0].stack.unwrap();
    let lines: Vec<u32> = profile
        .frames_of(top)
        .map(|frame| profile.frame(frame).line)
        .collect();
    assert_eq!(lines, [18, 29, 50, 198]);
}

#[test]
fn another_value_can_be_chosen() {
    let bytes = corpus("pprof/simple.prof");
    let profile = read_event(&bytes, "samples").unwrap();
    assert_eq!(profile.unit, WeightUnit::Samples);
    assert_eq!(profile.total_weight(), 150);
    assert_eq!(
        read_event(&bytes, "samples/count").unwrap().total_weight(),
        150
    );
    let error = read_event(&bytes, "alloc").unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no \"alloc\" in the file; it holds samples/count, cpu/nanoseconds"
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
    assert_eq!(again.unit, WeightUnit::Samples);
    let time = read_event(&bytes, "cpu").unwrap();
    assert_eq!(time.unit, WeightUnit::Nanoseconds);
    assert_eq!(time.total_weight(), 100 * (1_000_000_000 / 99));
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
        prop_assert_eq!(again.unit, profile.unit);
        prop_assert_eq!(&again.about, &profile.about);
    }
}
