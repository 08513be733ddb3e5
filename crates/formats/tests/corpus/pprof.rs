//! pprof.

use std::collections::BTreeMap;

use nodespy_model::{EventIndex, WeightUnit};

use crate::convert::{read, read_event};
use crate::corpus;
use crate::in_words::self_weights;

/// The figures are those of `go tool pprof -top` and `-raw` of go 1.19.
#[test]
fn a_go_profile_has_the_figures_that_pprof_prints() {
    let profile = read(&corpus("pprof/simple.prof")).unwrap();
    let profile = profile.select(EventIndex(0));
    assert_eq!(profile.unit(), WeightUnit::Nanoseconds);
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
    assert_eq!(profile.event().rate_hz(), 100);
    assert_eq!(profile.event().name, "cpu");
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
    assert_eq!(profile.unit(), WeightUnit::Samples);
    assert_eq!(profile.total_weight(), 150);
    assert_eq!(
        read_event(&bytes, "samples/count").unwrap().total_weight(),
        150
    );
    let error = read_event(&bytes, "alloc").unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no \"alloc\" in the file; it holds cpu, samples"
    );
}
