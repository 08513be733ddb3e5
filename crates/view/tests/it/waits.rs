//! A recording that says what threads did with their time: the table, and who makes the main thread
//! wait.

use nodespy_model::{
    About, Category, EventType, FrameSpec, FunctionSpec, Labels, Notes, Process, Profile,
    ProfileBuilder, Sample, Thread, ThreadRole, WeightUnit, label_key, state,
};

use crate::findings::findings;
use crate::sample::drawn;

const SECOND: u64 = 1_000_000_000;

/// Thread, function, state and what is waited for, seconds.
type Row = (
    ThreadRole,
    (&'static str, Category),
    (&'static str, &'static str),
    u64,
);

/// Ten seconds: the main thread runs 3, waits 4 for a lock and idles; a pool thread idles.
fn recorded() -> Profile {
    let idle = ("(idle)", Category::Idle);
    recorded_of(&[
        (
            ThreadRole::Main,
            ("compute", Category::App),
            (state::ON_CPU, ""),
            3,
        ),
        (
            ThreadRole::Main,
            ("takeLock", Category::App),
            (state::WAITING, "lock"),
            4,
        ),
        (ThreadRole::Main, idle, (state::IDLE, "events"), 3),
        (ThreadRole::Pool, idle, (state::IDLE, "a job"), 10),
    ])
}

fn recorded_of(rows: &[Row]) -> Profile {
    let mut builder = ProfileBuilder::new(EventType::new("wall", WeightUnit::Nanoseconds));
    let process = builder.process(Process {
        pid: 7,
        ..Process::default()
    });
    let [main, pool] = [ThreadRole::Main, ThreadRole::Pool].map(|role| {
        builder.thread(Thread {
            process,
            tid: 7 + role as u32,
            role,
            ..Thread::default()
        })
    });
    for &(role, (name, category), (of, wait), seconds) in rows {
        let thread = match role {
            ThreadRole::Main => main,
            _ => pool,
        };
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name,
                category,
                ..FunctionSpec::default()
            },
            ..FrameSpec::default()
        });
        let mut labels = Labels::default();
        labels.set(label_key::STATE, of);
        labels.set(label_key::WAIT, wait);
        let sample = Sample {
            thread,
            stack: Some(builder.stack(None, frame)),
            context: builder.context(labels),
            weight: seconds * SECOND,
            ..Sample::default()
        };
        builder.add_sample(sample);
    }
    let about = About {
        duration: 10 * SECOND,
        ..About::default()
    };
    builder.finish(about, Notes::default())
}

#[test]
fn every_thread_has_a_row_and_the_rest_is_about_what_is_not_idle() {
    let text = drawn(&recorded(), "text");
    assert!(text.contains("Where the time went"), "{text}");
    let row = "30.0%      0.0%    40.0%   30.0%  main, tid 7: lock 40.0 %";
    assert!(text.contains(row), "{text}");
    assert!(text.contains("100.0%  1 more idle thread"), "{text}");
    // Of the seven seconds that are left.
    assert!(text.contains("57.1%   57.1%  takeLock"), "{text}");
    assert!(drawn(&recorded(), "md").contains("What threads did"));
    assert!(!drawn(&recorded(), "svg").contains("(idle)"));
}

#[test]
fn what_the_main_thread_waits_for_is_told_with_who_makes_it() {
    let found = findings(&recorded(), "waits");
    assert_eq!(
        found,
        ["The main thread waits 40 % of the time for a lock, all of it under `takeLock` app"]
    );
    let report: serde_json::Value = serde_json::from_str(&drawn(&recorded(), "json")).unwrap();
    let main = &report["thread_times"][0];
    assert_eq!(main["on_cpu"], 3 * SECOND);
    assert_eq!(main["waits"][0]["for"], "lock");
    assert_eq!(main["idle"], 3 * SECOND);
}

#[test]
fn a_function_in_which_threads_wait_is_not_called_hot() {
    let rows = |of| {
        [
            (
                ThreadRole::Main,
                ("(idle)", Category::Idle),
                (state::IDLE, "events"),
                10,
            ),
            (
                ThreadRole::Pool,
                ("__poll", Category::Native),
                (of, "DNS"),
                10,
            ),
        ]
    };
    let waiting = recorded_of(&rows(state::WAITING));
    assert_eq!(findings(&waiting, "__poll"), [""; 0]);
    assert_eq!(
        findings(&recorded_of(&rows(state::ON_CPU)), "__poll").len(),
        1
    );
}
