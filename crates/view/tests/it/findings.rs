//! Findings on profiles whose right answer is known: each sentence with its true share, and no
//! sentence where there is nothing to say.

use nodespy_model::{
    About, Category, EventType, Notes, Process, Profile, ProfileBuilder, Thread, ThreadIndex,
    ThreadRole, Tier, WeightUnit,
};

use crate::sample::{Row, add, drawn};

const RATE_HZ: u32 = 100;
const SECONDS: u64 = 10;

const MAIN: Row<'_> = ("main", "/app/main.js", 1, Category::App, Tier::Optimized);
const COLLECTOR: Row<'_> = (
    "v8::internal::Scavenger::Process",
    "node",
    0,
    Category::Gc,
    Tier::None,
);

/// A function of the application.
fn app(name: &str) -> Row<'_> {
    (name, "/app/work.js", 7, Category::App, Tier::Optimized)
}

/// A recording of ten seconds at 100 Hz with one process; `fill` adds the samples of threads.
fn recorded(
    fill: impl FnOnce(
        &mut ProfileBuilder,
        &mut dyn FnMut(&mut ProfileBuilder, ThreadRole, &str) -> ThreadIndex,
    ),
) -> Profile {
    let mut builder =
        ProfileBuilder::new(EventType::new("cpu-clock", WeightUnit::Samples).at_rate(RATE_HZ));
    let process = builder.process(Process {
        pid: 1,
        name: "app".to_owned(),
        ..Process::default()
    });
    let mut tid = 0;
    let mut thread = |builder: &mut ProfileBuilder, role, name: &str| {
        tid += 1;
        builder.thread(Thread {
            process,
            tid,
            name: name.to_owned(),
            role,
        })
    };
    fill(&mut builder, &mut thread);
    let about = About {
        duration: SECONDS * 1_000_000_000,
        ..About::default()
    };
    builder.finish(about, Notes::default())
}

/// The findings of a profile about a subject.
fn findings(profile: &Profile, about: &str) -> Vec<String> {
    let report: serde_json::Value = serde_json::from_str(&drawn(profile, "json")).unwrap();
    let all = report["findings"].as_array().unwrap().iter();
    all.map(|finding| finding.as_str().unwrap().to_owned())
        .filter(|finding| finding.contains(about))
        .collect()
}

#[test]
fn garbage_is_charged_to_a_caller_with_its_true_share_only() {
    let with_callers = |heaviest: u64| {
        recorded(|builder, thread| {
            let main = thread(builder, ThreadRole::Main, "node");
            add(builder, main, &[MAIN, app("parse"), COLLECTOR], heaviest);
            for name in [
                "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
            ] {
                add(builder, main, &[MAIN, app(name), COLLECTOR], 10);
            }
            add(builder, main, &[MAIN, app("parse")], 300);
        })
    };
    let found = findings(&with_callers(60), "Garbage");
    assert_eq!(
        found,
        ["Garbage collection takes 40 % of CPU time, 30 % of it under `parse` work.js:7"]
    );
    let found = findings(&with_callers(12), "Garbage");
    assert_eq!(found, ["Garbage collection takes 34 % of CPU time"]);
}

#[test]
fn garbage_that_v8_collects_on_its_own_threads_is_not_charged_to_a_caller() {
    let profile = recorded(|builder, thread| {
        let main = thread(builder, ThreadRole::Main, "node");
        let helper = thread(builder, ThreadRole::Platform, "node");
        add(builder, main, &[MAIN, app("parse"), COLLECTOR], 5);
        add(builder, helper, &[COLLECTOR], 95);
        add(builder, main, &[MAIN, app("parse")], 300);
    });
    let found = findings(&profile, "Garbage");
    assert_eq!(
        found,
        ["Garbage collection takes 25 % of CPU time, 95 % of it on V8's own threads"]
    );
}

#[test]
fn a_process_waits_only_when_no_thread_computes() {
    let idle = "The main thread was busy at most 1 % of the time";
    let with = |role, name: &'static str, samples: u64| {
        recorded(|builder, thread| {
            let main = thread(builder, ThreadRole::Main, "node");
            add(builder, main, &[MAIN], 10);
            let other = thread(builder, role, name);
            add(builder, other, &[app("transform")], samples);
        })
    };
    assert_eq!(
        findings(
            &with(ThreadRole::Pool, "libuv-worker", 20),
            "The main thread"
        ),
        [format!(
            "{idle}: what is slow waits for something else than the CPU"
        )]
    );
    assert_eq!(
        findings(
            &with(ThreadRole::Worker, "worker 1", 970),
            "The main thread"
        ),
        [format!("{idle}, `worker 1` 97 %")]
    );
    assert_eq!(
        findings(&with(ThreadRole::Worker, "minify", 970), "The main thread"),
        [format!("{idle}, worker `minify` 97 %")]
    );
    assert_eq!(
        findings(
            &with(ThreadRole::Pool, "libuv-worker", 400),
            "The main thread"
        ),
        [format!("{idle}; all threads together used 41 % of a CPU")]
    );
}
