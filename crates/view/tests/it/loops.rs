//! What a recording says of event loops.

use nodespy_model::{EventLoop, Profile, ThreadRole};

use crate::sample::{drawn, shop};

const MS: u64 = 1_000_000;

fn recorded() -> Profile {
    let mut profile = shop();
    let threads = profile.threads.iter_mut();
    for thread in threads.filter(|thread| thread.role == ThreadRole::Main) {
        thread.event_loop = Some(EventLoop {
            watched: 4_000 * MS,
            idle: 3_000 * MS,
            iterations: Some(320),
            longest: 48 * MS,
            p99: 31 * MS,
        });
    }
    profile
}

#[test]
fn the_use_of_a_loop_is_a_line_and_an_object() {
    let text = drawn(&recorded(), "text").replace("\n  ", " ");
    let line = "event loop: 25.0 % utilised, 80 iterations/s; away from poll for 48 ms at the \
                longest, 31 ms at 99 of 100 looks";
    assert!(text.contains(line), "{text}");
    let report: serde_json::Value = serde_json::from_str(&drawn(&recorded(), "json")).unwrap();
    let main = &report["event_loops"][0];
    assert_eq!(main["utilization"], 0.25);
    assert_eq!(main["iterations_per_second"], 80.0);
    assert_eq!(main["longest_ns"], 48 * MS);
}

#[test]
fn of_a_loop_that_was_not_read_nothing_is_said() {
    let text = drawn(&shop(), "text");
    assert!(!text.contains("event loop"), "{text}");
    assert!(!drawn(&shop(), "json").contains("event_loops"));
}
