//! What a recording says of event loops.

use nodespy_model::{EventLoop, LoopStall, LoopTimeline, Profile, ThreadRole};

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
    let line = "event loop: 25.0 % utilised, 80 iterations/s; away from poll for 48 ms at \
                most, p99 31 ms";
    assert!(text.contains(line), "{text}");
    let report: serde_json::Value = serde_json::from_str(&drawn(&recorded(), "json")).unwrap();
    let main = &report["event_loops"][0];
    assert_eq!(main["utilization"], 0.25);
    assert_eq!(main["iterations_per_second"], 80.0);
    assert_eq!(main["longest_ns"], 48 * MS);
}

#[test]
fn stalls_are_counted_and_listed_and_lead_to_their_time() {
    let mut profile = recorded();
    let mut timeline = LoopTimeline::default();
    for (start, lasted) in [(500, 150), (2_000, 230)] {
        timeline.stall(LoopStall {
            start: start * MS,
            lasted: lasted * MS,
        });
    }
    profile.threads[0].loop_timeline = Some(Box::new(timeline));
    let text = drawn(&profile, "text").replace("\n  ", " ");
    assert!(
        text.contains("p99 31 ms; 2 times for 100 ms or more"),
        "{text}"
    );
    let report: serde_json::Value = serde_json::from_str(&drawn(&profile, "json")).unwrap();
    let stalls = &report["event_loops"][0]["stalls"];
    assert_eq!(stalls[1]["start_ns"], 2_000 * MS);
    assert_eq!(stalls[1]["lasted_ns"], 230 * MS);
    let page = drawn(&profile, "html");
    assert!(page.contains(r#"["25.0 % utilised","l0"]"#));
    assert!(page.contains(r#"["2 times","s0"]"#));
}

#[test]
fn of_a_loop_that_was_not_read_nothing_is_said() {
    let text = drawn(&shop(), "text");
    assert!(!text.contains("event loop"), "{text}");
    assert!(!drawn(&shop(), "json").contains("event_loops"));
}
