//! A profile goes in, and comes out with the same stacks and weights.

use std::collections::BTreeMap;

use nodespy_model::{
    About, Category, EventType, FrameSpec, FunctionSpec, Notes, Process, Profile, ProfileBuilder,
    Thread, ThreadRole, WeightUnit, label_key,
};
use nodespy_store::{
    CPU_EVENT, OpenMode, Selection, SqliteStore, Store, WINDOW_SECONDS, batch_of, profile_of,
};

use crate::fleet::START;

fn recorded() -> Profile {
    let mut builder =
        ProfileBuilder::new(EventType::new("cpu-clock", WeightUnit::Samples).at_rate(100));
    let process = builder.process(Process {
        pid: 77,
        name: "server.js".to_owned(),
        ..Process::default()
    });
    builder.label(process, label_key::APP, "shop");
    builder.label(process, label_key::VERSION, "1.2.3");
    let threads = [(77, ThreadRole::Main), (78, ThreadRole::Pool)].map(|(tid, role)| {
        builder.thread(Thread {
            process,
            tid,
            role,
            ..Thread::default()
        })
    });
    for number in 0..300_u64 {
        let mut stack = None;
        for name in [
            "main",
            "handle",
            ["render", "query", "parse"][number as usize % 3],
        ] {
            let function = FunctionSpec {
                name,
                file: "/app/server.js",
                line: 3,
                column: 1,
                category: Category::App,
            };
            let frame = builder.frame(FrameSpec {
                function,
                line: 5,
                ..FrameSpec::default()
            });
            stack = Some(builder.stack(stack, frame));
        }
        let stack = stack.filter(|_| number % 10 != 9);
        let time = number * 100_000_000;
        builder.sample(time, threads[usize::from(number % 4 == 3)], stack, 1);
    }
    let about = About {
        host: "web-1".to_owned(),
        started_unix: START * 1_000_000_000,
        ..About::default()
    };
    builder.finish(about, Notes::default())
}

fn weights(profile: &Profile) -> BTreeMap<Vec<String>, u64> {
    let mut weights = BTreeMap::new();
    for sample in &profile.samples {
        let frames = sample.stack.map(|stack| profile.frames_of(stack));
        let frames = frames.into_iter().flatten();
        let names = frames.map(|frame| {
            let function = profile.frame(frame).function;
            format!(
                "{} {}",
                profile.name_of(function),
                profile.location_of(function)
            )
        });
        *weights.entry(names.collect()).or_default() += sample.weight;
    }
    weights
}

#[test]
fn a_profile_comes_out_as_it_went_in() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
    let profile = recorded();
    let mut batch = batch_of(&profile);
    // Thirty seconds are three windows.
    assert_eq!(batch.windows.len(), 3);
    let unknown = store.unknown_stacks(&batch.symbols.hashes()).unwrap();
    batch.keep_names_of(&unknown);
    store.append(&batch).unwrap();
    // The second time there is nothing left to name.
    let mut later = batch_of(&profile);
    later
        .windows
        .iter_mut()
        .for_each(|window| window.start += 3 * WINDOW_SECONDS);
    let hashes = later.windows.iter().flat_map(|window| &window.counts);
    let hashes: Vec<_> = hashes.map(|count| count.stack).collect();
    let unknown = store.unknown_stacks(&hashes).unwrap();
    assert!(unknown.is_empty());
    later.keep_names_of(&unknown);
    assert!(later.symbols.stacks.is_empty());
    store.append(&later).unwrap();

    let asked = Selection::new("shop", CPU_EVENT, START..START + 30).with("host", "web-1");
    let merged = store
        .merge(
            &asked.clone().with("version", "1.2.3").with("pid", "77"),
            &[],
        )
        .unwrap();
    assert_eq!(merged.unit, Some(WeightUnit::Nanoseconds));
    let stacks = &merged.groups[0].stacks;
    let ids: Vec<_> = stacks.iter().map(|stack| stack.stack).collect();
    let symbols = store.stacks(&ids).unwrap();
    let event = EventType::new("cpu-clock", WeightUnit::Nanoseconds);
    let found = profile_of(About::default(), event, &symbols, stacks);
    // A sample at 100 Hz is 10 ms.
    let expected = weights(&profile).into_iter();
    let expected: BTreeMap<_, _> = expected
        .map(|(stack, weight)| (stack, weight * 10_000_000))
        .collect();
    assert_eq!(weights(&found), expected);
    let pool = store.merge(&asked.on(ThreadRole::Pool), &[]).unwrap();
    let pool: u64 = pool.groups[0].stacks.iter().map(|stack| stack.count).sum();
    assert_eq!(pool, 75);
}
