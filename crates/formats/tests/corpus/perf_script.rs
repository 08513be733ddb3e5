//! `perf script` text.

use nodespy_model::{Category, Tier};

use crate::convert::read;
use crate::corpus;

#[test]
fn javascript_is_taken_apart() {
    let profile = read(&corpus("perf-data/expected/node24.perf-script.txt")).unwrap();
    let sort = (profile.frames.iter())
        .find(|frame| {
            profile.name_of(frame.function) == "sortRecords" && frame.tier == Tier::Maglev
        })
        .unwrap();
    let function = profile.function(sort.function);
    assert_eq!(profile.location_of(sort.function), "/app/mix.js:14:21");
    assert_eq!(function.category, Category::App);
    assert_eq!(profile.threads[0].name, "MainThread");
    assert!(profile.about.duration > 1_000_000_000);
    assert!(profile.notes.remarks.is_empty(), "{:?}", profile.notes);
}

#[test]
fn every_text_of_the_corpus_is_recognized_and_read() {
    for name in [
        "inferno-go-stacks",
        "inferno-single-line-stacks",
        "perf-dd-stacks-01",
        "perf-funcab-cmd-01",
        "perf-funcab-pid-01",
        "perf-java-stacks-01",
        "perf-js-stacks-01",
        "perf-rust-Yamakaky-dcpu",
        "perf-vertx-stacks-01",
        "speedscope-simple-with-header",
        "speedscope-simple-with-pid",
        "speedscope-system-wide",
    ] {
        let text = corpus(&format!("perf-script/{name}.txt"));
        // In these texts a line starts an event if it is not indented, or tells the event.
        let events = (text.split(|byte| *byte == b'\n'))
            .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
            .filter(|line| !line[0].is_ascii_whitespace() || line.starts_with(b"           false"))
            .count();
        let profile = read(&text).unwrap();
        let others = "samples of other events";
        let has_others = profile
            .notes
            .remarks
            .iter()
            .any(|remark| remark.contains(others));
        assert!(
            !has_others || name == "inferno-single-line-stacks",
            "{name}"
        );
        assert_eq!(
            profile.samples.len() + usize::from(has_others),
            events,
            "{name}"
        );
    }
}

#[test]
fn a_cut_text_gives_what_can_be_read() {
    let text = corpus("perf-data/expected/node20.perf-script.txt");
    let whole = read(&text).unwrap();
    let cut = read(&text[..text.len() / 2]).unwrap();
    assert!(cut.samples.len() > whole.samples.len() * 2 / 5);
    assert!(
        cut.notes
            .remarks
            .iter()
            .any(|remark| remark.contains("cut off"))
    );
    let garbage = [&text[..20_000], &[0xff, 0, 7, b'\n'], &text[20_000..40_000]].concat();
    let read = read(&garbage).unwrap();
    assert!(
        read.notes
            .remarks
            .iter()
            .any(|remark| remark.contains("line "))
    );
}
