//! Several events and contexts: what formats with room for them give back, and what others write.

use std::collections::BTreeMap;

use nodespy_model::{EventIndex, Profile, Sampling, WeightUnit};

use crate::convert::read_event;
use crate::in_words::path;
use crate::sample::{read, two_events, written};

/// The weight of each event, thread, stack and context, in words that every format has.
fn weights(profile: &Profile) -> BTreeMap<String, u64> {
    let mut weights = BTreeMap::new();
    for sample in &profile.samples {
        let event = &profile.events[sample.event.at()];
        let thread = &profile.threads[sample.thread.at()].name;
        let names: Vec<&str> = (sample.stack.into_iter())
            .flat_map(|stack| profile.frames_of(stack))
            .map(|frame| profile.name_of(profile.frame(frame).function))
            .collect();
        let context: Vec<_> = profile.contexts.get(sample.context).iter().collect();
        let key = format!("{} {thread} {names:?} {context:?}", event.label());
        *weights.entry(key).or_default() += sample.weight;
    }
    weights
}

#[test]
fn formats_with_room_for_events_and_contexts_give_both_back() {
    let profile = two_events();
    for format in ["nspy", "pprof", "speedscope", "firefox"] {
        let again = read(&written(&profile, format)).unwrap();
        assert_eq!(again.events, profile.events, "{format}");
        assert_eq!(again.contexts, profile.contexts, "{format}");
        assert_eq!(weights(&again), weights(&profile), "{format}");
        assert_eq!(again.threads.len(), profile.threads.len(), "{format}");
    }
}

#[test]
fn perf_script_text_has_the_event_and_weight_of_every_sample() {
    let profile = two_events();
    let mut again = read(&written(&profile, "perf-script")).unwrap();
    assert_eq!(again.events, profile.events);
    assert_eq!(again.event_counts(), profile.event_counts());
    let rows = |profile: &Profile| -> Vec<(u64, u64, EventIndex)> {
        let samples = profile.samples.iter();
        samples.map(|it| (it.time, it.weight, it.event)).collect()
    };
    assert_eq!(rows(&again), rows(&profile));
    again = read_event(&written(&profile, "perf-script"), "page-faults").unwrap();
    assert_eq!(again.event().unit, WeightUnit::Events);
}

#[test]
fn formats_with_room_for_one_event_write_the_first() {
    let profile = two_events();
    let first = profile.clone().select(EventIndex(0));
    for format in ["folded", "cpuprofile", "chrome-trace"] {
        assert_eq!(
            written(&profile, format),
            written(&first, format),
            "{format}"
        );
    }
}

#[test]
fn every_event_of_perf_script_text_is_read_and_periods_are_weights_where_they_differ() {
    let text = b"a 1 1.0: 5 faults:\n\t 1 f (m)\n\na 1 2.0: 7 cycles:\n\t 1 g (m)\n\n\
        a 1 3.0: 9 cycles:\n\t 1 g (m)\n\na 1 4.0: 5 faults:\n\t 1 f (m)\n\n";
    let profile = read(text).unwrap();
    let [cycles, faults] = &profile.events[..] else {
        panic!("{:?}", profile.events);
    };
    assert_eq!((&*cycles.name, cycles.unit), ("cycles", WeightUnit::Events));
    assert_eq!(
        (&*faults.name, faults.unit),
        ("faults", WeightUnit::Samples)
    );
    assert_eq!(faults.sampling, Sampling::Period(5));
    let cycles = profile.clone().select(EventIndex(0));
    assert_eq!(cycles.total_weight(), 16);
    assert_eq!(path(&cycles, &cycles.samples[0]), "g m (native) at 0");
    assert_eq!(read_event(text, "faults").unwrap().total_weight(), 2);
    let refused = read_event(text, "branches").unwrap_err().to_string();
    assert!(refused.contains("it holds cycles, faults"), "{refused}");
    assert!(profile.notes.remarks.is_empty(), "{:?}", profile.notes);
}
