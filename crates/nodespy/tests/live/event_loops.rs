//! What event loops did: is it what Node says of them itself?

use nodespy_model::{EventLoop, ThreadRole};

use super::live;
use super::recorded::{Recorded, record};
use super::versions::on_every_node;
use super::workload::{Running, Workload};

/// What Node says of the main thread's loop while it was recorded: attaching and naming, for which others may have to wait
/// on a busy machine, are not in our figure.
#[track_caller]
fn utilization_in(target: &Running, recorded: &Recorded) -> f64 {
    crate::run::signal(target.pid(), "USR2");
    let told = target.line_after("utilization");
    // Milliseconds since 1970, used and unused so far, at each turn.
    let turns: Vec<[f64; 3]> = serde_json::from_str(&told).unwrap();
    let about = &recorded.profile.about;
    let millis = |time: u64| time as f64 / 1e6;
    let (from, to) = (
        millis(about.started_unix),
        millis(about.started_unix + about.duration),
    );
    let first = turns.iter().find(|turn| turn[0] >= from).unwrap();
    let last = turns.iter().rfind(|turn| turn[0] <= to).unwrap();
    let (used, unused) = (last[1] - first[1], last[2] - first[2]);
    used / (used + unused)
}

fn loops(recorded: &Recorded, role: ThreadRole) -> Vec<EventLoop> {
    let threads = recorded.profile.threads.iter();
    let of_role = threads.filter(|thread| thread.role == role);
    of_role.filter_map(|thread| thread.event_loop).collect()
}

fn expect_utilization(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("loop.js").on(major).start();
    let recorded = record(&target, &["-d", "5"]);
    let [main] = loops(&recorded, ThreadRole::Main)[..] else {
        panic!("{}", recorded.describe());
    };
    let by_node = utilization_in(&target, &recorded);
    let found = main.utilization();
    assert!((found - by_node).abs() < 0.08, "{found} {by_node} {main:?}");
    let is_counted = !matches!(major, "16" | "18");
    assert_eq!(main.iterations.is_some(), is_counted, "{main:?}");
    if let Some(rate) = main.iterations_per_second() {
        assert!(rate > 2.0, "{main:?}");
    }
    assert!(main.longest >= main.p99, "{main:?}");
    // A burn of 30 ms is seen at some moment of it; few are longer.
    assert!(main.longest > 15_000_000, "{main:?}");
    let said = &recorded.outcome.stdout;
    assert!(said.contains("event loop: "), "{said}");
}

fn expect_workers(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("loop.js").on(major).env("WORKERS", 2).start();
    let recorded = record(&target, &["-d", "4", "-F", "199"]);
    let workers = loops(&recorded, ThreadRole::Worker);
    assert_eq!(workers.len(), 2, "{}", recorded.describe());
    for worker in workers {
        let found = worker.utilization();
        assert!((0.1..0.9).contains(&found), "{worker:?}");
    }
}

/// A loop that is away from poll all the time, and was before it is looked at.
fn expect_blocked(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("blocked.js")
        .on(major)
        .env("HOW", "atomics")
        .start();
    let recorded = record(&target, &["-d", "2", "-e", "wall"]);
    let [main] = loops(&recorded, ThreadRole::Main)[..] else {
        panic!("{}", recorded.describe());
    };
    assert!(main.utilization() > 0.9, "{main:?}");
    assert!(main.longest > main.watched / 2, "{main:?}");
}

fn expect_stalls(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("stalls.js").on(major).start();
    let recorded = record(&target, &["-d", "7"]);
    let mut threads = recorded.profile.threads.iter();
    let main = threads.find(|thread| thread.role == ThreadRole::Main);
    let main = main.unwrap_or_else(|| panic!("{}", recorded.describe()));
    let (summary, timeline) = (main.event_loop.unwrap(), main.loop_timeline.as_ref());
    let timeline = timeline.unwrap();
    // What is known over time is all that is known, slice after slice.
    let rows = timeline.intervals.rows();
    let watched: u64 = rows.iter().map(|part| part.watched).sum();
    let busy: u64 = rows.iter().map(|part| part.busy).sum();
    assert_eq!(watched, summary.watched);
    let found = busy as f64 / watched as f64;
    assert!(
        (found - summary.utilization()).abs() < 0.02,
        "{found} {summary:?}"
    );
    // Once a second for 400 ms.
    let stalls: Vec<_> = timeline
        .stalls()
        .iter()
        .filter(|it| it.lasted > 250_000_000)
        .collect();
    assert!((3..=12).contains(&stalls.len()), "{timeline:?}");
    // A busy machine makes stalls of its own between them.
    let pairs = stalls.windows(2);
    let mut apart: Vec<u64> = pairs.map(|pair| pair[1].start - pair[0].start).collect();
    apart.sort_unstable();
    assert!(apart[apart.len() / 2] > 500_000_000, "{timeline:?}");
    // Meanwhile the main thread was in nothing but blockLoop.
    let stalled = |time: u64| {
        let mut stalls = stalls.iter();
        stalls.any(|it| (it.start + 20_000_000..it.start + it.lasted).contains(&time))
    };
    let profile = &recorded.profile;
    let is_blocked = |stack| {
        let mut frames = profile.frames_of(stack);
        frames.any(|frame| profile.name_of(profile.frame(frame).function) == "blockLoop")
    };
    let in_stalls: Vec<bool> = profile
        .samples
        .iter()
        .filter(|sample| profile.threads[sample.thread.at()].role == ThreadRole::Main)
        .filter(|sample| stalled(sample.time))
        .map(|sample| sample.stack.is_some_and(is_blocked))
        .collect();
    let blocked = in_stalls.iter().filter(|is_blocked| **is_blocked).count();
    assert!(
        blocked * 10 >= in_stalls.len() * 9,
        "{blocked} of {}",
        in_stalls.len()
    );
    assert!(blocked > 0, "{timeline:?}");
}

/// V8's profiler sends signals that interrupt poll: what libuv counts then is wrong, and is not shown.
fn expect_none_beside_the_profiler(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("loop.js").on(major).start();
    let recorded = record(&target, &["-d", "4", "--engine", "both"]);
    let found = loops(&recorded, ThreadRole::Main);
    assert!(found.is_empty(), "{found:?}");
    let said = &recorded.outcome.stdout;
    assert!(said.contains("V8's CPU profiler runs"), "{said}");
    let recorded = record(&target, &["-d", "2", "--engine", "inspector"]);
    let said = &recorded.outcome.stdout;
    assert!(!said.contains("event loop"), "{said}");
}

on_every_node! {{
    utilization_is_what_node_says(expect_utilization);
} three {
    nothing_is_said_of_loops_beside_v8s_profiler(expect_none_beside_the_profiler);
    a_loop_that_never_returns_to_poll_is_found(expect_blocked);
    workers_have_loops_of_their_own(expect_workers);
    stalls_have_the_time_at_which_samples_show_them(expect_stalls);
}}
